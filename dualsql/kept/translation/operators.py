"""What each operator means for each two kinds of operands, by dialect, in DuckDB's words.

To add an operator, add its rows. A pair of kinds without a row has no translation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from sqlalchemy import cast, func, types
from sqlalchemy.sql import operators

from dualsql.columns.own_types import Element
from dualsql.kept.translation.ordering import MARIADB, POSTGRESQL, SQLITE
from dualsql.kept.translation.terms import (
    DATE,
    DATETIME,
    TEXT,
    Kind,
    Term,
    UntranslatableError,
    as_double,
    ascii_only,
    boolean,
    computed_real,
    decimal,
    exact_double,
    finite,
    in_calendar,
    integer,
    number_of_truth,
    refused_if,
    text,
    text_of,
    whole,
    without_nul,
)

Two = Callable[[Term, Term], Term]
OperatorTable = Mapping[tuple[str, Kind, Kind], Two]
Apply = Callable[[Any, Any], Any]

COMPARED: Mapping[str, Apply] = {
    "=": operators.eq,
    "<>": operators.ne,
    "<": operators.lt,
    "<=": operators.le,
    ">": operators.gt,
    ">=": operators.ge,
    "is": lambda left, right: left.is_not_distinct_from(right),
    "is not": lambda left, right: left.is_distinct_from(right),
}
EQUALITY = ("=", "<>", "is", "is not")
ORDER = ("<", "<=", ">", ">=")

UPPER, LOWER = "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz"


def ascii_lower(sql: Element) -> Element:
    """The text with the letters A to Z in lower case."""
    lower: Element = func.translate(sql, UPPER, LOWER, type_=TEXT)
    return lower


#
# Arithmetic.


def _op(word: str) -> Apply:
    return lambda left, right: left.op(word, precedence=8)(right)


def _whole(apply: Apply) -> Two:
    """An operator on whole numbers: an overflow fails."""

    def write(left: Term, right: Term) -> Term:
        return integer(apply(left.sql, right.sql), _larger(left, right))

    return write


def _larger(left: Term, right: Term) -> int:
    """The bits of what is computed of two whole numbers."""
    if 0 in (left.bits, right.bits):
        raise UntranslatableError("a whole number of unknown size")
    return max(left.bits, right.bits)


def _whole_64(apply: Apply) -> Two:
    return lambda left, right: integer(apply(left.sql, right.sql))


def _real(apply: Apply) -> Two:
    return lambda left, right: computed_real(apply(as_double(left), as_double(right)))


def _real_without_minus_zero(apply: Apply) -> Two:
    """MariaDB shows no minus zero: 0 times a negative number is 0."""
    return lambda left, right: computed_real(apply(as_double(left), as_double(right)) + 0.0)


def _quotient_or_null(left: Term, right: Term) -> Term:
    divisor = func.nullif(as_double(finite(right)), 0.0)
    return computed_real(as_double(left).op("/", precedence=8)(divisor))


def _quotient_without_minus_zero(left: Term, right: Term) -> Term:
    return computed_real(_quotient_or_null(left, right).sql + 0.0)


def _quotient_or_error(left: Term, right: Term) -> Term:
    divisor = as_double(finite(right))
    return computed_real(as_double(left).op("/", precedence=8)(refused_if(divisor == 0.0, divisor)))


def _whole_or_null(word: str, left: Term, right: Term) -> Term:
    return integer(_op(word)(left.sql, func.nullif(right.sql, 0)))


def _sum_of_decimals(apply: Apply) -> Two:
    return lambda left, right: decimal(apply(left.sql, right.sql), max(left.scale, right.scale))


def _product_of_decimals(left: Term, right: Term) -> Term:
    return decimal(left.sql * right.sql, left.scale + right.scale)


def _exact_quotient(left: Term, right: Term) -> Term:
    """PostgreSQL's quotient of exact numbers, as the double next to it."""
    quotient = _quotient_or_error(left, right)
    is_exact = all(one.kind == "integer" for one in (left, right))
    return replace(finite(quotient), kind="quotient", is_exact=is_exact)


def _scaled(apply: Apply) -> Two:
    """A product of a quotient: its error stays relative."""

    def write(left: Term, right: Term) -> Term:
        quotient_of = finite(computed_real(apply(as_double(left), as_double(right))))
        return replace(quotient_of, kind="quotient")

    return write


