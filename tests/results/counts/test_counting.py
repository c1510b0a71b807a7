"""Every way to count, on every engine: exact is the number of rows, all else says what it is."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from functools import reduce
from typing import Any

import pytest
from sqlalchemy import create_engine, event, func, literal, or_, select, text, union
from sqlalchemy.ext.asyncio import AsyncEngine
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from dualsql import DualResponse, DualResponseServer, PageRequest, QueryTimeoutError
from dualsql.databases.fetch import Following, fetch_sample
from dualsql.databases.source import Source
from dualsql.errors import CountExecutionError
from dualsql.freeze.document import Statement
from dualsql.plan import count, shape
from dualsql.resource import CountMethod, Total, parse_count
from tests.databases.kinds import SLOW as SLOW_EVERYWHERE
from tests.quick import case_of
from tests.results.counts.conftest import MANY, events
from tests.results.counts.counting import MINUTE, counter, first_rows, sampled
from tests.schools import Program, School
from tests.statements import POSTGRESQL_ONLY, STATEMENTS, TEXT
from tests.waiting import PATIENCE, until

pytestmark = pytest.mark.quick(50, "sqlite")

ALL = {**STATEMENTS, **POSTGRESQL_ONLY, **TEXT}


class Own(DeclarativeBase):
    pass


class Person(Own):
    __tablename__ = "people"
    __mapper_args__ = {"polymorphic_on": "kind", "polymorphic_identity": "person"}
    id: Mapped[int] = mapped_column(primary_key=True)
    kind: Mapped[str]


class Manager(Person):
    __mapper_args__ = {"polymorphic_identity": "manager"}
    budget: Mapped[int | None]


_rank = func.row_number().over(order_by=School.enrollment)
MORE: dict[str, Statement] = {
    "no rows": select(School.id).where(School.id < 0),
    "author's limit of nothing": select(School.id).limit(0),
    "offset beyond the end": select(School.id).limit(5).offset(1_000),
    "limit of a union of equals": select(School.state).union_all(select(School.state)).limit(30),
    "distinct under a window": select(School.state, _rank).distinct(),
    "an aggregate in a window": select(func.sum(func.count()).over()).select_from(School),
    "an aggregate beside a window": select(func.count(), func.row_number().over()).select_from(School),
    "a window alone": select(func.count().over()).select_from(School),
    "words that stand in no subquery": reduce(
        lambda statement, word: statement.prefix_with(word, dialect="mysql"),
        ("HIGH_PRIORITY", "SQL_BUFFER_RESULT", "SQL_NO_CACHE", "SQL_CALC_FOUND_ROWS"),
        select(School.id),
    ),
    "a word before DISTINCT": select(School.state).prefix_with("SQL_NO_CACHE", dialect="mysql").distinct(),
}


def cases() -> Iterator[Any]:
    for number, name in enumerate([*ALL, *MORE]):
        yield case_of(name, is_long=number % 4 != 0 and name in ALL)


@pytest.mark.quick(2, "sqlite")
@pytest.mark.parametrize("name", list(cases()))
async def test_exact_is_the_number_of_rows_and_a_cap_is_right_at_its_edges(
    dual: DualResponseServer, engine: AsyncEngine, name: str
) -> None:
    if name in POSTGRESQL_ONLY and engine.dialect.name != "postgresql":
        return  # there are no words for it
    statement = {**ALL, **MORE}[name]

    async def total(how: str) -> Total:
        response = await dual.create_response(statement, name=name, sample_size=0, count=how)
        return Total(response.total_count, response.total_count_kind)

    async with engine.connect() as connection:
        rows = len((await connection.execute(statement)).all())
    assert await total("exact") == await total("auto") == Total(rows, "exact")
    for cap in range(max(rows - 1, 1), rows + 2):
        capped = Total(cap, "capped") if cap < rows else Total(rows, "exact")
        assert await total(f"capped:{cap}") == capped


async def test_an_aggregate_in_the_order_makes_one_row(dual: DualResponseServer, engine: AsyncEngine) -> None:
    if engine.dialect.name != "mysql":  # the others refuse it
        return
    response = await dual.create_response(select(School.id).order_by(func.count()), name="One", sample_size=0)
    assert response.total_count == 1


async def test_what_cannot_change_the_number_is_not_computed() -> None:
    ranked = select(School.id, _rank.label("rank")).order_by(School.name)
    text = str(count(shape(ranked)))
    assert "OVER" not in text
    assert "ORDER BY" not in text
    assert "ORDER BY" not in str(count(shape(STATEMENTS["author's own limit"])))
    filtered = select(School.id, func.sum(School.id).filter(School.id > 1).over().label("sum"))
    assert "OVER" not in str(count(shape(filtered)))
    elsewhere = select(School.id, func.max(Program.level).over().label("level"))
    assert "programs" in str(count(shape(elsewhere))), "a table that only a window reads multiplies the rows"
    of_a_class = select(Person.id, func.row_number().over(order_by=Manager.budget))
    assert "kind IN" in str(count(shape(of_a_class))), "a class that only a window reads has a condition"


async def test_an_estimate_says_so(dual: DualResponseServer, engine: AsyncEngine) -> None:
    everything = await dual.create_response(select(events), name="Events", count="estimated")
    if engine.dialect.name == "sqlite":  # its statistics say nothing of a statement
        assert (everything.total_count, everything.total_count_kind) == (10_000, "capped")
        assert "showing 15 of more than 10,000 rows" in everything.to_text()
        return
    assert everything.total_count_kind == "estimated"
    assert everything.total_count is not None and 10_000 < everything.total_count < 15_000
    assert "of about 12,000 rows (an estimate)" in everything.to_text()
    assert everything.to_structured_content()["metadata"]["total_count_kind"] == "estimated"
    resource = await dual.unchecked.get(everything.resource_id)
    assert resource is not None and resource.total_count_kind == "estimated"
    page = await dual.unchecked.read_page(resource, None, PageRequest(offset=20, limit=10))
    assert (page.total_count, page.total_count_kind) == (everything.total_count, "estimated")
    last = await dual.unchecked.read_page(resource, None, PageRequest(offset=MANY - 5, limit=10))
    assert (last.total_count, last.total_count_kind) == (MANY, "exact")


async def test_merged_rows_are_counted_and_not_estimated(dual: DualResponseServer) -> None:
    """A planner's guess of groups was a thousand times wrong."""
    seventh = (events.c.id % 7).label("seventh")
    merged = (
        select(seventh).distinct(),
        select(seventh, func.count().label("n")).group_by(seventh),
        union(select(seventh), select((events.c.id % 5).label("seventh"))),
        select(select(seventh).distinct().subquery()),
    )
    for statement in merged:
        for how in ("estimated", "auto"):
            response = await dual.create_response(statement, name="x", sample_size=2, count=how)
            assert (response.total_count, response.total_count_kind) == (7, "exact")


