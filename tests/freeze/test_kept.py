"""Documents of every format version are thawed for ever, here and in another process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from sqlalchemy import select

from dualsql.errors import NotFreezableError
from dualsql.freeze import Registry, freeze, thaw
from dualsql.freeze.document import VERSION
from tests.freeze.dialects import DIALECTS
from tests.freeze.keep import FOLDER
from tests.freeze.shop import REGISTRY, SHAPES, orders_
from tests.quick import one_in

KEPT = sorted(FOLDER.glob("v*/*.bin"))


def test_every_version_is_kept() -> None:
    assert {path.parent.name for path in KEPT} == {f"v{number}" for number in range(1, VERSION + 1)}
    assert len(KEPT) >= len(SHAPES)  # else: python -m tests.freeze.keep


@pytest.mark.quick(30)
@pytest.mark.parametrize("path", KEPT, ids=lambda path: f"{path.parent.name} {path.stem}")
def test_a_kept_document_gives_its_sql(path: Path) -> None:
    first, _, expected = path.with_suffix(".sql").read_text().partition("\n")
    statement = thaw(path.read_bytes(), REGISTRY)
    assert f"{statement.compile(dialect=DIALECTS[first.removeprefix('-- ')])}\n" == expected


_PROGRAM = """
import sys
from dualsql.freeze import thaw
from tests.freeze.dialects import DIALECTS
from tests.freeze.shop import REGISTRY
print(thaw(sys.stdin.buffer.read(), REGISTRY).compile(dialect=DIALECTS["postgresql"]))
"""


@pytest.mark.long
@pytest.mark.parametrize("name", one_in(2, ["recursive", "orm polymorphic"]))
def test_another_process_thaws_the_same_statement(name: str) -> None:
    statement = SHAPES[name]
    document = freeze(statement, REGISTRY, dialect=DIALECTS["postgresql"])
    process = subprocess.run(
        [sys.executable, "-c", _PROGRAM], input=document, capture_output=True, check=True
    )
    assert process.stdout.decode().strip() == str(statement.compile(dialect=DIALECTS["postgresql"])).strip()


def _registry(*columns: str, kind: str = "Integer") -> Registry:
    import sqlalchemy as sa

    types = {"Integer": sa.Integer, "String": sa.String}
    table = sa.Table(
        "t", sa.MetaData(), sa.Column("id", types[kind]), *[sa.Column(c, sa.Integer) for c in columns]
    )
    return Registry(table)


def test_an_unrelated_migration_voids_nothing() -> None:
    before, after = _registry("a"), _registry("b", "c")
    document = freeze(select(before.tables["t"].c.id), before)
    assert str(thaw(document, after)) == str(thaw(document, before))


@pytest.mark.parametrize("after", [_registry("a", kind="String"), _registry("b")])
def test_a_changed_or_missing_column_gives_a_clear_error(after: Registry) -> None:
    before = _registry("a")
    table = before.tables["t"]
    document = freeze(select(table.c.id, table.c.a), before)
    with pytest.raises(NotFreezableError, match="changed"):
        thaw(document, after)


def test_a_new_column_of_a_whole_table_is_a_change_of_the_result() -> None:
    before, after = _registry("a"), _registry("a", "b")
    document = freeze(select(before.tables["t"]), before)
    with pytest.raises(NotFreezableError, match="changed"):
        thaw(document, after)


def test_a_document_of_another_server_names_nothing_here() -> None:
    document = freeze(select(orders_.id), REGISTRY)
    with pytest.raises(NotFreezableError):
        thaw(document, _registry("a"))
