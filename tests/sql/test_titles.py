"""A model's result is named by its statement: its tables, groups or few columns, and whether all rows are there."""

from __future__ import annotations

import pytest
from sqlalchemy import Column, Date, FromClause, Integer, MetaData, String, Table, select

from dualsql import Registry
from dualsql.sql import read_select
from dualsql.sql.titles import title_of
from tests.sql import warehouse
from tests.sql.corpus import texts_for

METADATA = MetaData()
Table(
    "flights",
    METADATA,
    Column("id", Integer, primary_key=True),
    Column("carrier", String),
    Column("dest", String),
    Column("dep_delay", Integer),
    Column("day", Date),
)
Table("air_lines", METADATA, Column("carrier", String, primary_key=True), Column("name", String))
HOSTILE = 'a"\u202e\nb' + "x" * 300
Table(HOSTILE, METADATA, Column("id", Integer))
REGISTRY = Registry(METADATA)

TITLES = {
    "SELECT * FROM flights": "Flights",
    "SELECT id, carrier, dest, day FROM flights": "Flights",
    "SELECT carrier, count(*) FROM flights GROUP BY carrier": "Flights by carrier",
    "SELECT carrier AS c, dest, avg(dep_delay) FROM flights f WHERE id > 0 GROUP BY carrier, dest LIMIT 10": (
        "Flights by c and dest (filtered, first 10)"
    ),
    "SELECT strftime('%Y-%m', day) AS month, count(*) FROM flights GROUP BY strftime('%Y-%m', day)": "Flights by month",
    "SELECT strftime('%Y', day) AS year, count(*) FROM flights GROUP BY 1": "Flights by year",
    "SELECT count(*) AS number FROM flights WHERE id = 1": "Flights: number (filtered)",
    "SELECT id + 1, floor(id / 2.5) FROM flights": "Flights: computed and floor",
    "SELECT DISTINCT carrier FROM flights": "Flights: distinct carrier",
    "SELECT dep_delay FROM flights ORDER BY 1 DESC LIMIT 5": "Flights: dep_delay (first 5)",
    "SELECT a.name, count(*) FROM flights f JOIN air_lines a ON a.carrier = f.carrier GROUP BY a.name": (
        "Flights and air lines by name"
    ),
    "WITH x AS (SELECT carrier FROM flights) SELECT * FROM x": "Flights",
    "SELECT carrier FROM flights UNION SELECT carrier FROM air_lines": "Flights and air lines",
    "SELECT dep_delay FROM flights WHERE carrier = (SELECT max(carrier) FROM air_lines)": (
        "Flights: dep_delay (filtered)"
    ),
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3) SELECT i FROM n": "Query results",
    "SELECT 1": "Query results",
}


@pytest.mark.parametrize("sql", TITLES)
def test_titles(sql: str) -> None:
    assert title_of(read_select(sql, REGISTRY, "sqlite")) == TITLES[sql]


def test_a_title_is_one_short_line() -> None:
    quoted = '"' + HOSTILE.replace('"', '""') + '"'
    title = title_of(read_select(f"SELECT * FROM {quoted}", REGISTRY, "sqlite"))
    assert len(title) <= 120 and title.isprintable()


@pytest.mark.long
def test_every_legitimate_text_has_a_title() -> None:
    registry = Registry(warehouse.METADATA)
    texts = texts_for("sqlite")
    titles = {text.sql: title_of(read_select(text.sql, registry, "sqlite")) for text in texts}
    assert len(titles) > 100
    named = [title for title in titles.values() if title != "Query results"]
    assert len(named) > len(titles) * 0.9
    assert all(0 < len(title) <= 120 and title.isprintable() and "%(" not in title for title in named)


def test_a_large_statement_has_a_title_too() -> None:
    flights = METADATA.tables["flights"]
    first = flights.alias()
    joined: FromClause = flights
    for _ in range(250):
        other = flights.alias()
        joined = joined.join(other, other.c.id == first.c.id)
    assert title_of(select(first.c.id).select_from(joined)) == "Flights: id"
