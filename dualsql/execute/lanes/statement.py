"""What SQLAlchemy would send, without its sending it; the rule: SQL and values come out of SQLAlchemy itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from sqlalchemy.engine import Connection, Dialect

from dualsql.columns import SQLType

Processor = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class DriverStatement:
    """A statement as the driver takes it.

    Attributes:
        parameters: by position.
        types: of the columns, in order.
    """

    sql: str
    parameters: tuple[Any, ...]
    types: tuple[SQLType, ...]
    dialect: Dialect

    def processors(self, codes: Sequence[Any] | None = None) -> list[tuple[int, Processor]]:
        """What SQLAlchemy does to the values of some columns, by position, given the driver's codes of their types."""
        found = [
            (position, type_._cached_result_processor(self.dialect, codes and codes[position]))
            for position, type_ in enumerate(self.types)
        ]
        return [(position, processor) for position, processor in found if processor is not None]


def driver_statement(
    connection: Connection, statement: Any, values: Mapping[str, Any], cache: Any
) -> DriverStatement | None:
    """The statement compiled on the connection's dialect, its values bound.

    None when only SQLAlchemy itself can run it: somebody listens to what this engine executes, or its columns are not
    known by their position.
    """
    if connection._has_events or connection.engine._has_events or connection.dialect._has_events:
        return None
    compiled: Any
    compiled, extracted, collected, hit = statement._compile_w_cache(
        dialect=connection.dialect,
        compiled_cache=cache,
        column_keys=sorted(values),
        schema_translate_map=None,
    )
    if not (compiled.positional and (compiled._ordered_columns or compiled._textual_ordered_columns)):
        return None
    own: Any = type(connection.dialect)
    context = _context(own)._init_compiled(
        connection.dialect,
        connection,
        connection.connection,
        statement._execution_options,
        compiled,
        [dict(values)] if values else [],
        statement,
        extracted,
        cache_hit=hit,
        param_dict=collected,
    )
    types = tuple(column.type for column in compiled._result_columns)
    return DriverStatement(context.statement, tuple(context.parameters[0]), types, connection.dialect)


def _no_cursor(_: Any) -> None:
    """A context would open one at once, which only SQLAlchemy's own greenlet may do."""


@cache
def _context(dialect: Any) -> Any:
    """The dialect's execution context, which is not going to execute."""
    plain = dialect.execution_ctx_cls
    return type(f"Unsent{plain.__name__}", (plain,), {"create_cursor": _no_cursor})
