"""What CAST means from each kind to each type, by dialect, in DuckDB's words."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from sqlalchemy import case, cast, func, types

from dualsql.columns.database_types import is_single
from dualsql.columns.own_types import SQLType
from dualsql.kept.translation.ordering import MARIADB, POSTGRESQL, SQLITE
from dualsql.kept.translation.terms import (
    BIGINT,
    DATE,
    DATETIME,
    DOUBLE,
    TEXT,
    Kind,
    Term,
    UntranslatableError,
    as_double,
    bits_of,
    decimal,
    error,
    finite,
    integer,
    is_near_half,
    number_of_truth,
    real,
    refused_if,
    round_to,
    text,
)

Cast = Callable[[Term, SQLType], Term]

_SPACE = r"[ \t\n\v\f\r]*"


def _same(term: Term, _: SQLType) -> Term:
    return term


#
# SQLite.


def _truncate(term: Term, _: SQLType) -> Term:
    # A larger number is an error here, and the largest one there.
    return integer(cast(func.trunc(as_double(term)), BIGINT))


def _beginning_as_whole(term: Term, _: SQLType) -> Term:
    """The digits that a text begins with, or 0."""
    begins = func.regexp_full_match(term.sql, f"{_SPACE}[+-]?[0-9]{{1,18}}([^0-9\\x00](.|\\n)*)?")
    has_none = func.regexp_full_match(term.sql, f"{_SPACE}([^0-9+\\-\\s\\x00](.|\\n)*)?")
    digits = func.regexp_extract(term.sql, f"^{_SPACE}([+-]?[0-9]{{1,18}})", 1)
    number = case(
        (term.sql.is_(None), None),
        (begins, cast(func.nullif(digits, ""), BIGINT)),
        (has_none, 0),
        else_=error(),
    )
    return integer(number)


def _whole_text_as_real(term: Term, _: SQLType) -> Term:
    """A text that is a number as a whole; of others, nothing or 0."""
    is_number = func.regexp_full_match(term.sql, r"[+-]?[0-9]{1,8}(\.[0-9]{0,7})?")
    has_none = func.regexp_full_match(term.sql, f"({_SPACE}[^0-9+.\\-\\s\\x00](.|\\n)*)?")
    number = case(
        (term.sql.is_(None), None), (is_number, cast(term.sql, DOUBLE)), (has_none, 0.0), else_=error()
    )
    return real(cast(number, DOUBLE))


def _as_real(term: Term, _: SQLType) -> Term:
    return real(as_double(finite(term)))


def _as_text(term: Term, _: SQLType) -> Term:
    return text(cast(term.sql, TEXT), is_ascii=True)


#
# PostgreSQL and MariaDB.


def _integer_of_truth(term: Term, target: SQLType) -> Term:
    if bits_of(target) != 32:
        raise UntranslatableError("a truth as a number of another size")
    return number_of_truth(term)


def _fit(term: Term, target: SQLType) -> Term:
    return integer(term.sql, bits_of(target))


def _round(term: Term, target: SQLType) -> Term:
    """A decimal: halves away from zero."""
    return integer(cast(func.round(term.sql, 0), BIGINT), bits_of(target))


def _round_to_even(term: Term, target: SQLType) -> Term:
    """A double: halves to the even number."""
    return integer(cast(func.round_even(finite(term).sql, 0), BIGINT), bits_of(target))


def _round_quotient(term: Term, target: SQLType) -> Term:
    near_half = is_near_half(term.sql)
    return integer(cast(refused_if(near_half, func.round(term.sql)), BIGINT), bits_of(target))


def _digits(term: Term, target: SQLType) -> Term:
    """A text of digits; any other fails, where PostgreSQL may read it or refuse it."""
    bad = func.regexp_full_match(term.sql, "[+-]?[0-9]{1,18}").is_(False)
    return integer(cast(refused_if(bad, term.sql), BIGINT), bits_of(target))


def _exactly(term: Term, target: SQLType) -> Term:
    """NUMERIC(p, s) of an exact number, or NUMERIC with the digits that it has."""
    precision, scale = getattr(target, "precision", None), getattr(target, "scale", None)
    if precision is None:
        return decimal(term.sql, term.scale)
    scale = scale or 0
    if not 0 <= scale <= precision <= 38:
        raise UntranslatableError("a NUMERIC of that size")
    rounded = func.round(term.sql, scale) if term.kind == "decimal" and scale < term.scale else term.sql
    # A number with more digits fails.
    return decimal(cast(rounded, types.Numeric(precision, scale)), scale)


def _nearly(term: Term, target: SQLType) -> Term:
    """NUMERIC of a double, of which PostgreSQL takes 15 digits, or of a quotient."""
    term = replace(finite(term), kind="quotient", is_exact=False, is_constant=False)
    precision, scale = getattr(target, "precision", None), getattr(target, "scale", None) or 0
    if precision is None:
        return term
    if scale > 9 or precision > 38:
        raise UntranslatableError("a NUMERIC of that size")
    return decimal(cast(round_to(term, scale), types.Numeric(precision, scale)), scale)


def _unlimited(term: Term, target: SQLType) -> Term:
    """A text; one that a length would cut fails."""
    length = getattr(target, "length", None)
    if isinstance(target, types.CHAR):
        raise UntranslatableError("CHAR, which is padded")
    if length is None:
        return term
    return text(refused_if(func.length(term.sql) > length, term.sql), is_ascii=term.is_ascii)


def _sized_word_of_truth(term: Term, target: SQLType) -> Term:
    word = text(case((term.sql, "true"), (~term.sql, "false")), is_ascii=True)
    return _unlimited(word, target)


def _as_sized_text(term: Term, target: SQLType) -> Term:
    return _unlimited(_as_text(term, target), target)


def _day(term: Term, _: SQLType) -> Term:
    return Term(sql=cast(term.sql, DATE), kind="date")


def _moment(term: Term, target: SQLType) -> Term:
    if getattr(target, "timezone", False):
        raise UntranslatableError("a timestamp with a zone")
    return Term(sql=cast(term.sql, DATETIME), kind="datetime")


def _whole_second(term: Term, _: SQLType) -> Term:
    """MariaDB's DATETIME without a fraction of a second, which it cuts off."""
    if not term.is_constant or term.value.microsecond:
        raise UntranslatableError("a datetime that may lose its fraction")
    return term


