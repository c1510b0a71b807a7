"""A server is a kernel and a list of features: what the kernel does alone, and what a feature adds."""

from __future__ import annotations

import json
import pydoc
import re
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import httpx
import pytest
from openapi_spec_validator import validate
from sqlalchemy import Column, Integer, MetaData, String, Table, insert, select
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from dualsql import (
    SQL,
    BadParameterError,
    Charts,
    ConfigurationError,
    DualMode,
    DualResponseServer,
    Feature,
    FeatureRoutes,
    GaugeReading,
    Health,
    Kept,
    KeptRows,
    OpenAPI,
    PageRequest,
    Pages,
    Parts,
    Profiles,
    Queries,
    QueryTimeoutError,
    ResultServer,
    Settings,
    SettingsGroup,
)
from dualsql.feature_list import default_features
from dualsql.kept.settings import KeptSettings
from dualsql.pending.progress import RunRecords
from dualsql.profiles.service import ProfileService
from dualsql.profiles.settings import ProfileSettings
from dualsql.resource import problem_of
from dualsql.settings import settings_in
from tests.engines import opened, sqlite_url_in
from tests.waiting import wait_until_logged

BASE_URL = "http://127.0.0.1:8000/resources"
metadata = MetaData()
people = Table("people", metadata, Column("id", Integer, primary_key=True), Column("name", String))


@asynccontextmanager
async def served(url: str, *features: Feature, **options: Any) -> AsyncIterator[DualResponseServer]:
    async with opened(url) as database, database.begin() as connection:
        await connection.run_sync(metadata.create_all)
        rows = [{"id": number, "name": f"person {number}"} for number in range(60)]
        await connection.execute(insert(people), rows)
    async with DualResponseServer(
        url, base_url=BASE_URL, tables=metadata, features=features, **options
    ) as server:
        yield server


@pytest.fixture
def url(tmp_path: Any) -> str:
    return sqlite_url_in(tmp_path)


def client_of(server: DualResponseServer) -> httpx.AsyncClient:
    app = Starlette(routes=[Mount("/resources", server.router())])
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1:8000")


async def test_the_kernel_alone_creates_pages_streams_and_deletes(url: str) -> None:
    async with served(url) as server, client_of(server) as http:
        response = await server.create_response(select(people), name="people")
        assert (response.total_count, len(response.sample)) == (60, 60)
        page = await server.read_page(response.resource_id, None, PageRequest(limit=7))
        assert [row["id"] for row in page.rows] == [*range(7)] and page.next_cursor
        lines = (await http.get(f"/resources/{response.resource_id}/rows?format=ndjson")).text.splitlines()
        assert [json.loads(line)["id"] for line in lines[:-1]] == [*range(60)]
        assert (await http.get(f"/resources/{response.resource_id}?limit=3")).json()["data"][2]["id"] == 2
        for path in ("query", "sql", "refine", "profile", "chart", "refresh"):
            assert (await http.post(f"/resources/{response.resource_id}/{path}", json={})).status_code == 404
        assert (await http.get("/resources/openapi.json")).status_code == 404
        await server.unchecked.delete(response.resource_id)
        assert (await http.get(f"/resources/{response.resource_id}")).status_code == 404


async def test_what_needs_a_missing_feature_is_refused_with_its_name(url: str) -> None:
    async with served(url) as server:
        response = await server.create_response(select(people), name="people")
        for question in (
            lambda: server.queries,
            lambda: server.sql,
            lambda: server.charts,
            lambda: server.profiles,
            lambda: server.kept,
            lambda: server.links,
            lambda: server.features.get(OpenAPI),
        ):
            with pytest.raises(ConfigurationError, match="This server has no feature"):
                question()
        with pytest.raises(ConfigurationError, match="Profiles"):
            await server.create_response(select(people), name="people", profile="sample")
        with pytest.raises(ConfigurationError, match="Samples"):
            await server.create_response(select(people), name="people", sample="tail")
        with pytest.raises(ConfigurationError, match="Pending, which wait needs"):
            await server.create_response(select(people), name="people", wait=timedelta(seconds=1))
        with pytest.raises(ConfigurationError, match="keep needs a storage"):
            await server.create_response(select(people), name="people", keep=True)
        with pytest.raises(BadParameterError, match="no feature that refines"):
            await server.create_response(name="x", parent=response.resource_uri, refinement={"filters": []})


