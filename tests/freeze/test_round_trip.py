"""Whatever an engineer writes comes back as the same statement: SQL, parameters, columns, cache key."""

from __future__ import annotations

import gc

import pytest
from sqlalchemy.engine import Dialect

from dualsql.freeze import Registry, freeze, thaw
from dualsql.freeze.verify import prove_equal
from tests.freeze.dialects import DIALECTS
from tests.freeze.shop import REGISTRY, SHAPES
from tests.schools import Base
from tests.statements import POSTGRESQL_ONLY, STATEMENTS, TEXT

SCHOOLS = Registry(Base, allow_text=True)
ALL = {
    **{
        f"schools: {name}": (SCHOOLS, statement)
        for name, statement in {**STATEMENTS, **POSTGRESQL_ONLY, **TEXT}.items()
    },
    **{f"shop: {name}": (REGISTRY, statement) for name, statement in SHAPES.items()},
}


def can_compile(statement: object, dialect: Dialect) -> bool:
    try:
        prove_equal(statement, statement, dialect)
    except Exception:  # noqa: BLE001 - a dialect that lacks a feature says so in its own ways
        return False
    return True


@pytest.mark.parametrize("name", ALL)
def test_a_statement_comes_back_as_it_was(name: str) -> None:
    registry, statement = ALL[name]
    compiled = 0
    for dialect in DIALECTS.values():
        if can_compile(statement, dialect):
            compiled += 1
            prove_equal(statement, thaw(freeze(statement, registry, dialect=dialect), registry), dialect)
    assert compiled


@pytest.mark.parametrize("name", ALL)
def test_freezing_what_was_thawed_gives_the_same_document(name: str) -> None:
    registry, statement = ALL[name]
    dialect = next(dialect for dialect in DIALECTS.values() if can_compile(statement, dialect))
    first = freeze(statement, registry, dialect=dialect)
    second = freeze(thaw(first, registry), registry, dialect=dialect)
    assert freeze(thaw(second, registry), registry, dialect=dialect) == second


@pytest.mark.parametrize("name", ALL)
def test_every_thawed_copy_shares_one_cache_entry(name: str) -> None:
    registry, statement = ALL[name]
    dialect = next(dialect for dialect in DIALECTS.values() if can_compile(statement, dialect))
    document = freeze(statement, registry, dialect=dialect)
    keys = [thaw(document, registry)._generate_cache_key() for _ in range(3)]
    assert len({key.key if key else None for key in keys}) == 1


def test_a_part_of_a_polymorphic_entity_keeps_the_whole() -> None:
    """SQLAlchemy holds it by a weak reference: a thawed statement is all that is left of it."""
    statement = SHAPES["orm polymorphic part"]
    thawed = thaw(freeze(statement, REGISTRY), REGISTRY)
    gc.collect()
    assert str(thawed) == str(statement)
