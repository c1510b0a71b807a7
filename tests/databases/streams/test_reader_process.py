"""Arrow and lines of SQLite by a reader process: the thread's answers and errors, stopped in time, no lock broken."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, closing
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import assume, example, given, settings, strategies as st
from sqlalchemy import (
    Boolean,
    Column,
    Date,
    DateTime,
    Float,
    Integer,
    LargeBinary,
    MetaData,
    Numeric,
    String,
    Table,
    Time,
    func,
    intersect,
    select,
    union,
    union_all,
)
from sqlalchemy.ext.asyncio import AsyncEngine

from dualsql import DatabaseBusyError, DualResponseError, Registry, ValueNotRepresentableError, plan
from dualsql.columns.result import driver_names
from dualsql.databases.source import Source, open_source
from dualsql.databases.sqlite.file_reader import FileReader
from dualsql.databases.sqlite.process_stream import _arrays, _Rest, _Snapshot
from dualsql.databases.sqlite.processes import ReaderProcess
from dualsql.databases.sqlite.reader_process import LENGTHS, Reader, packed
from dualsql.databases.streams import Pace, StreamJob, next_chunk
from dualsql.formats.table import FORMATS
from dualsql.formats.writer import Chunk, StreamEnd, Writer, WriterOptions
from dualsql.tenancy import ActiveRules, Policy
from tests.databases.streams.everything import backends_taken, fill
from tests.databases.streams.reading import read, stream_chunks, streamed
from tests.waiting import PATIENCE

ROWS = 6_000
metadata = MetaData()
cells = Table(
    "cells",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("whole", Integer),
    Column("sparse", Integer),
    Column("ratio", Float),
    Column("text", String),
    Column("moment", DateTime),
    Column("day", Date),
    Column("clock", Time),
    Column("data", LargeBinary),
    Column("flag", Boolean),
    Column("price", Numeric(10, 2)),
)
NAMES = [column.name for column in cells.c]
TEXTS = ("", "a", "ä🎈", 'q"\n,', "x\0y", "long" * 100, None)
FLOATS = (0.1, -0.0, 1e300, float("inf"), None, 2.0)
RULES: ActiveRules = Policy(Registry(metadata)).rules_for(None)


def row(n: int) -> tuple[Any, ...]:
    """Values as SQLAlchemy keeps them, some of them NULL, and one column that is NULL for a thousand rows."""
    return (
        n,
        (-(2**63), 2**63 - 1, n)[n % 3],
        n if n > 1_000 and n % 7 else None,
        FLOATS[n % len(FLOATS)],
        TEXTS[n % len(TEXTS)],
        f"2024-02-{1 + n % 29:02} 12:30:{n % 60:02}.{n % 10:06}" if n % 11 else None,
        f"{1 + n % 9999:04}-12-31",
        f"08:{n % 60:02}:00.{n % 10:06}",
        bytes([n % 256]) * (n % 300) if n % 5 else None,
        (1, 0, None)[n % 3],
        (1.5, 2, None)[n % 3],
    )


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("cells") / "cells.db"
    with closing(sqlite3.connect(path)) as connection, connection:
        # Without types, SQLite changes no value: a database may have been declared otherwise than the model.
        connection.execute(f"CREATE TABLE cells ({', '.join(NAMES)})")
        insert_rows(connection, map(row, range(ROWS)))
    return path


def insert_rows(connection: sqlite3.Connection, rows: Any) -> None:
    connection.executemany(f"INSERT INTO cells VALUES ({', '.join('?' * len(NAMES))})", rows)


Open = Callable[[Path], Source]


@pytest.fixture
async def open_file() -> AsyncIterator[Open]:
    sources: list[Source] = []

    def opened(path: Path) -> Source:
        sources.append(open_source("x", f"sqlite:///{path}", Registry(metadata)))
        return sources[-1]

    yield opened
    for source in sources:
        await source.close()


@pytest.fixture
def source(filled: Path, open_file: Open) -> Source:
    return open_file(filled)


def prepared(source: Source, statement: Any) -> tuple[Any, Any]:
    shape = plan.shape(statement)
    return plan.page(plan.ordered(shape, source.capabilities), offset=0, limit=None), shape.columns


def chunks_of(source: Source, statement: Any, format_name: str = "arrow") -> AsyncGenerator[Chunk, None]:
    select_, columns = prepared(source, statement)
    writer = FORMATS[format_name].writer(columns, source.engine.dialect, WriterOptions())
    return stream_chunks(source, select_, RULES, columns, writer)


async def outcome(source: Source, statement: Any, rules: ActiveRules = RULES) -> Any:
    """The cells, or the code and details of the error."""
    select_, columns = prepared(source, statement)
    try:
        return read("arrow", await streamed(source, select_, rules, columns, "arrow"), columns)
    except DualResponseError as error:
        return error.code, error.message, error.details


async def same_outcome(
    path: Path, source: Source, make_engine: Any, statement: Any, rules: ActiveRules = RULES
) -> Any:
    """What the process and the thread, which an application's engine has, both answer."""
    with backends_taken() as taken:
        actual = await outcome(source, statement, rules)
    assert taken == ["by_reader_process"]
    engine: AsyncEngine = make_engine(f"sqlite+aiosqlite:///{path}")
    theirs = open_source("y", engine, Registry(metadata))
    with backends_taken() as taken:
        expected = await outcome(theirs, statement, rules)
    await theirs.close()
    await engine.dispose()
    assert taken == ["by_sqlite_thread"]
    assert actual == expected
    return actual