#
# Comparisons.


def _compared(name: str, left: Term, right: Term) -> Term:
    return boolean(COMPARED[name](finite(left).sql, finite(right).sql))


def _compared_doubles(name: str, left: Term, right: Term) -> Term:
    return boolean(COMPARED[name](as_double(finite(left)), as_double(finite(right))))


def _compared_exactly(name: str, left: Term, right: Term) -> Term:
    """A whole number with a double: SQLite compares them as they are, DuckDB as doubles."""
    one, other = (
        exact_double(term) if term.kind == "integer" else as_double(finite(term)) for term in (left, right)
    )
    return boolean(COMPARED[name](one, other))


def _compared_nearly(name: str, left: Term, right: Term) -> Term:
    """A quotient with an exact number, which has to be away from it."""
    one, other = as_double(left), as_double(right)
    is_near = func.abs(one - other) <= 1e-9 * func.greatest(func.abs(one), func.abs(other))
    return boolean(refused_if(is_near, COMPARED[name](one, other)))


def _compared_moments(name: str, left: Term, right: Term) -> Term:
    return boolean(COMPARED[name](cast(left.sql, DATETIME), cast(right.sql, DATETIME)))


#
# Texts.


def _join(left: Term, right: Term) -> Term:
    return text(
        text_of(left).op("||", precedence=6)(text_of(right)), is_ascii=left.is_ascii and right.is_ascii
    )


def _joined_postgresql(left: Term, right: Term) -> Term:
    if any(term.is_constant and term.kind != "text" for term in (left, right)):
        raise UntranslatableError("a constant that PostgreSQL's drivers send as a text, or not at all")
    return _join(left, right)


def _joined_sqlite(left: Term, right: Term) -> Term:
    return _join(*(without_nul(term) if term.kind == "text" else term for term in (left, right)))


LikeWriter = Callable[[Term, Term, str | None], Term]


def _like_sqlite(value: Term, pattern: Term, escape: str | None) -> Term:
    # SQLite folds the letters of ASCII only. Its escape character is compared before it folds.
    if escape is not None and escape.isalpha():
        raise UntranslatableError("a letter as ESCAPE")
    lower = [
        ascii_lower(text_of(without_nul(term) if term.kind == "text" else term)) for term in (value, pattern)
    ]
    return boolean(lower[0].like(lower[1], escape=escape))


def _like_postgresql(value: Term, pattern: Term, escape: str | None) -> Term:
    return boolean(value.sql.like(pattern.sql, escape=escape or "\\"))


def _ilike_postgresql(value: Term, pattern: Term, escape: str | None) -> Term:
    lower = [ascii_lower(ascii_only(term).sql) for term in (value, pattern)]
    if escape is not None and escape.isalpha():
        raise UntranslatableError("a letter as ESCAPE")
    return boolean(lower[0].like(lower[1], escape=escape or "\\"))


LIKE: Mapping[tuple[str, str], tuple[frozenset[Kind], LikeWriter]] = {
    (SQLITE, "like"): (frozenset({"text", "integer"}), _like_sqlite),
    (POSTGRESQL, "like"): (frozenset({"text"}), _like_postgresql),
    (POSTGRESQL, "ilike"): (frozenset({"text"}), _ilike_postgresql),
}
"""By dialect and operator: the kinds of values that it takes, and what it means."""


#
# Dates.


def _days_between(left: Term, right: Term) -> Term:
    return whole(func.date_diff("day", right.sql, left.sql), bits=32)


def _day_moved(sign: int) -> Two:
    def write(left: Term, right: Term) -> Term:
        day, days = (left, right) if left.kind == "date" else (right, left)
        if days.bits > 32:
            raise UntranslatableError("a date and a number of 64 bits")  # PostgreSQL has no such operator
        return Term(sql=in_calendar(cast(day.sql + cast(days.sql * sign, _INTEGER), DATE)), kind="date")

    return write


_INTEGER = types.Integer()


def _moment_moved(apply: Apply) -> Two:
    def write(left: Term, right: Term) -> Term:
        moment, span = (left, right) if right.kind == "span" else (right, left)
        result = cast(apply(cast(moment.sql, DATETIME), span.sql), DATETIME)
        return Term(sql=in_calendar(result), kind="datetime")

    return write


