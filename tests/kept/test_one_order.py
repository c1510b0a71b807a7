"""Rows that tie come in one order, and columns have one type, whether rows are kept or read from their database."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import (
    Boolean,
    Column,
    DateTime,
    Integer,
    MetaData,
    String,
    Table,
    case,
    func,
    insert,
    literal,
    null,
    select,
    text,
    true,
)
from sqlalchemy.dialects import mysql, postgresql as pg
from sqlalchemy.types import NullType

from dualsql import DualResponse, DualResponseError, DualResponseServer, LocalResultStorage, PageRequest
from dualsql.query import read_result_query
from dualsql_client.wire import SortKey
from tests.engines import opened, sqlite_url_in
from tests.servers import create_server

ENGINES = ("sqlite", "postgresql", "mariadb")

# No primary key: ties are broken by every column, and some of them are NULL.
notes = Table(
    "notes",
    MetaData(),
    Column("part", Integer),
    Column("word", String(9)),
    Column("other", Integer),
)
NOTES = [
    {"part": part, "word": word, "other": other}
    for part in (1, 2, None)
    for word in ("a", None, "b")
    for other in (None, 5, 4)
]


@asynccontextmanager
async def both(
    engine: str,
    folder: Path,
    request: pytest.FixtureRequest,
    table: Table,
    rows: Sequence[Any],
    statement: Any,
) -> AsyncIterator[tuple[DualResponseServer, list[DualResponse]]]:
    """One result, live and kept."""
    url = sqlite_url_in(folder) if engine == "sqlite" else request.getfixturevalue(f"{engine}_url")
    async with opened(url) as database, database.begin() as connection:
        await connection.run_sync(table.create)
        await connection.execute(insert(table), rows)
    async with create_server(
        url,
        base_url="http://127.0.0.1/r",
        tables=table.metadata,
        storage=LocalResultStorage(folder / "kept"),
    ) as dual:
        results = [await dual.create_response(statement, name="x", keep=keep) for keep in (False, True)]
        assert (await dual.describe(results[1].resource_id, None))["kept"]["kept"]
        yield dual, results


async def pages(dual: DualResponseServer, result: DualResponse, *sort: SortKey) -> list[Any]:
    """All rows by cursors, to the last page and back."""
    forth: list[Any] = []
    back: list[Any] = []
    page = await dual.read_page(result.resource_id, None, PageRequest(limit=4, sort=sort))
    forth += page.rows
    while page.next_cursor:
        asked = PageRequest(limit=4, sort=sort, cursor=page.next_cursor)
        page = await dual.read_page(result.resource_id, None, asked)
        forth += page.rows
    while page.previous_cursor:
        asked = PageRequest(limit=4, sort=sort, cursor=page.previous_cursor)
        page = await dual.read_page(result.resource_id, None, asked)
        back = [*page.rows, *back]
    assert back == forth[: len(back)] and len(back) >= len(forth) - 4
    return forth


async def answered(dual: DualResponseServer, result: DualResponse, question: Any) -> tuple[list[Any], bool]:
    """The rows of an answer, and whether they are kept ones."""
    resource = await dual.get_resource(result.resource_id)
    assert resource is not None
    page = await dual.queries.page_unchecked(resource, read_result_query(question), PageRequest(limit=99))
    return list(page.rows), page.as_of is not None


@pytest.mark.quick(1, "sqlite")
@pytest.mark.parametrize("engine", ENGINES)
async def test_ties_of_a_descending_order_are_backward_with_their_nulls(
    engine: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    constants = literal("same").label("constant"), null().label("none"), true().label("yes")
    statement = select(notes, *constants)
    async with both(engine, tmp_path, request, notes, NOTES, statement) as (dual, results):
        for names in (
            ["part"],
            ["other"],
            ["constant"],
            ["part", "constant"],
            ["constant", "other"],
            ["yes"],
        ):
            for order in ("asc", "desc"):
                sort = [SortKey(field=name, order=order) for name in names]
                live, kept = [await pages(dual, result, *sort) for result in results]
                assert kept == live, sort
                assert len(live) == len(NOTES)


CUT = {
    "ordered": select(notes).order_by(notes.c.other.desc(), notes.c.word).limit(7),
    "from an offset": select(notes.c.word, notes.c.part)
    .order_by(notes.c.other, notes.c.word)
    .offset(1)
    .limit(6),
    "descending": select(notes).order_by(notes.c.word.desc(), notes.c.part, notes.c.other).limit(7),
    "without an order": select(notes).limit(8),
    "groups": select(notes.c.part, func.max(notes.c.other).label("word")).group_by(notes.c.part).limit(2),
    "distinct": select(notes.c.part, notes.c.word)
    .distinct()
    .order_by(notes.c.word.desc(), notes.c.part)
    .limit(5),
    "united": select(notes.c.part, notes.c.word).union(select(notes.c.other, notes.c.word)).limit(6),
}


@pytest.mark.quick(1, "sqlite")
@pytest.mark.parametrize("cut", CUT)
@pytest.mark.parametrize("engine", ENGINES)
async def test_ties_are_in_the_authors_order_behind_a_limit_too(
    engine: str, cut: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    async with both(engine, tmp_path, request, notes, NOTES, CUT[cut]) as (dual, results):
        for name in ("part", "word"):
            for order in ("asc", "desc"):
                sort = [SortKey(field=name, order=order)]
                live, kept = [await pages(dual, result, *sort) for result in results]
                assert kept == live, sort


@pytest.mark.quick(1, "sqlite")
@pytest.mark.parametrize("limit", [None, 9])
@pytest.mark.parametrize("engine", ENGINES)
async def test_columns_whose_names_differ_in_case_keep_their_values(
    engine: str, limit: int | None, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """In any order, behind a LIMIT and in SQL texts: databases read the first of them in a subquery for both."""
    statement = select(notes.c.part.label("n"), notes.c.other.label("N")).limit(limit)
    async with both(engine, tmp_path, request, notes, NOTES, statement) as (dual, results):
        sql = {"sql": 'SELECT "n", "N_2" FROM data' if engine != "mariadb" else "SELECT n, N_2 FROM data"}
        for result in results:
            rows = await pages(dual, result)
            assert any(row["n"] != row["N_2"] for row in rows)
            for name in ("n", "N_2"):
                assert sorted(map(str, await pages(dual, result, SortKey(field=name)))) == sorted(
                    map(str, rows)
                )
            assert (await answered(dual, result, sql))[0] == rows


items = Table(
    "items",
    MetaData(),
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("size", Integer),
)


@pytest.mark.quick(1, "sqlite")
@pytest.mark.parametrize("engine", ENGINES)
async def test_ties_of_an_answer_over_a_subquery_are_backward_too(
    engine: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """A condition on a computed column makes a subquery of the result; on kept rows there is none."""
    rows = [{"id": number, "size": number % 3} for number in range(12)]
    half = case((items.c.size > 0, items.c.size)).label("half")
    async with both(engine, tmp_path, request, items, rows, select(items, half)) as (dual, results):
        for order in ("asc", "desc"):
            question = {"order_by": [{"column": "half", "order": order}], "columns": ["id", "half"]}
            (live, _), (kept, is_kept) = [await answered(dual, each, question) for each in results]
            assert kept == live and is_kept, order
            assert len(kept) == len(rows)


flags = Table(
    "flags",
    MetaData(),
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("done", Boolean(create_constraint=False)),
)


@pytest.mark.quick(1, "sqlite")
@pytest.mark.parametrize("engine", ["sqlite", "mariadb"])
async def test_numbers_that_are_shown_as_true_are_sorted_by_the_database(
    engine: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """-1 and 2 are shown as true there, before false and behind 1."""
    rows = [{"id": number, "done": True} for number in range(5)]
    async with both(engine, tmp_path, request, flags, rows, select(flags)) as (dual, (live, _)):
        url = str(dual.parts.sources.chosen(None).engine.url.render_as_string(hide_password=False))
        async with opened(url) as database, database.begin() as connection:
            for number, stored in enumerate(("0", "-1", "2", "1", "NULL")):
                await connection.execute(text(f"UPDATE flags SET done = {stored} WHERE id = {number}"))
        kept = await dual.create_response(select(flags), name="x", keep=True)
        assert (await dual.describe(kept.resource_id, None))["kept"]["kept"]
        for order, ids in (("asc", [1, 0, 3, 2, 4]), ("desc", [2, 3, 0, 1, 4])):
            for result in (live, kept):
                sort = [SortKey(field="done", order=order)]  # type: ignore[typeddict-item]
                page = await dual.read_page(result.resource_id, None, PageRequest(sort=sort))
                assert [row["id"] for row in page.rows] == ids, order
                question: Any = {"order_by": [{"column": "done", "order": order}]}
                assert [row["id"] for row in (await answered(dual, result, question))[0]] == ids, order
                shown = {"sql": "SELECT id, done FROM data"}
                resource = await dual.get_resource(result.resource_id)
                assert resource is not None
                page = await dual.queries.page_unchecked(
                    resource, read_result_query(shown), PageRequest(sort=sort)
                )
                assert [row["id"] for row in page.rows] == ids, order


numbers = Table(
    "numbers",
    MetaData(),
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("size", Integer().with_variant(mysql.INTEGER(unsigned=True), "mysql")),
    Column("at", DateTime),
)


@pytest.mark.quick(1, "postgresql")
@pytest.mark.parametrize(
    ("engine", "sql"),
    [
        ("postgresql", "SELECT generate_series(1, 2) AS x FROM data"),
        ("mariadb", "SELECT greatest(size, at) AS x FROM data"),
    ],
)
async def test_a_refinement_that_kept_rows_cannot_answer_has_the_types_of_the_database(
    engine: str, sql: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    rows = [{"id": number, "size": 3, "at": None} for number in range(3)]
    async with both(engine, tmp_path, request, numbers, rows, select(numbers)) as (dual, results):
        live, kept = [
            await dual.create_response(name="y", parent=each.resource_uri, refinement={"sql": sql})
            for each in results
        ]
        assert kept.columns == live.columns
        assert live.columns[0]["encoding"] != "any"


async def test_a_profile_of_unsigned_numbers_has_numbers(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    rows = [{"id": number, "size": 4294967295 if number else 5, "at": None} for number in range(3)]
    async with both("mariadb", tmp_path, request, numbers, rows, select(numbers)) as (dual, results):
        for each in results:
            columns = (await dual.profiles.profile(each.resource_id, None, kind="full"))["columns"]
            (frequent,) = [column["most_frequent"] for column in columns if column["name"] == "size"]
            assert frequent == [{"value": 4294967295, "count": 2}, {"value": 5, "count": 1}]


words = Table(
    "words",
    MetaData(),
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("word", String(9, collation="en-x-icu")),
)


async def test_groups_of_texts_come_by_code_point(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """PostgreSQL sorts the column itself by its collation: a before B."""
    rows = [
        {"id": number, "word": word} for number, word in enumerate(("b", "B", "a", "é", "Z", "z", "a", None))
    ]
    async with both("postgresql", tmp_path, request, words, rows, select(words)) as (dual, results):
        for order, wanted in (
            ([], ["B", "Z", "a", "b", "z", "é", None]),
            ([{"column": "count", "order": "desc"}], ["a", "B", "Z", "b", "z", "é", None]),
            ([{"column": "word", "order": "desc"}], ["é", "z", "b", "a", "Z", "B", None]),
        ):
            question = {"group_by": ["word"], "aggregates": ["count"], "order_by": order}
            for result, is_of_kept in zip(results, (False, True), strict=True):
                rows, is_kept = await answered(dual, result, question)
                assert ([row["word"] for row in rows], is_kept) == (wanted, is_of_kept), order
                resource = await dual.get_resource(result.resource_id)
                assert resource is not None
                asked = PageRequest(limit=3)
                page = await dual.queries.page_unchecked(resource, read_result_query(question), asked)
                assert page.next_cursor is not None
                asked = asked._replace(cursor=page.next_cursor)
                page = await dual.queries.page_unchecked(resource, read_result_query(question), asked)
                assert [row["word"] for row in page.rows] == wanted[3:6]


async def test_texts_of_a_declared_collation_are_compared_by_code_point(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    rows = [{"id": number, "word": word} for number, word in enumerate(("a", "B", "b", None))]
    async with both("postgresql", tmp_path, request, words, rows, select(words)) as (dual, results):
        for operator, value, ids in (
            ("ge", "a", [0, 2]),
            ("lt", "a", [1]),
            ("between", ["B", "a"], [0, 1]),
            ("eq", "b", [2]),
            ("in", ["b", "B"], [1, 2]),
            ("starts_with", "b", [2]),
        ):
            question = {"filters": [{"column": "word", "op": operator, "value": value}]}
            for result in results:
                assert [row["id"] for row in (await answered(dual, result, question))[0]] == ids, operator


@pytest.mark.quick(1, "postgresql")
@pytest.mark.parametrize(
    ("engine", "kind", "sql"),
    [
        ("postgresql", pg.OID(), "SELECT abs(v) AS x FROM data"),
        ("postgresql", pg.OID(), "SELECT v + 1 AS x FROM data"),
        ("mariadb", mysql.YEAR(), "SELECT greatest(id, v) AS x FROM data"),
        ("mariadb", mysql.YEAR(), "SELECT coalesce(v, 2024) AS x FROM data"),
    ],
)
async def test_whole_numbers_of_another_type_are_computed_by_the_database(
    engine: str, kind: Any, sql: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    table = Table("kinds", MetaData(), Column("id", Integer, primary_key=True), Column("v", kind))
    rows = [{"id": number, "v": 2000 + number} for number in range(1, 4)]
    async with both(engine, tmp_path, request, table, rows, select(table)) as (dual, results):
        answers: list[Any] = []
        for result in results:
            try:
                answers.append((await answered(dual, result, {"sql": sql}))[0])
            except DualResponseError as error:
                answers.append((error.code, error.hint))
        live, kept = answers
        assert kept == live


async def test_values_of_a_type_that_the_model_does_not_know_are_compared_by_the_database(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """As texts, the places in PostgreSQL's log have another order."""
    table = Table("untyped", MetaData(), Column("id", Integer, primary_key=True), Column("v", NullType()))
    url: str = request.getfixturevalue("postgresql_url")
    async with opened(url) as database, database.begin() as connection:
        await connection.execute(text("CREATE TABLE untyped (id INTEGER PRIMARY KEY, v PG_LSN)"))
        await connection.execute(text("INSERT INTO untyped VALUES (0, '16/B3'), (1, '9/0'), (2, '9/1')"))
    storage = LocalResultStorage(tmp_path / "kept")
    async with create_server(
        url, base_url="http://127.0.0.1/r", tables=table.metadata, storage=storage
    ) as dual:
        for keep in (False, True):
            result = await dual.create_response(select(table), name="x", keep=keep)
            described = await dual.describe(result.resource_id, None)
            assert described.get("kept", {}).get("kept", False) is keep
            sort = [SortKey(field="v", order="asc")]
            page = await dual.read_page(result.resource_id, None, PageRequest(sort=sort))
            rows, _ = await answered(dual, result, {"order_by": ["v"]})
            for actual in (page.rows, rows):
                assert [row["v"] for row in actual] == ["9/0", "9/1", "16/B3"], keep


@pytest.mark.parametrize("name", ["latin1", "utf16"])
async def test_the_largest_text_of_a_group_has_any_character_set(
    name: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """MariaDB would encode it twice."""
    table = Table(
        "legacy",
        MetaData(),
        Column("id", Integer, primary_key=True),
        Column("part", Integer),
        Column("word", mysql.VARCHAR(9, charset=name)),
    )
    rows = [{"id": number, "part": number % 2, "word": "é"} for number in range(1, 4)]
    question = {"group_by": ["part"], "aggregates": [{"function": "max", "column": "word", "as": "x"}]}
    async with both("mariadb", tmp_path, request, table, rows, select(table)) as (dual, results):
        for result in results:
            assert [row["x"] for row in (await answered(dual, result, question))[0]] == ["é", "é"]
