"""Every figure of a profile is what polars computes of the same rows, on each engine, and covers what it says."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from sqlalchemy import event, func, literal, select, union_all
from sqlalchemy.ext.asyncio import AsyncEngine

from dualsql import DualResponseServer
from dualsql.freeze.document import Statement
from dualsql_client.wire import ColumnProfile, Profile
from tests.profiles.conftest import SAMPLED
from tests.profiles.polars_figures import FREQUENT, counts_between, figures, read
from tests.profiles.things import COUNT, ROWS, WORDS, things

pytestmark = pytest.mark.quick(50, "sqlite")

Rows = Sequence[dict[str, Any]]


async def profiled(dual: DualResponseServer, statement: Statement, kind: str = "full") -> Profile:
    response = await dual.create_response(statement, name="things", profile=kind)  # type: ignore[arg-type]
    assert response.profile is not None
    resource = await dual.unchecked.get(response.resource_id)
    assert resource is not None
    assert await dual.profiles.profile(resource.id, None, kind=kind) == response.profile
    return response.profile


def assert_right(column: ColumnProfile, rows: Rows) -> None:
    """Each figure of the column is that of these rows."""
    values = [row[column["name"]] for row in rows]
    like = next((value for value in values if value is not None), None)
    expected = figures(values)
    assert column["missing"] == []
    kind = "approximate" if "estimated" in column else "exact"
    assert column["nulls"] == expected["nulls"]
    if "distinct" in column:
        assert (column["distinct"], column["distinct_kind"]) == (expected["distinct"], kind)
        _assert_frequent(column, expected["counts"], like)
    if "minimum" in column and not isinstance(like, str):
        range_ = (read(column["minimum"], like), read(column["maximum"], like))
        assert (
            range_ == pytest.approx((expected["minimum"], expected["maximum"]))
            if isinstance(like, float)
            else range_ == (expected["minimum"], expected["maximum"])
        )
    if "longest" in column:
        assert column["longest"] == expected.get("longest")
    if "histogram" in column:
        _assert_bins(column, values, like)


def _assert_frequent(column: ColumnProfile, counts: dict[Any, int], like: Any) -> None:
    shown = [(_known(read(each["value"], like), counts), each["count"]) for each in column["most_frequent"]]
    assert all(counts[value] == count for value, count in shown)
    top = sorted(counts.values(), reverse=True)[:FREQUENT]
    assert [count for _, count in shown] == [count for count in top if count > 1 or len(counts) <= FREQUENT]


def _known(value: Any, counts: dict[Any, int]) -> Any:
    """The value a shown text is the beginning of."""
    if isinstance(value, str) and value.endswith("…"):
        return next(known for known in counts if known.startswith(value[:-1]))
    return value


def _assert_bins(column: ColumnProfile, values: Sequence[Any], like: Any) -> None:
    bins = column["histogram"]
    edges = [(read(each["low"], like), read(each["high"], like)) for each in bins]
    assert len(bins) <= 10
    assert [each["count"] for each in bins] == counts_between(values, edges)
    assert sum(each["count"] for each in bins) == len([value for value in values if value is not None])


@pytest.mark.quick(1, "postgresql")
async def test_all_rows_on_every_engine(dual: DualResponseServer) -> None:
    profile = await profiled(dual, select(things))
    assert (profile["kind"], profile["complete"], profile["left_out"]) == ("full", True, 0)
    assert profile["covers"] == {"rows": COUNT, "of": "all"}
    assert [column["name"] for column in profile["columns"]] == list(things.c.keys())
    for column in profile["columns"]:
        assert column["covers"] == profile["covers"]
        if column["name"] in ("extra", "blob"):
            assert {"nulls"} == column.keys() - {"name", "type", "covers", "masked", "missing"}
        else:
            assert_right(column, ROWS)
    figures_of = {column["name"]: column for column in profile["columns"]}
    assert figures_of["word"]["distinct"] == len(WORDS), "'alpha' is not 'Alpha' on any of them"
    assert figures_of["word"]["longest"] == 150
    assert len(figures_of["small"]["histogram"]) == len(figures_of["price"]["histogram"]) == 10
    assert len(figures_of["constant"]["histogram"]) == 1
    assert figures_of["id"]["most_frequent"] == [], "each is as frequent as any other"


async def test_a_sample_is_the_first_rows_and_says_so(dual: DualResponseServer) -> None:
    profile = await profiled(dual, select(things).order_by(things.c.big), "sample")
    assert profile["covers"] == {"rows": SAMPLED, "of": "sample"}
    first = sorted(ROWS, key=lambda row: row["big"])[:SAMPLED]
    for column in profile["columns"]:
        if column["name"] not in ("extra", "blob"):
            assert_right(column, first)


async def test_a_sample_that_is_everything_covers_all(dual: DualResponseServer) -> None:
    profile = await profiled(dual, select(things).limit(SAMPLED - 1), "sample")
    assert profile["covers"] == {"rows": SAMPLED - 1, "of": "all"}


def _in_order(rows: Rows) -> Rows:
    return sorted(rows, key=lambda row: (row["constant"], -row["id"]))


SHAPES: dict[str, tuple[Statement, Callable[[], Rows]]] = {
    "the author's limit decides which rows": (
        select(things.c.id, things.c.small).order_by(things.c.id.desc()).limit(50).offset(10),
        lambda: sorted(ROWS, key=lambda row: -row["id"])[10:60],
    ),
    "distinct": (
        select(things.c.small).distinct(),
        lambda: [{"small": value} for value in {row["small"] for row in ROWS}],
    ),
    "groups": (
        select(things.c.tenant, func.count().label("rows"), func.min(things.c.born).label("first"))
        .group_by(things.c.tenant)
        .having(func.count() > 1),
        lambda: [
            {
                "tenant": tenant,
                "rows": len(own := [row for row in ROWS if row["tenant"] == tenant]),
                "first": min(row["born"] for row in own if row["born"]),
            }
            for tenant in ("acme", "zeta")
        ],
    ),
    "a union": (
        union_all(select(things.c.id, things.c.born), select(things.c.id, things.c.born)),
        lambda: [*ROWS, *ROWS],
    ),
    "no rows": (select(things.c.small, things.c.word).where(things.c.id < 0), list),
    "a bound value": (
        select(things.c.id, literal(5).label("five")),
        lambda: [{**row, "five": 5} for row in ROWS],
    ),
}


@pytest.mark.quick(4, "sqlite")
@pytest.mark.parametrize("name", SHAPES)
async def test_whatever_the_statement_is(dual: DualResponseServer, name: str) -> None:
    statement, rows = SHAPES[name]
    profile = await profiled(dual, statement)
    assert profile["covers"]["rows"] == len(rows())
    for column in profile["columns"]:
        assert_right(column, rows())


async def test_an_average_has_no_type_and_is_a_number_all_the_same(dual: DualResponseServer) -> None:
    averages = select(things.c.small, func.avg(things.c.id).label("mean")).group_by(things.c.small)
    mean = (await profiled(dual, averages))["columns"][1]
    assert mean["missing"] == []
    assert 0 < float(mean["minimum"]) < float(mean["maximum"]) < COUNT
    assert sum(each["count"] for each in mean["histogram"]) == len({row["small"] for row in ROWS})


async def test_one_pass_and_one_statement_for_each_column_s_values(
    dual: DualResponseServer, engine: AsyncEngine
) -> None:
    response = await dual.create_response(select(things), name="things")
    resource = await dual.unchecked.get(response.resource_id)
    assert resource is not None
    statements: list[str] = []

    def note(_connection: Any, _cursor: Any, sql: str, *_: Any) -> None:
        if "things" in sql:
            statements.append(sql)

    event.listen(engine.sync_engine, "before_cursor_execute", note)
    try:
        await dual.profiles.profile(resource.id, None, kind="full")
    finally:
        event.remove(engine.sync_engine, "before_cursor_execute", note)
    frequent = [sql for sql in statements if "counted_values" in sql]
    assert len(statements) - len(frequent) == 1
    assert len(frequent) == len(things.c) - 2, "for all but the document and the bytes"
