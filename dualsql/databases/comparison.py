"""How a database compares texts: those of tenants exactly, which is checked at start, and all of them by code point."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Dialect,
    Executable,
    case,
    false,
    literal,
    select,
    type_coerce,
    types,
    union_all,
)
from sqlalchemy.ext.asyncio import AsyncConnection

from dualsql.columns.own_types import stored_type
from dualsql.databases.session import in_session
from dualsql.databases.source import Source
from dualsql.errors import ConfigurationError, QueryExecutionError
from dualsql.tenancy.tenant_filters import Exactly

_TENANT = "a"
_OTHERS = ("A", "a ", " a", "\u00e4", "\uff41", "a\u0301", "a\u200b")
"""Upper case, blanks, an accent, full width, a combining accent, no width."""

_WITH_NUL = ("a\0", "a\0b")
"""Most databases refuse them, and then no column holds them."""

_HINT = "Give the column a collation that compares bytes, or use a RowFilter that compares exactly."


async def prove_tenants(source: Source, columns: Sequence[ColumnElement[Any]]) -> None:
    """Check for each column of texts that, under its own collation, no value of a tenant equals another one's.

    Raises:
        ConfigurationError: they do, or the database did not answer.
        QueryExecutionError, DatabaseBusyError, QueryTimeoutError: the check could not be done.
    """
    for column in columns:
        if not _is_text(column, source.engine.dialect):
            continue
        # The table may be in another database, or this user may not read it.
        with suppress(QueryExecutionError):
            await _rows(source, select(column).where(false()))
            await _prove(source, column)


async def _prove(source: Source, column: ColumnElement[Any]) -> None:
    try:
        is_known = await _equal(source, column, [_TENANT])
    except QueryExecutionError as error:
        raise _unknown(source, column) from error
    if not is_known:
        raise _unknown(source, column)
    try:
        equal = await _equal(source, column, _OTHERS)
    except QueryExecutionError:
        equal = [value for other in _OTHERS for value in await _equal_if_accepted(source, column, other)]
    equal += [value for other in _WITH_NUL for value in await _equal_if_accepted(source, column, other)]
    if equal:
        texts = ", ".join(map(repr, equal))
        raise ConfigurationError(
            f"In the column {column} of the database {source.name!r}, {_TENANT!r} equals {texts}: a tenant would read "
            "rows of others.",
            hint=_HINT,
        )


def _unknown(source: Source, column: ColumnElement[Any]) -> ConfigurationError:
    return ConfigurationError(
        f"How the database {source.name!r} compares texts in the column {column} is not known, and tenants are told "
        "apart by it.",
        hint=_HINT,
    )


async def _equal_if_accepted(source: Source, column: ColumnElement[Any], value: str) -> list[str]:
    """The value, if it equals _TENANT. A value that the database refuses, such as one with a NUL, is in no row."""
    try:
        return await _equal(source, column, [value])
    except QueryExecutionError:
        return []


async def _equal(source: Source, column: ColumnElement[Any], values: Sequence[str]) -> list[str]:
    """The values that equal _TENANT in such a column."""
    numbers = await _rows(source, _comparison(column, values))
    return [values[number] for number in numbers if number is not None]


async def _rows(source: Source, statement: Executable) -> list[Any]:
    async def read(connection: AsyncConnection) -> list[Any]:
        return list((await connection.execute(statement)).scalars())

    return await in_session(source, None, read)


async def compares_by_code_point(source: Source) -> bool:
    """Whether the database says that it compares and sorts all of its texts by code point.

    Raises:
        QueryExecutionError, DatabaseBusyError, QueryTimeoutError: the database did not answer.
    """
    sql = source.capabilities.asks_code_points
    if not sql:
        return False

    async def answer(connection: AsyncConnection) -> bool:
        return bool((await connection.exec_driver_sql(sql)).scalar())

    return await in_session(source, None, answer)


def _comparison(column: ColumnElement[Any], values: Sequence[str]) -> Executable:
    """Gives for each value its position, or NULL if it does not equal _TENANT in such a column.

    No row of the column is read. The comparison is not in WHERE: MariaDB would move it into the subquery, where it has
    the collation of the connection.
    """
    is_plain = isinstance(column.type, types.String) and not isinstance(column.type, types.CHAR)
    kind = column.type if is_plain else types.String()
    stored = union_all(
        select(type_coerce(column, kind).label("value")).where(false()), select(literal(_TENANT, kind))
    ).subquery("stored")
    return union_all(
        *(
            select(
                case(
                    (
                        Exactly(type_coerce(stored.c.value, column.type), literal(value, kind)),
                        literal(number, types.Integer()),
                    )
                )
            ).select_from(stored)
            for number, value in enumerate(values)
        )
    )


def _is_text(column: ColumnElement[Any], dialect: Dialect) -> bool:
    stored = stored_type(column.type, dialect)
    return isinstance(stored, types.String) and not isinstance(stored, types.Enum)
