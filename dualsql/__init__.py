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

import gc
from importlib import import_module
from typing import Any

# Modules by name, imported on first use: the command line imports them without garbage collection (docs/serve.md).
_MODULES = dict(
    sorted(
        (name, module)
        for module, names in {
            "dualsql.catalogue": "Catalogue Visible",
            "dualsql.catalogue.feature": "Tables",
            "dualsql.changes": "ChangeSettings Changes",
            "dualsql.charts.feature": "Charts",
            "dualsql.databases.source": "Database",
            "dualsql.dual_mode": "DualMode",
            "dualsql.errors": """
            Asked BadCursorError BadParameterError CallerMessage Cause ConfigurationError CountExecutionError
            DatabaseBusyError DatabaseUnreachableError DualResponseError ForbiddenError ForbiddenSQLError
            InsufficientScopeError InvalidSQLError LimitExceededError NoTotalOrderError NotFreezableError
            PackageMissingError QueryCancelledError QueryExecutionError QueryInterruptedError QueryTimeoutError
            RateLimitedError ResourceExpiredError ResourceFailedError ResourceNotFoundError ResourcePendingError
            ResultChangedError ServerUnavailableError StorageError TamperedError TooManyQueriesError
            UnauthenticatedError UnknownColumnError UnknownTableError ValueNotRepresentableError""",
            "dualsql.events": "Attributes Event Gauge GaugeReading Listener Measurement WorkKind",
            "dualsql.extension": "Extension Parts",
            "dualsql.feature": "Feature",
            "dualsql.feature_list": "default_features",
            "dualsql.features": "DualResponseServer ServerOptions",
            "dualsql.formats.writer": "Chunk FirstRow Format Resuming WriterFactory WriterOptions",
            "dualsql.freeze": "Registry",
            "dualsql.freeze.document": "Statement",
            "dualsql.freeze.registry": "MappedSource",
            "dualsql.health": "Health HealthSettings",
            "dualsql.http.parameters": "read_json_body refuse_query",
            "dualsql.http.problems": "Endpoint JSONAnswer method_route",
            "dualsql.http.router": "FeatureRoutes open_result query_of",
            "dualsql.identity": "Audit AuditAction AuditEvent Authenticate",
            "dualsql.kept": "LocalResultStorage ObjectResultStorage ResultStorage StoredFile",
            "dualsql.kept.feature": "Kept",
            "dualsql.kept.settings": "KeptSettings",
            "dualsql.links": "LinkSettings SignedLinks",
            "dualsql.mcp.options": "ToolOptions",
            "dualsql.openapi.feature": "OpenAPI",
            "dualsql.openapi.operations": "DescribedFeature FurtherAnswer Operation",
            "dualsql.pending.feature": "Pending",
            "dualsql.profiles.feature": "Profiles",
            "dualsql.profiles.settings": "ProfileSettings",
            "dualsql.query": "ResultQuery",
            "dualsql.query.feature": "Queries",
            "dualsql.query.settings": "QuerySettings",
            "dualsql.rates": "Rate RateLimits Rates",
            "dualsql.request_log": "Log",
            "dualsql.resource": """
            Count CountMethod KeptProgress KeptRows Principal Resource Status Total Way""",
            "dualsql.response": "DualResponse LinkForm Picture ResponseStatus",
            "dualsql.results.access": "Authorize",
            "dualsql.results.resources": "Listing",
            "dualsql.results.create": "CreateOptions ProfileOption SampleOption StatementForms",
            "dualsql.results.pages": "PageRequest ResultPage",
            "dualsql.results.streams": "ResultStream Resumption StreamEnding StreamRequest",
            "dualsql.samples": "SampleMethod SampleWay Samples",
            "dualsql.saved_queries": "QueryParameter SavedQuery",
            "dualsql.server": "ResultServer",
            "dualsql.settings": """
            Action KeepOption LimitedAction ResultCache ResultsFormat Settings SettingsGroup SnapshotTags TextFormat
            setting takes""",
            "dualsql.sql.feature": "SQL",
            "dualsql.store": "MemoryStore ResourceChanges ResourceStore SQLResourceStore",
            "dualsql.store.protocol": """
            Access LinkRecord ListingPosition Requester ResourcePage ResourceState Usage""",
            "dualsql.telemetry": "Telemetry",
            "dualsql.tenancy": "Hook HookContext Mask RowFilter RowSecurity Shared TenantFilter",
            "dualsql.web.feature": "Pages",
            "dualsql.web.settings": "PageSettings",
            "dualsql_client.wire": """
            Column ColumnarContent CutCell KeptDescription Page PageOrder Profile ProfileKind ProfileNotes
            ResourceDescription Row SortKey StructuredContent ToolProblem TotalCountKind""",
        }.items()
        for name in names.split()
    )
)

__all__ = list(_MODULES)
__version__ = "0.2.0"


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    is_collecting = gc.isenabled()
    gc.disable()  # imports make no garbage, and collections that find none took a tenth of their time
    try:
        value = globals()[name] = getattr(import_module(_MODULES[name]), name)
    finally:
        if is_collecting:
            gc.enable()
    return value


def __dir__() -> list[str]:
    return __all__
