"""SQLite: a word in double quotes that names no column is a text. The rows are SQLite's, and the answer says so."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from sqlalchemy import MetaData, create_engine

from dualsql import DualResponseServer
from dualsql.errors import UnknownColumnError
from dualsql.resource import NOTES, notes_of
from dualsql.sql import read_select
from dualsql.sql.scope import is_one_edit_apart
from tests.sql.test_reading import REGISTRY

SCHEMA = """
CREATE TABLE airline (id INTEGER PRIMARY KEY, Name TEXT, "Full Name" TEXT, founded TEXT, fleet REAL);
INSERT INTO airline VALUES (1, 'JetBlue', 'JetBlue Airways', '1999-08-01', 7.5), (2, 'ANA', 'All Nippon', NULL, 3),
    (3, 'name', 'O''Hare "Air"', '2001-02-03', 0), (4, 'jetblue', '%', '1999-01-01', 12);
"""
TEXTS = [
    'SELECT id FROM airline WHERE "Full Name" = "JetBlue Airways"',
    'SELECT id FROM airline WHERE name = "JetBlue"',
    'SELECT id FROM airline WHERE Name = "JetBlue" OR Name IN ("ANA", "SAS", \'name\')',
    'SELECT id FROM airline WHERE Name LIKE "%blue%" AND NOT Name LIKE "Jet%"',
    'SELECT id FROM airline WHERE Name GLOB "J*"',
    'SELECT id FROM airline WHERE founded BETWEEN "1999-01-01" AND "1999-12-31"',
    'SELECT strftime("%Y", founded) AS year, count(*) FROM airline GROUP BY 1',
    'SELECT "airline:" || Name, "constant" FROM airline',
    'SELECT CASE WHEN fleet > "5" THEN "large" ELSE "small" END AS size, count(*) FROM airline GROUP BY size',
    'SELECT upper("text"), length("JetBlue Airways"), date("2001-02-03", "+1 day") FROM airline LIMIT 1',
    'SELECT id FROM airline WHERE "Full Name" = "O\'Hare ""Air"""',
    'SELECT count(*) FROM airline WHERE EXISTS (SELECT 1 FROM airline b WHERE b.name = "ANA" AND b.id > airline.id)',
    'SELECT group_concat(Name, " / ") FROM airline',
    'SELECT id FROM airline WHERE fleet = "3"',
    'SELECT id AS "Number" FROM airline WHERE Name <> "ANA" ORDER BY "Number" DESC',
    'SELECT Name FROM airline WHERE Name = "ANA" UNION SELECT "none at all" FROM airline',
    'SELECT id FROM airline WHERE Name = "JetBlue" COLLATE NOCASE',
    'WITH a AS (SELECT Name AS "The Name" FROM airline) SELECT "The Name" FROM a WHERE "The Name" = "ANA"',
    'SELECT id FROM airline WHERE Name = "JetBlue" -- a "comment"\n AND id < 4',
    'SELECT id, "no such thing" FROM airline ORDER BY "no such thing", id',
    'SELECT count(*) FROM airline GROUP BY "no such thing"',
    'SELECT id FROM airline WHERE "NAME" = "ANA"',
    'SELECT id FROM airline WHERE (Name, id) IN (("ANA", 2), ("JetBlue", 3))',
]


@pytest.mark.quick(8)
@pytest.mark.parametrize("sql", TEXTS)
async def test_a_quoted_word_is_what_sqlite_takes_it_for(sql: str, tmp_path: Path) -> None:
    path = tmp_path / "airlines.sqlite"
    with sqlite3.connect(path) as connection:
        connection.executescript(SCHEMA)
        wanted = connection.execute(sql).fetchall()
    metadata = MetaData()
    engine = create_engine(f"sqlite:///{path}")
    metadata.reflect(engine)
    engine.dispose()
    async with DualResponseServer(
        f"sqlite:///{path}", base_url="http://127.0.0.1/resources", tables=metadata
    ) as dual:
        statement = dual.sql.resolve(sql).select
        response = await dual.create_response(statement, name="x", is_text=True)
        stored = await dual.get_resource(response.resource_id)
    assert stored is not None
    rows = [tuple(row.values()) for row in response.sample]
    assert sorted(map(repr, rows)) == sorted(map(repr, wanted))
    is_noted = any(word in sql for word in ("Number", "NAME")) is False or "ANA" in sql
    assert bool(response.notes) is is_noted
    assert stored.metadata[NOTES] == list(response.notes)
    assert f"Note: {response.notes[0]}" in response.to_text()
    assert response.to_structured_content()["metadata"]["notes"] == list(response.notes)


def test_the_note_names_the_words_and_says_how_a_text_is_written() -> None:
    sql = 'SELECT id FROM school WHERE state = "N""J\'s" OR name IN ("aaa", "bbb", "ccc", "ddd", "eee")'
    [note] = notes_of(read_select(sql, REGISTRY, "sqlite"))
    assert note == (
        '"N"J\'s", "aaa", "bbb", "ccc", "ddd" and 1 more name no column and are taken as text, as SQLite does. '
        "Write texts in single quotes: 'N\"J''s'."
    )
    assert notes_of(read_select("SELECT id FROM school WHERE state = 'NJ'", REGISTRY, "sqlite")) == ()


@pytest.mark.parametrize(
    ("condition", "guess"),
    [
        ("\"nam\" = 'x'", "Did you mean name"),
        ("\"naem\" = 'x'", "Did you mean name"),
        ("\"statee\" = 'NJ'", "Did you mean state"),
        ('state = "names"', "Did you mean name"),
        ("statute = 'NJ'", "Did you mean state"),
        ("`statute` = 'NJ'", "Did you mean state"),
        ("[statute] = 'NJ'", "Did you mean state"),
        ("school.\"statute\" = 'NJ'", "Did you mean state"),
        ('"rowid" = 1', "Text is written in single quotes: 'rowid'."),
    ],
)
def test_what_may_be_a_name_stays_an_error(condition: str, guess: str) -> None:
    with pytest.raises(UnknownColumnError) as error:
        read_select(f"SELECT id FROM school WHERE {condition}", REGISTRY, "sqlite")
    assert guess in error.value.hint


@pytest.mark.parametrize("dialect", ["postgresql", "duckdb"])
def test_elsewhere_it_is_a_name(dialect: str) -> None:
    with pytest.raises(UnknownColumnError):
        read_select('SELECT id FROM school WHERE name = "JetBlue Airways"', REGISTRY, dialect)


@pytest.mark.parametrize(
    ("one", "other", "is_near"),
    [
        ("name", "name", True), ("name", "NAME", True), ("name", "nam", True), ("name", "ame", True),
        ("name", "xname", True), ("name", "nxame", True), ("name", "nxme", True), ("name", "nmae", True),
        ("name", "naem", True), ("name", "nm", False), ("name", "mane", False), ("name", "nameab", False),
        ("name", "eman", False), ("ab", "ba", True), ("a", "b", True), ("", "a", True), ("", "ab", False),
    ],
)  # fmt: skip
def test_one_edit(one: str, other: str, *, is_near: bool) -> None:
    assert is_one_edit_apart(one, other) is is_one_edit_apart(other, one) is is_near
