"""Columns whose values an application's own types make: shown alike everywhere, and asked rightly or not at all."""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy import Column, Integer, MetaData, Table, insert, select

from dualsql import DualResponse, Registry, ValueNotRepresentableError
from dualsql_client import DualResponseClient, FetchError
from tests import engines
from tests.columns.own_types import types as own
from tests.columns.own_types.columns import CASES, METADATA, ROWS, TABLE, Case
from tests.columns.own_types.shown import comparable, plain
from tests.columns.own_types.types import Money
from tests.http.application import BASE_URL, Application, running

pytestmark = pytest.mark.quick(25, "sqlite")

REFUSALS = frozenset({"BAD_PARAMETER", "FORBIDDEN_SQL", "INVALID_SQL"})
_ENGINES = ("sqlite", "postgresql")


@pytest.fixture(scope="module", params=_ENGINES)
def url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    if request.param == "sqlite":
        yield engines.sqlite_url_in(tmp_path_factory.mktemp("own"))
        return
    with request.getfixturevalue("postgresql_server").database() as database:
        yield database


@pytest.fixture(scope="module")
async def application(anyio_backend: str, url: str) -> AsyncIterator[Application]:
    async with engines.opened(url) as engine, engine.begin() as connection:
        await connection.run_sync(METADATA.create_all)
        await connection.execute(insert(TABLE), ROWS)
    registry = Registry(
        METADATA, converters={Money: Money.shown}, comparable=[own.SortedMicroseconds, own.SortedDayNumber]
    )
    async with running(url, tables=registry) as server:
        yield server


@pytest.fixture(scope="module")
async def created(application: Application) -> DualResponse:
    return await application.server.create_response(select(TABLE).order_by(TABLE.c.id), name="own")


@pytest.fixture(scope="module")
def result(application: Application, created: DualResponse) -> Any:
    client = DualResponseClient(BASE_URL, http=application.http)
    return client.parse(created.to_mcp_tool_result(), strict=True)


def _cases() -> Iterator[pytest.ParameterSet]:
    """All of them; two in three are long."""
    for number, case in enumerate(CASES):
        yield pytest.param(case, id=case.name, marks=[pytest.mark.long] if number % 3 else [])


@pytest.fixture(params=_cases())
def case(request: pytest.FixtureRequest) -> Case:
    actual: Case = request.param
    return actual


def shown(case: Case) -> list[Any]:
    """The values of the five rows as the type shows them."""
    bare = case.name in ("stripped", "shouted", "rounded")
    changed: Callable[[Any], Any] = getattr(case.type, "show", None) or (lambda value: value.upper())
    if case.name == "shouted":
        changed = str.upper
    return [value if value is None or not bare else changed(value) for value in case.values]


async def answered(asked: Any) -> Any:
    """The answer; None for a refusal in words."""
    try:
        return await asked
    except FetchError as error:
        if error.code not in REFUSALS:
            raise
        return None


def judge(case: Case, ability: str, found: Any, wanted: Any) -> None:
    """The answer is right, or it was refused and need not be given."""
    assert found is not None or ability not in case.answers, f"{ability} is refused"
    if found is not None:
        assert found == wanted


# --- what is shown ---------------------------------------------------------------------------------------------


@pytest.mark.quick(4, "sqlite")
async def test_json_shows_what_the_type_shows(result: Any, created: DualResponse, case: Case) -> None:
    wanted = [plain(value) for value in shown(case)]
    announced = {column["name"]: column["encoding"] for column in created.columns}
    assert announced[case.name] == case.encoding
    assert [row[case.name] for row in created.sample] == wanted
    assert [row[case.name] for row in (await result.fetch(limit=10)).data] == wanted
    assert [row[case.name] for row in await result.fetch_all(columns=["id", case.name])] == wanted


async def test_csv_shows_the_same(application: Application, created: DualResponse, case: Case) -> None:
    parameters = {"format": "csv", "columns": ["id", case.name]}
    answer = await application.http.post(f"/resources/{created.resource_id}/rows", json=parameters)
    assert answer.status_code == 200, answer.text
    cells = [row[1] for row in csv.reader(io.StringIO(answer.text))][1:]
    assert cells == [_cell(plain(value), case) for value in shown(case)]


