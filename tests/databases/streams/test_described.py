"""No row leaves a stream backend unless the database returns the described columns: as many, under their names."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import literal_column, select
from sqlalchemy.ext.asyncio import AsyncEngine

from dualsql import NotFreezableError, QueryExecutionError, Registry, plan
from dualsql.columns.result import ResultColumn, driver_names
from dualsql.databases.driver import require_described
from dualsql.databases.fetch import Fetch
from dualsql.databases.source import Source, open_source
from dualsql.formats.table import FORMATS
from dualsql.formats.writer import Rows
from dualsql.tenancy import Policy
from tests.databases.streams.everything import backends_taken
from tests.databases.streams.reading import streamed
from tests.schools import Base, School, fill
from tests.servers import create_server

Change = Callable[[Sequence[ResultColumn]], Sequence[ResultColumn]]
CHANGES: dict[str, Change] = {
    "one too few": lambda columns: columns[:-1],
    "one too many": lambda columns: [*columns, columns[-1]],
    "in another order": lambda columns: columns[::-1],
}
ROWS = plan.shape(
    plan.written_out(School.__table__.select().with_only_columns(School.id, School.name, School.state))
)
RULES = Policy(Registry(Base)).rules_for(None)
MINUTE = timedelta(minutes=1)

of_each_change = pytest.mark.parametrize("change", CHANGES)


@pytest.fixture
async def source(source_url: str, make_engine: Callable[[str], AsyncEngine]) -> AsyncIterator[Source]:
    await fill(make_engine(source_url))
    source = open_source("x", source_url, Registry(Base))
    yield source
    await source.close()


@pytest.mark.quick(2)
@of_each_change
@pytest.mark.parametrize("is_slow", [False, True], ids=["fast", "by SQLAlchemy"])
async def test_a_stream_of_other_columns_sends_nothing(source: Source, change: str, is_slow: bool) -> None:
    columns = CHANGES[change](ROWS.columns)
    for format_name in FORMATS:
        with backends_taken(slow=is_slow), pytest.raises(QueryExecutionError, match="of the result"):
            await streamed(source, ROWS.select, RULES, columns, format_name)


@pytest.mark.quick(2)
@of_each_change
async def test_a_page_of_other_columns_is_not_read(source: Source, change: str) -> None:
    wrong = driver_names(CHANGES[change](ROWS.columns))
    right = driver_names(ROWS.columns)
    # The second page of a file is read on the event loop.
    for _ in range(3):
        with pytest.raises(QueryExecutionError, match="No row was sent"):
            await page_rows(source, wrong)
        assert len(await page_rows(source, right)) > 3


async def page_rows(source: Source, described: Sequence[str]) -> Rows:
    return await Fetch(
        source=source, select=lambda: ROWS.select, rules=RULES, described=described, timeout=MINUTE
    ).rows()


@pytest.mark.parametrize(
    ("found", "described"),
    [
        (["id"], ["id"]),
        (["ID"], ["id"]),
        (["count_1"], [""]),
        (["school_id"], ["id"]),
        (["id_2"], ["id_3"]),
        (["x" * 63], ["x" * 80]),
        (["é" * 31], ["é" * 40]),
        (["x" * 57 + "_1a"], ["x" * 80]),
    ],
)
def test_what_databases_and_sqlalchemy_make_of_a_name_is_no_difference(found: Any, described: Any) -> None:
    require_described(found, described)


@pytest.mark.parametrize(("found", "described"), [(["id"], []), (["name"], ["id"]), (["idol"], ["id"])])
def test_another_name_is_one(found: Any, described: Any) -> None:
    with pytest.raises(QueryExecutionError):
        require_described(found, described)


async def test_a_literal_column_that_is_no_single_column_is_named(source: Source) -> None:
    server = create_server(source.engine, base_url="http://127.0.0.1/resources", tables=Base, allow_text=True)
    async with server:
        for written in ("schools.*", '"schools".*'):
            with pytest.raises(NotFreezableError, match=r"columns that are not known") as refused:
                await server.create_response(select(School.id, literal_column(written)), name="x")
            assert "select(table)" in refused.value.hint
        with pytest.raises(QueryExecutionError) as error:
            await server.create_response(select(School.id, literal_column("name, state")), name="x")
        assert "literal_column()" in error.value.developer_hint