#
# The tables.


def _rows(words: str, kinds: str, write: Two) -> Iterator[tuple[tuple[str, Kind, Kind], Two]]:
    """Rows for each operator of `words` and each pair of `kinds`, such as "integer real, real integer"."""
    for pair in kinds.split(", "):
        left, right = pair.split()
        for word in words.split():
            yield (word, left, right), write  # type: ignore[misc]


def _comparisons(
    words: tuple[str, ...], kinds: str, write: Callable[[str, Term, Term], Term]
) -> Iterator[tuple[tuple[str, Kind, Kind], Two]]:
    for pair in kinds.split(", "):
        left, right = pair.split()
        for word in words:
            yield (word, left, right), partial(write, word)  # type: ignore[misc]


_MIXED = "integer real, real integer"
_REALS = f"real real, {_MIXED}"
_EXACT_PAIRS = "decimal decimal, integer decimal, decimal integer"
_ALL = (*EQUALITY, *ORDER)

_SQLITE: OperatorTable = dict([
    *_rows("+", "integer integer", _whole_64(operators.add)),
    *_rows("-", "integer integer", _whole_64(operators.sub)),
    *_rows("*", "integer integer", _whole_64(operators.mul)),
    *_rows("/", "integer integer", partial(_whole_or_null, "//")),
    *_rows("%", "integer integer", partial(_whole_or_null, "%")),
    *_rows("&", "integer integer", _whole_64(_op("&"))),
    *_rows("|", "integer integer", _whole_64(_op("|"))),
    *_rows("+", f"{_REALS}, numeric real, real numeric", _real(operators.add)),
    *_rows("-", f"{_REALS}, numeric real, real numeric", _real(operators.sub)),
    *_rows("*", f"{_REALS}, numeric real, real numeric", _real(operators.mul)),
    *_rows("/", f"{_REALS}, numeric real, real numeric", _quotient_or_null),
    *_comparisons(_ALL, "integer integer, real real, text text, date date, datetime datetime", _compared),
    *_comparisons(_ALL, "boolean boolean", _compared),
    *_comparisons(_ALL, "date datetime, datetime date", _compared_moments),
    *_comparisons(_ALL, _MIXED, _compared_exactly),
    *_comparisons(_ALL, "numeric real, real numeric, numeric integer, integer numeric", _compared_exactly),
    *_comparisons(_ALL, "numeric numeric", _compared),
    *_rows("||", "text text, text integer, integer text, integer integer", _joined_sqlite),
])  # fmt: skip

_POSTGRESQL: OperatorTable = dict([
    *_rows("+", "integer integer", _whole(operators.add)),
    *_rows("-", "integer integer", _whole(operators.sub)),
    *_rows("*", "integer integer", _whole(operators.mul)),
    # DuckDB's // cuts to zero, and fails for zero, as PostgreSQL's / does.
    *_rows("/", "integer integer", _whole(_op("//"))),
    *_rows("%", "integer integer", _whole(_op("%"))),
    *_rows("&", "integer integer", _whole_64(_op("&"))),
    *_rows("|", "integer integer", _whole_64(_op("|"))),
    *_rows("+", _EXACT_PAIRS, _sum_of_decimals(operators.add)),
    *_rows("-", _EXACT_PAIRS, _sum_of_decimals(operators.sub)),
    *_rows("*", _EXACT_PAIRS, _product_of_decimals),
    *_rows("/", _EXACT_PAIRS, _exact_quotient),
    *_rows("*", "quotient integer, quotient decimal, integer quotient, decimal quotient", _scaled(operators.mul)),
    *_rows("/", "quotient integer, quotient decimal", _exact_quotient),
    *_rows("+", _REALS, _real(operators.add)),
    *_rows("-", _REALS, _real(operators.sub)),
    *_rows("*", _REALS, _real(operators.mul)),
    *_rows("/", _REALS, _quotient_or_error),
    *_comparisons(_ALL, "integer integer, real real, text text, date date, datetime datetime", _compared),
    *_comparisons(_ALL, f"boolean boolean, {_EXACT_PAIRS}", _compared),
    *_comparisons(_ALL, "date datetime, datetime date", _compared_moments),
    *_comparisons(_ALL, f"{_MIXED}, decimal real, real decimal", _compared_doubles),
    *_comparisons(
        _ALL, "quotient integer, quotient decimal, integer quotient, decimal quotient", _compared_nearly
    ),
    *_rows("||", "text text, text integer, integer text, text decimal", _joined_postgresql),
    *_rows("||", "decimal text, text date, date text", _joined_postgresql),
    *_rows("-", "date date", _days_between),
    *_rows("+", "date integer, integer date", _day_moved(1)),
    *_rows("-", "date integer", _day_moved(-1)),
    *_rows("+", "date span, datetime span, span date, span datetime", _moment_moved(operators.add)),
    *_rows("-", "date span, datetime span", _moment_moved(operators.sub)),
])  # fmt: skip

