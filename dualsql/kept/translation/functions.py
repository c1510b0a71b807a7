"""What each function of one row means, by dialect, in DuckDB's words.

To add a function, add its name to the table of its dialect. An entry says which kinds of arguments it takes; any other
call has no translation.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import reduce

from sqlalchemy import and_, case, cast, func, literal, null, or_, types

from dualsql.columns.own_types import Element
from dualsql.kept.translation.operators import LOWER, OPERATORS, UPPER, ascii_lower
from dualsql.kept.translation.ordering import MARIADB, ORDERED, POSTGRESQL, SQLITE
from dualsql.kept.translation.terms import (
    DATE,
    DATETIME,
    DOUBLE,
    TEXT,
    Kind,
    Term,
    UntranslatableError,
    as_double,
    ascii_only,
    boolean,
    decimal,
    finite,
    integer,
    real,
    refused_if,
    round_to,
    text,
    text_of,
    whole,
    without_nul,
)

Call = Callable[[Sequence[Term]], Term]


def _of(kinds: str, write: Callable[..., Term]) -> Call:
    """A function of arguments of these kinds; `a|b` stands for either, and `?` after it for one that may be absent."""
    kinds_of = kinds.split()
    least = sum(not kind.endswith("?") for kind in kinds_of)

    def call(arguments: Sequence[Term]) -> Term:
        if not least <= len(arguments) <= len(kinds_of):
            raise UntranslatableError("another number of arguments")
        for term, allowed in zip(arguments, kinds_of, strict=False):
            if term.kind not in allowed.rstrip("?").split("|"):
                raise UntranslatableError(f"an argument that is a {term.kind}")
        return write(*map(finite, arguments))

    return call


def _either(*calls: Call) -> Call:
    """The first of the meanings that fits the arguments."""

    def call(arguments: Sequence[Term]) -> Term:
        for one in calls:
            try:
                return one(arguments)
            except UntranslatableError:
                continue
        raise UntranslatableError("arguments of other kinds")

    return call


def _number(term: Term, least: int, most: int = 1_000_000) -> int:
    """The whole number that a constant is."""
    if not term.is_constant or term.kind != "integer" or not least <= term.value <= most:
        raise UntranslatableError("a number that is no such constant")
    number: int = term.value
    return number


def _word(term: Term) -> str:
    """The text that a constant is, and not an empty one."""
    if not term.is_constant or term.kind != "text" or not term.value:
        raise UntranslatableError("a text that is no such constant")
    return str(term.value)


#
# One of several values.


_UNSURE: frozenset[Kind] = frozenset({"document", "opaque", "flag", "quotient", "span"})
"""Kinds of values that are equal, or NULL, in other cases than in their database."""


def _common(arguments: Sequence[Term]) -> tuple[Kind, int, int]:
    """The kind, the scale and the bits that all arguments have, but for NULLs."""
    terms = [term for term in arguments if term.kind != "null"]
    kinds = {term.kind for term in terms}
    if len(kinds) != 1 or kinds & _UNSURE:
        raise UntranslatableError("values of several kinds")
    if kinds == {"numeric"} and len(terms) > 1:
        raise UntranslatableError("decimals that are shown with different digits")
    return terms[0].kind, max(term.scale for term in terms), max(term.bits for term in terms)


def one_of(arguments: Sequence[Term], write: Callable[..., Element]) -> Term:
    """A value that is one of the arguments, of one kind."""
    terms = [finite(term) for term in arguments]
    kind, scale, bits = _common(terms)
    value = write(*(term.sql for term in terms))
    if kind == "decimal":
        if len({term.scale for term in terms if term.kind == "decimal"}) > 1:
            raise UntranslatableError("decimals that are shown with different digits")
        return decimal(value, scale)
    first = next(term for term in terms if term.kind == kind)
    is_ascii = all(term.is_ascii or term.kind == "null" for term in terms)
    return replace(
        first, sql=value, bits=bits, value=None, is_constant=False, is_ascii=is_ascii, is_checked=True
    )


def _coalesce(arguments: Sequence[Term]) -> Term:
    if not arguments:
        raise UntranslatableError("coalesce without arguments")
    return one_of(arguments, func.coalesce)


def _nullif(arguments: Sequence[Term]) -> Term:
    # Texts are equal byte by byte in these databases, or they have no entry.
    kinds = {argument.kind for argument in arguments}
    if len(arguments) != 2 or len(kinds) != 1 or kinds & _UNSURE:
        raise UntranslatableError("nullif of such values")
    first = finite(arguments[0])
    return replace(first, sql=func.nullif(first.sql, finite(arguments[1]).sql), is_constant=False, value=None)


_EXTREME: frozenset[Kind] = frozenset(ORDERED)


def _extreme(name: str, kinds: frozenset[Kind], *, skips_nulls: bool) -> Call:
    def call(arguments: Sequence[Term]) -> Term:
        if len(arguments) < 2 or not {term.kind for term in arguments} <= kinds:
            raise UntranslatableError("an extreme of such values")
        missing = or_(*(term.sql.is_(None) for term in arguments))

        def write(*values: Element) -> Element:
            value: Element = getattr(func, name)(*values)
            return value if skips_nulls else case((missing, null()), else_=value)

        return one_of(arguments, write)

    return call


#
# Numbers.


def _abs(term: Term) -> Term:
    if term.kind == "integer":
        return integer(func.abs(term.sql), term.bits)
    return replace(term, sql=func.abs(term.sql), is_constant=False, value=None)


def _abs_sqlite(term: Term) -> Term:
    """It leaves minus zero as it is."""
    absolute = _abs(term)
    if term.kind != "real":
        return absolute
    return real(case((term.sql < 0.0, -term.sql), else_=term.sql))


def _round_sqlite(term: Term, digits: Term | None = None) -> Term:
    scale = 0 if digits is None else _number(digits, 0, 9)
    if term.kind == "integer":
        return real(as_double(term))
    if scale == 0:
        # It adds a half and cuts; the double before a half is taken for it.
        value = as_double(term)
        is_odd = or_(func.abs(value) == 0.49999999999999994, func.abs(value) > 2**51)
        # It has no minus zero.
        return real(refused_if(is_odd, func.round(value) + 0.0))
    return real(round_to(term, scale))


def _round_exact(term: Term, digits: Term | None = None) -> Term:
    scale = 0 if digits is None else _number(digits, 0, 15)
    if term.kind == "decimal" and scale >= term.scale:
        return decimal(term.sql, scale)
    if term.kind == "decimal":
        return decimal(func.round(term.sql, scale), scale)
    if term.kind == "integer":
        return decimal(term.sql, scale)
    if scale > 9:
        raise UntranslatableError("too many digits")
    return decimal(round_to(term, scale), scale)


def _round_mariadb(term: Term, digits: Term | None = None) -> Term:
    scale = 0 if digits is None else _number(digits, 0, 15)
    if term.kind == "integer":
        return term
    return decimal(func.round(term.sql, min(scale, term.scale)), scale)


def _up_or_down(name: str) -> Callable[[Term], Term]:
    def write(term: Term) -> Term:
        value = getattr(func, name)(term.sql)
        return real(value) if term.kind == "real" else decimal(value, 0)

    return write


def _sqrt(term: Term) -> Term:
    value = as_double(term)
    return real(refused_if(value < 0.0, func.sqrt(value)))


#
# Texts.


def _fold_case(name: str) -> Callable[[Term], Term]:
    """upper() or lower() of ASCII; PostgreSQL and MariaDB fold other letters by their locale."""
    return lambda term: text(getattr(func, name)(ascii_only(term).sql), is_ascii=True)


def _upper_sqlite(term: Term) -> Term:
    return text(func.translate(without_nul(term).sql, LOWER, UPPER), is_ascii=term.is_ascii)


def _lower_sqlite(term: Term) -> Term:
    return text(ascii_lower(without_nul(term).sql), is_ascii=term.is_ascii)


def _length(term: Term) -> Term:
    return whole(func.length(term.sql), bits=32)


def _length_sqlite(term: Term) -> Term:
    return _length(without_nul(term) if term.kind == "text" else text(cast(term.sql, TEXT)))


def _part(term: Term, start: Term, length: Term | None = None) -> Term:
    """substr() from a character on, which is counted from 1."""
    begin = _number(start, 1)
    lengths = [] if length is None else [_number(length, 0)]
    return text(func.substr(term.sql, begin, *lengths), is_ascii=term.is_ascii)


def _part_sqlite(term: Term, start: Term, length: Term | None = None) -> Term:
    term = without_nul(term) if term.kind == "text" else text(cast(term.sql, TEXT), is_ascii=True)
    if length is None and start.is_constant and start.kind == "integer" and start.value < 0:
        return text(func.right(term.sql, -_number(start, -1_000_000, -1)), is_ascii=term.is_ascii)
    return _part(term, start, length)


def _part_postgresql(term: Term, start: Term, length: Term | None = None) -> Term:
    # It counts from before the text, where there is nothing.
    begin = _number(start, -1_000_000)
    if begin >= 1:
        return _part(term, start, length)
    if length is None:
        return term
    end = begin + _number(length, 0)
    return text(func.substr(term.sql, 1, max(0, end - 1)), is_ascii=term.is_ascii)


def _end(name: str) -> Callable[[Term, Term], Term]:
    return lambda term, count: text(getattr(func, name)(term.sql, _number(count, 0)), is_ascii=term.is_ascii)


def _trim(name: str) -> Callable[..., Term]:
    def write(term: Term, letters: Term | None = None) -> Term:
        if letters is not None and not _word(letters).isascii():
            raise UntranslatableError("letters beyond ASCII")
        trimmed = getattr(func, name)(term.sql, literal(" ") if letters is None else letters.sql)
        return text(trimmed, is_ascii=term.is_ascii)

    return write


def _replace(term: Term, part: Term, by: Term) -> Term:
    _word(part)
    return text(func.replace(term.sql, part.sql, by.sql), is_ascii=term.is_ascii and by.is_ascii)


def _position(term: Term, part: Term) -> Term:
    _word(part)
    return whole(func.instr(term.sql, part.sql), bits=32)


def _texts(arguments: Sequence[Term], kinds: frozenset[Kind]) -> list[Element]:
    if not arguments or not {term.kind for term in arguments} <= kinds:
        raise UntranslatableError("texts of other values")
    return [text_of(term) for term in arguments]


def _concat(kinds: frozenset[Kind]) -> Call:
    """concat() that leaves NULLs out."""
    return lambda arguments: text(func.concat(*_texts(arguments, kinds)))


def _concat_or_null(arguments: Sequence[Term]) -> Term:
    """concat() that is NULL if an argument is."""
    texts = _texts(arguments, frozenset({"text", "integer", "decimal"}))
    return text(reduce(lambda one, other: one.op("||", precedence=6)(other), texts))


def _concat_ws(arguments: Sequence[Term]) -> Term:
    return text(func.concat_ws(*_texts(arguments, frozenset({"text"}))))


def _typeof(term: Term) -> Term:
    names: Mapping[Kind, str] = {
        "integer": "integer",
        "boolean": "integer",
        "flag": "integer",
        "real": "real",
        "text": "text",
        "date": "text",
        "datetime": "text",
        "null": "null",
    }
    if term.kind not in names:
        raise UntranslatableError("the type of such a value")
    return text(case((term.sql.is_(None), literal("null")), else_=literal(names[term.kind])), is_ascii=True)


def _same(term: Term, *_: Term) -> Term:
    return term


#
# Dates of SQLite, which are texts.

_MOMENT = r"[0-9]{4}-[0-9]{2}-[0-9]{2}([ T][0-9]{2}:[0-9]{2}(:[0-9]{2})?)?"


def _moment(term: Term) -> Element:
    """A date and time; a text that has another form, or no such day, fails."""
    if term.kind in ("date", "datetime"):
        moment = cast(term.sql, DATETIME)
        # It computes in milliseconds, and rounds to them.
        is_fine = func.microsecond(moment).op("%", precedence=8)(1_000_000) != 0
        return moment if term.kind == "date" else refused_if(is_fine, moment)
    if term.is_constant and re.fullmatch(_MOMENT, term.value, re.ASCII) is None:
        raise UntranslatableError("a text that is no plain date")
    padded = func.replace(term.sql, "T", " ").op("||", precedence=6)(
        func.substr(_REST, func.length(term.sql) - 9)
    )
    parsed = func.try_strptime(padded, "%Y-%m-%d %H:%M:%S")
    bad = and_(
        term.sql.is_not(None),
        or_(
            func.regexp_full_match(term.sql, _MOMENT).is_(False),
            func.left(term.sql, 4) == "0000",
            parsed.is_(None),
        ),
    )
    return refused_if(bad, parsed)


_REST = " 00:00:00"

_FIELDS = re.compile(r"%[YmdHMSjw%]|[^%]")


def _strftime(form: Term, moment: Term) -> Term:
    form_text = _word(form)
    if _FIELDS.sub("", form_text):
        raise UntranslatableError("another field of strftime")
    return text(func.strftime(_moment(moment), form_text), is_ascii=form_text.isascii())


def _format(form: str) -> Callable[[Term], Term]:
    return lambda term: text(func.strftime(_moment(term), form), is_ascii=True)


_JULIAN_EPOCH = 210_866_760_000_000
"""Milliseconds from the beginning of Julian days to 1970."""


def _julianday(term: Term) -> Term:
    milliseconds = func.epoch_ms(_moment(term)) + _JULIAN_EPOCH
    return real(cast(milliseconds, DOUBLE) / 86_400_000.0)


#
# Dates of PostgreSQL and MariaDB.

_DATE_PARTS = ("year", "quarter", "month", "day", "dow", "isodow", "doy", "week")
_TIME_PARTS = ("hour", "minute")
PARTS: Mapping[str, frozenset[Kind]] = {
    **dict.fromkeys(_DATE_PARTS, frozenset[Kind]({"date", "datetime"})),
    **dict.fromkeys(_TIME_PARTS, frozenset[Kind]({"datetime"})),
}
"""Fields of EXTRACT that are whole numbers, and the kinds that have them. DuckDB has the same names."""


def part_of_date(field: str, term: Term) -> Element:
    """EXTRACT(field FROM x), as a whole number."""
    name = field.lower()
    if term.kind not in PARTS.get(name, ()):
        raise UntranslatableError("another field of a date")
    part: Element = func.date_part(name, term.sql)
    return part


def _date_part(field: Term, moment: Term) -> Term:
    return real(cast(part_of_date(_word(field), moment), DOUBLE))


def _part_number(field: str) -> Callable[[Term], Term]:
    return lambda term: whole(part_of_date(field, term), bits=32)


_UNITS = frozenset({"year", "quarter", "month", "week", "day", "hour", "minute", "second"})


def _date_trunc(unit: Term, moment: Term) -> Term:
    if _word(unit).lower() not in _UNITS:
        raise UntranslatableError("another unit")
    start = func.date_trunc(_word(unit).lower(), moment.sql)
    return Term(sql=cast(start, DATETIME), kind="datetime")


_TO_CHAR = {
    "YYYY": "%Y",
    "MM": "%m",
    "DD": "%d",
    "HH24": "%H",
    "MI": "%M",
    "SS": "%S",
    **{mark: mark for mark in "-/.: "},
}
_TO_CHAR_PARTS = re.compile("|".join(map(re.escape, _TO_CHAR)))


def _to_char(moment: Term, form: Term) -> Term:
    form_text = _word(form)
    if _TO_CHAR_PARTS.sub("", form_text):
        raise UntranslatableError("another field of to_char")
    form_of_duckdb = _TO_CHAR_PARTS.sub(lambda match: _TO_CHAR[match[0]], form_text)
    return text(func.strftime(cast(moment.sql, DATETIME), form_of_duckdb), is_ascii=True)


def _make_interval(*amounts: Term) -> Term:
    names = ("year", "month", "week", "day", "hour", "minute", "second")
    counts = [_number(term, -10_000_000, 10_000_000) for term in amounts]
    amount_text = " ".join(f"{amount} {name}" for amount, name in zip(counts, names, strict=False) if amount)
    return Term(sql=cast(literal(amount_text or "0 day"), types.Interval()), kind="span")


def _datediff(left: Term, right: Term) -> Term:
    days = func.date_diff("day", cast(right.sql, DATE), cast(left.sql, DATE))
    return whole(days, bits=32)


#
# The tables.

_TEXTUAL: frozenset[Kind] = frozenset({"text", "integer"})

_SQLITE: Mapping[str, Call] = {
    "abs": _of("integer|real", _abs_sqlite),
    "char_length": _of("text", _length_sqlite),
    "coalesce": _coalesce,
    "date": _of("text|date|datetime", _format("%Y-%m-%d")),
    "datetime": _of("text|date|datetime", _format("%Y-%m-%d %H:%M:%S")),
    # The one spelling of an instant, here the instant itself.
    "dualsql_instant": _of("datetime|date", lambda term: Term(sql=cast(term.sql, DATETIME), kind="datetime")),
    "ifnull": _coalesce,
    "instr": _of("text text", lambda term, part: _position(without_nul(term), part)),
    "julianday": _of("text|date|datetime", _julianday),
    "length": _of("text|integer", _length_sqlite),
    "likely": _of("integer|real|text|boolean", _same),
    "lower": _of("text", _lower_sqlite),
    "ltrim": _of("text text?", lambda term, *letters: _trim("ltrim")(without_nul(term), *letters)),
    "max": _extreme("greatest", _EXTREME | {"text"}, skips_nulls=False),
    "min": _extreme("least", _EXTREME | {"text"}, skips_nulls=False),
    "nullif": _nullif,
    "replace": _of("text text text", lambda term, *rest: _replace(without_nul(term), *rest)),
    "round": _of("integer|real integer?", _round_sqlite),
    "rtrim": _of("text text?", lambda term, *letters: _trim("rtrim")(without_nul(term), *letters)),
    "sign": _of("integer|real", lambda term: replace(integer(func.sign(term.sql)), bits=32)),
    "strftime": _of("text text|date|datetime", _strftime),
    "substr": _of("text|integer integer integer?", _part_sqlite),
    "substring": _of("text|integer integer integer?", _part_sqlite),
    "time": _of("text|datetime", _format("%H:%M:%S")),
    "trim": _of("text text?", lambda term, *letters: _trim("trim")(without_nul(term), *letters)),
    "typeof": _of("integer|boolean|flag|real|text|date|datetime|null", _typeof),
    "unixepoch": _of(
        "text|date|datetime", lambda term: whole(func.epoch_ms(_moment(term)).op("//", precedence=8)(1000))
    ),
    "unlikely": _of("integer|real|text|boolean", _same),
    "upper": _of("text", _upper_sqlite),
}

_POSTGRESQL: Mapping[str, Call] = {
    "abs": _of("integer|real|decimal", _abs),
    "btrim": _of("text text?", _trim("trim")),
    "ceil": _of("real|decimal", _up_or_down("ceil")),
    "ceiling": _of("real|decimal", _up_or_down("ceil")),
    "char_length": _of("text", _length),
    "character_length": _of("text", _length),
    "coalesce": _coalesce,
    "concat": _concat(_TEXTUAL),
    "concat_ws": _concat_ws,
    "date_part": _of("text date|datetime", _date_part),
    "date_trunc": _of("text datetime", _date_trunc),
    "floor": _of("real|decimal", _up_or_down("floor")),
    "greatest": _extreme("greatest", _EXTREME, skips_nulls=True),
    "least": _extreme("least", _EXTREME, skips_nulls=True),
    "left": _of("text integer", _end("left")),
    "length": _of("text", _length),
    "lower": _of("text", _fold_case("lower")),
    "ltrim": _of("text text?", _trim("ltrim")),
    "make_interval": _of(" ".join(["integer?"] * 7), _make_interval),
    "mod": _of("integer integer", OPERATORS[POSTGRESQL]["%", "integer", "integer"]),
    "nullif": _nullif,
    "replace": _of("text text text", _replace),
    "right": _of("text integer", _end("right")),
    "round": _either(
        # round(double precision): halves to the even number. Of a whole number too.
        _of("integer|real", lambda term: real(func.round_even(as_double(term), 0))),
        _of("decimal|quotient integer?", _round_exact),
        _of("integer integer", _round_exact),
    ),
    "rtrim": _of("text text?", _trim("rtrim")),
    "sign": _of("real", lambda term: real(cast(func.sign(term.sql), DOUBLE))),
    "sqrt": _of("real|integer", _sqrt),
    "starts_with": _of("text text", lambda term, part: boolean(func.starts_with(term.sql, part.sql))),
    "strpos": _of("text text", _position),
    "substr": _of("text integer integer?", _part_postgresql),
    "substring": _of("text integer integer?", _part_postgresql),
    "to_char": _of("date|datetime text", _to_char),
    "trim": _of("text text?", _trim("trim")),
    "upper": _of("text", _fold_case("upper")),
}

_MARIADB: Mapping[str, Call] = {
    "abs": _of("integer|real|decimal", _abs),
    "char_length": _of("text", _length),
    "coalesce": _coalesce,
    "concat": _concat_or_null,
    "concat_ws": _concat_ws,
    "date": _of("date|datetime", lambda term: Term(sql=cast(term.sql, DATE), kind="date")),
    "datediff": _of("date|datetime date|datetime", _datediff),
    "day": _of("date|datetime", _part_number("day")),
    "dayofmonth": _of("date|datetime", _part_number("day")),
    "greatest": _extreme("greatest", _EXTREME, skips_nulls=False),
    "hour": _of("datetime", _part_number("hour")),
    "ifnull": _coalesce,
    "least": _extreme("least", _EXTREME, skips_nulls=False),
    "left": _of("text integer", _end("left")),
    "length": _of("text", lambda term: _length(ascii_only(term))),  # it counts bytes
    "lower": _of("text", _fold_case("lower")),
    "minute": _of("datetime", _part_number("minute")),
    "mod": _of("integer integer", OPERATORS[MARIADB]["%", "integer", "integer"]),
    "month": _of("date|datetime", _part_number("month")),
    "quarter": _of("date|datetime", _part_number("quarter")),
    "right": _of("text integer", _end("right")),
    "round": _of("integer|decimal integer?", _round_mariadb),
    "substr": _of("text integer integer?", _part),
    "substring": _of("text integer integer?", _part),
    "upper": _of("text", _fold_case("upper")),
    "year": _of("date|datetime", _part_number("year")),
}

FUNCTIONS: Mapping[str, Mapping[str, Call]] = {SQLITE: _SQLITE, POSTGRESQL: _POSTGRESQL, MARIADB: _MARIADB}
"""By dialect and name: what a function of one row means."""


def translate_extract(dialect: str, field: str, term: Term) -> Term:
    """EXTRACT(field FROM x): PostgreSQL's is a NUMERIC without digits after the point."""
    part = part_of_date(field, term)
    if dialect == POSTGRESQL:
        return decimal(part, 0)
    if dialect == MARIADB and field.lower() in ("year", "quarter", "month", "day", "hour", "minute"):
        return whole(part, bits=32)
    raise UntranslatableError("EXTRACT")


def translate_call(dialect: str, name: str, arguments: Sequence[Term]) -> Term:
    """A call of a function of one row."""
    write = FUNCTIONS[dialect].get(name)
    if write is None:
        raise UntranslatableError(f"the function {name}()")
    return write(arguments)
