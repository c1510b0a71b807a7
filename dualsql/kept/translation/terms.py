"""Values of a translated statement: an expression of DuckDB, and what kind of value it is in the original database.

An entry of the tables is right for some values only: lower() of PostgreSQL for ASCII, for example. For any other value
its expression fails (`refused_if`), and the database answers the question instead.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, Literal

from sqlalchemy import case, cast, false, func, literal, null, or_, true, type_coerce, types
from sqlalchemy.sql import operators
from sqlalchemy.sql.elements import Grouping, OperatorExpression, UnaryExpression

from dualsql.columns.own_types import Element, SQLType

Kind = Literal[
    "integer",
    "real",
    "decimal",
    "quotient",
    "numeric",
    "text",
    "boolean",
    "flag",
    "date",
    "datetime",
    "span",
    "null",
    "document",
    "opaque",
]
"""
integer     a whole number
real        a double
decimal     an exact number, with the same digits after the point in every row
quotient    an exact number of PostgreSQL with other digits in each row, here the double next to it
numeric     a cell of a DECIMAL column of SQLite: a whole number or a double
text        a text
boolean     true or false; a number in SQLite and MariaDB
flag        a cell of a BOOLEAN column that may hold other numbers: only whether it is true is known
date, datetime      without a zone
span        an interval with months, days and seconds, as a constant
null        NULL without a type
document    a JSON document, which can only be selected: its `null`, which is no NULL in its database, is kept as NULL
opaque      any other value: it can only be selected, counted, and compared with NULL
"""

BIGINT, TEXT, BOOLEAN = types.BigInteger(), types.String(), types.Boolean()
DATE, DATETIME = types.Date(), types.DateTime()
DOUBLE: types.Double[float] = types.Double()

MOST_DIGITS = 38
"""Of DuckDB's DECIMAL."""


class UntranslatableError(Exception):
    """A part of a statement that has no entry."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """A translated expression.

    Attributes:
        scale: digits after the point, of a decimal.
        bits: of a whole number; a result with more is an error in databases that have sized numbers.
        value: of a constant. is_constant: it is one.
        is_checked: it is finite, or not a real.
        is_ascii: it is a text of ASCII.
        is_bytewise: it is a text under a collation that compares code points.
        is_exact: of a quotient: two that are equal are the same double.
    """

    sql: Element
    kind: Kind
    scale: int = 0
    bits: int = 64
    value: Any = None
    is_constant: bool = False
    is_checked: bool = True
    is_ascii: bool = False
    is_bytewise: bool = False
    is_exact: bool = False


def _with_type(sql: Element, type_: SQLType) -> Element:
    """The expression with a type, in parentheses where it has operators."""
    is_open = isinstance(sql, OperatorExpression)
    term: Element = type_coerce(Grouping(sql) if is_open else sql, type_)
    return term


def inverse(sql: Element) -> Element:
    """NOT, of the expression in parentheses."""
    return UnaryExpression(Grouping(sql), operator=operators.inv, type_=BOOLEAN)


_MOVED = (operators.add, operators.sub, operators.neg)


def integer(sql: Element, bits: int = 64) -> Term:
    """A whole number of DuckDB's BIGINT; with fewer bits, a larger one fails."""
    small = {16: types.SmallInteger(), 32: types.Integer()}.get(bits)
    if small is not None:
        sql = cast(cast(sql, small), BIGINT)
    elif getattr(sql, "operator", None) in _MOVED:
        # DuckDB would take x + 1 > 5 for x > 4, and meet no overflow.
        sql = sql.op("|", precedence=6)(0)
    return Term(sql=_with_type(sql, BIGINT), kind="integer", bits=bits)


def whole(sql: Element, bits: int = 64) -> Term:
    """A whole number that has at most so many bits, converted from another type."""
    return Term(sql=cast(sql, BIGINT), kind="integer", bits=bits)


def bits_of(type_: SQLType) -> int:
    """The bits of a type of whole numbers."""
    if isinstance(type_, types.BigInteger):
        return 64
    return 16 if isinstance(type_, types.SmallInteger) else 32


def number_of_truth(term: Term) -> Term:
    """1 for true, 0 for false."""
    return whole(term.sql, bits=32)


def real(sql: Element) -> Term:
    """A double that is finite where its operands are."""
    return Term(sql=_with_type(sql, DOUBLE), kind="real")


def computed_real(sql: Element) -> Term:
    """A double that may overflow."""
    return Term(sql=_with_type(sql, DOUBLE), kind="real", is_checked=False)


def decimal(sql: Element, scale: int) -> Term:
    """An exact number; one with more than 38 digits fails."""
    if not 0 <= scale <= MOST_DIGITS:
        raise UntranslatableError("a decimal with too many digits")
    return Term(sql=cast(sql, types.Numeric(MOST_DIGITS, scale)), kind="decimal", scale=scale)


def text(sql: Element, *, is_ascii: bool = False) -> Term:
    """A text."""
    return Term(sql=_with_type(sql, TEXT), kind="text", is_ascii=is_ascii)