@pytest.mark.parametrize(
    "name", ["aggregate", "union", "joined common table expression", "author's own limit"]
)
async def test_an_estimate_never_stands_as_a_count(dual: DualResponseServer, name: str) -> None:
    response = await dual.create_response(ALL[name], name="x", sample_size=2, count="estimated")
    rows = await dual.create_response(ALL[name], name="x", sample_size=2, count="exact")
    assert response.total_count_kind != "exact" or response.total_count == rows.total_count


async def test_a_sample_that_is_everything_is_exact_however_it_is_counted(dual: DualResponseServer) -> None:
    for how in ("exact", "estimated", "capped:1", "none", "auto"):
        response = await dual.create_response(select(School.id).where(School.id <= 7), name="x", count=how)
        assert (response.total_count, response.total_count_kind) == (7, "exact")


async def test_nothing_is_counted_when_nothing_is_asked(dual: DualResponseServer) -> None:
    response = await dual.create_response(select(School.id), name="x", count="none", sample_size=15)
    assert (response.total_count, response.total_count_kind) == (None, "none")
    assert "more than 15 rows (not counted)" in response.to_text()


_numbers = select(literal(1).label("n")).cte("endless", recursive=True)
ENDLESS = select(_numbers.union_all(select(_numbers.c.n + 1)).c.n)


SLOW = select(func.count().label("n")).select_from(ENDLESS.subquery())


@pytest.mark.parametrize("how", ["auto", "estimated"])
async def test_whoever_does_not_insist_is_not_kept_waiting(
    source: Source, engine: AsyncEngine, how: Any
) -> None:
    if engine.dialect.name == "mysql":  # which ends recursion by itself, after a thousand steps
        return
    began = time.monotonic()
    total = await counter(source, ENDLESS).total(CountMethod(how))
    assert time.monotonic() - began < 10
    assert total.kind in {"capped", "estimated"}
    assert total.kind == "estimated" or total.rows == 10_000
    await assert_idle(source, engine)


