"""MariaDB and DuckDB answer what plain execution answers: rows, names, pages, formats, and questions of each column."""

from __future__ import annotations

from collections import Counter
from typing import Any

import orjson
import pytest
from sqlalchemy import (
    Select,
    String,
    case,
    distinct,
    except_,
    exists,
    func,
    intersect,
    literal,
    select,
    union,
    union_all,
)
from sqlalchemy.orm import aliased

from dualsql import plan
from dualsql.databases.session import read_only
from dualsql.databases.source import Source
from dualsql.formats.table import FORMATS
from tests.databases.kinds import MakeServer
from tests.databases.streams.reading import read
from tests.databases.test_drivers import answered, asked
from tests.schools import Program, School

Other = aliased(School, name="other")
_few = select(School.id, School.state).where(School.id < 9)
_cte = select(School.state, func.count().label("n")).group_by(School.state).cte("by_state")

# Whole numbers and texts alone: they are in JSON what they are in Python.
STATEMENTS: dict[str, Any] = {
    "distinct function": select(distinct(School.enrollment).label("enrollment")),
    "distinct method": select(School.enrollment.distinct().label("enrollment")),
    "distinct prefix": select(School.enrollment).prefix_with("DISTINCT"),
    "distinct texts": select(School.state).distinct(),
    "distinct aggregates": select(func.count(distinct(School.state)).label("n"), func.count().label("rows")),
    "join without ON": select(School.name, Program.field).join(Program),
    "chain": select(Program.field, Other.name).join(Program.school).join(Other, Other.id == School.id),
    "outer": select(School.id, Program.field, Program.level).outerjoin(School.programs),
    "self": select(School.id, Other.id.label("other")).join(Other, Other.id == School.id + 1),
    "columns of one name": select(School.id, Program.school_id, Program.level).join(School.programs),
    "union": union(_few, select(School.id, School.name)),
    "union all": union_all(_few, _few),
    "intersect": intersect(_few, select(School.id, School.state).where(School.id > 3)),
    "except": except_(_few, select(School.id, School.state).where(School.id > 3)),
    "cte": select(School.id, _cte.c.n).join(_cte, _cte.c.state == School.state),
    "exists": select(School.id).where(exists().where(Program.school_id == School.id)),
    "scalar": select(
        School.id,
        select(func.count()).where(Program.school_id == School.id).scalar_subquery().label("programs"),
    ),
    "case": select(School.id, case((School.enrollment > 100, "big"), else_="small").label("size")),
    "coalesce": select(School.id, func.coalesce(School.enrollment, -1).label("enrollment")),
    "arithmetic": select(School.id, (School.id % 7).label("rest"), (-School.id).label("minus")),
    "texts": select(
        School.id, (School.name + "é%'").label("name"), func.upper(School.name, type_=String).label("upper")
    ),
    "literals": select(School.id, literal("a\\b").label("text"), literal(2**40).label("big")),
    "descending": select(School.id, School.state).order_by(School.state.desc(), School.id),
    "cut": select(School.id, School.name).order_by(School.name, School.id).limit(9).offset(2),
    "in": select(School.id, School.state).where(School.state.in_(["NJ", "PA"])),
}


# SQLAlchemy warns of DISTINCT as a column's word, and of tables that are joined by nothing.
@pytest.mark.long
@pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SAWarning")
@pytest.mark.parametrize("driver", ["asyncmy", "duckdb"], indirect=True)
async def test_every_statement_and_every_question(make_server: MakeServer) -> None:
    server = await make_server()
    wrong: dict[str, Any] = {}
    async with asked(server) as http:
        for name, statement in STATEMENTS.items():
            response = await server.create_response(statement, name=name)
            path = f"/resources/{response.resource_id}"
            rows = await _pages(http, path)
            if Counter(map(str, rows)) != Counter(
                map(str, await _plain(server.parts.sources["default"], statement))
            ):
                wrong[name] = f"not the rows of plain execution: {rows[:2]}"
            columns = plan.shape(statement).columns
            streams = {form: await answered(http, f"{path}/rows", {"format": form}) for form in FORMATS}
            tables = {form: read(form, answer.content, columns) for form, answer in streams.items()}
            differing = [form for form in FORMATS if tables[form] != tables["json"]]
            if differing or orjson.loads(streams["json"].content) != rows:
                wrong[name] = f"streams differ: {differing}"
            for column in rows[0]:
                wrong |= await _questions(http, path, name, column, [row[column] for row in rows])
    assert wrong == {}


async def _pages(http: Any, path: str) -> list[dict[str, Any]]:
    """The rows of all pages, joined."""
    rows: list[dict[str, Any]] = []
    page: dict[str, Any] = {"has_next": True}
    while page["has_next"]:
        page = (await answered(http, path, {"limit": 7, "offset": len(rows)})).json()
        rows += page["data"]
    assert page["total_count"] == len(rows)
    return rows


async def _plain(source: Source, statement: Select[Any]) -> list[dict[str, Any]]:
    """What SQLAlchemy gives."""
    async with read_only(source, None) as connection:
        return [dict(row._mapping) for row in await connection.execute(statement)]


async def _questions(http: Any, path: str, name: str, column: str, values: list[Any]) -> dict[str, str]:
    """What a filter by a value that is shown, and groups of the column, answer wrongly."""
    wrong = {}
    value = next((value for value in values if value is not None), None)
    if value is not None:
        equal = {"filters": [{"column": column, "op": "eq", "value": value}], "limit": 100}
        actual = (await answered(http, f"{path}/query", equal)).json()["data"]
        if len(actual) != values.count(value):
            wrong[f"{name}, {column} = {value!r}"] = f"{len(actual)} rows of {values.count(value)}"
    grouped = await http.post(
        f"{path}/query", json={"group_by": [column], "aggregates": ["count"], "limit": 100}
    )
    if grouped.status_code != 200:
        assert grouped.status_code == 400 and "value of" in grouped.json()["message"], grouped.text
    elif {row[column]: row["count"] for row in grouped.json()["data"]} != Counter(values):
        wrong[f"{name}, by {column}"] = str(grouped.json()["data"][:3])
    return wrong
