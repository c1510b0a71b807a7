"""Whatever SQLAlchemy runs with an application's models gives the same rows here, whichever way they are fetched."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from sqlalchemy.dialects.sqlite import aiosqlite

from dualsql.errors import DualResponseError
from dualsql.plan import shape
from tests import engines
from tests.models.judging import Judge, RefusedError, judge
from tests.models.models import Base
from tests.models.rows import fill
from tests.models.statements import POSTGRESQL, REFUSED, STATEMENTS
from tests.models.values import document
from tests.quick import case_of

ALL = {**STATEMENTS, **POSTGRESQL}
CASES = [(engine, name) for name in STATEMENTS for engine in engines.ENGINES]
CASES += [("postgresql", name) for name in POSTGRESQL]

QUICK = (
    "airflow: ti distinct function",
    "airflow: dag runs",
    "buildbot: chain of joins",
    "buildbot: join of three, all columns",
    "keystone: by proxy",
    "keystone: users",
    "mlflow: entity of a union",
    "adk: events",
    "optuna: trials",
    "optuna: columns twice",
    "galaxy: items of histories",
    "galaxy: cores in all",
    "prefect: flow run and flow",
    "galaxy: histories",
    "phoenix: of an anonymous column",
    "phoenix: of another anonymous column",
    "shop: bundle",
    "shop: customers",
    "ledger: all",
    "ledger: cte twice",
    "ledger: division",
    "shop: percent rank",
    "staff: all",
    "staff: with polymorphic",
    "shelves: newest or none",
    "years: twice",
)
"""On one engine or the other."""

pytestmark = [
    # SQLAlchemy's advice to the authors of these statements.
    pytest.mark.filterwarnings("ignore:Column-expression-level unary distinct"),
    pytest.mark.filterwarnings("ignore:SELECT statement has a cartesian product"),
    pytest.mark.filterwarnings("ignore:An alias is being generated automatically"),
]


def of(cases: list[tuple[str, str]]) -> list[Any]:
    """The cases: a few are quick, one in eight long, all others exhaustive."""
    turn = {name: engines.ENGINES[number % 2] for number, name in enumerate(QUICK)}
    return [
        case_of(
            case,
            is_long=turn.get(case[1]) != case[0],
            is_exhaustive=turn.get(case[1]) != case[0] and number % 8 > 0,
        )
        for number, case in enumerate(cases)
    ]


@pytest.fixture(scope="module")
async def judged(
    request: pytest.FixtureRequest, anyio_backend: str, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Judge]:
    """A server over the models' tables on the engine that the test's parameter names."""
    if request.param == "sqlite":
        url = engines.sqlite_url_in(tmp_path_factory.mktemp("models"))
        async with _filled(url) as found:
            yield found
        return
    server: engines.PostgreSQL = request.getfixturevalue("postgresql_server")
    with server.database() as url:
        async with _filled(url) as found:
            yield found


@asynccontextmanager
async def _filled(url: str) -> AsyncIterator[Judge]:
    async with engines.opened(url, json_deserializer=document) as engine:
        async with engine.begin() as connection:
            await connection.run_sync(fill)
        async with judge(url, engine, Base) as found:
            yield found


@pytest.mark.quick(1, "sqlite")
@pytest.mark.parametrize(("judged", "name"), of(CASES), indirect=["judged"])
async def test_what_dualsql_gives_is_what_sqlalchemy_gives(judged: Judge, name: str) -> None:
    try:
        differences = await judged.differences(ALL[name], name)
    except RefusedError as error:
        differences = [] if name in REFUSED else [f"refused: {error}"]
    else:
        assert name not in REFUSED, "no longer refused"
    assert not differences, "\n".join(differences)


def test_the_corpus_is_as_large_as_it_says() -> None:
    assert len(STATEMENTS) >= 400
    assert len(list(Base.registry.mappers)) >= 25
    assert len(REFUSED) <= 0.03 * len(ALL)
    assert set(QUICK) | set(REFUSED) <= set(ALL)


def test_statements_that_share_a_cache_key_are_one_statement() -> None:
    """SQLAlchemy keeps what it compiles by these keys."""
    written: dict[Any, str] = {}
    for statement in STATEMENTS.values():
        try:
            query = shape(statement).select
        except DualResponseError:
            continue
        key = query._generate_cache_key()
        assert key is not None
        sql = str(query.compile(dialect=aiosqlite.dialect()))
        assert written.setdefault(key.key, sql) == sql
