"""An attribute that a newer SQLAlchemy adds to an element is noticed here, before it is lost."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy.sql.annotation import Annotated
from sqlalchemy.sql.elements import BinaryExpression

from dualsql.errors import NotFreezableError
from dualsql.freeze import Registry, codec, freeze, kinds_options, kinds_own
from tests.freeze.shop import customers, customers_

# Refused wherever they are set: options, hooks of other plugins, annotations outside `note`.
REFUSED = {"_compile_state_funcs", "_annotations", "callable", "_correlate_mode"}
_LOAD_ELEMENT = {
    *("path", "strategy", "local_opts", "_extra_criteria", "propagate_to_loaders", "_reconcile_to_other"),
    *("_of_type", "_path_with_polymorphic_path"),
}
# Kept by the kinds that write themselves.
_COLUMN = {"name", "type", "table", "is_literal"}
WRITTEN_ELSEWHERE = {
    "column": _COLUMN,
    "row number": _COLUMN,
    "table": {"name", "schema", "columns"},
    "values": {"_independent_ctes", "_independent_ctes_opts"},
    "function": {"_params", "_with_options"},
    "text": {"_with_options"},
    "load": {"path", "context", "propagate_to_loaders", "additional_source_entities"},
    **dict.fromkeys(["load attribute", "load token", "load class"], _LOAD_ELEMENT),
    "load all": {"strategy", "path", "local_opts"},
    "criteria": {"entity", "root_entity", "where_criteria", "include_aliases", "propagate_to_loaders"},
}
KINDS = {**codec.KINDS, **codec.rare_kinds()}
TRAVERSED = [
    kind for kind in KINDS.values() if hasattr(kind.cls, "_traverse_internals") and kind.cls is not Annotated
]


@pytest.mark.quick(30)
@pytest.mark.parametrize("kind", TRAVERSED, ids=lambda kind: kind.tag)
def test_every_traversed_attribute_is_known(kind: Any) -> None:
    traversed = {attribute for attribute, _ in kind.cls._traverse_internals}
    known = set(kind.writers) | REFUSED | WRITTEN_ELSEWHERE.get(kind.tag, set())
    assert traversed <= known


def test_an_unknown_attribute_refuses_the_statement() -> None:
    statement = customers.select().where(customers_.id == 1)
    condition: Any = statement.whereclause
    assert isinstance(condition, BinaryExpression)
    condition.__dict__["something_new"] = True
    with pytest.raises(NotFreezableError, match="binary with something_new"):
        freeze(statement, Registry(customers))


def test_every_tag_stands_for_one_kind() -> None:
    modules = [*codec.MODULES, kinds_options]
    assert len(KINDS) == sum(len(module.KINDS) for module in modules) + len([kinds_own.OWN])