async def test_what_cannot_be_counted_in_time_is_not_counted(source: Source, engine: AsyncEngine) -> None:
    if engine.dialect.name == "mysql":
        return
    slow = counter(source, SLOW.union_all(SLOW), count_budget=timedelta(milliseconds=50))
    total = await slow.total(CountMethod("auto"))
    assert total.kind in {"none", "estimated"}
    await assert_idle(source, engine)


async def test_whoever_insists_waits_as_long_as_a_query_may(source: Source, engine: AsyncEngine) -> None:
    if engine.dialect.name == "mysql":
        return
    with pytest.raises(QueryTimeoutError):
        await counter(source, ENDLESS, query_timeout=timedelta(milliseconds=200)).total(CountMethod("exact"))
    await assert_idle(source, engine)


FEW = select(School.id).order_by(School.id)
LATE = select(School.id).where(or_(School.id <= 20, SLOW_EVERYWHERE.scalar_subquery() < 0))
"""Its first rows are there at once, and its last in years."""


@pytest.mark.parametrize("how", ["exact", "auto", "capped:10"])
async def test_a_sample_and_its_count_run_in_one_session(source: Source, how: str) -> None:
    """Where their limits are the same, nothing is sent between them."""
    sessions: list[Any] = []
    sent: list[str] = []

    def note_session(*arguments: Any) -> None:
        sessions.append(arguments)

    def note_statement(*arguments: Any) -> None:
        sent.append(arguments[2])

    engine = source.engine.sync_engine
    event.listen(engine.pool, "checkout", note_session)
    event.listen(engine, "before_cursor_execute", note_statement)
    try:
        sample = await sampled(source, FEW, how, query_timeout=MINUTE, count_budget=MINUTE / 2)
    finally:
        event.remove(engine.pool, "checkout", note_session)
        event.remove(engine, "before_cursor_execute", note_statement)
    total = await counter(source, FEW, count_budget=MINUTE).total(parse_count(how))
    assert (len(sample.rows), sample.total) == (5, total)
    assert len(sessions) == 1
    is_set = how == "auto" and engine.dialect.name != "sqlite"
    first, last = (number for number, sql in enumerate(sent) if "schools" in sql)
    assert [sql.split()[0] for sql in sent[first + 1 : last]] == ["SET"] * is_set


async def test_a_count_whose_session_was_ended_runs_in_another_one(
    source: Source, engine: AsyncEngine
) -> None:
    if engine.dialect.name != "postgresql":
        return
    counting, begun = counter(source, FEW, count_head_start=MINUTE), list[int | None]()
    url = engine.url.set(drivername="postgresql+psycopg")
    end_others = text(
        "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity "
        "WHERE datname = current_database() AND pid <> pg_backend_pid() AND state LIKE 'idle in%'"
    )

    def counts(cap: int | None) -> Any:
        begun.append(cap)
        if len(begun) == 1:
            operator = create_engine(url)
            with operator.connect() as connection:
                assert connection.execute(end_others).all() == [(True,)]
            operator.dispose()
        return counting.counting(cap)

    sample = first_rows(counting, FEW)
    total = (
        await fetch_sample(sample, counting._replace(counting=counts), CountMethod("exact"), size=5)
    ).total
    assert (total, len(begun)) == (await counting.total(CountMethod("exact")), 2)


async def counts_begun(source: Source, statement: Any, **settings: Any) -> int:
    """How many counts are begun for a sample of five rows, whatever becomes of them."""
    counting, begun = counter(source, statement, **settings), list[int | None]()

    def counts(cap: int | None) -> Any:
        begun.append(cap)
        return counting.counting(cap)

    sample = first_rows(counting, statement)
    with suppress(QueryTimeoutError):
        await fetch_sample(sample, counting._replace(counting=counts), CountMethod("exact"), size=5)
    return len(begun)


async def test_a_slow_sample_is_counted_once_beside_it(source: Source) -> None:
    sessions: list[Any] = []
    event.listen(source.engine.sync_engine.pool, "checkout", note := lambda *_: sessions.append(_))
    try:
        assert await counts_begun(source, FEW, count_head_start=timedelta(0)) == 1
    finally:
        event.remove(source.engine.sync_engine.pool, "checkout", note)
    assert len(sessions) == 2


async def test_a_slow_count_is_counted_once_behind_the_sample(source: Source, engine: AsyncEngine) -> None:
    if engine.dialect.name == "sqlite":
        limits = {"count_head_start": timedelta(seconds=2), "query_timeout": timedelta(seconds=3)}
        assert await counts_begun(source, LATE, **limits) == 1


