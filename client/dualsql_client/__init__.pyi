"""What type checkers see: the names of `_MODULES`, imported at once."""

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

_MODULES: dict[str, str]
__all__: list[str]
__version__: str