LINES = ("ndjson", "csv", "json")
MANY = 1_000_000
SPELLED = [cells.c[name] for name in ("id", "whole", "sparse", "ratio", "text", "moment", "day", "flag")]
"""The columns whose rows a process writes as lines."""


async def lines(source: Source, statement: Any, format_name: str) -> bytes:
    select_, columns = prepared(source, statement)
    return await streamed(source, select_, RULES, columns, format_name, expected_rows=MANY)


async def same_lines(path: Path, source: Source, make_engine: Any, statement: Any) -> None:
    """The lines of the process are those of the thread, byte for byte."""
    engine: AsyncEngine = make_engine(f"sqlite+aiosqlite:///{path}")
    theirs = open_source("y", engine, Registry(metadata))
    for format_name in LINES:
        forget_slow_lines(source)
        with backends_taken() as taken:
            actual = await lines(source, statement, format_name)
            expected = await lines(theirs, statement, format_name)
        assert taken == ["by_reader_process", "by_sqlite_thread"]
        assert actual == expected
    await theirs.close()
    await engine.dispose()


def forget_slow_lines(source: Source) -> None:
    if isinstance(source.fast, FileReader) and source.fast.processes is not None:
        source.fast.processes._slow.clear()


def idle(source: Source) -> list[ReaderProcess]:
    assert isinstance(source.fast, FileReader)
    assert source.fast.processes is not None
    return source.fast.processes.idle._idle


async def test_its_cells_are_those_of_the_thread(filled: Path, source: Source, make_engine: Any) -> None:
    outcome = await same_outcome(filled, source, make_engine, select(cells))
    assert len(outcome["id"]) == ROWS
    (process,) = idle(source)
    narrow = select(cells.c.text, cells.c.id).where(cells.c.id > 3, cells.c.text != "a")
    await same_outcome(filled, source, make_engine, narrow)
    for statement in (
        select(*SPELLED),
        select(*SPELLED).where(cells.c.ratio < 2, cells.c.text != "x\0y"),
        narrow,
    ):
        await same_lines(filled, source, make_engine, statement)
    assert idle(source) == [process]  # which read all


async def test_a_short_result_starts_no_process(source: Source) -> None:
    with backends_taken() as taken:
        await outcome(source, select(cells.c.id).limit(10))
        select_, columns = prepared(source, select(cells.c.id))
        for statement, expected_rows in ((select_, None), (select_, 100), (select_.limit(10), MANY)):
            await streamed(source, statement, RULES, columns, "csv", expected_rows=expected_rows)
    assert taken == ["by_sqlite_thread"] * 4


