"""The table of everything that a document can hold. Anything else is refused on both sides."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from sqlalchemy import Table
from sqlalchemy.orm.attributes import QueryableAttribute
from sqlalchemy.sql.annotation import Annotated
from sqlalchemy.sql.elements import ClauseElement, ColumnClause
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.sql.selectable import TableClause

from dualsql.freeze import kinds_expression, kinds_function, kinds_orm, kinds_select, kinds_source
from dualsql.freeze.fields import NodeKind

MODULES = (kinds_function, kinds_expression, kinds_source, kinds_select, kinds_orm)
KINDS: Mapping[str, NodeKind] = {kind.tag: kind for module in MODULES for kind in module.KINDS}
_BY_CLASS: dict[type, NodeKind] = {kind.cls: kind for kind in KINDS.values()}
_BY_CLASS[ColumnClause] = KINDS["column"]
_BY_CLASS[TableClause] = KINDS["table"]


@cache
def rare_kinds() -> Mapping[str, NodeKind]:
    """The kinds that few statements have: loader options that change the SQL, elements of an application's classes."""
    from dualsql.freeze import kinds_options, kinds_own

    return {kind.tag: kind for kind in (*kinds_options.KINDS, kinds_own.OWN)}


def kind_of_tag(tag: str) -> NodeKind:
    """The kind of a node; KeyError for a tag of none."""
    return KINDS.get(tag) or rare_kinds()[tag]


def kind_of(element: Any) -> NodeKind | None:
    """The kind of an element by its exact class, or None if documents cannot hold it."""
    cls = type(element)
    kind = _BY_CLASS.get(cls)
    if kind is not None:
        return kind
    if issubclass(cls, Annotated):
        return kinds_orm.NOTE
    if issubclass(cls, FunctionElement):
        return kinds_function.FUNCTION
    if issubclass(cls, QueryableAttribute):
        return kinds_orm.ATTRIBUTE
    return _kind_of_subclass(cls)


def _kind_of_subclass(cls: type) -> NodeKind | None:
    # A subclass of Table or Column is stored by name, as any table or column is.
    if issubclass(cls, Table):
        return KINDS["table"]
    if issubclass(cls, ColumnClause):
        return KINDS["column"]
    if kinds_select.is_plain_select(cls):
        return KINDS["select"]
    if is_own_class(cls):
        return rare_kinds()["own"]
    return next((kind for kind in rare_kinds().values() if kind.cls is cls and kind.tag != "own"), None)


def is_own_class(cls: type) -> bool:
    """Whether `cls` is an element class that is not SQLAlchemy's."""
    return issubclass(cls, ClauseElement) and not cls.__module__.startswith("sqlalchemy.")