class Deny:
    """A middleware that lets nobody in."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await Response(status_code=403)(scope, receive, send)


class Visits(Feature):
    """Counts the visits of results, and what the server calls."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.visits = 0

    def attach(self, server: ResultServer, parts: Parts) -> None:
        """See `Feature`."""
        self.calls.append("attach")

    def routes(self, server: ResultServer) -> FeatureRoutes:
        """See `Feature`."""

        async def visits(request: Request) -> JSONResponse:
            principal = await server.access.identify(request)
            await server.open_resource(request.path_params["resource_id"], principal, "read")
            self.visits += 1
            return JSONResponse({"visits": self.visits})

        return FeatureRoutes(
            routes=[
                Route("/{resource_id}/visits", visits),
                Route("/{resource_id}/method", self.refuse),
                Route("/{resource_id}/denied", visits, middleware=[Middleware(Deny)]),
            ],
            documents=[Route("/visits.json", self.refuse)],
        )

    async def refuse(self, request: Request) -> JSONResponse:
        """An endpoint that is a method, and fails."""
        raise BadParameterError("No.")

    async def start(self) -> None:
        """See `Extension`."""
        self.calls.append("start")

    async def drain(self, timeout: timedelta) -> int:
        """See `Extension`."""
        self.calls.append("drain")
        return 0

    async def close(self) -> None:
        """See `Extension`."""
        self.calls.append("close")

    async def release(self) -> None:
        """See `Extension`."""
        self.calls.append("release")

    def forget(self, resource_id: str) -> None:
        """See `Extension`."""
        self.calls.append("forget")

    async def sweep(self) -> None:
        """See `Extension`."""
        self.calls.append("sweep")

    def readings(self) -> Any:
        """See `Extension`."""
        yield GaugeReading("pending", self.visits)


class OtherVisits(Feature):
    """The same under another class, so that a server takes both."""

    def __init__(self) -> None:
        self._visits = Visits()
        self.calls = self._visits.calls
        for name in ("attach", "start", "drain", "close", "release", "forget", "sweep"):
            setattr(self, name, getattr(self._visits, name))


async def test_a_feature_of_another_package_has_routes_and_runs_with_the_server(url: str) -> None:
    visits = Visits()
    async with served(url, *default_features(), visits) as server, client_of(server) as http:
        response = await server.create_response(select(people), name="people")
        assert (await http.get(f"/resources/{response.resource_id}/visits")).json() == {"visits": 1}
        assert (await http.get("/resources/unknown/visits")).json()["code"] == "RESOURCE_NOT_FOUND"
        for path in (f"{response.resource_id}/method", "visits.json"):
            assert (await http.get(f"/resources/{path}")).json()["code"] == "BAD_PARAMETER", path
        assert (await http.get(f"/resources/{response.resource_id}/denied")).status_code == 403
        assert server.features.get(Visits) is visits and GaugeReading("pending", 1) in [*server._readings()]
        await server.maintenance.sweep()
        await server.unchecked.delete(response.resource_id)
        await server.drain(timedelta())
    assert visits.calls[:2] == ["attach", "start"] and visits.calls[-2:] == ["close", "release"]
    assert {"sweep", "forget", "drain"} <= {*visits.calls}


class OwnHealth(Health):
    """Health of another package."""


class First(Feature):
    """It needs the second one."""


class Second(Feature):
    """It needs the first one."""

    needs = (First,)


First.needs = (Second,)


class Refiner(Feature):
    """Sets what Queries sets."""

    def attach(self, server: ResultServer, parts: Parts) -> None:
        """See `Feature`."""
        parts.creator.refine = parts.creator.create


class Profiler(Feature):
    """Sets what Profiles sets."""

    def attach(self, server: ResultServer, parts: Parts) -> None:
        """See `Feature`."""
        parts.creator.profiler = ProfileService(parts.views, parts.access, ProfileSettings(), None).profiler


USED, ONCE = Health(), OwnHealth()


