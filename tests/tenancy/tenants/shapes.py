"""Every statement that the tests of narrowing run, by name."""

from __future__ import annotations

from dualsql.freeze.document import Statement
from tests.tenancy.tenants import shapes_core, shapes_orm, shapes_whole
from tests.tenancy.tenants.queries import QUERIES

SHAPES: dict[str, Statement] = {
    **shapes_core.JOINS,
    **shapes_core.SELECT_LISTS,
    **shapes_whole.WHOLE,
    **{f"ORM: {name}": statement for name, statement in shapes_orm.ENTITIES.items()},
    **{f"ORM: {name}": statement for name, statement in shapes_orm.INHERITANCE.items()},
    **{f"ORM: {name}": statement for name, statement in shapes_orm.MIXED.items()},
}
PORTABLE: dict[str, Statement] = {**QUERIES, **SHAPES}
"""For SQLite and PostgreSQL alike."""

POSTGRESQL_ONLY = shapes_whole.POSTGRESQL_ONLY

A_THIRD = list(PORTABLE)[::3]
"""For what a long test does with all of them."""
