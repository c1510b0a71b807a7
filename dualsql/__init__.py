"""The dual response pattern for SQLAlchemy: the model sees a sample, the application gets every row.

dual = DualResponseServer("sqlite:///schools.db", base_url="http://127.0.0.1:8000/resources", tables=Base)
mcp = MCPServer("schools", lifespan=dual.lifespan)

@dual.tool(mcp)
def search_schools(state: str) -> Select:
    return select(School).where(School.state == state)

app = mcp.streamable_http_app(stateless_http=True)
app.mount("/resources", dual.router())
"""

from dualsql.errors import (
    BadCursorError,
    BadParameterError,
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
from dualsql.freeze import Registry
from dualsql.resource import Principal, Resource
from dualsql.response import DualResponse
from dualsql.results.pages import ResultPage
from dualsql.saved_queries import SavedQuery
from dualsql.server import DualResponseServer
from dualsql.settings import ResultCache, Settings
from dualsql.store import MemoryStore, ResourceChanges, ResourceStore, SQLResourceStore
from dualsql.tenancy import Hook, HookContext, Mask, RowFilter, RowSecurity, Shared, TenantFilter

__all__ = [
    "BadCursorError",
    "BadParameterError",
    "ConfigurationError",
    "CountExecutionError",
    "DatabaseBusyError",
    "DatabaseUnreachableError",
    "DualResponse",
    "DualResponseError",
    "DualResponseServer",
    "ForbiddenError",
    "ForbiddenSQLError",
    "Hook",
    "HookContext",
    "InsufficientScopeError",
    "InvalidSQLError",
    "LimitExceededError",
    "Mask",
    "MemoryStore",
    "NoTotalOrderError",
    "NotFreezableError",
    "Principal",
    "QueryCancelledError",
    "QueryExecutionError",
    "QueryInterruptedError",
    "QueryTimeoutError",
    "Registry",
    "Resource",
    "ResourceChanges",
    "ResourceExpiredError",
    "ResourceFailedError",
    "ResourceNotFoundError",
    "ResourcePendingError",
    "ResourceStore",
    "ResultCache",
    "ResultChangedError",
    "ResultPage",
    "RowFilter",
    "RowSecurity",
    "SQLResourceStore",
    "SavedQuery",
    "Settings",
    "Shared",
    "StorageError",
    "TamperedError",
    "TenantFilter",
    "TooManyQueriesError",
    "UnauthenticatedError",
    "UnknownColumnError",
    "UnknownTableError",
    "ValueNotRepresentableError",
]
__version__ = "0.1.0"
