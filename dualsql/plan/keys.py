"""An ORDER BY as keys, and expressions that change from one evaluation to the next.

Such expressions are recognized by the names of their functions, also in text. An operator's own is not recognized.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from typing import Any, NamedTuple

from sqlalchemy import Column, ColumnElement, Table, case
from sqlalchemy.sql import operators
from sqlalchemy.sql.elements import (
    BindParameter,
    Cast,
    ClauseElement,
    ColumnClause,
    TextClause,
    UnaryExpression,
)
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.sql.selectable import Exists, ScalarSelect, SelectBase, TableClause
from sqlalchemy.sql.visitors import iterate

from dualsql import sqlalchemy_internals as internals
from dualsql.capabilities import Capabilities, KeyForm
from dualsql.columns.kinds import function_name
from dualsql.columns.result import own_name
from dualsql.errors import NoTotalOrderError

_ORDER_MODIFIERS = frozenset(
    {operators.asc_op, operators.desc_op, operators.nulls_first_op, operators.nulls_last_op}
)


class Key(NamedTuple):
    """One key of an order.

    Attributes:
        is_nullable: the key may be NULL; otherwise `is_nulls_last` has no meaning.
        is_stored: it is a plain column of a table, which may have an index.
        output: its position among the outputs, if it is one of them.
        author_clause: the author's own ORDER BY clause.
        is_text: the clause is text that only the database can interpret.
        form: how its value is read and compared, if that is possible.
    """

    expression: ColumnElement[Any]
    is_nulls_last: bool
    form: KeyForm | None = None
    is_descending: bool = False
    is_nullable: bool = True
    is_stored: bool = False
    output: int | None = None
    author_clause: ClauseElement | None = None
    is_text: bool = False

    def reversed(self) -> Key:
        """The key for the opposite direction."""
        return self._replace(
            is_descending=not self.is_descending, is_nulls_last=not self.is_nulls_last, author_clause=None
        )

    def clauses(self, capabilities: Capabilities) -> list[Any]:
        """The key in an ORDER BY."""
        if self.author_clause is not None:
            return [self.author_clause]
        key = self.expression.desc() if self.is_descending else self.expression
        default = capabilities.nulls_last_by_default
        if not self.is_nullable or (default and self.is_nulls_last is default[self.is_descending]):
            return [key]
        if capabilities.nulls_last:
            return [key.nulls_last() if self.is_nulls_last else key.nulls_first()]
        # MariaDB has no NULLS LAST. An extra key sorts them: false comes before true.
        missing = self.expression
        condition = missing.is_(None) if self.is_nulls_last else missing.is_not(None)
        return [condition if capabilities.sorts_conditions else case((condition, 1), else_=0), key]


@dataclass(frozen=True, eq=False, repr=False)
class Order:
    """The sort keys of a statement.

    Attributes:
        is_unique: no two rows have equal keys.
        is_total: two different rows never tie, so pages joined are the result.
        obstacle: why there are no cursors; empty if there are.
    """

    keys: tuple[Key, ...]
    is_unique: bool
    is_total: bool = True
    obstacle: str = ""

    @cached_property
    def fingerprint(self) -> bytes:
        """Equal in any process for orders whose keyset positions are interchangeable."""
        digest = sha256()
        for key in self.keys:
            # Without anonymous names, which differ between processes.
            parts = [(part.__visit_name__, own_name(part)) for part in iterate(key.expression)]
            digest.update(repr((key.is_descending, key.is_nulls_last, parts)).encode())
        return digest.digest()


def clauses_of(keys: Iterable[Key], capabilities: Capabilities) -> list[Any]:
    """The ORDER BY of these keys."""
    return [clause for key in keys for clause in key.clauses(capabilities)]


def split_modifiers(clause: Any) -> tuple[Any, list[Any]]:
    """`x DESC NULLS LAST` as (x, [nulls_last, desc])."""
    modifiers = []
    while isinstance(clause, UnaryExpression) and clause.modifier in _ORDER_MODIFIERS:
        modifiers.append(clause.modifier)
        clause = clause.element
    if isinstance(clause, internals.LabelReference):
        base, inner = split_modifiers(clause.element)
        return base, modifiers + inner
    return clause, modifiers


def is_distinct_call(element: Any) -> bool:
    """Whether it is `distinct(x)`, `x.distinct()` or `func.distinct(x)`."""
    if isinstance(element, UnaryExpression):
        return element.operator is operators.distinct_op
    return isinstance(element, FunctionElement) and function_name(element) == "distinct"


def has_distinct_call(select: Any) -> bool:
    """Whether its columns or its order have a DISTINCT outside of aggregate functions and subqueries."""
    parts = (*internals.raw_columns(select), *internals.order_by_clauses(select))
    waiting = [(part, False) for part in parts]
    while waiting:
        element, is_argument = waiting.pop()
        if isinstance(element, ColumnClause | TableClause | SelectBase | ScalarSelect | Exists):
            continue
        is_call = is_distinct_call(element)
        if is_call and not is_argument:  # count(DISTINCT x): the word belongs to the aggregate
            return True
        is_list = is_argument and element.__visit_name__ in {"clauselist", "grouping", "aggregate_order_by"}
        has_arguments = not is_call and (is_list or isinstance(element, FunctionElement))
        waiting += ((child, has_arguments) for child in element.get_children())
    return False


def column_identity(expression: Any) -> tuple[int, str] | None:
    """A value that is equal for all forms of one column of one source; None for anything else."""
    source = getattr(expression, "table", None)
    if type(expression) is Column and type(source) is Table:
        return id(source), expression.key
    if source is None or getattr(expression, "is_literal", False):
        return None
    return id(internals.unannotated(source)), expression.key


_RANDOM = frozenset(
    """gen_random_uuid newid nextval rand random random_normal randomblob uuid uuid_generate_v1
    uuid_generate_v4 uuid_short uuidv4 uuidv7""".split()
)
_CLOCKS = frozenset(
    """clock_timestamp curdate current_date current_time current_timestamp curtime getdate localtime
    localtimestamp now statement_timestamp sysdate timeofday transaction_timestamp unix_timestamp
    utc_date utc_time utc_timestamp""".split()
)
# Clocks if they have no more arguments than this, or if an argument is the text "now".
_CLOCKS_AT_TIMES = dict.fromkeys(("date", "datetime", "julianday", "time", "unixepoch"), 0) | dict.fromkeys(
    ("age", "strftime"), 1
)
_NOW = frozenset({"now", "today", "tomorrow", "yesterday"})


def is_random(element: Any) -> bool:
    """Whether two evaluations on the same row may differ."""
    parts = () if type(element) is Column else iterate(element)
    return any(not _RANDOM.isdisjoint(_names_in(part)) for part in parts)


def depends_on_time(element: Any) -> bool:
    """Whether the value depends on the current time."""
    return type(element) is not Column and any(_is_clock(part) for part in iterate(element))


def _is_clock(part: Any) -> bool:
    names = _names_in(part)
    if not _CLOCKS.isdisjoint(names):
        return True
    name = next(iter(names), "")
    if name not in _CLOCKS_AT_TIMES and not isinstance(part, Cast):
        return False
    arguments = [part.clause] if isinstance(part, Cast) else list(part.clauses)
    texts = [str(one.value).strip().lower() for one in arguments if isinstance(one, BindParameter)]
    return len(arguments) <= _CLOCKS_AT_TIMES.get(name, -1) or not _NOW.isdisjoint(texts)


def _names_in(part: Any) -> Collection[str]:
    """The name of a function; of an author's text, all names of functions in it."""
    if isinstance(part, FunctionElement):
        return (function_name(part),)
    if not (text := text_of(part)):
        return ()
    from dualsql.plan.texts import names_in

    return names_in(text, clocks=_CLOCKS_AT_TIMES, words=_NOW)


def text_of(part: Any) -> str:
    """The text that an author wrote for the database to interpret; empty for all else."""
    if isinstance(part, ColumnClause):
        return part.name if part.is_literal else ""
    return part.text if isinstance(part, TextClause) else ""


def calls_in_text(part: Any) -> bool:
    """Whether it is text with what may be DISTINCT, an aggregate, a window or a function of several rows."""
    if not (text := text_of(part)):
        return False
    from dualsql.plan.texts import may_change_rows

    return may_change_rows(text)


def unpageable(message: str) -> NoTotalOrderError:
    """The error for a statement with an order or a limit that pages cannot continue."""
    return NoTotalOrderError(
        message,
        hint="Use a subquery with the LIMIT, or order by columns of the result.",
        developer_hint="Use a subquery: inner = statement.subquery(); select(inner).order_by(inner.c....).",
    )
