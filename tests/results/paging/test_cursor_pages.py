"""Pages by cursor as the server serves them: what they say, to whom they answer, what cannot have them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from sqlalchemy import (
    Column,
    Integer,
    MetaData,
    String,
    Table,
    delete,
    desc,
    func,
    insert,
    literal_column,
    select,
    tablesample,
    text,
    update,
)
from sqlalchemy.dialects.postgresql import distinct_on
from sqlalchemy.ext.asyncio import AsyncEngine

from dualsql import (
    BadParameterError,
    DualResponseServer,
    Mask,
    NoTotalOrderError,
    PageRequest,
    Principal,
    Shared,
)
from dualsql.errors import BadCursorError
from dualsql.plan.keys import calls_in_text, depends_on_time, is_random
from dualsql.results.streams import StreamRequest
from dualsql.tenancy import Hook
from dualsql_client import DualResponseClient
from dualsql_client.wire import SortKey
from tests.engines import ENGINES, opened
from tests.http.application import (
    ALL,
    INSTITUTIONS,
    Application,
    fill as fill_institutions,
    institution,
    problem_of,
    running,
)
from tests.servers import create_server

ANA, BEN = Principal(id="ana", tenant="north"), Principal(id="ben", tenant="north")
SORT = [{"field": "enrollment", "order": "desc"}]

metadata = MetaData()
notes = Table(
    "notes",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("word", String(20), nullable=False),
    Column("other", Integer),
)
heap = Table("heap", metadata, Column("word", String(20)), Column("size", Integer))


@pytest.fixture
async def application(sqlite_url: str) -> AsyncIterator[Application]:
    async with opened(sqlite_url) as engine:
        await fill_institutions(engine)
    async with running(sqlite_url) as application:
        yield application


async def page_of(application: Application, path: str, **body: Any) -> dict[str, Any]:
    response = await application.http.post(path, json=body)
    assert response.status_code == 200, response.text
    page: dict[str, Any] = response.json()
    return page


def ids(page: dict[str, Any]) -> list[int]:
    return [row["id"] for row in page["data"]]


async def test_there_and_back_again(application: Application) -> None:
    path = await application.create()
    pages = [await page_of(application, path, limit=25, sort=SORT)]
    while pages[-1]["next_cursor"]:
        pages.append(await page_of(application, path, limit=25, sort=SORT, cursor=pages[-1]["next_cursor"]))
    whole = await page_of(application, path, limit=100, sort=SORT)
    assert [row for page in pages for row in page["data"]] == whole["data"]
    for page, previous in zip(pages[:0:-1], pages[-2::-1], strict=True):
        back = await page_of(application, path, limit=25, sort=SORT, cursor=page["previous_cursor"])
        assert back == previous
    assert [page["offset"] for page in pages] == [0, 25, 50]
    assert [page["total_count"] for page in pages] == [60, 60, 60]
    assert [page["has_previous"] for page in pages] == [False, True, True]
    assert [page["previous_cursor"] is None for page in pages] == [True, False, False]
    assert {page["order"] for page in pages} == {"total"}


async def test_the_same_page_by_offset_by_cursor_and_by_url(application: Application) -> None:
    path = await application.create()
    first = await page_of(application, path, limit=10)
    by_cursor = await page_of(application, path, limit=10, cursor=first["next_cursor"])
    assert by_cursor == await page_of(application, path, limit=10, offset=10)
    got = await application.http.get(path, params={"limit": "10", "cursor": first["next_cursor"]})
    assert got.json() == by_cursor
    assert await page_of(application, path, limit=10, cursor=None) == first, "null is none"


async def test_another_size_goes_on_at_the_same_place(application: Application) -> None:
    path = await application.create()
    first = await page_of(application, path, limit=7)
    assert ids(await page_of(application, path, limit=2, cursor=first["next_cursor"])) == [8, 9]


@pytest.mark.parametrize("second", [{"offset": 5}, {"offset": 0}])
async def test_a_cursor_and_an_offset_contradict_each_other(application: Application, second: Any) -> None:
    path = await application.create()
    cursor = (await page_of(application, path, limit=5))["next_cursor"]
    refused = await application.http.post(path, json={"cursor": cursor, **second})
    assert problem_of(refused, 400)["code"] == "BAD_PARAMETER"
    refused = await application.http.get(path, params={"cursor": cursor, "skip": "0"})
    assert problem_of(refused, 400)["code"] == "BAD_PARAMETER"


@pytest.mark.quick(4)
@pytest.mark.parametrize("wrong", ["", "nonsense", 7, ["x"], {"a": 1}, True])
async def test_no_cursor_of_ours(application: Application, wrong: Any) -> None:
    path = await application.create()
    problem = problem_of(await application.http.post(path, json={"cursor": wrong}), 400)
    assert problem["code"] == "BAD_CURSOR"


async def test_another_resource_s_sort_s_or_person_s(application: Application) -> None:
    server = application.server
    path, other = await application.create(), await application.create()
    cursor = (await page_of(application, path, limit=5))["next_cursor"]
    messages = []
    for where, body in (
        (other, {}),
        (path, {"sort": SORT}),
        (path, {"sort": {"field": "id", "order": "desc"}}),
    ):
        refused = await application.http.post(where, json={"cursor": cursor, **body})
        messages.append(problem_of(refused, 400))
    resource = await server.unchecked.get(path.rpartition("/")[2])
    assert resource is not None
    with pytest.raises(BadCursorError):
        await server.unchecked.read_page(resource, ANA, PageRequest(cursor=cursor))
    assert messages == [messages[0]] * 3
    assert messages[0]["code"] == "BAD_CURSOR"


async def test_the_api_takes_one_or_the_other(application: Application) -> None:
    resource = await application.server.unchecked.get((await application.create()).rpartition("/")[2])
    assert resource is not None
    with pytest.raises(BadParameterError):
        await application.server.unchecked.read_page(resource, None, PageRequest(cursor="x", offset=1))


async def test_the_client_turns_pages(application: Application) -> None:
    client = DualResponseClient("http://127.0.0.1:8000/resources", http=application.http)
    response = await application.server.create_response(ALL, name="Institutions")
    parsed = client.parse(response.to_mcp_tool_result())
    assert parsed is not None
    first = await parsed.fetch(limit=20, sort=SORT)  # type: ignore[arg-type]
    second = await parsed.fetch(limit=20, sort=SORT, cursor=first.next_cursor)  # type: ignore[arg-type]
    assert (second.offset, second.next_offset, second.has_previous, second.order) == (20, 40, True, "total")
    again = await parsed.fetch(limit=20, sort=SORT, cursor=second.previous_cursor)  # type: ignore[arg-type]
    assert (again.data, again.previous_cursor) == (first.data, None)
    with pytest.raises(ValueError, match="cursor"):
        await parsed.fetch(offset=3, cursor=first.next_cursor)


async def test_a_model_sees_no_cursor(application: Application) -> None:
    response = await application.server.create_response(ALL, name="Institutions")
    assert "cursor" not in str(response.to_mcp_tool_result())


# What moves between two pages ---------------------------------------------------------------------------


async def gathered(application: Application, path: str, change: Any, **body: Any) -> list[int]:
    """The ids of all pages, `change` having run after each."""
    found: list[int] = []
    cursor = None
    while True:
        page = await page_of(application, path, limit=10, cursor=cursor, **body)
        found += ids(page)
        if (cursor := page["next_cursor"]) is None:
            return found
        await change(page)


async def test_rows_that_come_and_go_repeat_or_lose_no_other(sqlite_url: str) -> None:
    async with opened(sqlite_url) as engine:
        await fill_institutions(engine, [institution(number) for number in range(2, 121, 2)])
        async with running(engine) as application:
            path = await application.create()
            at_first = set(range(2, 121, 2))
            gone: set[int] = set()

            async def change(page: dict[str, Any]) -> None:
                last = ids(page)[-1]
                gone.update({last, last + 4})
                async with engine.begin() as connection:
                    await connection.execute(
                        delete(INSTITUTIONS).where(INSTITUTIONS.c.id.in_([last, last + 4, last - 4]))
                    )
                    await connection.execute(
                        insert(INSTITUTIONS), [institution(last - 1), institution(last + 1)]
                    )

            rows = await gathered(application, path, change)
            assert len(rows) == len(set(rows))
            assert rows == sorted(rows)
            assert at_first - gone <= set(rows)


async def test_a_page_whose_rows_have_all_gone_leads_back(sqlite_url: str) -> None:
    async with opened(sqlite_url) as engine:
        await fill_institutions(engine)
        async with running(engine) as application:
            path = await application.create()
            first = await page_of(application, path, limit=10)
            second = await page_of(application, path, limit=10, cursor=first["next_cursor"])
            async with engine.begin() as connection:
                await connection.execute(delete(INSTITUTIONS).where(INSTITUTIONS.c.id > 10))
            empty = await page_of(application, path, limit=10, cursor=first["next_cursor"])
            assert (empty["data"], empty["next_cursor"], empty["has_next"]) == ([], None, False)
            back = await page_of(application, path, limit=4, cursor=empty["previous_cursor"])
            assert (ids(back), back["has_next"], back["offset"]) == ([7, 8, 9, 10], False, 6)
            async with engine.begin() as connection:
                await connection.execute(delete(INSTITUTIONS))
            nothing = await page_of(application, path, limit=10, cursor=second["previous_cursor"])
            assert (nothing["data"], nothing["has_previous"], nothing["offset"]) == ([], False, 0)
            async with engine.begin() as connection:
                await connection.execute(insert(INSTITUTIONS), [institution(11)])
            assert ids(await page_of(application, path, limit=10, cursor=nothing["next_cursor"])) == [11]


# What has no cursors ------------------------------------------------------------------------------------


@pytest.fixture
async def filled(database_url: str) -> AsyncIterator[AsyncEngine]:
    async with opened(database_url) as engine:
        async with engine.begin() as connection:
            await connection.run_sync(metadata.create_all)
            await connection.execute(
                insert(notes), [{"id": n, "word": f"w{n % 4}", "other": n % 3 or None} for n in range(1, 25)]
            )
            await connection.execute(
                insert(heap), [{"word": "a", "size": 1}] * 9 + [{"word": "b", "size": 1}] * 2
            )
        yield engine


NO_PLACES = {
    "random": (select(notes.c.id).order_by(func.random()), "partial"),
    "random in text": (select(notes.c.id).order_by(text("random()")), "partial"),
    "random in a column's text": (select(notes.c.id).order_by(literal_column("Random() * 2")), "partial"),
    "the clock of the database in text": (select(notes.c.id).order_by(literal_column("age(now())")), "total"),
    "the clock in a column's text": (
        select(notes.c.id).order_by(literal_column("other + extract(hour FROM CURRENT_TIMESTAMP)")),
        "total",
    ),
    "sampled": (select(tablesample(notes, func.bernoulli(90)).c.id), "partial"),
    "the clock": (
        select(notes.c.id).order_by(func.coalesce(notes.c.other, func.extract("hour", func.now()))),
        "total",
    ),
    "text": (select(notes.c.id).order_by(text("word")), "total"),
    "too many": (select(*(notes.c.other + n for n in range(101))).distinct(), "total"),
}


@pytest.mark.quick(2)
@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
@pytest.mark.parametrize("name", NO_PLACES)
async def test_what_has_no_place_to_go_on_from(filled: AsyncEngine, name: str) -> None:
    statement, order = NO_PLACES[name]
    async with create_server(filled, base_url="http://h/r", tables=metadata, allow_text=True) as server:
        response = await server.create_response(statement, name=name)
        resource = await server.unchecked.get(response.resource_id)
        assert resource is not None
        page = await server.unchecked.read_page(resource, None, PageRequest(limit=2))
        assert (page.order, page.next_cursor, page.previous_cursor) == (order, None, None)
        with pytest.raises(NoTotalOrderError) as refused:
            await server.unchecked.read_page(resource, None, PageRequest(limit=2, cursor="x"))
        assert "offset" in refused.value.hint


# What PostgreSQL makes of one row, or of several, is text that only the database reads.
CALLS = {
    "several rows": select(notes.c.id, literal_column("unnest(ARRAY['x', 'y', 'z'])").label("item")),
    "several rows of a group": (
        select(notes.c.word, literal_column("generate_series(1, 3)").label("item")).group_by(notes.c.word)
    ),
    "a part": select(notes.c.id, func.abs(literal_column("generate_series(1, 3)", Integer)).label("item")),
    "one row": select(literal_column("count(*)").label("item")).select_from(notes),
}


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
@pytest.mark.parametrize("name", CALLS)
async def test_calls_in_text_lose_no_row(filled: AsyncEngine, name: str) -> None:
    async with filled.connect() as connection:
        expected = sorted(tuple(row) for row in await connection.execute(CALLS[name]))
    async with create_server(filled, base_url="http://h/r", tables=metadata, allow_text=True) as server:
        response = await server.create_response(CALLS[name], name=name)
        resource = await server.unchecked.get(response.resource_id)
        assert resource is not None
        rows: list[tuple[Any, ...]] = []
        cursor: str | None = None
        while cursor is not None or not rows:
            page = await server.unchecked.read_page(resource, None, PageRequest(limit=2, cursor=cursor))
            rows += [tuple(row.values()) for row in page.rows]
            cursor = page.next_cursor
        assert sorted(rows) == expected


_SET = func.generate_series(1, notes.c.id, type_=Integer).label("item")
_SPLIT = func.regexp_split_to_table(notes.c.word, "").label("part")
# What PostgreSQL makes of one row by functions that it knows.
SETS = {
    "of nothing": select(func.generate_series(1, 3), func.generate_series(1, 5).label("b")),
    "of unequal length": select(notes.c.id, _SET, _SPLIT),
    "documents": select(
        notes.c.id, func.json_array_elements(func.json_build_array(1, notes.c.word)).label("x")
    ),
    "sorted by alone": select(notes.c.id).order_by(_SET.element),
    "limited": select(notes.c.id, _SET).order_by(notes.c.id).limit(7).offset(2),
    "distinct": select(notes.c.other, _SET).distinct(),
    "distinct on": select(notes.c.word, _SET).ext(distinct_on(notes.c.word)),
    "distinct on and sorted": (
        select(notes.c.word, _SET).ext(distinct_on(notes.c.word)).order_by(notes.c.word, desc(_SET.element))
    ),
    "distinct on and sorted by name": (
        select(notes.c.word, _SET).ext(distinct_on(notes.c.word)).order_by(notes.c.word, desc("item"))
    ),
    "grouped": select(func.count(), _SET).group_by("item"),
    "of a group": select(notes.c.word, func.unnest(func.array_agg(notes.c.id)).label("x")).group_by(
        notes.c.word
    ),
    "of each other": select(func.generate_series(1, _SET.element).label("x")).select_from(notes),
    "beside a window": select(func.row_number().over(order_by=notes.c.id), (_SET.element * 2).label("x")),
}


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
@pytest.mark.parametrize("name", SETS)
async def test_counts_pages_and_streams_have_the_rows_of_functions_of_several(
    filled: AsyncEngine, name: str
) -> None:
    async with filled.connect() as connection:
        expected = len((await connection.execute(SETS[name])).all())
    async with create_server(filled, base_url="http://h/r", tables=metadata) as server:
        response = await server.create_response(SETS[name], name=name, sample_size=1, count="exact")
        assert response.total_count == expected
        resource = await server.unchecked.get(response.resource_id)
        assert resource is not None
        for column in resource.columns:
            sort, number, size = [SortKey(field=column["name"], order="desc")], 0, 9
            while size == 9:  # rows of a page
                page = await server.unchecked.read_page(resource, None, PageRequest(number, 9, sort))
                size = len(page.rows)
                number += size
            assert number == expected
            stream = await server.unchecked.stream(resource, None, StreamRequest(columns=(column["name"],)))
            assert sum([chunk.rows async for chunk in stream.chunks]) == expected


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
async def test_rows_of_a_function_behind_distinct_on_are_not_paged(filled: AsyncEngine) -> None:
    """PostgreSQL calls it for the rows that are left; where it has to sort by it, for all of them."""
    first = select(notes.c.word, _SET).ext(distinct_on(notes.c.word))
    later = first.order_by(notes.c.word, notes.c.id.desc())
    async with filled.connect() as connection:
        expected = len((await connection.execute(later)).all())
    async with create_server(filled, base_url="http://h/r", tables=metadata) as server:
        with pytest.raises(NoTotalOrderError) as refused:
            await server.create_response(later, name="later")
        assert "subquery" in refused.value.hint
        response = await server.create_response(
            select(later.subquery()), name="inner", sample_size=1, count="exact"
        )
        assert response.total_count == expected


@pytest.mark.parametrize("database_url", ["mariadb"], indirect=True)
async def test_distinct_groups_with_an_average_are_read_around_a_subquery(filled: AsyncEngine) -> None:
    """MariaDB leaves groups out if an aggregate stands in an expression of ORDER BY: it has no NULLS LAST."""
    groups = select(func.avg(notes.c.id).label("mean"), notes.c.other).group_by(notes.c.word, notes.c.other)
    async with filled.connect() as connection:
        expected = len((await connection.execute(groups.distinct())).all())
        is_null = (func.avg(notes.c.id).is_(None), notes.c.other)
        left = await connection.execute(groups.distinct().order_by(*is_null))
        assert len(left.all()) < expected
    async with create_server(filled, base_url="http://h/r", tables=metadata) as server:
        with pytest.raises(NoTotalOrderError) as refused:
            await server.create_response(groups.distinct(), name="groups")
        assert "subquery" in refused.value.hint
        others = groups.with_only_columns(func.sum(notes.c.id), notes.c.other).distinct()
        for statement in (groups, select(groups.subquery()).distinct(), others):
            response = await server.create_response(statement, name="groups", sample_size=1)
            page = await server.read_page(response.resource_id, None, PageRequest(limit=100))
            assert len(page.rows) == response.total_count == expected


TEXTS = {
    "t.uuid": (),
    "lower(name)": (),
    "(a + 1) * coalesce(b, 2)": (),
    "CASE WHEN a IN (1, 2) THEN 'random()' ELSE 'now (and then)' END": (),
    '"random" + 1': (),
    "'it''s (over)'": (),
    "count(*)": ("rows",),
    "unnest(a)": ("rows",),
    '"unnest"(a)': ("rows",),
    "'a' || unnest(b) || 'c'": ("rows",),
    r"'\'' || unnest(b) || '\''": ("rows",),
    "/*'*/ unnest(b) /*'*/": ("rows",),
    "$$'$$ || unnest(b) || $$'$$": ("rows",),
    "rank() OVER w": ("rows",),
    "DISTINCT a": ("rows",),
    "(SELECT max(b) FROM t)": ("rows",),
    "Random()": ("random",),
    "abs(random ( ))": ("random",),
    "CURRENT_TIMESTAMP": ("time",),
    "unixepoch() - at": ("time",),
    "strftime('%s')": ("time",),
    "'today'::text": ("time",),
    "coalesce(at, NOW())": ("time",),
}
"""What may change in a text: which rows there are, and its value from one read to the next."""


@pytest.mark.parametrize("text_", TEXTS)
def test_what_a_text_may_call(text_: str) -> None:
    parts: tuple[Any, ...] = (literal_column(text_), text(text_))
    for part in parts:
        answers = {"rows": calls_in_text(part), "random": is_random(part), "time": depends_on_time(part)}
        assert [name for name, answer in answers.items() if answer and name != "rows"] == [
            name for name in TEXTS[text_] if name != "rows"
        ]
        if "time" not in TEXTS[text_]:  # a clock may be any function
            assert answers["rows"] is ("rows" in TEXTS[text_])


@pytest.mark.parametrize("database_url", ENGINES, indirect=True)
async def test_a_window_in_text_is_computed_before_a_filter(filled: AsyncEngine) -> None:
    from dualsql.query import read_result_query

    statement = select(notes.c.id, literal_column("count(*) OVER ()").label("among"))
    async with create_server(filled, base_url="http://h/r", tables=metadata, allow_text=True) as server:
        response = await server.create_response(statement, name="windows")
        resource = await server.unchecked.get(response.resource_id)
        assert resource is not None
        whole = await server.unchecked.read_page(resource, None, PageRequest(limit=1))
        [first] = whole.rows
        query = read_result_query({"filters": [{"column": "id", "op": "eq", "value": first["id"]}]})
        answer = await server.queries.page_unchecked(resource, query)
        assert (list(answer.rows), first["among"]) == ([first], 24)


@pytest.mark.parametrize("database_url", ENGINES, indirect=True)
async def test_of_equal_rows_as_many_are_shown_as_there_are(filled: AsyncEngine) -> None:
    async with DualResponseServer(filled, base_url="http://h/r", tables=metadata) as server:
        # SQLite numbers the rows of a table, and those of no subquery.
        rows = select(heap).subquery("rows")
        response = await server.create_response(select(rows), name="heap")
        resource = await server.unchecked.get(response.resource_id)
        assert resource is not None
        first = await server.unchecked.read_page(resource, None, PageRequest(limit=4))
        second = await server.unchecked.read_page(
            resource, None, PageRequest(limit=4, cursor=first.next_cursor)
        )
        third = await server.unchecked.read_page(
            resource, None, PageRequest(limit=4, cursor=second.next_cursor)
        )
        assert [row["word"] for row in [*first.rows, *second.rows, *third.rows]] == ["a"] * 9 + ["b"] * 2
        back = await server.unchecked.read_page(
            resource, None, PageRequest(limit=4, cursor=third.previous_cursor)
        )
        assert (len(back.rows), back.offset, back.has_previous) == (4, 4, True)
        start = await server.unchecked.read_page(
            resource, None, PageRequest(limit=9, cursor=back.previous_cursor)
        )
        assert (len(start.rows), start.offset, start.has_previous) == (4, 0, False)
        deep = await server.unchecked.read_page(resource, None, PageRequest(limit=2, offset=5))
        assert deep.next_cursor is None, "nobody counted how many are equal before it"
        assert (
            await server.unchecked.read_page(resource, None, PageRequest(limit=5, offset=5))
        ).next_cursor is not None


# Masks --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("database_url", ENGINES, indirect=True)
async def test_a_masked_column_may_be_null_whatever_its_table_says(filled: AsyncEngine) -> None:
    hooks: list[Hook] = [
        Shared(notes, heap),
        Mask(notes.c.word, lambda word: func.nullif(word, "w1", type_=String())),
    ]
    async with DualResponseServer(filled, base_url="http://h/r", tables=metadata, hooks=hooks) as server:
        response = await server.create_response(select(notes.c.id, notes.c.word), name="notes", principal=ANA)
        resource = await server.unchecked.get(response.resource_id)
        assert resource is not None
        for order in ("asc", "desc"):
            sort: Any = [{"field": "word", "order": order}]
            whole = await server.unchecked.read_page(resource, ANA, PageRequest(limit=100, sort=sort))
            assert [row["word"] for row in whole.rows][-6:] == [None] * 6
            rows: list[Any] = []
            cursor = None
            while True:
                page = await server.unchecked.read_page(
                    resource, ANA, PageRequest(limit=5, sort=sort, cursor=cursor)
                )
                rows += page.rows
                if (cursor := page.next_cursor) is None:
                    break
            assert rows == list(whole.rows)


@pytest.mark.parametrize("database_url", ENGINES, indirect=True)
async def test_what_changes_in_a_key_moves_a_row_and_no_other(filled: AsyncEngine) -> None:
    async with DualResponseServer(filled, base_url="http://h/r", tables=metadata) as server:
        response = await server.create_response(select(notes), name="notes")
        resource = await server.unchecked.get(response.resource_id)
        assert resource is not None
        sort: Any = [{"field": "other", "order": "desc"}]
        first = await server.unchecked.read_page(resource, None, PageRequest(limit=12, sort=sort))
        async with filled.begin() as connection:
            await connection.execute(
                update(notes).where(notes.c.id == first.rows[-1]["id"]).values(other=None)
            )
        second = await server.unchecked.read_page(
            resource, None, PageRequest(limit=12, sort=sort, cursor=first.next_cursor)
        )
        rest = await server.unchecked.read_page(
            resource, None, PageRequest(limit=12, sort=sort, cursor=second.next_cursor)
        )
        values = [row["id"] for row in [*first.rows, *second.rows, *rest.rows]]
        moved = first.rows[-1]["id"]
        assert sorted(values) == sorted([*range(1, 25), moved])