@pytest.mark.parametrize(
    ("format_name", "statement", "options"),
    [
        ("csv", select(cells.c.id), WriterOptions(guard_formulas=True)),
        ("csv", select(cells.c.id, cells.c.data), WriterOptions()),
        ("ndjson", select(cells.c.id, cells.c.price), WriterOptions()),
        ("ndjson", select(cells.c.id, cells.c.clock), WriterOptions()),
        ("ndjson", select(cells.c.id), WriterOptions(integer_strings=True)),
        ("ndjson", select(cells.c.id), WriterOptions(text_columns=("id",))),
    ],
)
async def test_values_that_are_converted_are_read_by_the_thread(
    source: Source, format_name: str, statement: Any, options: WriterOptions
) -> None:
    select_, columns = prepared(source, statement)
    with backends_taken() as taken:
        await streamed(source, select_, RULES, columns, format_name, options=options, expected_rows=MANY)
    assert taken == ["by_sqlite_thread"]


@pytest.mark.quick(3)
@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("whole", "text"),
        ("text", sqlite3.Binary(b"\xff")),
        ("moment", "2024-02-30 00:00:00.000000"),
        ("whole", 2.5),
        ("ratio", "text"),
        ("ratio", 2**53 + 1),
        ("text", 7),
        ("moment", "0000-01-01 00:00:00.000000"),
        ("moment", "2024-02-28T00:00:00.000000"),
        ("moment", "2024-02-28"),
        ("day", "2024-W01-1"),
        ("data", "text"),
        ("sparse", b"bytes"),
        ("price", "text"),
        ("flag", 7),
    ],
)
@pytest.mark.parametrize("place", [3, ROWS - 3])
async def test_a_value_of_another_class_has_the_same_answer(
    open_file: Open, make_engine: Any, tmp_path: Path, column: str, value: Any, place: int
) -> None:
    path = tmp_path / "odd.db"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(f"CREATE TABLE cells ({', '.join(NAMES)})")
        insert_rows(connection, map(row, range(ROWS)))
        connection.execute(f"UPDATE cells SET {column} = ? WHERE id = ?", (value, place))
    source = open_file(path)
    await same_outcome(path, source, make_engine, select(cells))
    await same_lines(path, source, make_engine, select(*SPELLED).where(cells.c.text.is_distinct_from("x\0y")))


@pytest.mark.quick(1)
@pytest.mark.parametrize("place", [ROWS - 3, 3])
async def test_a_text_that_is_no_text(open_file: Open, make_engine: Any, tmp_path: Path, place: int) -> None:
    path = tmp_path / "odd.db"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(f"CREATE TABLE cells ({', '.join(NAMES)})")
        insert_rows(connection, map(row, range(ROWS)))
        connection.execute("UPDATE cells SET text = CAST(x'ff41' AS TEXT) WHERE id = ?", (place,))
    source = open_file(path)
    code, _, details = await same_outcome(path, source, make_engine, select(cells))
    assert (code, details["column"]) == (ValueNotRepresentableError("").code, "text")
    # Lines say it of the cell. The thread writes those from there on.
    await same_lines(path, source, make_engine, select(*SPELLED))


@pytest.mark.parametrize("fault", ["text", "death"])
@pytest.mark.parametrize("format_name", LINES)
async def test_the_rest_is_read_from_the_same_state_of_the_file(
    open_file: Open, tmp_path: Path, filled: Path, format_name: str, fault: str
) -> None:
    path = copied(filled, tmp_path / "changed.db")
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("PRAGMA journal_mode = WAL")
        if fault == "text":
            connection.execute("UPDATE cells SET text = CAST(x'ff41' AS TEXT) WHERE id = ?", (ROWS - 3,))
    source = open_file(path)
    expected = await lines(source, select(*SPELLED), format_name)
    forget_slow_lines(source)
    select_, columns = prepared(source, select(*SPELLED))
    writer = FORMATS[format_name].writer(columns, source.engine.dialect, WriterOptions())
    data, rows = writer.head(), 0
    before = running()
    with backends_taken() as taken:
        async with aclosing(stream_chunks(source, select_, RULES, columns, writer, None, MANY)) as chunks:
            async for chunk in chunks:
                if not rows:
                    assert written_by_another(path) == ""
                if not rows and fault == "death":
                    for pid in {*running()} - {*before} or running():
                        os.kill(pid, signal.SIGKILL)
                data, rows = data + chunk.data, rows + chunk.rows
    assert data + writer.end(StreamEnd(rows)) == expected
    assert taken == ["by_reader_process"]
    assert (await lines(source, select(cells.c.id), "csv")).count(
        b"\n"
    ) == 1  # the other one deleted the rows


