"""Rows of the store, changed behind its back: the rows of their owner as before, or an error of ours."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from dualsql import LocalResultStorage, SQLResourceStore
from dualsql.store.tables import resources
from tests.engines import sqlite_url_in
from tests.freeze.hostile import mutate_bytes
from tests.fuzz.running import LIMIT, ONE_CASE, Case, cases, odd_text, result_of
from tests.http.application import Application, by_header
from tests.query.readings import ALL, READINGS, person, readings_at

pytestmark = [
    pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SADeprecationWarning"),
    pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SAWarning"),
    pytest.mark.timeout(7200),
]
HEADERS = {"X-User": "ada", "X-Tenant": "north"}
REFUSALS = {
    *("TAMPERED_RESOURCE", "STORAGE_ERROR", "RESOURCE_NOT_FOUND"),
    *("RESOURCE_EXPIRED", "RESOURCE_PENDING", "QUERY_FAILED"),
}
OWNERS = (("ada", "north", False), ("ada", "north", True), ("eve", "south", False), ("eve", "south", True))
"""Whose results there are, and whether they are kept."""

COLUMNS = [column.name for column in resources.c if column.name != "id"]


class Stored(NamedTuple):
    """A server, the file of its store, and the rows of its resources by id: the first ones are of the caller."""

    application: Application
    file: str
    rows: dict[str, dict[str, Any]]
    own: list[str]


@pytest.fixture(scope="module")
async def stored(
    anyio_backend: str, tmp_path_factory: pytest.TempPathFactory, migrated_sqlite: Path
) -> AsyncIterator[Stored]:
    """A server over the readings of two tenants, some of whose results are kept."""
    folder: Path = tmp_path_factory.mktemp("fuzz")
    file = shutil.copy(migrated_sqlite, folder / "store.sqlite")
    async with readings_at(
        sqlite_url_in(folder),
        authenticate=by_header,
        query_timeout=timedelta(seconds=LIMIT),
        store=SQLResourceStore(f"sqlite+aiosqlite:///{file}"),
        secrets=["a secret of more than thirty-two characters"],
        storage=LocalResultStorage(folder / "kept"),
    ) as application:
        own = []
        for name, tenant, keep in OWNERS:
            for statement in (ALL, ALL.with_only_columns(READINGS.c.id, READINGS.c.text)):
                who = person(tenant, name)
                path = await result_of(application.server, statement, who, keep=keep)
                own += [path.rpartition("/")[2]] if name == "ada" else []
        with closing(sqlite3.connect(file)) as connection:
            connection.row_factory = sqlite3.Row
            rows = {row["id"]: dict(row) for row in connection.execute(f"SELECT * FROM {resources.name}")}
        yield Stored(application, str(file), rows, own)


def changed(case: Case, stored: Stored, name: str, value: Any) -> Any:
    """Another value of the column: that of another row, the same one damaged, or any."""
    draw = case.choices.random()
    if draw < 0.4:
        return case.one_of(list(stored.rows.values()))[name]
    if draw < 0.8 and isinstance(value, bytes) and value:
        return mutate_bytes(value, case.choices)
    if draw < 0.8 and isinstance(value, str) and value:
        return mutate_bytes(value.encode(), case.choices).decode(errors="ignore")
    if draw < 0.8 and isinstance(value, int):
        return case.one_of((value + 1, -value, 0, 2**62, 1e300))
    return case.one_of((None, "", b"", 0, -1, odd_text(case), case.choices.randbytes(20), 1.5))


def write(stored: Stored, row: dict[str, Any]) -> bool:
    """Put the row into the store; False if its table does not take it."""
    places = ", ".join(f'"{name}" = :{name}' for name in COLUMNS)
    with closing(sqlite3.connect(stored.file)) as connection, connection:
        try:
            connection.execute(f"UPDATE {resources.name} SET {places} WHERE id = :id", row)
        except sqlite3.IntegrityError:
            return False
    return True


async def rows_of(stored: Stored, path: str) -> tuple[int, Any]:
    """Of each way to read the rows: the rows, or the code of the refusal."""
    page = await stored.application.http.get(path, params={"limit": 500}, headers=HEADERS)
    if page.status_code != 200:
        return page.status_code, page.json()["code"]
    lines = await stored.application.http.get(f"{path}/rows", params={"summary": "false"}, headers=HEADERS)
    assert lines.status_code == 200, lines.text
    assert [json.loads(line) for line in lines.text.splitlines()] == page.json()["data"]
    return 200, page.json()["data"]


async def test_a_changed_row_gives_the_rows_as_before_or_is_refused(stored: Stored) -> None:
    before = {name: await rows_of(stored, f"/resources/{name}") for name in stored.own}
    assert {status for status, _ in before.values()} == {200}
    refused = 0
    for case in cases():
        name = case.one_of(stored.own)
        row = dict(stored.rows[name])
        for _ in range(case.one_of((1, 1, 1, 2, 3))):
            column = case.one_of(COLUMNS)
            row[column] = changed(case, stored, column, row[column])
        if case.choices.random() < 0.1:
            row = {**case.one_of(list(stored.rows.values())), "id": name}
        with case.about(
            {column: row[column] for column in COLUMNS if row[column] != stored.rows[name][column]}
        ):
            if write(stored, row):
                status, actual = await rows_of(stored, f"/resources/{name}")
                assert actual == before[name][1] if status == 200 else actual in REFUSALS, (status, actual)
                refused += status != 200
                listed = await stored.application.http.get("/resources/", headers=HEADERS)
                assert listed.status_code == 200 or listed.json()["code"] in REFUSALS, listed.text
        assert write(stored, stored.rows[name])
    assert refused or ONE_CASE, "the changes reach what is signed"
