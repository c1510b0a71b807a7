"""`dualsql migrate` at a terminal."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from sqlalchemy import make_url
from typer.testing import CliRunner

from dualsql import StorageError
from dualsql.cli.commands import app
from dualsql.store.migrations import current_revision

RUN = CliRunner()


def test_up_and_again(sqlite_url: str) -> None:
    assert "no revision to revision" in RUN.invoke(app, ["migrate", "--create", "--store", sqlite_url]).output
    assert "already" in RUN.invoke(app, ["migrate", "--store", sqlite_url]).output


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
            with pytest.raises(StorageError):
                current_revision(f"sqlite:///{tmp_path}")  # a folder
    finally:
        threading.excepthook = usual
    assert failures == []
