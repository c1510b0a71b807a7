"""What is refused before a resource is looked at, foreign pages and bad bodies; and what a refusal tells."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import httpx
import pytest
from sqlalchemy import Column, Double, MetaData, Table, text
from sqlalchemy.ext.asyncio import AsyncEngine
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Mount
from starlette.testclient import TestClient
from starlette.websockets import WebSocketDisconnect

from dualsql.errors import StorageError
from dualsql.store import SQLResourceStore, upgrade
from tests.engines import sqlite_url_in
from tests.http.application import METADATA, Application, assert_private, problem_of, running

APP_ORIGIN = "https://app.example.com"
JSON = {"Content-Type": "application/json"}
SECRETS = ["a secret of more than thirty-two characters"]


@pytest.mark.quick(4)
@pytest.mark.parametrize("host", ["evil.example", "evil.example:8000", "127.0.0.1.evil.example", ""])
@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"])
async def test_a_foreign_host_is_forbidden(application: Application, method: str, host: str) -> None:
    path = await application.create()
    problem = problem_of(await application.http.request(method, path, headers={"Host": host}), 403)
    assert (problem["error"], problem["code"]) == ("forbidden", "FOREIGN_REQUEST")
    assert (await application.http.get(path)).json()["status"] == "ready"


@pytest.mark.quick(2)
@pytest.mark.parametrize(
    "origin", ["https://evil.example", "null", "http://localhost:8000", "http://127.0.0.1"]
)
async def test_a_foreign_origin_is_forbidden(application: Application, origin: str) -> None:
    path = await application.create()
    for method in ("GET", "PUT", "DELETE", "OPTIONS"):
        response = await application.http.request(method, path, headers={"Origin": origin})
        assert problem_of(response, 403)["code"] == "FOREIGN_REQUEST"
        assert "access-control-allow-origin" not in response.headers
    assert (await application.http.get(path)).json()["status"] == "ready"


async def test_no_origin_may_read_by_default(application: Application) -> None:
    response = await application.http.get(
        await application.create(), headers={"Origin": "http://127.0.0.1:8000"}
    )
    assert response.status_code == 200
    assert not [name for name in response.headers if name.startswith("access-control")]


async def test_a_public_server_answers_under_its_name_and_those_listed(institutions_url: str) -> None:
    base_url = "https://api.example.com/resources"
    async with running(
        institutions_url, base_url=base_url, allowed_hosts=("gateway.internal",)
    ) as application:
        path = await application.create()
        for host, status in {
            "api.example.com": 200,
            "gateway.internal:8080": 200,
            "localhost": 403,
            "127.0.0.1": 403,
        }.items():
            assert (await application.http.get(path, headers={"Host": host})).status_code == status


async def test_one_host_is_named_once(application: Application) -> None:
    path = await application.create()
    for hosts in (["127.0.0.1", "127.0.0.1"], ["127.0.0.1", "evil.example"], ["evil.example", "127.0.0.1"]):
        response = await application.http.get(path, headers=[("Host", host) for host in hosts])
        assert problem_of(response, 403)["code"] == "FOREIGN_REQUEST", hosts


async def test_a_host_listed_with_its_port_is_that_port(institutions_url: str) -> None:
    async with running(institutions_url, allowed_hosts=("proxy.internal:81",)) as application:
        path = await application.create()
        for host, status in {
            "proxy.internal:81": 200,
            "proxy.internal": 403,
            "proxy.internal:82": 403,
            "proxy.internal:": 403,
        }.items():
            response = await application.http.get(path, headers={"Host": host})
            assert response.status_code == status, host


@pytest.fixture
async def shared(institutions_url: str) -> AsyncIterator[Application]:
    """A server whose rows the pages of one other origin may read."""
    async with running(institutions_url, cors_origins=(APP_ORIGIN,)) as application:
        yield application


async def test_a_listed_origin_may_read_rows_and_refusals(shared: Application) -> None:
    path = await shared.create()
    for url, status in {path: 200, f"{path}?limit=x": 400, "/resources/unknown": 404}.items():
        response = await shared.http.get(url, headers={"Origin": APP_ORIGIN})
        assert response.status_code == status
        assert response.headers["access-control-allow-origin"] == APP_ORIGIN
        assert "access-control-allow-credentials" not in response.headers
        assert_private(response)


async def test_a_listed_origin_may_ask_before_it_sends(shared: Application) -> None:
    parameters = {
        "Origin": APP_ORIGIN,
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "authorization, content-type",
    }
    response = await shared.http.options("/resources/unknown", headers=parameters)
    assert response.status_code == 200
    assert response.headers["access-control-allow-origin"] == APP_ORIGIN
    assert "POST" in response.headers["access-control-allow-methods"]
    assert "authorization" in response.headers["access-control-allow-headers"]
    assert_private(response)


async def test_asking_for_another_verb_is_refused_as_everything_is(shared: Application) -> None:
    parameters = {"Origin": APP_ORIGIN, "Access-Control-Request-Method": "PATCH"}
    problem_of(await shared.http.options("/resources/unknown", headers=parameters), 403)


async def test_an_unlisted_origin_is_forbidden_beside_a_listed_one(shared: Application) -> None:
    parameters = {"Origin": "https://evil.example", "Access-Control-Request-Method": "GET"}
    problem_of(await shared.http.options("/resources/unknown", headers=parameters), 403)
    problem_of(
        await shared.http.get("/resources/unknown", headers={"Origin": f"{APP_ORIGIN}.evil.example"}), 403
    )


async def test_a_body_too_large_is_refused_announced_or_not(institutions_url: str) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(1_000):
            yield b" " * 100

    async with running(institutions_url, maximum_body_size=1_000) as application:
        path = await application.create()
        for content in (b" " * 1_001, pieces()):
            response = await application.http.post(path, content=content, headers=JSON)
            assert problem_of(response, 413)["code"] == "BODY_TOO_LARGE"
        assert (
            await application.http.post(path, content=b"{}" + b" " * 998, headers=JSON)
        ).status_code == 200


@pytest.mark.parametrize(
    "content_type", ["text/plain", "application/x-www-form-urlencoded", "application/xml", ""]
)
async def test_a_wrong_content_type_is_refused(application: Application, content_type: str) -> None:
    path = await application.create()
    response = await application.http.post(path, content=b"{}", headers={"Content-Type": content_type})
    assert problem_of(response, 415)["code"] == "UNSUPPORTED_MEDIA_TYPE"


@pytest.mark.quick(4)
@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"\xff", b'{"limit":1e3}', b'{"limit":true}', b'{"sort":' * 8_000, b"[" * 60_000],
)
async def test_a_malformed_body_is_a_bad_request(application: Application, content: bytes) -> None:
    problem_of(await application.http.post(await application.create(), content=content, headers=JSON), 400)


LEAKS = (
    "institutions",
    "sqlite",
    "SELECT",
    "no such table",
    "Traceback",
    "OperationalError",
    "dualsql_resources",
)


async def test_a_failing_query_tells_nothing_of_the_database(
    application: Application,
    institutions_url: str,
    make_engine: Callable[[str], AsyncEngine],
    caplog: pytest.LogCaptureFixture,
) -> None:
    path = await application.create()
    async with make_engine(institutions_url).begin() as connection:
        await connection.execute(text("DROP TABLE institutions"))
    response = await application.http.get(f"{path}?limit=1")
    problem = problem_of(response, 502)
    assert (problem["error"], problem["code"]) == ("query_failed", "QUERY_EXECUTION_FAILED")
    assert not [leak for leak in LEAKS if leak in response.text]
    assert problem["details"]["incident"] in caplog.text
    assert path.rpartition("/")[2] not in caplog.text


@pytest.fixture
async def store_url(institutions_url: str, tmp_path: Path) -> str:
    """The URL of a database that is ready to keep resources, another one than that of the rows."""
    url = sqlite_url_in(tmp_path)
    upgrade(url)
    return url


@pytest.fixture(params=["sqlite", "postgresql"])
def a_store_url(request: pytest.FixtureRequest) -> str:
    """Of both kinds, in turn."""
    wanted = {"sqlite": "store_url", "postgresql": "postgresql_store_url"}[request.param]
    url: str = request.getfixturevalue(wanted)
    return url


async def test_a_store_that_fails_is_unavailable_and_comes_back_by_itself(
    institutions_url: str, a_store_url: str, make_engine: Callable[[str], AsyncEngine]
) -> None:
    store = SQLResourceStore(a_store_url)
    async with running(institutions_url, store=store, secrets=SECRETS) as application:
        path = await application.create()
        operator = make_engine(a_store_url)
        async with operator.begin() as connection:
            await connection.execute(text("ALTER TABLE dualsql_resources RENAME TO away"))
        with pytest.raises(StorageError):
            await application.create()
        for url in (path, "/resources/unknown", "/resources/%00"):
            response = await application.http.get(url)
            problem = problem_of(response, 503)
            assert (problem["error"], problem["code"]) == ("unavailable", "STORAGE_ERROR")
            assert response.headers["retry-after"].isdecimal()
            assert not [leak for leak in LEAKS if leak in response.text]
        async with operator.begin() as connection:
            await connection.execute(text("ALTER TABLE away RENAME TO dualsql_resources"))
        assert (await application.http.get(path)).status_code == 200
        await application.create()


async def test_a_stored_resource_that_was_changed_is_not_served(
    institutions_url: str, store_url: str, make_engine: Callable[[str], AsyncEngine]
) -> None:
    async with running(institutions_url, store=SQLResourceStore(store_url), secrets=SECRETS) as application:
        path = await application.create()
        async with make_engine(store_url).begin() as connection:
            await connection.execute(text("UPDATE dualsql_resources SET source = 'mallory'"))
        response = await application.http.get(path)
        assert problem_of(response, 500)["code"] == "TAMPERED_RESOURCE"
        assert "mallory" not in response.text


async def test_what_others_do_to_a_resource_that_was_read_holds_at_the_next_read(
    institutions_url: str, store_url: str, make_engine: Callable[[str], AsyncEngine]
) -> None:
    store = {"store": SQLResourceStore(store_url), "secrets": SECRETS}
    async with running(institutions_url, **store) as application, make_engine(store_url).connect() as other:
        page = f"{await application.create()}?limit=1"
        for values, status in (
            ("source = source", 200),
            ("owner = 'mallory'", 404),
            ("owner = NULL", 200),
            ("columns = '[{}]'", 500),
            ("columns = '[]'", 200),  # they are not signed, and a page has those of its statement
            ("access_count = 7", 200),
            ("expires_at = created_at", 410),
            ("expires_at = NULL", 200),
            ("tenant = 'mallory'", 500),
            ("tenant = NULL", 200),
        ):
            await other.execute(text(f"UPDATE dualsql_resources SET {values}"))
            await other.commit()
            for _ in range(2):
                assert (await application.http.get(page)).status_code == status, values
        await other.execute(text("DELETE FROM dualsql_resources"))
        await other.commit()
        problem_of(await application.http.get(page), 404)


@pytest.mark.parametrize("is_renamed", [True, False])
async def test_the_reader_of_a_table_that_has_changed_is_told_so(
    institutions_url: str, store_url: str, is_renamed: bool
) -> None:
    """The words for an author whose Select cannot be stored were no help to an application that reads one.

    To `dualsql serve`, which has the definitions of the database, those of an application may be others.
    """
    async with running(institutions_url, store=SQLResourceStore(store_url), secrets=SECRETS) as application:
        path = await application.create()
    changed = MetaData()
    for table in METADATA.sorted_tables:
        columns = [(f"{each.name}_2", each.type) if is_renamed else (each.name, Double()) for each in table.c]
        Table(table.name, changed, *(Column(name, type_) for name, type_ in columns))
    options = {"store": SQLResourceStore(store_url), "secrets": SECRETS, "tables": changed}
    async with running(institutions_url, **options) as application:
        problem = problem_of(await application.http.get(f"{path}/rows"), 500)
    assert problem["code"] == "NOT_FREEZABLE"
    assert "have changed since it was stored" in problem["message"]
    assert problem["hint"] == (
        "Run the query again. If this comes again, tell the operator: two servers of the store define the tables in "
        "different ways."
    )


async def test_an_application_s_own_handlers_do_not_replace_the_body(institutions_url: str) -> None:
    def speak_otherwise(request: Request, error: Exception) -> Response:
        return PlainTextResponse("Oops")

    async with running(institutions_url) as application:
        app = Starlette(
            routes=[Mount("/resources", application.server.router())],
            exception_handlers={404: speak_otherwise, 405: speak_otherwise, Exception: speak_otherwise},
        )
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8000") as http:
            problem_of(await http.get("/resources/unknown"), 404)
            problem_of(await http.get("/resources/a/b"), 404)
            problem_of(await http.patch("/resources/unknown"), 405)


async def test_the_routes_stand_alone_without_an_application_around_them(institutions_url: str) -> None:
    async with running(institutions_url) as application:
        transport = httpx.ASGITransport(application.server.router())
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8000") as http:
            resource_id = (await application.create()).rpartition("/")[2]
            assert (await http.get(f"/{resource_id}")).status_code == 200
            problem_of(await http.get("/a/b"), 404)
            problem_of(await http.patch(f"/{resource_id}"), 405)


async def test_websockets_are_closed(institutions_url: str) -> None:
    async with running(institutions_url) as application:
        app = application.server.router()
        with pytest.raises(WebSocketDisconnect), TestClient(app).websocket_connect("/anything"):
            pass
