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
    from dualsql_client.answers import (
        FetchResult as FetchResult,
        ResourceMetadata as ResourceMetadata,
    )
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
    "CodeMode": "dualsql_client.codemode",
    "Column": "dualsql_client.wire",
    "Condition": "dualsql_client.query",
    "DualResponseClient": "dualsql_client.client",
    "DualResponseClientError": "dualsql_client.errors",
    "FetchError": "dualsql_client.errors",
    "FetchResult": "dualsql_client.answers",
    "FetchTimeoutError": "dualsql_client.errors",
    "KeptResults": "dualsql_client.detect",
    "MissingExtraError": "dualsql_client.errors",
    "NotConfiguredError": "dualsql_client.errors",
    "Origin": "dualsql_client.origins",
    "ParseError": "dualsql_client.errors",
    "ParsedDualResponse": "dualsql_client.parsed",
    "Progress": "dualsql_client.progress",
    "Question": "dualsql_client.query",
    "ResourceExpiredError": "dualsql_client.errors",
    "ResourceFailedError": "dualsql_client.errors",
    "ResourceMetadata": "dualsql_client.answers",
    "ResourceNotFoundError": "dualsql_client.errors",
    "ResourcePendingError": "dualsql_client.errors",
    "Retry": "dualsql_client.budget",
    "Sort": "dualsql_client.query",
    "SortKey": "dualsql_client.wire",
    "StreamBrokenError": "dualsql_client.errors",
    "StreamOptions": "dualsql_client.query",
    "SyncDualResponseClient": "dualsql_client.sync_client",
    "SyncParsedDualResponse": "dualsql_client.sync_parsed",
    "ToolAnswer": "dualsql_client.tool_answers",
    "ToolFailedError": "dualsql_client.errors",
    "UntrustedOriginError": "dualsql_client.errors",
    "decode_rows": "dualsql_client.ndjson",
    "load_ipython_extension": "dualsql_client.notebook",
    "parse_markdown": "dualsql_client.markdown",
    "where": "dualsql_client.query",
}

__all__ = list(_MODULES)
__version__ = "0.2.0"


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_MODULES[name]), name)
    return value


def __dir__() -> list[str]:
    return __all__