async def test_rows_that_were_sent_are_read_again_in_batches_as_large_as_those(source: Source) -> None:
    select_, columns = prepared(source, select(cells.c.text))
    writer = FORMATS["csv"].writer(columns, source.engine.dialect, WriterOptions())
    for width, batches in ((10, [100, 400, 1600, 4000, 4000, 4000]), (10_000, [100, *[26] * 5])):
        line = writer.rows([("x" * width,)]).data
        job = StreamJob(
            source=source,
            statement=select_,
            rules=RULES,
            columns=columns,
            described=driver_names(columns),
            writer=cast("Writer", _Rest(writer, MANY, len(line), line)),
        )
        sizes, pace = list[int](), Pace()

        def more(size: int, width: int = width) -> list[list[str]]:
            return [["x" * width]] * size

        while len(sizes) < len(batches):
            sizes.append(pace.rows)
            assert next_chunk(job, pace, more) is not None
        assert sizes == batches


async def test_a_snapshot_knows_whether_the_file_is_still_the_same(tmp_path: Path, filled: Path) -> None:
    path = copied(filled, tmp_path / "snapshot.db")
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        with closing(_Snapshot(connection, str(path))) as snapshot:
            snapshot.open()
            assert snapshot.is_current()
            assert written_by_another(path) == ""
            assert not snapshot.is_current()
            assert connection.execute("SELECT count(*) FROM cells").fetchone() == (ROWS,)
        assert connection.execute("SELECT count(*) FROM cells").fetchone() == (0,)


async def test_a_stream_that_is_cancelled_at_any_moment_leaves_no_transaction(
    open_file: Open, tmp_path: Path, filled: Path
) -> None:
    path = copied(filled, tmp_path / "cancelled.db")
    source = open_file(path)
    expected = await lines(source, select(*SPELLED), "ndjson")
    for microseconds in range(0, 10_000, 1_000):
        task = asyncio.ensure_future(lines(source, select(*SPELLED), "ndjson"))
        await asyncio.wait({task}, timeout=microseconds / 1e6)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    async with asyncio.timeout(PATIENCE):
        await asyncio.gather(*source.finishing)
    assert await lines(source, select(*SPELLED), "ndjson") == expected
    assert written_by_another(path) == ""
    assert (await lines(source, select(cells.c.id), "csv")).count(b"\n") == 1


async def test_lines_that_take_more_time_with_a_process_are_left_to_the_thread(
    open_file: Open, tmp_path: Path, filled: Path
) -> None:
    source = open_file(copied(filled, tmp_path / "odd.db"))
    with backends_taken() as taken:
        for _ in range(2):
            await lines(
                source, select(cells.c.id, cells.c.text), "csv"
            )  # NUL in a batch is an escape of JSON
            await lines(source, select(cells.c.id, cells.c.text), "ndjson")
    assert taken == ["by_reader_process"] * 2 + ["by_sqlite_thread", "by_reader_process"]


async def test_a_union_is_left_to_the_thread(open_file: Open, tmp_path: Path, make_engine: Any) -> None:
    """Of equal texts of a collation, versions of SQLite keep another one, and with it another order."""
    path = tmp_path / "union.db"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE cells (id, text COLLATE NOCASE)")
        rows = [(n, "aAbB"[n % 4] * (1 + n % 3)) for n in range(20_000)]
        connection.executemany("INSERT INTO cells VALUES (?, ?)", rows)
    texts = select(cells.c.text, cells.c.id)
    for statement in (union(texts, texts), intersect(texts, texts), union_all(texts, texts)):
        await same_lines(path, open_file(path), make_engine, statement)
    process = ReaderProcess()
    with closing(process):
        for word, is_read in (("UNION", False), ("INTERSECT", False), ("EXCEPT", False), ("UNION ALL", True)):
            for sql in (
                f"SELECT text FROM cells {word} SELECT text FROM cells",
                f"SELECT text FROM cells {word} SELECT text FROM cells ORDER BY 1",
                f"SELECT text FROM (SELECT text FROM cells {word} SELECT text FROM cells) WHERE text > 'a'",
            ):
                assert asked(process, path, sql) == ({"end": True} if is_read else {"declined": True}), sql


