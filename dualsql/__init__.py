"""The dual response pattern for SQLAlchemy: the model sees a sample, the application gets every row.

dual = DualResponseServer("sqlite:///schools.db", base_url="http://127.0.0.1:8000/resources", tables=Base)
mcp = MCPServer("schools", lifespan=dual.lifespan)

@dual.tool(mcp)
def search_schools(state: str) -> Select:
    return select(School).where(School.state == state)

app = mcp.streamable_http_app(stateless_http=True)
app.mount("/resources", dual.router())
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dualsql.catalogue import (
        Catalogue as Catalogue,
        Visible as Visible,
    )
    from dualsql.catalogue.feature import Tables as Tables
    from dualsql.changes import Changes as Changes, ChangeSettings as ChangeSettings
    from dualsql.charts.feature import Charts as Charts
    from dualsql.databases import Database as Database
    from dualsql.dual_mode import DualMode as DualMode
    from dualsql.errors import (
        Asked as Asked,
        BadCursorError as BadCursorError,
        BadParameterError as BadParameterError,
        CallerMessage as CallerMessage,
        Cause as Cause,
        ConfigurationError as ConfigurationError,
        CountExecutionError as CountExecutionError,
        DatabaseBusyError as DatabaseBusyError,
        DatabaseUnreachableError as DatabaseUnreachableError,
        DualResponseError as DualResponseError,
        ForbiddenError as ForbiddenError,
        ForbiddenSQLError as ForbiddenSQLError,
        InsufficientScopeError as InsufficientScopeError,
        InvalidSQLError as InvalidSQLError,
        LimitExceededError as LimitExceededError,
        NotFreezableError as NotFreezableError,
        NoTotalOrderError as NoTotalOrderError,
        PackageMissingError as PackageMissingError,
        QueryCancelledError as QueryCancelledError,
        QueryExecutionError as QueryExecutionError,
        QueryInterruptedError as QueryInterruptedError,
        QueryTimeoutError as QueryTimeoutError,
        RateLimitedError as RateLimitedError,
        ResourceExpiredError as ResourceExpiredError,
        ResourceFailedError as ResourceFailedError,
        ResourceNotFoundError as ResourceNotFoundError,
        ResourcePendingError as ResourcePendingError,
        ResultChangedError as ResultChangedError,
        ServerUnavailableError as ServerUnavailableError,
        StorageError as StorageError,
        TamperedError as TamperedError,
        TooManyQueriesError as TooManyQueriesError,
        UnauthenticatedError as UnauthenticatedError,
        UnknownColumnError as UnknownColumnError,
        UnknownTableError as UnknownTableError,
        ValueNotRepresentableError as ValueNotRepresentableError,
    )
    from dualsql.events import (
        Attributes as Attributes,
        Event as Event,
        Gauge as Gauge,
        GaugeReading as GaugeReading,
        Listener as Listener,
        Measurement as Measurement,
        WorkKind as WorkKind,
    )
    from dualsql.extension import (
        Extension as Extension,
        Parts as Parts,
    )
    from dualsql.feature import Feature as Feature
    from dualsql.features import (
        DualResponseServer as DualResponseServer,
        ServerOptions as ServerOptions,
        default_features as default_features,
    )
    from dualsql.formats.samples import TextFormat as TextFormat
    from dualsql.formats.writer import (
        Chunk as Chunk,
        FirstRow as FirstRow,
        Format as Format,
        Resuming as Resuming,
        WriterFactory as WriterFactory,
        WriterOptions as WriterOptions,
    )
    from dualsql.freeze import Registry as Registry
    from dualsql.freeze.document import Statement as Statement
    from dualsql.freeze.registry import MappedSource as MappedSource
    from dualsql.health import (
        Health as Health,
        HealthSettings as HealthSettings,
    )
    from dualsql.http.parameters import (
        read_json_body as read_json_body,
        refuse_query as refuse_query,
    )
    from dualsql.http.problems import (
        Endpoint as Endpoint,
        JSONAnswer as JSONAnswer,
        method_routes as method_routes,
    )
    from dualsql.http.router import (
        FeatureRoutes as FeatureRoutes,
        Opened as Opened,
        Presenter as Presenter,
        open_result as open_result,
        query_of as query_of,
    )
    from dualsql.identity import (
        Audit as Audit,
        AuditAction as AuditAction,
        AuditEvent as AuditEvent,
        Authenticate as Authenticate,
    )
    from dualsql.kept import (
        LocalResultStorage as LocalResultStorage,
        ObjectResultStorage as ObjectResultStorage,
        ResultStorage as ResultStorage,
        StoredFile as StoredFile,
    )
    from dualsql.kept.feature import Kept as Kept
    from dualsql.kept.settings import KeptSettings as KeptSettings
    from dualsql.links import LinkSettings as LinkSettings, SignedLinks as SignedLinks
    from dualsql.mcp.options import ToolOptions as ToolOptions
    from dualsql.openapi.feature import OpenAPI as OpenAPI
    from dualsql.openapi.operations import (
        DescribedFeature as DescribedFeature,
        Operation as Operation,
    )
    from dualsql.pending.feature import Pending as Pending
    from dualsql.profiles.feature import Profiles as Profiles
    from dualsql.profiles.settings import ProfileSettings as ProfileSettings
    from dualsql.query import ResultQuery as ResultQuery
    from dualsql.query.feature import Queries as Queries
    from dualsql.query.settings import QuerySettings as QuerySettings
    from dualsql.rates import RateLimits as RateLimits, Rates as Rates
    from dualsql.request_log import Log as Log
    from dualsql.resource import (
        Count as Count,
        CountMethod as CountMethod,
        KeptProgress as KeptProgress,
        KeptRows as KeptRows,
        Principal as Principal,
        Resource as Resource,
        SampleMethod as SampleMethod,
        SampleOption as SampleOption,
        SampleWay as SampleWay,
        Status as Status,
        Total as Total,
        Way as Way,
    )
    from dualsql.response import (
        DualResponse as DualResponse,
        LinkForm as LinkForm,
        Picture as Picture,
        ResponseStatus as ResponseStatus,
        ResultsFormat as ResultsFormat,
    )
    from dualsql.results.access import (
        Authorize as Authorize,
        Listing as Listing,
    )
    from dualsql.results.create import StatementForms as StatementForms
    from dualsql.results.options import (
        CreateOptions as CreateOptions,
        ProfileOption as ProfileOption,
    )
    from dualsql.results.pages import (
        PageRequest as PageRequest,
        ResultPage as ResultPage,
    )
    from dualsql.results.streams import (
        ResultStream as ResultStream,
        Resumption as Resumption,
        StreamEnding as StreamEnding,
        StreamRequest as StreamRequest,
    )
    from dualsql.samples import Samples as Samples
    from dualsql.saved_queries import (
        QueryParameter as QueryParameter,
        SavedQuery as SavedQuery,
    )
    from dualsql.server import ResultServer as ResultServer
    from dualsql.settings import (
        Action as Action,
        KeepOption as KeepOption,
        LimitedAction as LimitedAction,
        Rate as Rate,
        ResultCache as ResultCache,
        Settings as Settings,
        SettingsGroup as SettingsGroup,
        SnapshotTags as SnapshotTags,
        setting as setting,
        takes as takes,
    )
    from dualsql.sql.feature import SQL as SQL
    from dualsql.store import (
        MemoryStore as MemoryStore,
        ResourceChanges as ResourceChanges,
        ResourceStore as ResourceStore,
        SQLResourceStore as SQLResourceStore,
    )
    from dualsql.store.protocol import (
        Access as Access,
        LinkRecord as LinkRecord,
        ListingPosition as ListingPosition,
        Requester as Requester,
        ResourcePage as ResourcePage,
        ResourceState as ResourceState,
        Usage as Usage,
    )
    from dualsql.telemetry import Telemetry as Telemetry
    from dualsql.tenancy import (
        Hook as Hook,
        HookContext as HookContext,
        Mask as Mask,
        RowFilter as RowFilter,
        RowSecurity as RowSecurity,
        Shared as Shared,
        TenantFilter as TenantFilter,
    )
    from dualsql.web.feature import Pages as Pages
    from dualsql.web.settings import PageSettings as PageSettings
    from dualsql_client.wire import (
        Column as Column,
        ColumnarContent as ColumnarContent,
        CutCell as CutCell,
        KeptDescription as KeptDescription,
        Page as Page,
        PageOrder as PageOrder,
        Profile as Profile,
        ProfileKind as ProfileKind,
        ProfileNotes as ProfileNotes,
        ResourceDescription as ResourceDescription,
        Row as Row,
        SortKey as SortKey,
        StructuredContent as StructuredContent,
        ToolProblem as ToolProblem,
        TotalCountKind as TotalCountKind,
    )

# Modules by name, imported on first use: the command line imports them without garbage collection (docs/serve.md).
_MODULES = {
    "Access": "dualsql.store.protocol",
    "Action": "dualsql.settings",
    "Asked": "dualsql.errors",
    "Attributes": "dualsql.events",
    "Audit": "dualsql.identity",
    "AuditAction": "dualsql.identity",
    "AuditEvent": "dualsql.identity",
    "Authenticate": "dualsql.identity",
    "Authorize": "dualsql.results.access",
    "BadCursorError": "dualsql.errors",
    "BadParameterError": "dualsql.errors",
    "CallerMessage": "dualsql.errors",
    "Catalogue": "dualsql.catalogue",
    "Cause": "dualsql.errors",
    "ChangeSettings": "dualsql.changes",
    "Changes": "dualsql.changes",
    "Charts": "dualsql.charts.feature",
    "Chunk": "dualsql.formats.writer",
    "Column": "dualsql_client.wire",
    "ColumnarContent": "dualsql_client.wire",
    "ConfigurationError": "dualsql.errors",
    "Count": "dualsql.resource",
    "CountExecutionError": "dualsql.errors",
    "CountMethod": "dualsql.resource",
    "CreateOptions": "dualsql.results.options",
    "CutCell": "dualsql_client.wire",
    "Database": "dualsql.databases",
    "DatabaseBusyError": "dualsql.errors",
    "DatabaseUnreachableError": "dualsql.errors",
    "DescribedFeature": "dualsql.openapi.operations",
    "DualMode": "dualsql.dual_mode",
    "DualResponse": "dualsql.response",
    "DualResponseError": "dualsql.errors",
    "DualResponseServer": "dualsql.features",
    "Endpoint": "dualsql.http.problems",
    "Event": "dualsql.events",
    "Extension": "dualsql.extension",
    "Feature": "dualsql.feature",
    "FeatureRoutes": "dualsql.http.router",
    "FirstRow": "dualsql.formats.writer",
    "ForbiddenError": "dualsql.errors",
    "ForbiddenSQLError": "dualsql.errors",
    "Format": "dualsql.formats.writer",
    "Gauge": "dualsql.events",
    "GaugeReading": "dualsql.events",
    "Health": "dualsql.health",
    "HealthSettings": "dualsql.health",
    "Hook": "dualsql.tenancy",
    "HookContext": "dualsql.tenancy",
    "InsufficientScopeError": "dualsql.errors",
    "InvalidSQLError": "dualsql.errors",
    "JSONAnswer": "dualsql.http.problems",
    "KeepOption": "dualsql.settings",
    "Kept": "dualsql.kept.feature",
    "KeptDescription": "dualsql_client.wire",
    "KeptProgress": "dualsql.resource",
    "KeptRows": "dualsql.resource",
    "KeptSettings": "dualsql.kept.settings",
    "LimitExceededError": "dualsql.errors",
    "LimitedAction": "dualsql.settings",
    "LinkForm": "dualsql.response",
    "LinkRecord": "dualsql.store.protocol",
    "LinkSettings": "dualsql.links",
    "Listener": "dualsql.events",
    "Listing": "dualsql.results.access",
    "ListingPosition": "dualsql.store.protocol",
    "LocalResultStorage": "dualsql.kept",
    "Log": "dualsql.request_log",
    "MappedSource": "dualsql.freeze.registry",
    "Mask": "dualsql.tenancy",
    "Measurement": "dualsql.events",
    "MemoryStore": "dualsql.store",
    "NoTotalOrderError": "dualsql.errors",
    "NotFreezableError": "dualsql.errors",
    "ObjectResultStorage": "dualsql.kept",
    "OpenAPI": "dualsql.openapi.feature",
    "Opened": "dualsql.http.router",
    "Operation": "dualsql.openapi.operations",
    "PackageMissingError": "dualsql.errors",
    "Page": "dualsql_client.wire",
    "PageOrder": "dualsql_client.wire",
    "PageRequest": "dualsql.results.pages",
    "PageSettings": "dualsql.web.settings",
    "Pages": "dualsql.web.feature",
    "Parts": "dualsql.extension",
    "Pending": "dualsql.pending.feature",
    "Picture": "dualsql.response",
    "Presenter": "dualsql.http.router",
    "Principal": "dualsql.resource",
    "Profile": "dualsql_client.wire",
    "ProfileKind": "dualsql_client.wire",
    "ProfileNotes": "dualsql_client.wire",
    "ProfileOption": "dualsql.results.options",
    "ProfileSettings": "dualsql.profiles.settings",
    "Profiles": "dualsql.profiles.feature",
    "Queries": "dualsql.query.feature",
    "QueryCancelledError": "dualsql.errors",
    "QueryExecutionError": "dualsql.errors",
    "QueryInterruptedError": "dualsql.errors",
    "QueryParameter": "dualsql.saved_queries",
    "QuerySettings": "dualsql.query.settings",
    "QueryTimeoutError": "dualsql.errors",
    "Rate": "dualsql.settings",
    "RateLimitedError": "dualsql.errors",
    "RateLimits": "dualsql.rates",
    "Rates": "dualsql.rates",
    "Registry": "dualsql.freeze",
    "Requester": "dualsql.store.protocol",
    "Resource": "dualsql.resource",
    "ResourceChanges": "dualsql.store",
    "ResourceDescription": "dualsql_client.wire",
    "ResourceExpiredError": "dualsql.errors",
    "ResourceFailedError": "dualsql.errors",
    "ResourceNotFoundError": "dualsql.errors",
    "ResourcePage": "dualsql.store.protocol",
    "ResourcePendingError": "dualsql.errors",
    "ResourceState": "dualsql.store.protocol",
    "ResourceStore": "dualsql.store",
    "ResponseStatus": "dualsql.response",
    "ResultCache": "dualsql.settings",
    "ResultChangedError": "dualsql.errors",
    "ResultPage": "dualsql.results.pages",
    "ResultQuery": "dualsql.query",
    "ResultServer": "dualsql.server",
    "ResultStorage": "dualsql.kept",
    "ResultStream": "dualsql.results.streams",
    "ResultsFormat": "dualsql.response",
    "Resuming": "dualsql.formats.writer",
    "Resumption": "dualsql.results.streams",
    "Row": "dualsql_client.wire",
    "RowFilter": "dualsql.tenancy",
    "RowSecurity": "dualsql.tenancy",
    "SQL": "dualsql.sql.feature",
    "SQLResourceStore": "dualsql.store",
    "SampleMethod": "dualsql.resource",
    "SampleOption": "dualsql.resource",
    "SampleWay": "dualsql.resource",
    "Samples": "dualsql.samples",
    "SavedQuery": "dualsql.saved_queries",
    "ServerOptions": "dualsql.features",
    "ServerUnavailableError": "dualsql.errors",
    "Settings": "dualsql.settings",
    "SettingsGroup": "dualsql.settings",
    "Shared": "dualsql.tenancy",
    "SignedLinks": "dualsql.links",
    "SnapshotTags": "dualsql.settings",
    "SortKey": "dualsql_client.wire",
    "Statement": "dualsql.freeze.document",
    "StatementForms": "dualsql.results.create",
    "Status": "dualsql.resource",
    "StorageError": "dualsql.errors",
    "StoredFile": "dualsql.kept",
    "StreamEnding": "dualsql.results.streams",
    "StreamRequest": "dualsql.results.streams",
    "StructuredContent": "dualsql_client.wire",
    "Tables": "dualsql.catalogue.feature",
    "TamperedError": "dualsql.errors",
    "Telemetry": "dualsql.telemetry",
    "TenantFilter": "dualsql.tenancy",
    "TextFormat": "dualsql.formats.samples",
    "TooManyQueriesError": "dualsql.errors",
    "ToolOptions": "dualsql.mcp.options",
    "ToolProblem": "dualsql_client.wire",
    "Total": "dualsql.resource",
    "TotalCountKind": "dualsql_client.wire",
    "UnauthenticatedError": "dualsql.errors",
    "UnknownColumnError": "dualsql.errors",
    "UnknownTableError": "dualsql.errors",
    "Usage": "dualsql.store.protocol",
    "ValueNotRepresentableError": "dualsql.errors",
    "Visible": "dualsql.catalogue",
    "Way": "dualsql.resource",
    "WorkKind": "dualsql.events",
    "WriterFactory": "dualsql.formats.writer",
    "WriterOptions": "dualsql.formats.writer",
    "default_features": "dualsql.features",
    "method_routes": "dualsql.http.problems",
    "open_result": "dualsql.http.router",
    "query_of": "dualsql.http.router",
    "read_json_body": "dualsql.http.parameters",
    "refuse_query": "dualsql.http.parameters",
    "setting": "dualsql.settings",
    "takes": "dualsql.settings",
}

__all__ = list(_MODULES)
__version__ = "0.2.0"


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(_MODULES[name]), name)
    return found


def __dir__() -> list[str]:
    return __all__
