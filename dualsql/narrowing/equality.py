"""Equal to the letter; the rule: two tenants are one only where their names are one, byte for byte."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Boolean, ColumnElement, types
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement

from dualsql.columns import plain_type


class Exactly(FunctionElement[bool]):
    """`column = value`, whatever the column's collation takes for equal."""

    name = "dualsql_exactly"
    type = Boolean()
    inherit_cache = True


def exactly(column: ColumnElement[Any], value: ColumnElement[Any]) -> ColumnElement[bool]:
    """The condition that `column` is `value`."""
    is_text = isinstance(plain_type(column.type), types.String)
    return Exactly(column, value) if is_text else column == value


@compiles(Exactly)
def _as_it_is(element: Exactly, compiler: Any, **kw: Any) -> str:
    column, value = element.clauses
    return str(compiler.process(column == value, **kw))


@compiles(Exactly, "mysql")
@compiles(Exactly, "mariadb")
def _in_bytes(element: Exactly, compiler: Any, **kw: Any) -> str:
    # 'a', 'A', 'á' and 'a ' are equal in the default collations. An index still finds them all, of which one is kept.
    column, value = (compiler.process(clause, **kw) for clause in element.clauses)
    return f"({column} = {value} AND CAST({column} AS BINARY) = CAST({value} AS BINARY))"