def test_a_list_that_is_none_is_refused() -> None:
    DualResponseServer("sqlite:///:memory:", base_url=BASE_URL, tables=metadata, features=[USED])
    with pytest.raises(ConfigurationError, match="keep needs a storage"):
        DualResponseServer("sqlite://", base_url=BASE_URL, tables=metadata, features=[Kept(keep=True)])
    lists: list[tuple[Any, str]] = [
        ([Health(), Health()], "given twice: Health"),
        ([Health(), OwnHealth()], "given twice: Health and OwnHealth"),
        ([OwnHealth(), Health()], "given twice: OwnHealth and Health"),
        ([ONCE, ONCE], "given twice: OwnHealth"),
        ([Charts()], "Charts needs the feature Queries"),
        ([Pages(), OpenAPI()], "Pages needs the feature Profiles"),
        ([First(), Second()], "First and Second need each other"),
        ([Queries(), Refiner()], "Queries and Refiner both set creator.refine"),
        ([Profiles(), Profiler()], "Profiles and Profiler both set creator.profiler"),
        ([Queries], "Queries is no feature"),
        (Queries(), "features must be a list, and is a Queries"),
        (["Queries"], "is no feature"),
        ([USED], "belongs to another server"),
    ]
    for features, words in lists:
        with pytest.raises(ConfigurationError, match=words):
            DualResponseServer("sqlite://", base_url=BASE_URL, tables=metadata, features=features)


def test_a_feature_takes_the_place_of_the_default_one_of_its_class() -> None:
    own = [OwnHealth(health_timeout=timedelta(seconds=1)), Kept("kept", keep_rows=5), Pages()]
    features = default_features(*own)
    kinds = [type(each) for each in default_features()]
    assert {*map(type, features)} == {*kinds, OwnHealth, Pages} - {Health}
    assert [each for each in features if each in own] == own
    with pytest.raises(ConfigurationError, match="keep_rows must be positive"):
        Kept("kept", keep_rows=0)
    with pytest.raises(TypeError, match=r"Kept\(\) has no argument 'keep_row'. Did you mean 'keep_rows'"):
        Kept("kept", keep_row=5)  # type: ignore[call-arg]


def test_each_setting_has_one_name_and_help() -> None:
    of_features = [each.settings_group for each in default_features(Pages())]
    groups: list[type[SettingsGroup]] = [Settings, *(group for group in of_features if group is not None)]
    names = [each.name for group in groups for each in settings_in(group)]
    assert len(names) == len({*names}) and {"keep", "pages_in_text", "health_timeout"} <= {*names}
    assert "keep_rows: int = 10000000" in pydoc.plain(pydoc.render_doc(Kept))
    assert "keep_rows: The most rows" in pydoc.plain(pydoc.render_doc(KeptSettings))


def test_a_subclass_stands_for_a_feature() -> None:
    own = OwnHealth()
    server = DualResponseServer("sqlite://", base_url=BASE_URL, tables=metadata, features=[own])
    assert server.features.get(Health) is own and Health in server.features
    with pytest.raises(ConfigurationError, match="no feature Queries"):
        server.features.get(Queries)
    both = DualResponseServer("sqlite://", base_url=BASE_URL, tables=metadata, features=[OwnHealth(), SQL()])
    with pytest.raises(ConfigurationError, match="Several features are a Feature: OwnHealth, SQL"):
        both.features.get(Feature)


@pytest.mark.parametrize("order", [(SQL, Queries, Charts), (Charts, Queries, SQL)])
def test_features_are_attached_after_those_that_they_need(order: tuple[type[Feature], ...]) -> None:
    server = DualResponseServer(
        "sqlite://", base_url=BASE_URL, tables=metadata, features=[kind() for kind in order]
    )
    assert [type(each) for each in server.features] == [SQL, Queries, Charts]
    assert server.queries._sources is server.features.get(SQL).sources


class Represented(Feature):
    """Answers with text."""

    def __init__(self, path: str, media_type: str = "text/plain", document: str = "/a.txt") -> None:
        self.path, self.media_type, self.document = path, media_type, document
        self.calls = 0

    def routes(self, server: ResultServer) -> FeatureRoutes:
        """See `Feature`."""
        self.calls += 1
        return FeatureRoutes(
            routes=[Route(self.path, self.answer)],
            documents=[Route(self.document, self.answer)],
            representations={self.media_type: self.answer},
            listing_representations={self.media_type: self.answer},
        )

    async def answer(self, request: Request) -> Response:
        """Text."""
        return Response("text")