@pytest.mark.long
async def test_every_type(sqlite_url: str, make_engine: Any) -> None:
    engine: AsyncEngine = make_engine(sqlite_url)
    table = await fill(engine, 300)
    path = Path(engine.url.database or "")
    source = open_source("x", f"sqlite:///{path}", Registry(table.metadata))
    rules: ActiveRules = Policy(Registry(table.metadata)).rules_for(None)
    for column in table.c:
        statement = select(table.c.id, column.label("value"))
        await same_outcome(path, source, make_engine, statement, rules)
    await source.close()


_values = st.one_of(
    st.none(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False),
    st.text(st.characters(exclude_categories=["Cs"])),
    st.binary(),
    st.datetimes().map(lambda when: when.isoformat(" ", "microseconds")),
    st.dates().map(str),
)


@pytest.mark.long
@settings(max_examples=100, deadline=None)
@given(rows=st.lists(st.tuples(*[_values] * (len(NAMES) - 1)), max_size=30))
def test_values_of_any_class_anywhere(tmp_path_factory: pytest.TempPathFactory, rows: Any) -> None:
    from sqlalchemy.ext.asyncio import create_async_engine

    path = tmp_path_factory.mktemp("any") / "any.db"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(f"CREATE TABLE cells ({', '.join(NAMES)})")
        insert_rows(connection, [(n, *values) for n, values in enumerate(rows)])

    async def compare() -> None:
        source = open_source("x", f"sqlite:///{path}", Registry(metadata))
        for column in cells.c:
            statement = select(cells.c.id, column.label("value"))
            await same_outcome(path, source, create_async_engine, statement)
            if column in SPELLED:
                await same_lines(path, source, create_async_engine, statement)
        await source.close()

    asyncio.run(compare())


@pytest.mark.quick(2)
@pytest.mark.parametrize(
    "statement",
    [
        select(cells.c.id, func.round(cells.c.ratio, 2).label("value")),
        select(func.sum(cells.c.ratio).label("value")),
        select(cells.c.id, cells.c.text.concat("x").label("value")),
        select(cells.c.id, func.upper(cells.c.text).label("value")),
    ],
)
async def test_what_versions_of_sqlite_compute_otherwise_is_left_to_the_thread(
    source: Source, statement: Any
) -> None:
    actual = await outcome(source, statement)
    assert set(map(len, actual.values())) in ({1}, {ROWS})
    assert len(idle(source)) == 1  # it declined, and waits for another one


HOSTILE = [
    "DELETE FROM cells",
    "CREATE TABLE made (n)",
    "ATTACH 'made.db' AS made",
    "VACUUM INTO 'made.db'",
    "PRAGMA query_only",
    "PRAGMA writable_schema = ON",
    "SELECT load_extension('x')",
    "SELECT * FROM pragma_table_info('cells')",
    "SELECT 1; DELETE FROM cells",
    "no statement",
]


def asked(process: ReaderProcess, path: Path, sql: str, seconds: float = 60) -> dict[str, Any]:
    """The last message of the process."""
    terms = {"lock_seconds": 0, "largest_value": 1_000_000, "seconds": seconds}
    process.ask({"path": str(path), "sql": sql, "parameters": [], **terms})
    while True:
        header, _ = process.message()
        if "names" not in header and "rows" not in header:
            return header


@pytest.fixture
def process() -> Any:
    with closing(ReaderProcess()) as process:
        yield process


def test_it_reads_and_does_nothing_else(filled: Path, process: ReaderProcess) -> None:
    before = filled.read_bytes()
    for sql in HOSTILE:
        assert asked(process, filled, sql) == {"declined": True}, sql
    assert (filled.read_bytes(), list(filled.parent.iterdir())) == (before, [filled])
    assert asked(process, filled.parent / "missing.db", "SELECT 1") == {"declined": True}
    assert asked(process, filled, "SELECT id FROM cells") == {"end": True}


