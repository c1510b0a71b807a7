"""The names of rows that foreign keys refer to: `POST labels` beside the home page."""

from __future__ import annotations

import html
import json
import re
import sqlite3
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.web.forms import send_form
from tests.web.test_home import home, session

LARGE = 2**53 + 1
TABLES = """
CREATE TABLE carriers (code TEXT PRIMARY KEY, name TEXT);
CREATE TABLE customers (tenant INTEGER, id INTEGER, name TEXT, PRIMARY KEY (tenant, id));
CREATE TABLE "we""ird:t%" ("k""e:y%" INTEGER PRIMARY KEY, "Name" TEXT);
CREATE TABLE large (id INTEGER PRIMARY KEY, title TEXT);
CREATE TABLE flights (
    id INTEGER PRIMARY KEY, carrier TEXT REFERENCES carriers (code), tenant INTEGER, customer INTEGER,
    odd INTEGER REFERENCES "we""ird:t%" ("k""e:y%"), large INTEGER REFERENCES large (id),
    FOREIGN KEY (tenant, customer) REFERENCES customers (tenant, id)
);
INSERT INTO carriers VALUES ('UA', 'United'), ('AA', '<b>American</b>');
INSERT INTO customers VALUES (1, 7, 'of one'), (2, 7, 'of two');
INSERT INTO "we""ird:t%" VALUES (1, 'odd');
INSERT INTO flights VALUES (1, 'UA', 2, 7, 1, 9007199254740993), (2, 'AA', 1, 7, 1, 1);
"""


@pytest.fixture
def database(tmp_path: Path) -> str:
    path = tmp_path / "flights.sqlite"
    with sqlite3.connect(path) as connection:
        connection.executescript(TABLES)
        connection.execute("INSERT INTO large VALUES (?, ?), (1, 'one')", (LARGE, "x" * 1_000_000))
    return f"sqlite+aiosqlite:///{path}"


@pytest.fixture
async def http(database: str) -> AsyncIterator[httpx.AsyncClient]:
    async with home(database) as client:
        yield client


async def references_of(http: httpx.AsyncClient) -> Mapping[str, Any]:
    redirect = await send_form(http, "", "ask", {"sql": "SELECT * FROM flights"})
    page = (await http.get(redirect.headers["location"])).text
    match = re.search('data-references="([^"]*)"', page)
    assert match is not None
    references: Mapping[str, Any] = json.loads(html.unescape(match[1]))
    return references


def key(reference: Mapping[str, Any], values: list[Any]) -> dict[str, Any]:
    return {"table": reference["uri"], "column": reference["column"], "values": values}


async def test_one_request_has_the_names_of_all_keys(http: httpx.AsyncClient) -> None:
    to = await references_of(http)
    keys = [key(to["carrier"], ["UA", "AA", "ZZ"]), key(to["odd"], [1]), key(to["large"], [str(LARGE), 1])]
    answer = await http.post("labels", json={"keys": keys})
    assert answer.status_code == 200
    carriers, odd, large = answer.json()
    assert sorted(carriers) == [["AA", "<b>American</b>"], ["UA", "United"]]
    assert odd == [["1", "odd"]]
    # As text, of which JavaScript makes no other number; and no long text stands behind a key.
    assert sorted(large) == [["1", "one"], [str(LARGE), "x" * 100 + "…"]]
    assert answer.headers["cache-control"] == "no-store"


async def test_a_part_of_a_key_has_no_name(http: httpx.AsyncClient) -> None:
    """Two customers have the number 7, each of its tenant."""
    to = await references_of(http)
    assert to["carrier"]["has_labels"]
    assert not to["customer"]["has_labels"] and not to["tenant"]["has_labels"]


@pytest.mark.parametrize(
    "values",
    [
        ["U\0", "UA"],
        [{}, [], None, True, 1.5, "UA"],
        [10**30, "UA"],
        ["x" * 10_000, "UA"],
        ["UA"] * 5_000,
        ["' OR 1=1 --", "UA"],
    ],
)
async def test_values_that_are_no_key_are_left_out(http: httpx.AsyncClient, values: list[Any]) -> None:
    to = await references_of(http)
    answer = await http.post("labels", json={"keys": [key(to["carrier"], values)]})
    assert (answer.status_code, answer.json()) == (200, [[["UA", "United"]]])
    numbers = await http.post("labels", json={"keys": [key(to["odd"], [*values, "1"])]})
    assert (numbers.status_code, len(numbers.json()[0]) <= 1) == (200, True)


async def test_another_column_has_no_names(http: httpx.AsyncClient) -> None:
    to = await references_of(http)
    for name in ('nothing" OR 1=1 --', "", "code--"):
        answer = await http.post("labels", json={"keys": [key(to["carrier"] | {"column": name}, ["UA"])]})
        assert (answer.status_code, answer.json()) == (200, [[]])


async def test_what_is_no_list_of_keys_is_refused(http: httpx.AsyncClient) -> None:
    to = await references_of(http)
    good = key(to["carrier"], ["UA"])
    wrong: list[Any] = [
        None,
        {},
        "",
        [1],
        [good] * 51,
        [good | {"values": "UA"}],
        [good | {"table": "x"}],
        [{}],
    ]
    for keys in wrong:
        assert (await http.post("labels", json={"keys": keys})).status_code == 400, keys
    json_type = {"Content-Type": "application/json"}
    for content in (b"[" * 60_000, b"\xff", b'{"keys": ["\\ud800"]}', b""):
        assert (await http.post("labels", content=content, headers=json_type)).status_code == 400
    assert (await http.post("labels", data={"keys": "[]"})).status_code == 415
    assert (await http.get("labels")).status_code == 405


async def test_other_sites_and_strangers_get_no_names(database: str, http: httpx.AsyncClient) -> None:
    body = {"keys": [key((await references_of(http))["carrier"], ["UA"])]}
    for headers in (
        {"Origin": "https://evil.example"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Host": "evil.example"},
    ):
        assert (await http.post("labels", json=body, headers=headers)).status_code == 403
    async with home(database, authenticate=session()) as other:
        assert (await other.post("labels", json=body)).status_code == 401
