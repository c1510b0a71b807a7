"""A source that a mapping reads is stored by its place there: a copy would be a second source to the ORM."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import select

from dualsql.errors import NotFreezableError, TamperedError
from dualsql.freeze import Registry, freeze, prove_equal, thaw
from dualsql.freeze.document import pack, unpack
from dualsql.plan import written_out
from tests.freeze.dialects import DIALECTS
from tests.models.models import Base
from tests.models.sources import Employee, Newest, Placed, Shelf, Vehicle, Years
from tests.models.statements.sources import STATEMENTS

REGISTRY = Registry(Base)


@pytest.mark.quick(9)
@pytest.mark.parametrize("name", STATEMENTS)
def test_a_statement_comes_back_as_it_was(name: str) -> None:
    """Also where no text is allowed: the names of the classes in a UNION are text, and the mapping's."""
    statement: Any = written_out(STATEMENTS[name])
    for dialect in DIALECTS.values():
        thawed = thaw(freeze(statement, REGISTRY, dialect=dialect), REGISTRY)
        prove_equal(statement, thawed, dialect)
        second = freeze(thawed, REGISTRY, dialect=dialect)
        assert freeze(thaw(second, REGISTRY), REGISTRY, dialect=dialect) == second


def test_the_places() -> None:
    actual = {(source.mapper.class_, source.role, source.key) for source in REGISTRY.mapped_sources.values()}
    assert actual >= {
        (Employee, "polymorphic", None),
        (Vehicle, "whole", None),
        (Years, "whole", None),
        (Shelf, "target", "newest"),
        (Shelf, "target source", "newest"),
    }
    assert Placed not in {cls for cls, _, _ in actual}, "a join of tables is the same wherever it comes from"


@pytest.mark.parametrize(
    "place",
    [
        {"as": "local"},
        {"as": "tables"},
        {"as": "__class__"},
        {"as": "target", "key": "books"},
        {"as": "target", "key": "__class__"},
        {"as": "target", "key": 1},
        {"as": None},
        {"of": 1},
    ],
)
def test_a_place_where_the_mapping_has_no_source_is_refused(place: dict[str, Any]) -> None:
    body = unpack(freeze(select(Shelf.id, Newest.title).join(Shelf.newest), REGISTRY), REGISTRY.maximum_size)
    nodes = [fields for tag, fields in body["nodes"] if tag == "mapped source"]
    assert nodes
    nodes[0].update(place)
    with pytest.raises((TamperedError, NotFreezableError)):
        thaw(pack(body, REGISTRY.maximum_size), REGISTRY)


def test_a_source_with_an_unregistered_table_is_no_place() -> None:
    registry = Registry([Shelf])
    assert not registry.mapped_sources
    with pytest.raises(NotFreezableError, match="Book"):
        freeze(select(Shelf.id, Newest.title).join(Shelf.newest), registry)