def _cell(value: Any, case: Case) -> str:
    if value is None:
        return ""
    is_text = isinstance(value, str) and case.encoding != "json"
    return value if is_text else json.dumps(value, separators=(",", ":"))


_AS_TEXT = frozenset({"json", "any"})


@pytest.mark.quick(4, "sqlite")
async def test_arrow_and_the_client_give_the_values_themselves(result: Any, case: Case) -> None:
    typed = [row[case.name] for row in await result.fetch_all(typed=True, columns=["id", case.name])]
    table = (await result.to_arrow(columns=["id", case.name]))[case.name].to_pylist()
    wanted = shown(case)
    if case.encoding in _AS_TEXT:
        assert typed == [plain(value) for value in wanted]
        assert table == [None if value is None else _cell(value, case) for value in typed]  # the text of CSV
    else:
        values = [plain(value) if case.encoding == "text" else value for value in wanted]
        assert typed == values
        assert table == [plain(value) if case.encoding in ("uuid", "decimal") else value for value in values]


# --- what is asked ---------------------------------------------------------------------------------------------


async def _ids(result: Any, condition: dict[str, Any]) -> list[int] | None:
    page = result.query(filters=condition, columns=["id"], limit=100)
    answer = await answered(page)
    return None if answer is None else sorted(row["id"] for row in answer.data)


def _given(case: Case) -> list[Any]:
    """Values to be asked for: those that are shown, as JSON has them."""
    return [value for value in shown(case)[:3] if not isinstance(plain(value), dict | list)]


@pytest.mark.quick(2, "sqlite")
async def test_equality_finds_what_is_shown(result: Any, case: Case) -> None:
    values = shown(case)
    for value in _given(case):
        wanted = [number for number, each in enumerate(values, start=1) if each is not None and each == value]
        others = [number for number, each in enumerate(values, start=1) if each is not None and each != value]
        for operator, rows, given in (
            ("eq", wanted, plain(value)),
            ("in", wanted, [plain(value)]),
            ("ne", others, plain(value)),
        ):
            actual = await _ids(result, {"column": case.name, "op": operator, "value": given})
            judge(case, "equal", actual, rows)


async def test_ranges_are_those_of_what_is_shown(result: Any, case: Case) -> None:
    values = shown(case)
    for value in _given(case):
        for operator, holds in (("lt", lambda a, b: a < b), ("ge", lambda a, b: a >= b)):
            actual = await _ids(result, {"column": case.name, "op": operator, "value": plain(value)})
            if actual is None:
                assert "range" not in case.answers
                continue
            pairs = [
                (number, comparable(one)) for number, one in enumerate(values, start=1) if one is not None
            ]
            assert actual == [number for number, one in pairs if holds(one, comparable(value))]


async def test_sorting_is_by_what_is_shown(result: Any, case: Case) -> None:
    values = shown(case)
    asked = result.fetch(limit=10, sort={"field": case.name, "order": "asc"})
    answer = await answered(asked)
    page = None if answer is None else [row["id"] for row in answer.data]
    if page is None:
        assert "sort" not in case.answers
        return
    keyed = [(number, comparable(value)) for number, value in enumerate(values, start=1)]
    known = sorted((pair for pair in keyed if pair[1] is not None), key=lambda pair: (pair[1], pair[0]))
    assert page == [number for number, _ in known] + [5]
    rows = await result.fetch_all(sort={"field": case.name, "order": "asc"}, columns=["id"])
    assert [row["id"] for row in rows] == page


@pytest.mark.quick(4, "sqlite")
async def test_groups_are_of_what_is_shown(result: Any, case: Case) -> None:
    wanted = Counter(json.dumps(plain(value)) for value in shown(case))
    answer = await answered(result.query(group_by=[case.name], aggregates=["count"]))
    groups = None if answer is None else [(json.dumps(row[case.name]), row["count"]) for row in answer.data]
    judge(case, "group", groups and sorted(groups), sorted(wanted.items()))
    asked = [{"function": "count_distinct", "column": case.name, "as": "n"}]
    counted = await answered(result.query(aggregates=asked))
    judge(case, "group", counted and counted.data[0]["n"], len(wanted) - 1)


