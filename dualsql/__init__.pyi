"""What type checkers see: the names of `_MODULES`, imported at once."""

from dualsql.catalogue import (
    Catalogue as Catalogue,
    Visible as Visible,
)
from dualsql.catalogue.feature import Tables as Tables
from dualsql.changes import Changes as Changes, ChangeSettings as ChangeSettings
from dualsql.charts.feature import Charts as Charts
from dualsql.databases.source import Database as Database
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
from dualsql.feature_list import default_features as default_features
from dualsql.features import (
    DualResponseServer as DualResponseServer,
    ServerOptions as ServerOptions,
)
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
    method_route as method_route,
)
from dualsql.http.router import (
    FeatureRoutes as FeatureRoutes,
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
    FurtherAnswer as FurtherAnswer,
    Operation as Operation,
)
from dualsql.pending.feature import Pending as Pending
from dualsql.profiles.feature import Profiles as Profiles
from dualsql.profiles.settings import ProfileSettings as ProfileSettings
from dualsql.query import ResultQuery as ResultQuery
from dualsql.query.feature import Queries as Queries
from dualsql.query.settings import QuerySettings as QuerySettings
from dualsql.rates import Rate as Rate, RateLimits as RateLimits, Rates as Rates
from dualsql.request_log import Log as Log
from dualsql.resource import (
    Count as Count,
    CountMethod as CountMethod,
    KeptProgress as KeptProgress,
    KeptRows as KeptRows,
    Principal as Principal,
    Resource as Resource,
    Status as Status,
    Total as Total,
    Way as Way,
)
from dualsql.response import (
    DualResponse as DualResponse,
    LinkForm as LinkForm,
    Picture as Picture,
    ResponseStatus as ResponseStatus,
)
from dualsql.results.access import (
    Authorize as Authorize,
)
from dualsql.results.create import (
    CreateOptions as CreateOptions,
    ProfileOption as ProfileOption,
    SampleOption as SampleOption,
    StatementForms as StatementForms,
)
from dualsql.results.pages import (
    PageRequest as PageRequest,
    ResultPage as ResultPage,
)
from dualsql.results.resources import Listing as Listing
from dualsql.results.streams import (
    ResultStream as ResultStream,
    Resumption as Resumption,
    StreamEnding as StreamEnding,
    StreamRequest as StreamRequest,
)
from dualsql.samples import SampleMethod as SampleMethod, Samples as Samples, SampleWay as SampleWay
from dualsql.saved_queries import (
    QueryParameter as QueryParameter,
    SavedQuery as SavedQuery,
)
from dualsql.server import ResultServer as ResultServer
from dualsql.settings import (
    Action as Action,
    KeepOption as KeepOption,
    LimitedAction as LimitedAction,
    ResultCache as ResultCache,
    ResultsFormat as ResultsFormat,
    Settings as Settings,
    SettingsGroup as SettingsGroup,
    SnapshotTags as SnapshotTags,
    TextFormat as TextFormat,
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

_MODULES: dict[str, str]
__all__: list[str]
__version__: str