def boolean(sql: Element) -> Term:
    """True or false."""
    return Term(sql=_with_type(sql, BOOLEAN), kind="boolean")


def constant(value: Any) -> Term:
    """A constant of the text."""
    match value:
        case None:
            return Term(sql=null(), kind="null", is_constant=True)
        case bool():
            term = boolean(true() if value else false())
        case int():
            # Without the cast, a small number would be one of 32 bits, and a product of two would overflow.
            bits = 32 if -(2**31) <= value < 2**31 else 64
            term = Term(sql=cast(literal(value, BIGINT), BIGINT), kind="integer", bits=bits)
        case float():
            term = real(cast(literal(value, DOUBLE), DOUBLE))
        case Decimal():
            term = decimal(literal(format(value, "f"), TEXT), _scale(value))
        case str():
            term = text(literal(value, TEXT), is_ascii=value.isascii() and value.isprintable())
        case dt.datetime() if value.tzinfo is None:
            term = Term(sql=cast(literal(value.isoformat(), TEXT), DATETIME), kind="datetime")
        case dt.date() if not isinstance(value, dt.datetime):
            term = Term(sql=cast(literal(value.isoformat(), TEXT), DATE), kind="date")
        case _:
            raise UntranslatableError(f"a constant of the class {type(value).__name__}")
    return replace(term, value=value, is_constant=True)


def _scale(value: Decimal) -> int:
    exponent = value.as_tuple().exponent
    if not isinstance(exponent, int):
        raise UntranslatableError("a number that is not finite")
    return max(0, -exponent)


def error() -> Element:
    """Fails when it is computed."""
    error: Element = func.error("not the same in DuckDB")
    return error


def refused_if(bad: Element, sql: Element) -> Element:
    """The expression, which fails for rows in which the condition holds."""
    return case((bad, error()), else_=sql)


def in_calendar(sql: Element) -> Element:
    """The date or datetime; one that is not in the years 1 to 9999 fails, because it is shown in another form."""
    year = func.date_part("year", sql)
    return type_coerce(refused_if(or_(year < 1, year > 9999), sql), sql.type)


def finite(term: Term) -> Term:
    """The term; a real that overflowed fails, because databases differ there."""
    if term.is_checked:
        return term
    bad = func.isfinite(term.sql).is_(false())
    return replace(term, sql=type_coerce(refused_if(bad, term.sql), DOUBLE), is_checked=True)


def as_double(term: Term) -> Element:
    """A number as a double."""
    return term.sql if term.kind in ("real", "quotient") else cast(term.sql, DOUBLE)


def text_of(term: Term) -> Element:
    """A value as a text, as DuckDB writes it."""
    return term.sql if term.kind == "text" else cast(term.sql, TEXT)


def round_to(term: Term, digits: int) -> Element:
    """A number rounded as a double to digits after the point.

    It fails near the middle of two results and for large numbers, where databases differ.
    """
    power = float(10**digits)
    scaled = as_double(term) * power
    # Up to 1e11, a double is within 1e-5 of the number that it stands for.
    is_unsure = or_(is_near_half(scaled), func.abs(scaled) > 1e11)
    return refused_if(is_unsure, func.round(scaled) / power)


def is_near_half(number: Element) -> Element:
    """Whether the fraction of a number is almost 0.5."""
    fraction = func.abs(number) - func.floor(func.abs(number))
    is_near: Element = func.abs(fraction - 0.5) < 1e-4
    return is_near


def ascii_only(term: Term) -> Term:
    """The text, if it is printable ASCII: in other texts, databases differ in what a letter and a case is."""
    if term.is_ascii:
        return term
    bad = func.regexp_full_match(term.sql, "[ -~\\t\\r\\n]*").is_(false())
    return text(refused_if(bad, term.sql), is_ascii=True)


def without_nul(term: Term) -> Term:
    """The text, if it has no NUL character, where SQLite's functions end it."""
    if term.is_ascii or term.is_constant:
        return term
    return text(refused_if(func.contains(term.sql, func.chr(0)), term.sql))


def exact_double(term: Term) -> Element:
    """A whole number as a double that equals it."""
    if term.is_constant:
        if abs(term.value) > 2**53:
            raise UntranslatableError("a whole number that is no double")
        return as_double(term)
    bad = or_(term.sql > 2**53, term.sql < -(2**53))
    return refused_if(bad, cast(term.sql, DOUBLE))


_TYPES: Mapping[Kind, SQLType] = {
    "integer": BIGINT,
    "real": DOUBLE,
    "text": TEXT,
    "boolean": BOOLEAN,
    "date": DATE,
    "datetime": DATETIME,
}


def type_of(term: Term) -> SQLType:
    """DuckDB's type of the term, for results."""
    if term.kind == "decimal":
        return types.Numeric(MOST_DIGITS, term.scale)
    if term.kind not in _TYPES:
        raise UntranslatableError(f"a {term.kind} as a result")
    return _TYPES[term.kind]
