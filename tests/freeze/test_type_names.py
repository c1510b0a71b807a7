"""Documents name every type of SQLAlchemy, also those of dialects that are imported at their first use."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module

import pytest
from sqlalchemy.types import Enum, PickleType, TypeDecorator, TypeEngine

from dualsql.freeze import types

NOT_IMPORTED = """
import sys
from dualsql import DualResponseServer
from dualsql.freeze import types
later = ("mssql", "oracle")
assert not [name for name in later if "sqlalchemy.dialects." + name in sys.modules]
# A document of another process names a type that nothing here has used yet.
read = [types.read_type("mssql.BIT"), types.read_type(["oracle.NUMBER", {"precision": 9}])]
assert [types.write_type(one) for one in read] == ["mssql.BIT", ["oracle.NUMBER", {"precision": 9}]]
"""


@pytest.mark.long
def test_a_server_imports_them_when_a_document_names_them() -> None:
    subprocess.run([sys.executable, "-c", NOT_IMPORTED], check=True)


@pytest.mark.parametrize("dialect", ["mssql", "oracle"])
def test_every_type_of_theirs_has_a_name(dialect: str) -> None:
    exported = vars(import_module(f"sqlalchemy.dialects.{dialect}")).values()
    actual = [cls for cls in exported if isinstance(cls, type) and issubclass(cls, TypeEngine)]
    plain = [cls for cls in actual if not issubclass(cls, Enum | PickleType | TypeDecorator)]
    assert len(plain) > 15
    for cls in plain:
        written = types.write_type(cls())
        assert type(types.read_type(written)) is cls


def test_an_unknown_name_is_refused() -> None:
    for name in ("mssql.NOTHING", "oracle.", "firebird.BIT"):
        with pytest.raises(KeyError):
            types.read_type(name)
