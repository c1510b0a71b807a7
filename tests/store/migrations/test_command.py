"""`dualsql migrate` at a terminal."""

from __future__ import annotations

import os
import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import make_url
from typer.testing import CliRunner

from dualsql import ConfigurationError
from dualsql.cli.commands import app
from dualsql.store.migrations import current_revision

RUN = CliRunner()


def test_up_and_again(sqlite_url: str) -> None:
    assert "no revision to revision" in RUN.invoke(app, ["migrate", "--create", "--store", sqlite_url]).output
    assert "already" in RUN.invoke(app, ["migrate", "--store", sqlite_url]).output


@pytest.mark.skipif(os.name == "nt", reason="Windows has no modes")
def test_a_new_file_is_for_its_owner_alone(sqlite_url: str) -> None:
    """Also those that SQLite makes beside it."""
    file = Path(str(make_url(sqlite_url).database))
    before = os.umask(0)
    try:
        RUN.invoke(app, ["migrate", "--create", "--store", sqlite_url])
        with closing(sqlite3.connect(file)) as connection:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("CREATE TABLE more (id)")
            modes = {each.name: each.stat().st_mode & 0o777 for each in file.parent.glob(f"{file.name}*")}
    finally:
        os.umask(before)
    assert len(modes) == 3 and set(modes.values()) == {0o600}, modes


def test_a_database_without_a_store_is_left_as_it_is(sqlite_url: str) -> None:
    refused = RUN.invoke(app, ["migrate"], env={"DUALSQL_STORE": sqlite_url})
    assert refused.exit_code == 1 and "--create" in refused.output
    assert not Path(str(make_url(sqlite_url).database)).exists()
    assert RUN.invoke(app, ["migrate"], env={"DUALSQL_DATABASE_URL": sqlite_url}).exit_code == 2


def test_going_back_asks_first(sqlite_url: str) -> None:
    RUN.invoke(app, ["migrate", "--create", "--store", sqlite_url])
    back = ["migrate", "--store", sqlite_url, "--down-to", "base"]
    refused = RUN.invoke(app, back, input="n\n")
    assert refused.exit_code == 1
    assert "delete all stored resources" in refused.output
    assert "to no revision" in RUN.invoke(app, [*back, "--yes"]).output


def test_a_wrong_url_is_one_line_without_its_password() -> None:
    refused = RUN.invoke(app, ["migrate", "--create", "--store", "nonsense://user:pa55word@host/x"])
    assert refused.exit_code == 1
    assert refused.output.startswith("dualsql: ")
    assert "pa55word" not in refused.output


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    refused = RUN.invoke(app, ["migrate", "--create", "--store", f"sqlite:///{tmp_path}/none/store.sqlite"])
    assert refused.exit_code == 1
    assert f"does not exist: {tmp_path}/none" in refused.output and "again" not in refused.output


def test_a_file_that_cannot_be_opened_leaves_no_thread_behind(tmp_path: Path) -> None:
    failures: list[threading.ExceptHookArgs] = []
    usual, threading.excepthook = threading.excepthook, failures.append
    try:
        for _ in range(100):
            with pytest.raises(ConfigurationError, match="cannot be opened"):
                current_revision(f"sqlite:///{tmp_path}")  # a folder
    finally:
        threading.excepthook = usual
    assert failures == []
