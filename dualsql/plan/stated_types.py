"""A statement with the types that a database describes, where SQLAlchemy knows none."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import type_coerce, types

from dualsql import sqlalchemy_internals as internals
from dualsql.columns.meanings import Meanings
from dualsql.columns.own_types import SQLType
from dualsql.freeze.document import AnySelect, Statement
from dualsql.plan.keys import unlabelled
from dualsql.plan.shape import shape


def with_types(statement: Statement, kinds: Sequence[SQLType], meanings: Meanings) -> AnySelect:
    """The statement whose columns state these types, where they had none; NullType for a column that stays as it is.

    Raises:
        NoTotalOrderError, NotFreezableError: see `shape`.
    """
    shaped = shape(statement, meanings)
    outputs = [
        column.expression
        if isinstance(kind, types.NullType)
        else type_coerce(unlabelled(column.expression), kind).label(column.name)
        for column, kind in zip(shaped.columns, kinds, strict=True)
    ]
    typed = internals.copy_with(shaped.select, raw_columns=outputs)
    return typed.limit(shaped.limit).offset(shaped.offset or None)