async def test_a_count_that_is_too_slow_leaves_the_sample(source: Source, engine: AsyncEngine) -> None:
    sample = await sampled(source, LATE, "auto", count_budget=timedelta(milliseconds=50))
    assert len(sample.rows) == 5
    assert sample.total.kind in {"none", "capped", "estimated"}
    await assert_idle(source, engine)


async def test_an_exact_count_that_is_too_slow_is_an_error(source: Source, engine: AsyncEngine) -> None:
    with pytest.raises(QueryTimeoutError):
        await sampled(source, LATE, "exact", query_timeout=timedelta(milliseconds=500))
    await assert_idle(source, engine)


async def test_a_count_that_fails_is_an_error_of_the_count(source: Source, engine: AsyncEngine) -> None:
    if engine.dialect.name != "postgresql":  # the others divide by zero
        return
    zero = select(School.id).where(or_(School.id <= 20, 1 / (School.id - School.id) > 0))
    with pytest.raises(CountExecutionError):
        await sampled(source, zero, "exact")
    assert len((await sampled(source, zero, "none")).rows) == 5
    await assert_idle(source, engine)


async def test_who_leaves_stops_the_count_behind_the_sample(source: Source, engine: AsyncEngine) -> None:
    counting = counter(source, LATE, count_head_start=MINUTE)
    begun = asyncio.Event()

    def counts(cap: int | None) -> Any:
        begun.set()
        return counting.counting(cap)

    sampling = asyncio.ensure_future(
        fetch_sample(
            first_rows(counting, LATE), counting._replace(counting=counts), parse_count("exact"), size=5
        )
    )
    async with asyncio.timeout(PATIENCE):
        await begun.wait()
    assert source.limits.queries.used == 1
    sampling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await sampling
    await assert_idle(source, engine)


async def test_both_are_of_one_transaction_and_one_backend(source: Source, engine: AsyncEngine) -> None:
    if engine.dialect.name != "postgresql":
        return
    pid, began = func.pg_backend_pid().label("pid"), func.now().label("began")
    statement = LATE.add_columns(pid, began)
    counting = counter(source, statement)
    sample, read = first_rows(counting, statement), list[Any]()

    def is_counted(rows: Any) -> bool:
        read.extend(rows)
        return True

    sample.following = Following(counting.fetch(CountMethod("exact")), is_counted)
    sampling = asyncio.ensure_future(sample.rows())
    running = text(
        "SELECT pid, xact_start FROM pg_stat_activity WHERE query LIKE '%count(%slow_8%'"
        " AND state = 'active' AND pid <> pg_backend_pid()"
    )

    async def counted() -> Any:
        async with engine.connect() as connection:
            return (await connection.execute(running)).all()

    [backend] = await until(counted, bool)
    sampling.cancel()
    await asyncio.wait({sampling})
    assert {tuple(row[1:]) for row in read} == {tuple(backend)}
    await assert_idle(source, engine)


async def assert_idle(source: Source, engine: AsyncEngine) -> None:
    """No statement runs any longer, in the database, and no connection is out."""
    await asyncio.gather(*source.finishing)
    async with engine.connect() as connection:
        if engine.dialect.name == "postgresql":
            running = (
                "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query ~ 'endless|slow_8'"
            )
            async with asyncio.timeout(PATIENCE):
                while await connection.scalar(text(running + " AND pid <> pg_backend_pid()")):
                    await connection.rollback()
        # SQLite's connection is one thread: it answers when nothing runs there.
        assert await connection.scalar(text("SELECT 1")) == 1
    assert source.engine.pool.checkedout() == 0  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "asked", ["", "capped", "capped:", "capped:0", "capped:-1", "capped:1e3", "capped:٣"]
)
def test_words_that_say_nothing(asked: str) -> None:
    from dualsql import BadParameterError

    with pytest.raises(BadParameterError):
        parse_count(asked)


async def test_the_text_of_a_cap(dual: DualResponseServer) -> None:
    response = await dual.create_response(select(events), name="Events", count="capped:10000")
    assert "showing 15 of more than 10,000 rows" in response.to_text()
    assert isinstance(response, DualResponse)
    small = await dual.create_response(select(events), name="Events", count="capped:5", sample_size=15)
    assert "showing 15 of more than 15 rows" in small.to_text(), "more than what is shown was seen"
