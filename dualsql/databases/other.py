"""A database without a file of its own: what holds on any database, and nothing else."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import date, datetime
from decimal import Decimal
from functools import partial
from typing import Any

from sqlalchemy import Connection, literal_column, select, type_coerce, types
from sqlalchemy.dialects import registry
from sqlalchemy.exc import NoSuchModuleError
from sqlalchemy.ext.asyncio import AsyncConnection

from dualsql.capabilities import Capabilities, KeyForm
from dualsql.columns.own_types import Element
from dualsql.columns.result import DriverValue
from dualsql.databases.backends import Backend
from dualsql.databases.expressions import grouped, parameter
from dualsql.databases.guard import Guard, SessionTerms
from dualsql.databases.spellings import spelling_of
from dualsql.databases.strict_types import key_type
from dualsql.text_dialects import TextDialect


class OtherGuard(Guard):
    """For any driver: no setting of the session is known, so dualsql alone ends a statement that runs too long.

    It gives up the connection, whose thread runs until the database has answered. Until then the pool lacks it. What
    an error means is not known.
    """

    @asynccontextmanager
    async def read_only(self, connection: AsyncConnection, terms: SessionTerms) -> AsyncIterator[None]:
        """See `Guard.read_only`. The session is not read-only."""
        yield

    def look(self, connection: Connection) -> None:
        """See `Guard.look`. A user who may read tables need not be allowed to list them."""
        connection.execute(select(literal_column("1")))


def _key_form(database: str, expression: Element, *, is_stored: bool) -> KeyForm | None:
    """The driver's own value. A page is not followed by a cursor where the driver may round or convert it."""
    plain = key_type(database, expression)
    if isinstance(plain, types.JSON):
        return None
    is_text = isinstance(plain, types.String) and not isinstance(plain, types.Enum)

    def round_trips(value: Any) -> bool:
        # A text of another type, such as a date by PyHive, and an instant or a double may have lost digits.
        if isinstance(value, str):
            return is_text
        if isinstance(value, datetime):
            return False
        return value is None or isinstance(value, int | Decimal | date)

    bare = type_coerce(grouped(expression), DriverValue())
    return KeyForm(compared=bare, read=bare, carried=expression, bind=parameter, round_trips=round_trips)


def capabilities(name: str) -> Capabilities:
    """The capabilities of a database without a file of its own, in its spelling."""
    spelling = spelling_of(name)
    return Capabilities(
        name=name,
        nulls_last=False,
        sorts_conditions=False,
        groups_strictly=True,
        nulls_last_by_default=None,
        distinguishing=lambda expression: [expression],
        key_form=partial(_key_form, name),
        query_dialect=lambda: spelling,
        text_dialect=TextDialect,
        own_functions=spelling.own_functions,
    )


def backend_for(name: str) -> Backend | None:
    """The database of SQLAlchemy's dialect of that name; None if SQLAlchemy finds no such dialect."""
    try:
        registry.load(name)
    except NoSuchModuleError:
        return None
    return Backend(capabilities=capabilities(name), guard=OtherGuard(), has_read_only_sessions=False)