KINDS = (
    st.text("a\0", max_size=3),
    st.sampled_from(["ab", "ba", "a\0", "é", "x" * 255, "y" * 300]),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False),
    st.binary(max_size=2),
)
GROUP = st.integers(1, 5).flatmap(
    lambda rows: st.tuples(*(st.lists(kind | st.none(), min_size=rows, max_size=rows) for kind in KINDS))
)


# What separates these texts is where it would be if they were equally long.
@example(groups=[(["ab", "c", "\0de"], ["ab"] * 3, [0, 1, None], [None, 0.5, None], [b"", b"a", None])])
@given(groups=st.lists(GROUP, min_size=1, max_size=4))
def test_columns_of_several_groups_of_rows_are_their_values(groups: list[Any]) -> None:
    written = []
    for group in groups:
        places: list[int] = []
        written.append([packed(column, places) for column in group])
    # Only columns of one kind are joined.
    kept = [column for column in range(len(KINDS)) if len({group[column].kind for group in written}) == 1]
    assume(kept)
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as pipe:
        Reader(None, None, None, writing)._write_rows(
            [[group[column] for column in kept] for group in written]
        )
        os.close(writing)
        header_size, _ = LENGTHS.unpack(pipe.read(LENGTHS.size))
        header = json.loads(pipe.read(header_size))
        arrays = _arrays(header["columns"], header["rows"], bytearray(pipe.read()))
    for column, array in zip(kept, arrays, strict=True):
        array.validate(full=True)
        expected = [value for group in groups for value in group[column]]
        assert array.to_pylist() == expected
        assert array.null_count == expected.count(None)


@pytest.mark.parametrize(
    ("line_format", "written"),
    [
        ("csv", b'1,"q""\n,\\t\\","2024-02-01",true\r\n2,,,\r\n'),
        (
            "ndjson",
            b'{"n":1,"s":"q\\"\\n,\\\\t\\\\","d":"2024-02-01","b":true}\n{"n":2,"s":null,"d":null,"b":null}\n',
        ),
    ],
)
def test_it_writes_lines_of_plain_rows_itself(
    tmp_path: Path, process: ReaderProcess, line_format: str, written: bytes
) -> None:
    """It sends the values of other rows, from which the server makes the same lines, in more time."""
    with closing(sqlite3.connect(tmp_path / "plain.db")) as connection, connection:
        connection.execute("CREATE TABLE plain (n, s, d, b)")
        rows = [
            (1, 'q"\n,\\t\\', "2024-02-01", 1),
            (2, None, None, None),
            (3, "[null", None, 0),
            ("x", "", None, 0),
        ]
        connection.executemany("INSERT INTO plain VALUES (?, ?, ?, ?)", rows)
    columns = json.dumps([["n", "s", "d", "b"], ["int", "str", "date", "bool"]])
    terms = {"path": str(tmp_path / "plain.db"), "parameters": [], "seconds": 60, "lock_seconds": 0}
    terms |= {"largest_value": 1_000_000, "lines": line_format, "columns": columns}

    def answer(where: str) -> tuple[dict[str, Any], bytes]:
        process.ask({**terms, "sql": f"SELECT n, s, d, b FROM plain WHERE {where}"})
        assert process.message()[0] == {"names": ["n", "s", "d", "b"]}
        header, body = process.message()
        assert process.message()[0] == {"end": True}
        return header, bytes(body)

    assert answer("n < 3") == ({"rows": 2}, written)
    assert answer("n = 'x'") == ({"rows": 1, "values": True}, b'[["x", "", null, 0]]')
    assert ("values" in answer("n = 3")[0]) is (line_format == "csv")


def test_it_has_a_time_limit_and_a_size_limit(filled: Path, process: ReaderProcess) -> None:
    endless = "SELECT 1 FROM cells a, cells b, cells c WHERE a.id > b.id AND b.id > c.id AND c.id > a.id"
    assert asked(process, filled, endless, seconds=0.1)["code"] == sqlite3.SQLITE_INTERRUPT
    assert asked(process, filled, "SELECT id, zeroblob(2000000) FROM cells") == {"declined": True}


