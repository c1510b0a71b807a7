"""Documents go from one 2.1 release of SQLAlchemy to another; those of other formats are refused clearly."""

from __future__ import annotations

import json
import pickle
import re
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from sqlalchemy import select
from sqlalchemy.exc import SQLAlchemyError

from dualsql.errors import NotFreezableError, TamperedError
from dualsql.freeze import freeze, thaw
from dualsql.freeze.document import Statement
from tests.freeze.dialects import DIALECTS
from tests.freeze.shop import REGISTRY, SHAPES, customers

ROOT = Path(__file__).parents[2]


@pytest.mark.long
@pytest.mark.parametrize("release", ["2.1.0", "2.1.5"])
def test_releases_read_each_other(release: str, tmp_path: Path) -> None:
    """Needs the package index once, for an environment with the other release."""
    python = tmp_path / "environment" / "bin" / "python"
    subprocess.run([sys.executable, "-m", "venv", python.parents[1]], check=True)
    packages = [f"sqlalchemy=={release}", "orjson"]
    subprocess.run([python, "-m", "pip", "install", "-q", *packages], check=True)
    program = Path(__file__).with_name("other_release.py")
    process = subprocess.run([python, program, ROOT, tmp_path], capture_output=True, text=True, check=True)
    assert json.loads(process.stdout) == [[], []]
    for name, statement in SHAPES.items():
        written = tmp_path / (re.sub(r"\W+", "_", name) + ".bin")
        thawed = thaw(written.read_bytes(), REGISTRY)
        assert _sql(thawed) == _sql(statement), name


def _sql(statement: Statement) -> list[str]:
    """The SQL on each dialect that compiles it."""
    found = []
    for dialect in DIALECTS.values():
        with suppress(SQLAlchemyError, ArithmeticError, LookupError, TypeError, ValueError, AttributeError):
            found.append(str(statement.compile(dialect=dialect)))
    return found


def _version(document: bytes, number: int) -> bytes:
    return document[:1] + bytes([number]) + document[2:]


@pytest.mark.parametrize("number", [0, 2, 255])
def test_an_unknown_version_is_refused_clearly(number: int) -> None:
    document = freeze(select(customers), REGISTRY)
    with pytest.raises(NotFreezableError, match=f"format version {number};") as raised:
        thaw(_version(document, number), REGISTRY)
    assert raised.value.hint


@pytest.mark.parametrize(
    "document",
    [pickle.dumps({"statement": "select"}, protocol=protocol) for protocol in range(6)] + [b"", b"SELECT 1"],
)
def test_what_sqlalchemy_2_0_pickled_is_no_document(document: bytes) -> None:
    """sqlalchemy.ext.serializer pickles: such a row is refused before a byte of it is read."""
    with pytest.raises(TamperedError):
        thaw(document, REGISTRY)
