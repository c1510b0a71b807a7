"""What the package shows to the world changes on purpose only."""

from __future__ import annotations

import ast
import importlib
import inspect
import pydoc
import re
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import pytest
from sqlalchemy import MetaData

import dualsql
from dualsql import (
    ConfigurationError,
    DualResponseError,
    DualResponseServer,
    Pages,
    Parts,
    ResultServer,
    Settings,
    SettingsGroup,
    SignedLinks,
    errors,
)
from dualsql.feature_list import default_features
from dualsql.settings import default_of, settings_in, type_name

SEALED = """
Access Action Asked Attributes Audit AuditAction AuditEvent Authenticate Authorize BadCursorError BadParameterError
CallerMessage Catalogue Cause ChangeSettings Changes Charts Chunk Column ColumnarContent ConfigurationError Count
CountExecutionError CountMethod CreateOptions CutCell Database DatabaseBusyError DatabaseUnreachableError
DescribedFeature
DualMode DualResponse DualResponseError DualResponseServer Endpoint Event Extension Feature FeatureRoutes FirstRow
ForbiddenError ForbiddenSQLError Format FurtherAnswer Gauge GaugeReading Health HealthSettings Hook HookContext
InsufficientScopeError InvalidSQLError JSONAnswer KeepOption Kept KeptDescription KeptProgress KeptRows KeptSettings
LimitExceededError LimitedAction LinkForm LinkRecord LinkSettings Listener Listing ListingPosition LocalResultStorage
Log MappedSource Mask Measurement MemoryStore NoTotalOrderError NotFreezableError ObjectResultStorage OpenAPI
Operation PackageMissingError Page PageOrder PageRequest PageSettings Pages Parts Pending Picture Principal
Profile ProfileKind ProfileNotes ProfileOption ProfileSettings Profiles Queries QueryCancelledError
QueryExecutionError QueryInterruptedError QueryParameter QuerySettings QueryTimeoutError Rate RateLimitedError
RateLimits Rates Registry Requester Resource ResourceChanges ResourceDescription ResourceExpiredError
ResourceFailedError ResourceNotFoundError ResourcePage ResourcePendingError ResourceState ResourceStore ResponseStatus
ResultCache ResultChangedError ResultPage ResultQuery ResultServer ResultStorage ResultStream ResultsFormat Resuming
Resumption Row RowFilter RowSecurity SQL SQLResourceStore SampleMethod SampleOption SampleWay Samples SavedQuery
ServerOptions ServerUnavailableError Settings SettingsGroup Shared SignedLinks SnapshotTags SortKey Statement
StatementForms Status StorageError StoredFile StreamEnding StreamRequest StructuredContent Tables TamperedError
Telemetry TenantFilter TextFormat TooManyQueriesError ToolOptions ToolProblem Total TotalCountKind
UnauthenticatedError UnknownColumnError UnknownTableError Usage ValueNotRepresentableError Visible Way WorkKind
WriterFactory WriterOptions default_features method_route open_result query_of read_json_body refuse_query setting
takes
""".split()


def test_the_exports_are_sealed() -> None:
    assert sorted(dualsql.__all__) == sorted(SEALED)
    assert all(hasattr(dualsql, name) for name in SEALED)


