"""The application's half of the dual response pattern: a tool result in, every row out.

    import asyncio
    from dualsql_client import DualResponseClient

    async def show(tool_result, base_url):
        async with DualResponseClient(base_url) as client:
            parsed = client.parse(tool_result, strict=True)
            print(f"{parsed.name}: a sample of {len(parsed.sample)} of {parsed.total_count} rows")
            async for batch in parsed.fetch_stream(batch_size=1000, typed=True):
                print(f"{len(batch)} rows, the first is {batch[0]}")

It needs only httpx, and fetches only from configured addresses.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

# Modules are imported on first use: a server needs the shapes and errors of this package, and not httpx.
_MODULES = {
    name: f"dualsql_client.{module}"
    for module, names in {
        "answers": "FetchResult ResourceMetadata",
        "budget": "Retry",
        "client": "DualResponseClient",
        "codemode": "CodeMode",
        "detect": "KeptResults",
        "errors": """
        DualResponseClientError FetchError FetchTimeoutError MissingExtraError NotConfiguredError ParseError
        ResourceExpiredError ResourceFailedError ResourceNotFoundError ResourcePendingError StreamBrokenError
        ToolFailedError UntrustedOriginError""",
        "markdown": "parse_markdown",
        "ndjson": "decode_rows",
        "notebook": "load_ipython_extension",
        "origins": "Origin",
        "parsed": "ParsedDualResponse",
        "progress": "Progress",
        "query": "Condition Question Sort StreamOptions where",
        "sync_client": "SyncDualResponseClient",
        "sync_parsed": "SyncParsedDualResponse",
        "tool_answers": "ToolAnswer",
        "wire": "Column SortKey",
    }.items()
    for name in names.split()
}

__all__ = list(_MODULES)
__all__.sort()
__version__ = "0.2.0"


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_MODULES[name]), name)
    return value


def __dir__() -> list[str]:
    return __all__
