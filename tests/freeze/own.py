"""Elements that an application might write for itself, as SQLAlchemy's documentation teaches to."""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, Integer, literal
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql import coercions, roles
from sqlalchemy.sql.base import SyntaxExtension
from sqlalchemy.sql.elements import ClauseElement, WrapsColumnExpression
from sqlalchemy.sql.visitors import InternalTraversal


class Known(WrapsColumnExpression[Any]):
    """A value, or 0 for none; it describes nothing of itself, so no statement with it is cached."""

    inherit_cache = False

    def __init__(self, value: Any) -> None:
        self.value: ColumnElement[Any] = coercions.expect(roles.ExpressionElementRole, value)
        self.type = self.value.type

    @property
    def wrapped_column_expression(self) -> ColumnElement[Any]:
        return self.value


class Least(ColumnElement[int]):
    """The least of some values, described for the cache."""

    type = Integer()
    _traverse_internals = [("values", InternalTraversal.dp_clauseelement_tuple)]

    def __init__(self, *values: Any, is_strict: bool = False) -> None:
        self.values = tuple(
            [coercions.expect(roles.ExpressionElementRole, value).self_group() for value in values]
        )
        self.is_strict = is_strict


class Window(SyntaxExtension, ClauseElement):
    """WINDOW w AS (PARTITION BY ...), behind HAVING."""

    _traverse_internals = [("by", InternalTraversal.dp_clauseelement)]

    def __init__(self, by: Any) -> None:
        self.by: Any = coercions.expect(roles.ByOfRole, by, apply_propagate_attrs=self)

    def apply_to_select(self, select_stmt: Any) -> None:
        select_stmt.apply_syntax_extension_point(self.append_replacing_same_type, "post_criteria")


class Everything(SyntaxExtension, ClauseElement):
    """SELECT ALL."""

    _traverse_internals = []

    def apply_to_select(self, select_stmt: Any) -> None:
        select_stmt.apply_syntax_extension_point(lambda existing: [*existing, self], "pre_columns")


class Written(ColumnElement[int]):
    """What no document can hold: a text of its own."""

    inherit_cache = False

    def __init__(self, sql: str) -> None:
        self.sql = sql


@compiles(Known)
def _(element: Any, compiler: Any, **kw: Any) -> str:
    return f"coalesce({compiler.process(element.value, **kw)}, 0)"


@compiles(Least)
def _(element: Any, compiler: Any, **kw: Any) -> str:
    kw.pop("add_to_result_map", None)
    listed = ", ".join(compiler.process(value, **kw) for value in (*element.values, literal(0)))
    return f"{'least' if compiler.dialect.name == 'postgresql' else 'min'}({listed})"


@compiles(Window)
def _(element: Any, compiler: Any, **kw: Any) -> str:
    return f"WINDOW w AS (PARTITION BY {compiler.process(element.by, **kw)})"


@compiles(Everything)
def _(element: Any, compiler: Any, **kw: Any) -> str:
    return "ALL"


@compiles(Written)
def _(element: Any, compiler: Any, **kw: Any) -> str:
    return str(element.sql)


ELEMENTS = (Known, Least, Window, Everything, Written)
