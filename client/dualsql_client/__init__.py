"""The application's half of the dual response pattern: a tool result in, every row out.

    import asyncio
    from dualsql_client import DualResponseClient

    async def show(tool_result, base_url):
        async with DualResponseClient(base_url) as client:
            parsed = client.parse(tool_result, strict=True)
            print(f"{parsed.name}: a sample of {len(parsed.sample)} of {parsed.total_count} rows")
            async for batch in parsed.fetch_stream(batch_size=1000, typed=True):
                print(f"{len(batch)} rows, the first is {batch[0]}")

The rule: httpx is all it needs to run, and it fetches only from the `base_url` it was given.
"""

from __future__ import annotations

from dualsql_client.answers import FetchResult, ResourceMetadata
from dualsql_client.client import DualResponseClient
from dualsql_client.codemode import CodeMode
from dualsql_client.detect import KeptResults
from dualsql_client.errors import (
    DualResponseClientError,
    FetchError,
    FetchTimeoutError,
    MissingExtraError,
    NotConfiguredError,
    ParseError,
    ResourceExpiredError,
    ResourceFailedError,
    ResourceNotFoundError,
    ResourcePendingError,
    StreamBrokenError,
    ToolFailedError,
    UntrustedOriginError,
)
from dualsql_client.markdown import parse_markdown
from dualsql_client.ndjson import decode_rows
from dualsql_client.origins import Origin
from dualsql_client.parsed import ParsedDualResponse
from dualsql_client.progress import Progress
from dualsql_client.query import Condition, Question, StreamOptions, where
from dualsql_client.sync_client import SyncDualResponseClient
from dualsql_client.sync_parsed import SyncParsedDualResponse
from dualsql_client.tool_answers import ToolAnswer
from dualsql_client.transport import Retry

__all__ = [
    "CodeMode",
    "Condition",
    "DualResponseClient",
    "DualResponseClientError",
    "FetchError",
    "FetchResult",
    "FetchTimeoutError",
    "KeptResults",
    "MissingExtraError",
    "NotConfiguredError",
    "Origin",
    "ParseError",
    "ParsedDualResponse",
    "Progress",
    "Question",
    "ResourceExpiredError",
    "ResourceFailedError",
    "ResourceMetadata",
    "ResourceNotFoundError",
    "ResourcePendingError",
    "Retry",
    "StreamBrokenError",
    "StreamOptions",
    "SyncDualResponseClient",
    "SyncParsedDualResponse",
    "ToolAnswer",
    "ToolFailedError",
    "UntrustedOriginError",
    "decode_rows",
    "parse_markdown",
    "where",
]