@pytest.mark.parametrize(
    ("other", "words"),
    [
        (("/{resource_id}/a", "text/x", "/b.txt"), "the path /{resource_id}/a"),
        (("/{resource_id}/b", "text/x", "/a.txt"), "the path /a.txt"),
        (("/{resource_id}/b", "text/plain", "/b.txt"), "the representation text/plain of a result"),
    ],
)
def test_two_features_never_share_a_path_or_a_media_type(other: tuple[str, str, str], words: str) -> None:
    class Beside(Feature):
        routes = Represented(*other).routes

    features = [Represented("/{resource_id}/a"), Beside()]
    server = DualResponseServer("sqlite://", base_url=BASE_URL, tables=metadata, features=features)
    with pytest.raises(ConfigurationError, match=re.escape(f"Represented and Beside both set {words}")):
        server.router()


def test_a_feature_is_asked_for_its_routes_once() -> None:
    one = Represented("/{resource_id}/a")
    server = DualResponseServer("sqlite://", base_url=BASE_URL, tables=metadata, features=[one, OpenAPI()])
    server.router()
    server.router()
    assert "text/plain" in json.dumps(server.features.get(OpenAPI).document()) and one.calls == 1


def test_documents_name_dual_mode_answers_where_there_are_some() -> None:
    bare = DualResponseServer(
        "sqlite://", base_url=BASE_URL, tables=metadata, features=[OpenAPI(), Queries()]
    )
    plain = bare.features.get(OpenAPI).document()
    validate(plain)
    assert "DualMode" not in json.dumps(plain) and "X-Response-Format" not in json.dumps(plain)
    dual = DualResponseServer(
        "sqlite://", base_url=BASE_URL, tables=metadata, features=[OpenAPI(), DualMode()]
    )
    assert "DualModeAnswer" in json.dumps(dual.features.get(OpenAPI).document())


class Failing(Feature):
    """Fails whenever it is called."""

    def forget(self, resource_id: str) -> None:
        """See `Extension`."""
        raise RuntimeError("forget")

    async def sweep(self) -> None:
        """See `Extension`."""
        raise RuntimeError("sweep")

    async def drain(self, timeout: timedelta) -> int:
        """See `Extension`."""
        raise RuntimeError("drain")

    async def close(self) -> None:
        """See `Extension`."""
        raise RuntimeError("close")

    async def release(self) -> None:
        """See `Extension`."""
        raise RuntimeError("release")


async def test_a_feature_that_fails_does_not_stop_the_others(
    url: str, caplog: pytest.LogCaptureFixture
) -> None:
    before, after = Visits(), OtherVisits()
    async with served(url, before, Failing(), after) as server:
        response = await server.create_response(select(people), name="people")
        await server.maintenance.sweep()
        await server.unchecked.delete(response.resource_id)
        await server.drain(timedelta())
        with pytest.raises(RuntimeError):
            await server.shutdown()
        server.features._all.remove(server.features.get(Failing))
    calls = ["attach", "start", "sweep", "forget", "drain", "close", "release"]
    assert (before.calls[:7], after.calls[:7]) == (calls, calls)
    wait_until_logged()
    messages = [
        record.getMessage() for record in caplog.records if "The feature Failing" in record.getMessage()
    ]
    assert [text.rpartition(" to ")[2] for text in messages] == ["sweep", "forget a result", "drain"]


async def test_a_server_without_a_storage_says_that_a_refresh_runs_elsewhere(url: str) -> None:
    async with served(url) as server:
        response = await server.create_response(select(people), name="people")
        resource = await server.open_resource(response.resource_id, None, "read")
        records = RunRecords.of(server.parts)
        running = records.running(None, 7)
        assert await records.change(resource.id, None, running)
        described = (await server.describe(resource.id, None))["kept"]
        assert described == {"kept": False, "rows_so_far": 7, "reason": "This server keeps no results."}
        failure = problem_of(QueryTimeoutError("Too slow."))
        assert await records.change(resource.id, running, KeptRows(failure=failure))
        assert (await server.describe(resource.id, None))["kept"]["error"]["code"] == "QUERY_TIMEOUT"


@pytest.mark.parametrize("is_wanted", [False, True])
async def test_the_text_of_a_result_names_a_page_where_there_are_pages(url: str, *, is_wanted: bool) -> None:
    async with served(url, Pages(pages_in_text=is_wanted), Profiles(), OpenAPI()) as server:
        assert (await server.create_response(select(people), name="people")).page_in_text == is_wanted


def public_names(kind: type) -> list[str]:
    """The public methods of a class, inherited ones included; not the properties, which are features."""
    members = {name: getattr(kind, name) for name in dir(kind) if not name.startswith("_")}
    return [name for name, member in members.items() if not isinstance(member, property)]