@pytest.mark.quick(30, "sqlite")
@pytest.mark.parametrize("function", ["min", "max", "sum", "avg"])
async def test_figures_are_of_what_is_shown(result: Any, case: Case, function: str) -> None:
    answer = await answered(result.query(aggregates=[{"function": function, "column": case.name, "as": "n"}]))
    ability = "extremes" if function in ("min", "max") else "sum"
    if answer is None:
        assert ability not in case.answers
        return
    known = [value for value in shown(case) if value is not None]
    if ability == "extremes":
        chosen = (min if function == "min" else max)(known, key=comparable)
        assert _instant(answer.data[0]["n"]) == _instant(plain(chosen))
    else:
        total = sum(known) if function == "sum" else sum(known) / len(known)
        assert float(answer.data[0]["n"]) == pytest.approx(float(total))


def _instant(value: Any) -> Any:
    """An instant whatever the zone that it is told in."""
    try:
        return datetime.fromisoformat(value).astimezone(UTC) if len(value) > 19 else value
    except (TypeError, ValueError):
        return value


async def test_a_profile_is_of_what_is_shown(result: Any, case: Case) -> None:
    (column,) = (await result.profile("full", columns=[case.name]))["columns"]
    known = [value for value in shown(case) if value is not None]
    assert column["nulls"] == case.values.count(None)
    if "minimum" in column:
        assert _instant(column["minimum"]) == _instant(plain(min(known, key=comparable)))
        assert _instant(column["maximum"]) == _instant(plain(max(known, key=comparable)))
    counts = Counter(json.dumps(plain(value)) for value in known)
    if "distinct" in column:
        assert column["distinct"] == len(counts)
        assert {json.dumps(one["value"]): one["count"] for one in column["most_frequent"]} == dict(counts)
    assert sum(one["count"] for one in column.get("histogram", [])) in (0, len(known))


# --- what is asked in SQL --------------------------------------------------------------------------------------


@pytest.mark.quick(1, "sqlite")
async def test_sql_texts_answer_for_what_is_shown(
    application: Application, created: DualResponse, case: Case
) -> None:
    async def _sql(text: str, **parameters: Any) -> list[Any] | None:
        question = {"sql": text, "parameters": parameters}
        answer = await application.http.post(f"/resources/{created.resource_id}/sql", json=question)
        if answer.status_code == 200:
            return [list(row.values()) for row in answer.json()["data"]]
        assert answer.json()["code"] in REFUSALS, (text, answer.text)
        return None

    name, values = case.name, shown(case)
    known = [(number, value) for number, value in enumerate(values, start=1) if value is not None]
    for value in _given(case):
        equal = await _sql(f"SELECT id FROM data WHERE {name} = :v ORDER BY id", v=plain(value))
        judge(case, "equal", equal, [[number] for number, one in known if one == value])
        listed = await _sql(f"SELECT id FROM data WHERE {name} IN (:v) ORDER BY id", v=plain(value))
        judge(case, "equal", listed, [[number] for number, one in known if one == value])
        below = await _sql(f"SELECT id FROM data WHERE {name} < :v ORDER BY id", v=plain(value))
        if below is not None:
            assert below == [[number] for number, one in known if comparable(one) < comparable(value)]
        else:
            assert "range" not in case.answers
    counts = Counter(json.dumps(plain(value)) for value in values)
    groups = await _sql(f"SELECT {name}, count(*) FROM data GROUP BY {name}")
    actual = groups and sorted((json.dumps(value), count) for value, count in groups)
    judge(case, "group", actual, sorted(counts.items()))
    ordered = await _sql(f"SELECT id FROM data WHERE {name} IS NOT NULL ORDER BY {name}, id")
    if ordered is not None:
        assert ordered == [
            [number] for number, _ in sorted(known, key=lambda pair: (comparable(pair[1]), pair[0]))
        ]
    is_number = case.encoding in ("integer", "float", "decimal")
    for computed in [f"{name} || 'x'", f"upper(CAST({name} AS TEXT))"] * (case.encoding == "text") + [
        f"sum({name})",
        f"{name} + 1",
    ] * is_number:
        made = await _sql(f"SELECT {computed} AS n FROM data")
        assert made is None or computed_rightly(case, computed, [row[0] for row in made])


