"""The dual response pattern for SQLAlchemy: the model sees a sample, the application gets every row.

dual = DualResponseServer("sqlite:///schools.db", base_url="http://127.0.0.1:8000/resources", tables=Base)
mcp = MCPServer("schools", lifespan=dual.lifespan)

@dual.tool(mcp)
def search_schools(state: str) -> Select:
    return select(School).where(School.state == state)

app = mcp.streamable_http_app(stateless_http=True)
app.mount("/resources", dual.router())
"""

from dualsql.catalogue import Catalogue, Visible
from dualsql.databases import Database
from dualsql.errors import (
    Asked,
    BadCursorError,
    BadParameterError,
    CallerMessage,
    ConfigurationError,
    CountExecutionError,
    DatabaseBusyError,
    DatabaseUnreachableError,
    DualResponseError,
    ForbiddenError,
    ForbiddenSQLError,
    InsufficientScopeError,
    InvalidSQLError,
    LimitExceededError,
    NotFreezableError,
    NoTotalOrderError,
    QueryCancelledError,
    QueryExecutionError,
    QueryInterruptedError,
    QueryTimeoutError,
    ResourceExpiredError,
    ResourceFailedError,
    ResourceNotFoundError,
    ResourcePendingError,
    ResultChangedError,
    StorageError,
    TamperedError,
    TooManyQueriesError,
    UnauthenticatedError,
    UnknownColumnError,
    UnknownTableError,
    ValueNotRepresentableError,
)
from dualsql.formats.samples import TextFormat
from dualsql.formats.writer import Chunk, FirstRow, Format, Resuming, WriterFactory, WriterOptions
from dualsql.freeze import Registry
from dualsql.freeze.document import Statement
from dualsql.identity import Audit, AuditEvent, Authenticate
from dualsql.mcp.decorators import ToolOptions
from dualsql.query import ResultQuery
from dualsql.resource import (
    Count,
    CountMethod,
    Principal,
    Resource,
    SampleMethod,
    SampleOption,
    SampleWay,
    Status,
    Total,
    Way,
)
from dualsql.response import DualResponse, LinkForm, Picture, ResponseStatus, ResultsFormat
from dualsql.results.access import Authorize, Listing
from dualsql.results.options import CreateOptions, ProfileOption
from dualsql.results.pages import PageRequest, ResultPage
from dualsql.results.streams import ResultStream, Resumption, StreamEnding, StreamRequest
from dualsql.saved_queries import QueryParameter, SavedQuery
from dualsql.server import DualResponseServer, ServerOptions
from dualsql.settings import Action, ResultCache, Settings, SnapshotTags
from dualsql.store import MemoryStore, ResourceChanges, ResourceStore, SQLResourceStore
from dualsql.store.protocol import Access, LinkRecord, ListingPosition, Requester, ResourceState, Usage
from dualsql.tenancy import Hook, HookContext, Mask, RowFilter, RowSecurity, Shared, TenantFilter
from dualsql_client.wire import (
    Column,
    ColumnarContent,
    Page,
    PageOrder,
    Profile,
    ProfileKind,
    ProfileNotes,
    ResourceDescription,
    Row,
    SortKey,
    StructuredContent,
    ToolProblem,
    TotalCountKind,
)

__all__ = [
    "Access",
    "Action",
    "Asked",
    "Audit",
    "AuditEvent",
    "Authenticate",
    "Authorize",
    "BadCursorError",
    "BadParameterError",
    "CallerMessage",
    "Catalogue",
    "Chunk",
    "Column",
    "ColumnarContent",
    "ConfigurationError",
    "Count",
    "CountExecutionError",
    "CountMethod",
    "CreateOptions",
    "Database",
    "DatabaseBusyError",
    "DatabaseUnreachableError",
    "DualResponse",
    "DualResponseError",
    "DualResponseServer",
    "FirstRow",
    "ForbiddenError",
    "ForbiddenSQLError",
    "Format",
    "Hook",
    "HookContext",
    "InsufficientScopeError",
    "InvalidSQLError",
    "LimitExceededError",
    "LinkForm",
    "LinkRecord",
    "Listing",
    "ListingPosition",
    "Mask",
    "MemoryStore",
    "NoTotalOrderError",
    "NotFreezableError",
    "Page",
    "PageOrder",
    "PageRequest",
    "Picture",
    "Principal",
    "Profile",
    "ProfileKind",
    "ProfileNotes",
    "ProfileOption",
    "QueryCancelledError",
    "QueryExecutionError",
    "QueryInterruptedError",
    "QueryParameter",
    "QueryTimeoutError",
    "Registry",
    "Requester",
    "Resource",
    "ResourceChanges",
    "ResourceDescription",
    "ResourceExpiredError",
    "ResourceFailedError",
    "ResourceNotFoundError",
    "ResourcePendingError",
    "ResourceState",
    "ResourceStore",
    "ResponseStatus",
    "ResultCache",
    "ResultChangedError",
    "ResultPage",
    "ResultQuery",
    "ResultStream",
    "ResultsFormat",
    "Resuming",
    "Resumption",
    "Row",
    "RowFilter",
    "RowSecurity",
    "SQLResourceStore",
    "SampleMethod",
    "SampleOption",
    "SampleWay",
    "SavedQuery",
    "ServerOptions",
    "Settings",
    "Shared",
    "SnapshotTags",
    "SortKey",
    "Statement",
    "Status",
    "StorageError",
    "StreamEnding",
    "StreamRequest",
    "StructuredContent",
    "TamperedError",
    "TenantFilter",
    "TextFormat",
    "TooManyQueriesError",
    "ToolOptions",
    "ToolProblem",
    "Total",
    "TotalCountKind",
    "UnauthenticatedError",
    "UnknownColumnError",
    "UnknownTableError",
    "Usage",
    "ValueNotRepresentableError",
    "Visible",
    "Way",
    "WriterFactory",
    "WriterOptions",
]
__version__ = "0.1.0"