def test_a_server_has_at_most_twenty_public_methods() -> None:
    """What belongs to a feature is a method of what `server.queries`, `server.kept` and the like return."""
    assert len(public_names(ResultServer)) <= 20
    assert len(public_names(DualResponseServer)) <= 20


LOADED = """
import json, sys
from pathlib import Path
from sqlalchemy import MetaData
from dualsql import DualResponseServer
DualResponseServer("sqlite:///:memory:", base_url="http://127.0.0.1/r", tables=MetaData(), features=[]).router()
def lines_of(package):
    files = [module.__file__ for name, module in sys.modules.items() if f"{name}.".startswith(package)]
    return sum(bool(line.strip()) for file in files if file for line in Path(file).read_text().splitlines())
dualsql = sys.modules.pop("dualsql")
print(json.dumps([lines_of("dualsql."), lines_of("dualsql.freeze."), sorted(sys.modules)]))
"""
MOST_LINES, MOST_KERNEL_LINES = 16_800, 12_800
"""Lines that a server without features loads: of all modules, and besides `freeze` (docs/decisions/0047)."""
OPTIONAL = {
    "apsw", "duckdb", "fastmcp", "jinja2", "mcp", "obstore", "opentelemetry", "pyarrow", "python_calamine", "rapidfuzz",
    "re2", "rich", "sqlglot", "typer", "uvicorn", "vl_convert",
}  # fmt: skip
LOADED_LATER = {
    "arguments", "columns.computed", "columns.database_types", "columns.instants", "columns.pieces", "columns.trials",
    "databases.claims", "databases.comparison", "databases.counts", "databases.explain", "databases.failures",
    "databases.functions", "databases.health",
    "databases.measurements", "databases.other", "databases.plugins", "databases.reach",
    "databases.refused_columns", "databases.rights",
    "databases.sqlite.file_processes", "databases.sqlite.file_reader", "databases.sqlite.page_process",
    "databases.sqlite.patterns",
    "databases.sqlite.process_stream", "databases.sqlite.processes", "databases.sqlite.query",
    "databases.sqlite.reader_process", "databases.sqlite.rows", "databases.sqlite.text", "databases.text_threads",
    "databases.threads",
    "databases.unproved", "databases.url_errors", "feature_list", "formats.arrow", "formats.bind_values",
    "formats.cell_limit", "formats.csv", "formats.excerpts", "formats.fits", "formats.json_array",
    "formats.json_fallback",
    "formats.ndjson", "formats.ranges", "formats.row_objects", "formats.unfit_cells", "formats.xlsx", "http.cors",
    "freeze.kinds_options", "freeze.kinds_own", "freeze.paths", "freeze.shadowing", "hints", "plan.derived",
    "plan.entities", "plan.joins", "plan.merged_rows", "plan.other_statements", "plan.refused_orders", "plan.sampling",
    "plan.sqlalchemy_internals", "plan.texts", "plan.words", "query_dialects", "response.content",
    "results.audit", "results.described", "results.kept_rows", "results.quotas", "results.resources",
    "results.resuming", "results.row_cache", "results.snapshots",
    "store.eviction", "store.guard", "store.health", "tenancy.functions",
    "tenancy.grouping", "tenancy.masks", "tenancy.row_filters", "tenancy.tenant_filters", "tenancy.visibility",
}  # fmt: skip
"""Modules of the kernel that are loaded when a database, a setting or a request asks for them."""
FEATURES = {
    "catalogue", "changes", "charts", "cli", "dual_mode", "envelope", "health", "identity", "kept", "links", "openapi",
    "pending", "profiles", "query", "rates", "request_log", "samples", "saved_queries", "serve", "sql", "telemetry",
    "web",
}  # fmt: skip


def test_a_server_without_features_loads_none_and_no_optional_package() -> None:
    run = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, text=True, check=True)
    lines, lines_of_freeze, modules = json.loads(run.stdout)
    assert lines <= MOST_LINES
    assert lines - lines_of_freeze <= MOST_KERNEL_LINES
    assert OPTIONAL & {name.partition(".")[0] for name in modules} == set()
    assert {f"dualsql.{name}" for name in LOADED_LATER} & set(modules) == set()
    assert FEATURES & {name.split(".")[1] for name in modules if name.startswith("dualsql.")} == set()