def names_in_signatures(exported: type) -> Iterator[tuple[str, str]]:
    """The names of this project that the public methods and fields of a class are annotated with, and where."""
    file = inspect.getsourcefile(exported)
    assert file is not None
    tree = ast.parse(Path(file).read_text(encoding="utf-8"))
    imported = {
        name.asname or name.name
        for node in tree.body
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("dualsql")
        for name in node.names
    }
    defined = {node.name for node in tree.body if isinstance(node, ast.ClassDef)} | {
        target.id
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    module = sys.modules[exported.__module__]
    (body,) = (
        node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == exported.__name__
    )
    for node in body.body:
        for annotation in annotations_of(node):
            for name in {part.id for part in ast.walk(annotation) if isinstance(part, ast.Name)}:
                is_ours = name in imported | defined
                if is_ours and not isinstance(getattr(module, name), TypeVar | ParamSpec):
                    yield name, f"{exported.__name__}, line {node.lineno}"


def annotations_of(node: ast.stmt) -> list[ast.expr]:
    """The annotations of a public method or field."""
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        return [] if node.target.id.startswith("_") else [node.annotation]
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return []
    if node.name.startswith("_") and node.name != "__init__":
        return []
    said = node.args
    arguments = [*said.posonlyargs, *said.args, *said.kwonlyargs, said.vararg, said.kwarg]
    actual = [argument.annotation for argument in arguments if argument and argument.annotation]
    return [*actual, node.returns] if node.returns else actual


def test_everything_that_a_public_signature_names_is_exported() -> None:
    classes = [value for name in dualsql.__all__ if inspect.isclass(value := getattr(dualsql, name))]
    for exported in classes:
        package, _, rest = exported.__module__.partition(".")
        if exported in {Parts, ResultServer}:
            continue  # the inside of a server, for those who write features
        if package != "dualsql":
            continue  # the shapes of the JSON are all in dualsql_client.wire
        # What belongs to one package alone may be exported there.
        own = importlib.import_module(f"dualsql.{rest.partition('.')[0]}")
        known = {*dualsql.__all__, *getattr(own, "__all__", ())}
        missing = {name: where for name, where in names_in_signatures(exported) if name not in known}
        assert missing == {}


def test_the_search_for_names_in_signatures_finds_them() -> None:
    actual = {name for kind in (DualResponseServer, ResultServer) for name, _ in names_in_signatures(kind)}
    assert {"PageRequest", "ResultStream", "StreamRequest", "Count", "Principal"} <= actual


def test_every_error_is_exported_and_has_a_code_of_its_own() -> None:
    defined = [
        value
        for value in vars(errors).values()
        if inspect.isclass(value) and issubclass(value, DualResponseError)
    ]
    assert {error.__name__ for error in defined} <= set(dualsql.__all__)
    assert len({error.code for error in defined}) == len(defined)
    tree = inspect.getdoc(errors)
    assert tree is not None
    for error in defined[1:]:
        base = error.__bases__[0]
        if base is not DualResponseError:
            assert re.search(rf"── {base.__name__} .*\b{error.__name__}\b", tree)


GROUPS = [
    Settings,
    *(each.settings_group for each in default_features(Pages(), SignedLinks()) if each.settings_group),
]


@pytest.mark.parametrize("group", GROUPS)
def test_help_shows_every_setting_with_its_type_and_default(group: type[SettingsGroup]) -> None:
    words = pydoc.plain(pydoc.render_doc(group))
    for setting in settings_in(group):
        # help() shows no mutable default.
        default = "<factory>" if default_of(setting) == {} else repr(getattr(group(), setting.name))
        # Until Python 3.13, the type is in quotes.
        spellings = {f"{setting.name}: {quote}{type_name(setting)}{quote} = {default}" for quote in ("", "'")}
        assert any(each in words for each in spellings)
        assert f"{setting.name}: {setting.metadata['meaning']}" in words


def test_help_shows_every_option_of_a_response_with_its_type_and_default() -> None:
    shown = inspect.signature(DualResponseServer.create_response).parameters
    kinds = {parameter.kind for parameter in shown.values()}
    assert inspect.Parameter.VAR_KEYWORD not in kinds
    documented = inspect.getdoc(DualResponseServer.create_response) or ""
    for name, parameter in list(shown.items())[1:]:
        assert parameter.annotation is not parameter.empty
        assert f"    {name}: " in documented


def test_type_checkers_know_each_setting() -> None:
    """`make check` refuses an unused `type: ignore`: each line below is an error to mypy."""
    tables, url = MetaData(), "http://127.0.0.1/resources"
    with pytest.raises(ConfigurationError, match="default_page_size must be a whole number"):
        Settings(default_page_size="many")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"has no argument 'hook'\. Did you mean 'hooks'"):
        DualResponseServer("sqlite://", base_url=url, tables=tables, hook=[])  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"settings=Settings\(default_sample_size=\.\.\.\)"):
        DualResponseServer("sqlite://", base_url=url, tables=tables, sample_size=5)  # type: ignore[call-arg]
    with pytest.raises(ConfigurationError, match=r"Write query_timeout=timedelta\(seconds=30\)"):
        Settings(query_timeout=-1)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="base_url"):
        DualResponseServer("sqlite://", tables=tables)  # type: ignore[call-arg]


def test_a_server_takes_at_most_twenty_arguments() -> None:
    assert len(inspect.signature(DualResponseServer).parameters) <= 20
    settings = Settings(default_page_size=7)
    server = DualResponseServer(
        databases="sqlite://", base_url="http://127.0.0.1/r", tables=MetaData(), settings=settings
    )
    assert server.settings == settings


@pytest.mark.parametrize(
    "option",
    [
        {"default_expiration": 900},
        {"default_sample_size": -1},
        {"query_timeout": timedelta(seconds=-1)},
        {"cors_origins": "https://a.example"},
        {"allow_text": "no"},
        {"uri_scheme": None},
        {"cleanup_interval": timedelta(0)},
        {"maximum_page_size": 0},
        {"anonymous_actions": {"raed"}},
        {"allowed_hosts": ["https://a.example"]},
    ],
)
def test_a_setting_that_can_only_be_a_mistake_is_refused(option: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError):
        Settings(**option)


def test_the_specification_s_words() -> None:
    for name in (
        "create_response", "get_resource", "pin_resource", "delete_resource", "router", "shutdown"
    ):  # fmt: skip
        assert inspect.getdoc(getattr(DualResponseServer, name))
    assert (Settings().default_expiration.total_seconds(), Settings().default_sample_size) == (900, 15)
    assert Settings().cleanup_interval.total_seconds() == 60
