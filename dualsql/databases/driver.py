"""What SQLAlchemy would send to the driver, for streams that send it themselves."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

from sqlalchemy.engine import Dialect

from dualsql import sqlalchemy_internals as internals
from dualsql.columns.own_types import SQLType
from dualsql.errors import QueryExecutionError
from dualsql.formats.cells import Processor

_NUMBER = re.compile(r"(?:_+[0-9]+)+$")

_SHORTEST_CUT = 60
"""Bytes of the names that PostgreSQL cuts: to 63, less what is left of a character."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class DriverStatement:
    """A statement as the driver takes it.

    Attributes:
        parameters: a tuple, or a mapping where the driver (psycopg) takes them by name.
        types: of the columns, in order.
        described: their names; see `require_described`.
    """

    sql: str
    parameters: Any
    types: tuple[SQLType, ...]
    dialect: Dialect
    described: Sequence[str]

    def processors(self, codes: Sequence[Any] | None = None) -> list[tuple[int, Processor]]:
        """What SQLAlchemy does to the values of some columns, by position, given the driver's codes of their types."""
        found = [
            (position, internals.result_processor(type_, self.dialect, codes and codes[position]))
            for position, type_ in enumerate(self.types)
        ]
        return [(position, processor) for position, processor in found if processor is not None]


def require_described(found: Sequence[str], described: Sequence[str]) -> None:
    """Raise QueryExecutionError unless the database returns the columns that are described; before a row is read.

    Args:
        found: the names that the driver tells.
        described: the names as `dualsql.columns.result.driver_names` has them.
    """
    if len(found) == len(described) and all(map(_is_described, found, described)):
        return
    _log.error("The database returned the columns %r where %r are described.", list(found), list(described))
    raise QueryExecutionError(
        f"The database returned {len(found)} columns that are not the {len(described)} of the result.",
        hint="No row was sent. This is a fault of dualsql: the server's log names the columns.",
    )


def _is_described(found: str, described: str) -> bool:
    if not described or found == described:
        return True
    # SQLAlchemy may put a table's name in front and a number behind, and PostgreSQL cuts what is long.
    one, other = (_NUMBER.sub("", name.casefold()) for name in (found, described))
    is_cut = len(found.encode()) >= _SHORTEST_CUT and described.startswith(found)
    return one == other or one.endswith("_" + other) or is_cut


def is_listened_to(engine: Any, connection: Any = None) -> bool:
    """Whether somebody listens to what is executed, which then has to go through SQLAlchemy."""
    return bool(
        internals.has_events(engine)
        or internals.has_events(engine.dialect)
        or (connection and internals.has_events(connection))
    )


def driver_statement(
    dialect: Dialect, statement: Any, values: Mapping[str, Any], cache: Any, described: Sequence[str]
) -> DriverStatement | None:
    """The statement compiled on `dialect`, its values bound; None when its columns are not known by their position."""
    found = internals.compiled_with_cache(statement, dialect, cache, sorted(values))
    compiled = found.compiled
    if not internals.has_columns_by_position(compiled):
        return None
    own: Any = type(dialect)
    nowhere: Any = _Nowhere(dialect)
    bindings = [dict(values)] if values else []
    context = internals.unsent_context(
        _context(own), nowhere, statement=statement, found=found, values=bindings
    )
    types = tuple(column.type for column in internals.result_columns_of(compiled))
    bound = context.parameters[0]
    parameters = tuple(bound) if compiled.positional else bound
    return DriverStatement(context.statement, parameters, types, dialect, described)


class _Nowhere(NamedTuple):
    """What a context asks of a connection before it executes."""

    dialect: Dialect


def _no_cursor(_: Any) -> None:
    """A context would open one at once, which only SQLAlchemy's own greenlet may do."""


@cache
def _context(dialect: Any) -> Any:
    """The dialect's execution context, which is not going to execute."""
    plain = dialect.execution_ctx_cls
    return type(f"Unsent{plain.__name__}", (plain,), {"create_cursor": _no_cursor})
