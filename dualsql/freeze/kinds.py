"""The table of everything that a document can hold. Anything else is refused on both sides."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Table
from sqlalchemy.orm.attributes import QueryableAttribute
from sqlalchemy.sql.annotation import Annotated
from sqlalchemy.sql.elements import ColumnClause
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.sql.selectable import TableClause

from dualsql.freeze import (
    kinds_expression,
    kinds_function,
    kinds_options,
    kinds_orm,
    kinds_select,
    kinds_source,
)
from dualsql.freeze.fields import NodeKind

ALL = (
    *kinds_function.BIND_KINDS,
    *kinds_expression.KINDS,
    *kinds_function.FUNCTION_KINDS,
    *kinds_source.KINDS,
    *kinds_select.KINDS,
    *kinds_orm.KINDS,
    *kinds_options.KINDS,
    *kinds_function.OWN_KINDS,
)
KINDS: dict[str, NodeKind] = {kind.tag: kind for kind in ALL}
CLONABLE = frozenset(kind.tag for kind in ALL if kind.is_own)

_BY_CLASS: dict[type, NodeKind] = {kind.cls: kind for kind in ALL}
_BY_CLASS[ColumnClause] = KINDS["column"]
_BY_CLASS[TableClause] = KINDS["table"]


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
    return kinds_function.OWN if kinds_function.is_own_class(cls) else None