def _day_of_text(term: Term, _: SQLType) -> Term:
    bad = func.regexp_full_match(term.sql, "[1-9][0-9]{3}-[0-9]{2}-[0-9]{2}").is_(False)
    return Term(sql=cast(refused_if(bad, term.sql), DATE), kind="date")


#
# The tables.

Target = str
"""Whole, real, exact, text, date, datetime, truth."""

_SQLITE: Mapping[tuple[Kind, Target], Cast] = {
    ("integer", "whole"): _same,
    ("real", "whole"): _truncate,
    ("numeric", "whole"): _truncate,
    ("text", "whole"): _beginning_as_whole,
    ("boolean", "whole"): lambda term, _: number_of_truth(term),
    ("integer", "real"): _as_real,
    ("real", "real"): _same,
    ("numeric", "real"): _as_real,
    ("text", "real"): _whole_text_as_real,
    ("boolean", "real"): lambda term, target: _as_real(number_of_truth(term), target),
    ("integer", "exact"): _same,
    ("integer", "text"): _as_text,
    ("text", "text"): _same,
}

_POSTGRESQL: Mapping[tuple[Kind, Target], Cast] = {
    ("integer", "whole"): _fit,
    ("decimal", "whole"): _round,
    ("real", "whole"): _round_to_even,
    ("quotient", "whole"): _round_quotient,
    ("text", "whole"): _digits,
    ("boolean", "whole"): _integer_of_truth,
    ("integer", "real"): _as_real,
    ("decimal", "real"): _as_real,
    ("real", "real"): _same,
    ("integer", "exact"): _exactly,
    ("decimal", "exact"): _exactly,
    ("real", "exact"): _nearly,
    ("quotient", "exact"): _nearly,
    ("integer", "text"): _as_sized_text,
    ("decimal", "text"): _as_sized_text,
    ("date", "text"): _as_sized_text,
    ("boolean", "text"): _sized_word_of_truth,
    ("text", "text"): _unlimited,
    ("date", "date"): _day,
    ("datetime", "date"): _day,
    ("text", "date"): _day_of_text,
    ("date", "datetime"): _moment,
    ("datetime", "datetime"): _moment,
    ("boolean", "truth"): _same,
}

_MARIADB: Mapping[tuple[Kind, Target], Cast] = {
    ("integer", "whole"): _same,
    ("decimal", "whole"): lambda term, _: _round(term, BIGINT),
    ("integer", "real"): _as_real,
    ("decimal", "real"): _as_real,
    ("real", "real"): _same,
    ("datetime", "date"): _day,
    ("date", "date"): _day,
    ("date", "datetime"): _moment,
    ("datetime", "datetime"): _whole_second,
}

CASTS: Mapping[str, Mapping[tuple[Kind, Target], Cast]] = {
    SQLITE: _SQLITE,
    POSTGRESQL: _POSTGRESQL,
    MARIADB: _MARIADB,
}
"""By dialect: what CAST makes of a kind."""


def target_of(type_: SQLType) -> Target | None:
    """What a type is a target for; None for types without an entry."""
    if isinstance(type_, types.TypeDecorator | types.Enum | types.REAL):
        return None
    for base, target in (
        (types.Integer, "whole"),
        (types.Double, "real"),
        (types.Float, "real"),
        (types.Numeric, "exact"),
        (types.String, "text"),
        (types.Date, "date"),
        (types.DateTime, "datetime"),
        (types.Boolean, "truth"),
    ):
        if isinstance(type_, base):
            return target
    return None


def _is_single(dialect: str, target: SQLType) -> bool:
    """Whether FLOAT or FLOAT(n) has four bytes: on MariaDB without a number too, on SQLite never."""
    has_number = getattr(target, "precision", None) is not None
    return dialect != SQLITE and (has_number or dialect == MARIADB) and is_single(target)


def translate_cast(dialect: str, term: Term, type_: SQLType) -> Term:
    """CAST(term AS type_)."""
    target = target_of(type_)
    if target == "real" and _is_single(dialect, type_):
        raise UntranslatableError("a float of four bytes")
    convert = None if target is None else CASTS[dialect].get((term.kind, target))
    if convert is None:
        raise UntranslatableError(f"CAST of a {term.kind}")
    return replace(convert(term, type_), is_constant=False, value=None)