_MARIADB: OperatorTable = dict([
    *_rows("+", "integer integer", _whole_64(operators.add)),
    *_rows("-", "integer integer", _whole_64(operators.sub)),
    *_rows("*", "integer integer", _whole_64(operators.mul)),
    *_rows("DIV", "integer integer", partial(_whole_or_null, "//")),
    *_rows("%", "integer integer", partial(_whole_or_null, "%")),
    *_rows("+", _EXACT_PAIRS, _sum_of_decimals(operators.add)),
    *_rows("-", _EXACT_PAIRS, _sum_of_decimals(operators.sub)),
    *_rows("*", _EXACT_PAIRS, _product_of_decimals),
    *_rows("+", _REALS, _real(operators.add)),
    *_rows("-", _REALS, _real(operators.sub)),
    *_rows("*", _REALS, _real_without_minus_zero(operators.mul)),
    *_rows("/", _REALS, _quotient_without_minus_zero),
    *_comparisons(_ALL, "integer integer, real real, date date, datetime datetime", _compared),
    *_comparisons(_ALL, f"boolean boolean, {_EXACT_PAIRS}", _compared),
    *_comparisons(_ALL, "date datetime, datetime date", _compared_moments),
    *_comparisons(_ALL, _MIXED, _compared_exactly),
])  # fmt: skip

OPERATORS: Mapping[str, OperatorTable] = {SQLITE: _SQLITE, POSTGRESQL: _POSTGRESQL, MARIADB: _MARIADB}
"""By dialect: what an operator means for two kinds of operands."""


#
# What a kind becomes where an operator has no row for it.


Conversion = tuple[Kind, Callable[[Term], Term]]

IMPLICIT: Mapping[str, Mapping[Kind, Conversion]] = {
    SQLITE: {
        "boolean": ("integer", number_of_truth),
        "date": ("text", lambda day: text(func.strftime(day.sql, "%Y-%m-%d"), is_ascii=True)),
    },
    POSTGRESQL: {},
    MARIADB: {"boolean": ("integer", number_of_truth)},
}
"""By dialect: what a kind is taken for where it has no entry of its own."""


#
# Truth.


def _not_zero(term: Term) -> Element:
    return as_double(finite(term)) != 0.0 if term.kind == "real" else term.sql != 0


_OF_FLAGS: Mapping[Kind, Callable[[Term], Element]] = {
    "boolean": lambda term: term.sql,
    "flag": lambda term: term.sql,
    "integer": _not_zero,
    "real": _not_zero,
}

TRUTH: Mapping[str, Mapping[Kind, Callable[[Term], Element]]] = {
    SQLITE: _OF_FLAGS,
    POSTGRESQL: {"boolean": lambda term: term.sql},
    MARIADB: _OF_FLAGS,
}
"""By dialect: when a value of a kind is true."""


def negate(term: Term, dialect: str) -> Term:
    """-x."""
    if dialect == MARIADB and term.kind == "real":
        return computed_real(-term.sql + 0.0)
    match term.kind:
        case "real" if dialect == SQLITE:  # has no -0.0
            return replace(term, sql=0 - term.sql, is_constant=False)
        case "integer":
            return integer(-term.sql, term.bits)
        case "real" | "decimal" | "quotient":
            return replace(term, sql=-term.sql, is_constant=False)
    raise UntranslatableError(f"the negative of a {term.kind}")
