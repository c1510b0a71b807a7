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
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dualsql_client.answers import FetchResult as FetchResult, ResourceMetadata as ResourceMetadata
    from dualsql_client.budget import Retry as Retry
    from dualsql_client.client import DualResponseClient as DualResponseClient
    from dualsql_client.codemode import CodeMode as CodeMode
    from dualsql_client.detect import KeptResults as KeptResults
    from dualsql_client.errors import (
        DualResponseClientError as DualResponseClientError,
        FetchError as FetchError,
        FetchTimeoutError as FetchTimeoutError,
        MissingExtraError as MissingExtraError,
        NotConfiguredError as NotConfiguredError,
        ParseError as ParseError,
        ResourceExpiredError as ResourceExpiredError,
        ResourceFailedError as ResourceFailedError,
        ResourceNotFoundError as ResourceNotFoundError,
        ResourcePendingError as ResourcePendingError,
        StreamBrokenError as StreamBrokenError,
        ToolFailedError as ToolFailedError,
        UntrustedOriginError as UntrustedOriginError,
    )
    from dualsql_client.markdown import parse_markdown as parse_markdown
    from dualsql_client.ndjson import decode_rows as decode_rows
    from dualsql_client.notebook import load_ipython_extension as load_ipython_extension
    from dualsql_client.origins import Origin as Origin
    from dualsql_client.parsed import ParsedDualResponse as ParsedDualResponse
    from dualsql_client.progress import Progress as Progress
    from dualsql_client.query import (
        Condition as Condition,
        Question as Question,
        Sort as Sort,
        StreamOptions as StreamOptions,
        where as where,
    )
    from dualsql_client.sync_client import SyncDualResponseClient as SyncDualResponseClient
    from dualsql_client.sync_parsed import SyncParsedDualResponse as SyncParsedDualResponse
    from dualsql_client.tool_answers import ToolAnswer as ToolAnswer
    from dualsql_client.wire import Column as Column, SortKey as SortKey

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
