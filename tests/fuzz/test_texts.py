"""SQL texts that are grown from the grammar and then damaged: rows of the caller's tenant, or an error of ours."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta

import httpx
import pytest
from sqlalchemy import make_url

from dualsql import DualResponseError, LocalResultStorage
from dualsql.http.streaming import CutOffError
from tests import engines
from tests.fuzz.running import LIMIT, ONE_CASE, Case, cases, check_problem, result_of
from tests.fuzz.texts import sql_text
from tests.http.application import Application, by_header
from tests.mariadb import MariaDB
from tests.query.readings import ALL, person, readings_at

# SQLAlchemy's own words on texts that make little sense.
pytestmark = [
    pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SADeprecationWarning"),
    pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SAWarning"),
    pytest.mark.timeout(7200),
]
ANN = person("north")
HEADERS = {"X-User": ANN.id, "X-Tenant": "north"}
OF_OTHERS = ("south", "hidden")
"""The other tenant, and what the mask of `secret` replaces by NULL."""


@pytest.fixture(
    scope="module",
    params=[
        "sqlite",
        *(pytest.param(name, marks=pytest.mark.long) for name in ("postgresql", "mariadb", "duckdb")),
    ],
)
def url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of an empty database."""
    if request.param == "sqlite":
        yield engines.sqlite_url_in(tmp_path_factory.mktemp("fuzz"))
    elif request.param == "duckdb":
        yield f"duckdb:///{tmp_path_factory.mktemp('fuzz') / 'fuzz.duckdb'}"
    else:
        server: engines.PostgreSQL | MariaDB = request.getfixturevalue(f"{request.param}_server")
        with server.database() as address:
            yield address


@pytest.fixture(scope="module")
async def application(
    anyio_backend: str, url: str, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Application]:
    """A server over the readings of two tenants."""
    async with readings_at(
        url,
        authenticate=by_header,
        query_timeout=timedelta(seconds=LIMIT),
        maximum_refinements=1_000_000,
        maximum_stream_duration=timedelta(seconds=LIMIT),
        storage=LocalResultStorage(tmp_path_factory.mktemp("fuzz") / "kept"),
    ) as found:
        yield found


async def test_a_text_is_answered_for_its_caller_or_refused(application: Application, url: str) -> None:
    engine = make_url(url).get_backend_name().replace("mysql", "mariadb")
    paths = [await result_of(application.server, ALL, ANN, keep=keep) for keep in (False, True)]
    answered = 0
    for case in cases():
        table = case.one_of(("readings", "data"))
        text = sql_text(case, table, engine)
        with case.about(text):
            actual = await (
                created(application, text)
                if table == "readings"
                else asked(case, application.http, case.one_of(paths), text)
            )
            if actual is None:
                continue
            answered += 1
            seen = [word for word in OF_OTHERS if word in actual and word not in text]
            assert not seen, actual[:2000]
    assert answered or ONE_CASE, "the texts reach the database"


async def created(application: Application, text: str) -> str | None:
    """The sample of a result over the tables; None if the text was refused."""
    try:
        query = application.server.sql.resolve(text, principal=ANN)
        response = await application.server.create_response(
            query.select, name="text", principal=ANN, is_text=True
        )
    except DualResponseError as error:
        message, hint = error.for_caller
        check_problem({"code": error.code, "message": message, "hint": hint, "details": error.details})
        return None
    await application.server.delete_resource(response.resource_id, ANN)
    return str(response.sample)


async def asked(case: Case, http: httpx.AsyncClient, path: str, text: str) -> str | None:
    """The rows of a text over a result; None if it was refused."""
    body = {"sql": text, **({"parameters": {"p": 1}} if ":p" in text else {})}
    if case.choices.random() < 0.3:
        body["format"] = case.one_of(("ndjson", "csv", "arrow", "json"))
    try:
        answer = await http.post(f"{path}/sql", json=body, headers=HEADERS)
    except CutOffError:  # a stream of more rows than one may have
        return None
    if answer.status_code == 200:
        return answer.text if body.get("format") != "arrow" else ""
    assert answer.status_code not in {500, 501}, answer.text
    check_problem(json.loads(answer.text))
    return None