def computed_rightly(case: Case, computed: str, found: list[Any]) -> bool:
    """Whether a text that computes with the column was answered for what it shows."""
    values = shown(case)
    if "||" in computed:
        return found == [None if value is None else f"{plain(value)}x" for value in values]
    if "upper" in computed:
        return found == [value and plain(value).upper() for value in values]
    if "sum" in computed:
        return float(found[0]) == pytest.approx(float(sum(value for value in values if value is not None)))
    return [value and float(value) for value in found] == [value and value + 1 for value in values]


# --- objects ---------------------------------------------------------------------------------------------------


async def test_an_object_without_a_form_is_refused_by_name(url: str, application: Application) -> None:
    async with running(url, tables=Registry(METADATA)) as bare:
        with pytest.raises(ValueNotRepresentableError, match=r"'money'.*class Money") as error:
            await bare.server.create_response(select(TABLE.c.id, TABLE.c.money), name="money")
    assert error.value.details == {"column": "money", "class": "Money"}
    assert "converters" in error.value.developer_hint


async def test_an_object_that_comes_later_ends_the_stream_by_name(tmp_path: Any) -> None:
    metadata = MetaData()
    late = Table("late", metadata, Column("id", Integer, primary_key=True), Column("v", own.Pickled()))
    database = engines.sqlite_url_in(tmp_path)
    rows = [{"id": number, "v": number if number < 400 else Money(1, "EUR")} for number in range(1, 401)]
    async with engines.opened(database) as engine, engine.begin() as connection:
        await connection.run_sync(metadata.create_all)
        await connection.execute(insert(late), rows)
    async with running(database, tables=metadata) as application:
        path = await application.create(select(late), sample_size=15)
        for form in ("ndjson", "arrow"):
            answer = await application.http.post(f"{path}/rows", json={"format": form})
            assert b"VALUE_NOT_REPRESENTABLE" in answer.content[-2000:]
            assert b'"details":{"column":"v","class":"Money"}' in answer.content[-2000:]
        page = await application.http.get(path, params={"offset": 380, "limit": 20})
        assert page.json()["code"] == "VALUE_NOT_REPRESENTABLE"
        details = page.json()["details"]
        assert (details["column"], details["class"]) == ("v", "Money")


async def test_a_value_of_another_kind_is_named_and_not_changed(tmp_path: Any) -> None:
    metadata = MetaData()
    odd = Table("odd", metadata, Column("id", Integer, primary_key=True), Column("v", _Odd()))
    database = engines.sqlite_url_in(tmp_path)
    async with engines.opened(database) as engine, engine.begin() as connection:
        await connection.run_sync(metadata.create_all)
        await connection.execute(insert(odd), [{"id": 1, "v": 777}, {"id": 2, "v": 3}])
    wanted = [{"id": 1, "v": "0.5", "$unfit": ["v"]}, {"id": 2, "v": 3}]
    async with running(database, tables=metadata) as application:
        response = await application.server.create_response(select(odd), name="odd")
        assert list(response.sample) == wanted
        parsed = DualResponseClient(BASE_URL, http=application.http).parse(
            response.to_mcp_tool_result(), strict=True
        )
        assert await parsed.fetch_all() == wanted
        with pytest.raises(FetchError, match="'v' holds a value that is not int64") as error:
            await parsed.to_arrow()
        assert error.value.code == "VALUE_NOT_REPRESENTABLE"


class _Odd(own._Own):
    """Whole numbers, but for one."""

    impl = Integer

    def show(self, value: int) -> Any:
        return 0.5 if value == 777 else value


async def test_an_enum_says_what_it_holds(result: Any) -> None:
    with pytest.raises(FetchError, match="holds one of the words of an enum") as error:
        await result.query(filters={"column": "colour", "op": "contains", "value": "r"})
    assert "which holds text" not in str(error.value)