def test_it_inherits_no_secret_and_ends_with_its_parent(filled: Path) -> None:
    program = (
        "import os, sys; from dualsql.databases.sqlite.processes import ReaderProcess;"
        "os.environ['SECRET'] = 'canary'; p = ReaderProcess(); pid = p._process.pid;"
        "print(pid, 'canary' in open(f'/proc/{pid}/environ').read() if sys.platform == 'linux' else False, flush=True);"
        "os._exit(0)"
    )
    output = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout
    pid, has_secret = output.split()
    assert has_secret == "False"
    wait_for_end(int(pid))


def wait_for_end(pid: int) -> None:
    for _ in range(int(PATIENCE * 100)):
        try:
            os.kill(pid, 0)
            state = Path(f"/proc/{pid}/stat")
            if state.exists() and state.read_text().rpartition(")")[2].split()[0] == "Z":
                return
        except ProcessLookupError:
            return
        signal.sigtimedwait([], 0.01)
    pytest.fail("The process goes on.")


def running() -> list[int]:
    """The reader processes of this one."""
    command = ["pgrep", "-P", str(os.getpid()), "-f", "reader_process.py"]
    return [int(pid) for pid in subprocess.run(command, capture_output=True, check=False).stdout.split()]


def copied(path: Path, there: Path) -> Path:
    there.write_bytes(path.read_bytes())
    return there


SLOW = (
    select(cells.c.id)
    .select_from(cells.join(other := cells.alias(), other.c.id + cells.c.id < 0))
    .order_by(cells.c.id)
)


async def test_who_leaves_ends_the_process(source: Source) -> None:
    before = running()
    async with aclosing(chunks_of(source, SLOW)) as chunks:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5):
                await anext(chunks)
    async with aclosing(chunks_of(source, select(cells))) as chunks:
        await anext(chunks)
    async with asyncio.timeout(PATIENCE):
        await asyncio.gather(*source.finishing)
    assert running() == before
    assert len((await outcome(source, select(cells.c.id)))["id"]) == ROWS


async def test_a_process_that_dies_is_an_error(source: Source) -> None:
    async with aclosing(chunks_of(source, select(cells))) as chunks:
        await anext(chunks)
        for pid in running():
            os.kill(pid, signal.SIGKILL)
        with pytest.raises(DatabaseBusyError):
            async with asyncio.timeout(PATIENCE):
                [chunk async for chunk in chunks]
    assert len((await outcome(source, select(cells.c.id)))["id"]) == ROWS


@pytest.mark.parametrize("journal", ["delete", "wal"])
async def test_a_lock_of_this_process_outlives_a_stream(
    open_file: Open, tmp_path: Path, filled: Path, journal: str
) -> None:
    """A second SQLite in one process would release it: https://www.sqlite.org/howtocorrupt.html, 2.2.1."""
    path = copied(filled, tmp_path / "locked.db")
    source = open_file(path)
    with closing(sqlite3.connect(path, isolation_level=None)) as writer:
        writer.execute(f"PRAGMA journal_mode = {journal}")
        writer.execute("BEGIN IMMEDIATE")
        writer.execute("DELETE FROM cells WHERE id > 10")
        assert len((await outcome(source, select(cells.c.id)))["id"]) == ROWS
        assert "locked" in written_by_another(path)
        writer.execute("COMMIT")
    assert len((await outcome(source, select(cells.c.id)))["id"]) == 11
    assert written_by_another(path) == ""


async def test_a_stream_has_the_rows_of_one_moment(open_file: Open, tmp_path: Path, filled: Path) -> None:
    path = copied(filled, tmp_path / "wal.db")
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
    async with aclosing(chunks_of(open_file(path), select(cells.c.id, cells.c.data))) as chunks:
        count = (await anext(chunks)).rows
        assert written_by_another(path) == ""
        count += sum([chunk.rows async for chunk in chunks])
    assert count == ROWS


def written_by_another(path: Path) -> str:
    """What another process is told that deletes the rows."""
    program = (
        "import sqlite3, sys\n"
        "try:\n    c = sqlite3.connect(sys.argv[1], timeout=0); c.execute('DELETE FROM cells'); c.commit()\n"
        "except sqlite3.OperationalError as error:\n    print(error)"
    )
    command = [sys.executable, "-c", program, str(path)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout
