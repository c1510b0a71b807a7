"""Functions of other databases, written as the database of a text has them.

A model that knows several databases writes NVL(x, y), YEAR(x) or DATEADD(day, -30, x) on any. Where the database has
exactly the same in another form, the call is read as that form, before anything else is read. A call that could mean
two things, or that no simple form answers for every value, is refused with a hint.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

from sqlglot import exp

from dualsql.databases.functions import result_of
from dualsql.sql.durations import is_moment
from dualsql.sql.functions import Version, absent, gathers
from dualsql.sql.parse import parse_own
from dualsql.sql.scope import forbid, invalid
from dualsql.sql.tokens import SEPARATOR
from dualsql.text_dialects import TextDialect

NUMBERS_ONLY = "numbers only"
"""The note on coalesce() that stands for isnull(), which means the same for numbers only."""
TEXTS_ONLY = "texts only"
"""The note on a join of texts, which takes the text of any value on other databases."""
_PARTS = "year quarter month day hour minute".split()

_FORMS: Mapping[str, str] = {
    **dict.fromkeys(("nvl", "ifnull"), "coalesce(:a, :b)"),
    "nvl2": "CASE WHEN :a IS NOT NULL THEN :b ELSE :c END",
    **dict.fromkeys(("iif", "iff"), "CASE WHEN :a THEN :b ELSE :c END"),
    **dict.fromkeys(("count_if", "countif"), "count(CASE WHEN :a THEN 1 END)"),
    **dict.fromkeys(("getdate", "sysdate", "sysdatetime", "now"), "CURRENT_TIMESTAMP"),
    **dict.fromkeys(("curdate", "today"), "CURRENT_DATE"),
    **dict.fromkeys(("character_length", "char_length"), "length(:a)"),
    "lcase": "lower(:a)",
    "ucase": "upper(:a)",
    "left": "substr(:a, 1, :b)",
    "approx_count_distinct": "count(DISTINCT :a)",
    # That of SQL Server is the deviation of a sample; stddev() is not on MariaDB.
    "stdev": "stddev_samp(:a)",
    **{part: f"extract({part} FROM :a)" for part in _PARTS},
    "dayofmonth": "extract(day FROM :a)",
    "dayofyear": "extract(doy FROM :a)",
}
"""By a function: what means the same on every database that lacks it, with its arguments as :a, :b, :c."""

_UNITS: Mapping[str, str] = {
    **{unit: unit for unit in ("year", "quarter", "month", "week", "day", "hour", "minute", "second")},
    "yyyy": "year",
    "yy": "year",
    "mm": "month",
    "dd": "day",
    "hh": "hour",
}
"""Units of time, and the short forms of SQL Server."""

_SECONDS: Mapping[str, int] = {"second": 1, "minute": 60, "hour": 3_600, "day": 86_400, "week": 604_800}

_SPELLINGS: Mapping[str, Sequence[str]] = {
    "to_char": ("YYYY", "MM", "DD", "HH24", "MI", "SS"),
    "date_format": ("%Y", "%m", "%d", "%H", "%i", "%s"),
    "strftime": ("%Y", "%m", "%d", "%H", "%M", "%S"),
}
"""How the format of a function spells year, month, day, hour, minute and second."""
_BETWEEN = re.compile(r"[-/:., ]*")


def in_own_form(query: exp.Query, dialect: TextDialect, version: Version | None) -> None:
    """Write the calls of other databases in `query` as this database has them."""
    node: Any
    for node in list(query.find_all(exp.GroupConcat)):
        parts = (node.args.get(name) for name in ("this", "separator", "on_overflow"))
        arguments = [part for part in parts if part is not None]
        if _separator(arguments) is not None:
            node.replace(_listed("group_concat", arguments))
    # The inner calls first.
    for node in reversed(list(query.find_all(exp.Anonymous))):
        own = _own_form(node, dialect, version) if isinstance(node.this, str) else None
        if own is None:
            continue
        _require_place(node, own, dialect)
        if isinstance(own, exp.GroupConcat) and isinstance(node.parent, exp.WithinGroup):
            # LISTAGG(x, ', ') WITHIN GROUP (ORDER BY y)
            node = node.parent
            own.set("this", exp.Order(this=own.this, expressions=node.expression.expressions))
        node.replace(own)


def form_of(name: str) -> str | None:
    """What means the same as a function of another database, for a hint."""
    form = _FORMS.get(name)
    return None if form is None else re.sub(r":([a-c])\b", r"\1", form)


def _require_place(node: Any, own: exp.Expression, dialect: TextDialect) -> None:
    """Refuse OVER, FILTER and WITHIN GROUP of a call that is no aggregate in this database's form."""
    is_aggregate = isinstance(own, exp.GroupConcat) or (
        isinstance(own, exp.Anonymous) and gathers(own.name.lower(), len(own.expressions), dialect)
    )
    is_ordered = isinstance(own, exp.GroupConcat) and not isinstance(own.this, exp.Order)
    around = node.parent if node.arg_key == "this" else None
    if isinstance(around, exp.WithinGroup) and not is_ordered:
        invalid(
            f"{node.name[:60]}() has no WITHIN GROUP here.",
            hint="Write the order into the call, or leave it out.",
        )
    if isinstance(around, exp.Window | exp.Filter) and not is_aggregate:
        invalid(
            f"{node.name[:60]}() is no aggregate.",
            hint="Leave out its OVER or FILTER, or write sum(x) OVER (...).",
        )


class _Call(NamedTuple):
    """A call of a function, and whether the database has one of this name."""

    name: str
    arguments: Sequence[Any]
    dialect: TextDialect
    is_own: bool


def _own_form(node: Any, dialect: TextDialect, version: Version | None) -> exp.Expression | None:
    """What means the same as the call; None if the database has the function, or nothing like it."""
    name, arguments = node.this.lower(), node.expressions
    is_own = not absent(name, dialect, version) and result_of(name, dialect) is not None
    convert = _SHARED_NAMES.get(name) or (None if is_own else _CONVERSIONS.get(name))
    if convert is not None:
        return convert(_Call(name, arguments, dialect, is_own))
    form = None if is_own else _FORMS.get(name)
    # Of a negative number, PostgreSQL's left() leaves out the end.
    if form is None or (name == "left" and len(arguments) == 2 and not _is_whole(arguments[1])):
        return None
    own = _filled(form, arguments, dialect)
    return _whole_part(own, dialect) if isinstance(own, exp.Extract) else own


def _whole_part(part: exp.Extract, dialect: TextDialect) -> exp.Expression:
    """A part of a date as a whole number, as other databases have it."""
    _require_moment(part.expression)
    whole = exp.DataType.build("int")
    return exp.Cast(this=part, to=whole) if dialect.extracts_exactly else part


def _require_moment(*nodes: Any) -> None:
    """Refuse constant texts that are no days. Databases read them as other days, or as none."""
    for node in nodes:
        if _is_text(node) and not is_moment(node.name):
            forbid(f"{node.name[:30]!r} as a date", hint="Write it as '2026-01-31'.")


def _date(call: _Call) -> exp.Expression | None:
    dialect = call.dialect
    if dialect.interval is not None:
        return _moved_day(call)
    is_moved = len(call.arguments) > 1 or any(
        _is_text(part) and part.name.lower() == "now" for part in call.arguments
    )
    if dialect.moves_date is not None and not dialect.has_date_modifiers and is_moved:
        forbid(f"{call.name}() of this form", hint="Write CURRENT_DATE - INTERVAL 30 DAY.")
    return None


def _isnull(call: _Call) -> exp.Expression | None:
    arguments = call.arguments
    if len(arguments) == 1:
        return None if call.is_own else exp.Paren(this=exp.Is(this=arguments[0], expression=exp.Null()))
    # SQL Server converts another value to the type of the first.
    if len(arguments) != 2 or not _is_whole(arguments[1], is_signed=True):
        forbid("isnull() of two values", hint="Write coalesce(x, y), or x IS NULL.")
    own = _filled("coalesce(:a, :b)", arguments, call.dialect)
    if own is not None:
        own.meta[NUMBERS_ONLY] = True
    return own


def _joined_texts(call: _Call) -> exp.Expression | None:
    is_read = call.dialect.has_separator_word or (call.is_own and _separator(call.arguments) is None)
    return None if is_read else _listed(call.name, call.arguments)


def _difference(call: _Call) -> exp.Expression | None:
    number = len(call.arguments)
    has_word = number == 3 and _unit(call.arguments[0], is_word=True) is not None
    is_read = call.is_own and not has_word and (number != 2 or call.dialect.has_datediff)
    return None if is_read else _days_between(call.arguments, call.dialect)


def _filled(form: str, arguments: Sequence[Any], dialect: TextDialect) -> exp.Expression | None:
    """The form with these arguments in it; None if it takes another number of them."""
    own = _parsed(form, dialect.parser).copy()
    gaps = {gap.name: gap for gap in own.find_all(exp.Placeholder)}
    if len(gaps) != len(arguments) or any(isinstance(part, exp.Distinct | exp.Order) for part in arguments):
        return None
    for name, argument in zip(sorted(gaps), list(arguments), strict=True):
        gaps[name].replace(argument)
    return own


@cache
def _parsed(form: str, parser: str) -> exp.Expression:
    [own] = parse_own(f"SELECT {form}", parser).expressions
    return exp.Paren(this=own) if isinstance(own, exp.Binary) else own


def _joined(call: _Call) -> exp.Expression | None:
    """concat(x, y, ...) of newer versions of SQLite, to which NULL is an empty text."""
    parts = [_filled("coalesce(CAST(:a AS TEXT), '')", [part], call.dialect) for part in call.arguments]
    if not parts or any(part is None for part in parts):
        return None
    joined: Any = parts[0]
    for part in parts[1:]:
        joined = exp.DPipe(this=joined, expression=part)
    return exp.Paren(this=joined)


def _listed(name: str, arguments: Sequence[Any]) -> exp.Expression:
    """GROUP_CONCAT(DISTINCT x ORDER BY y SEPARATOR ', '), LISTAGG(x, ', ')."""
    separator: Any = _separator(arguments)
    if separator is not None:
        arguments = [part for part in arguments if part is not separator]
        (separator.parent if isinstance(separator.parent, exp.Ordered) else separator).pop()
        separator.set("this", str(separator.name).removeprefix(SEPARATOR))
    elif (
        len(arguments) == 2
        and _is_text(arguments[1])
        and not isinstance(arguments[0], exp.Order | exp.Distinct)
    ):
        separator, arguments = arguments[1], arguments[:1]
    elif name == "group_concat":
        separator = exp.Literal.string(",")
    value: Any = arguments[0] if len(arguments) == 1 else None
    inner = value.this if isinstance(value, exp.Order) else value
    if (
        separator is None
        or inner is None
        or (isinstance(inner, exp.Distinct) and len(inner.expressions) != 1)
        or (isinstance(value, exp.Order) and not all(value.expressions))
        or not (value is inner or value.expressions)
    ):
        forbid(f"{name}() of this form", hint="Write string_agg(x, ', ' ORDER BY y).")
    # MySQL and SQLite have NULL before all else.
    for part in value.expressions if isinstance(value, exp.Order) and name == "group_concat" else ():
        if isinstance(part, exp.Ordered):
            part.set("nulls_first", not part.args.get("desc"))
    own = exp.GroupConcat(this=value, separator=separator)
    own.meta[TEXTS_ONLY] = True
    return own


def _separator(arguments: Sequence[Any]) -> Any:
    """The text after the word SEPARATOR, which is the last of what ORDER BY or DISTINCT has, or an argument."""
    last: Any = arguments[-1] if arguments else None
    while isinstance(last, exp.Order | exp.Distinct | exp.Ordered):
        last = last.this if isinstance(last, exp.Ordered) else next(reversed(last.expressions), None)
    return last if _is_text(last) and last.name.startswith(SEPARATOR) else None


def _formatted(call: _Call) -> exp.Expression | None:
    """A date as a text by a format that means the same here."""
    arguments, dialect = call.arguments, call.dialect
    texts = [part for part in arguments if _is_text(part)]
    if not dialect.writes_formats or len(arguments) != 2 or len(texts) != 1:
        return None
    [value] = [part for part in arguments if part is not texts[0]]
    own = _respelled(
        texts[0].name, _SPELLINGS[call.name], _SPELLINGS[dialect.writes_formats.partition("(")[0]]
    )
    return None if own is None else _filled(dialect.writes_formats, [value, exp.Literal.string(own)], dialect)


def _respelled(text: str, spelling: Sequence[str], own: Sequence[str]) -> str | None:
    """A format in another spelling; None if it has anything but these parts and signs between them."""
    parts = re.split("(" + "|".join(map(re.escape, spelling)) + ")", text)
    if len(parts) < 3 or not all(_BETWEEN.fullmatch(between) for between in parts[::2]):
        return None
    if any(
        a == b and not between for a, between, b in zip(parts[1::2], parts[2::2], parts[3::2], strict=False)
    ):
        return None  # 'SSSS' and 'DDDD' are other parts
    signs = dict(zip(spelling, own, strict=True))
    return "".join(signs.get(part, part) for part in parts)


def _is_text(node: Any) -> bool:
    return isinstance(node, exp.Literal) and bool(node.args.get("is_string"))


def _is_whole(node: Any, *, is_signed: bool = False) -> bool:
    node = node.this if is_signed and isinstance(node, exp.Neg) else node
    return isinstance(node, exp.Literal) and not _is_text(node) and node.name.isdigit()


def _unit(node: Any, *, is_word: bool = False) -> str | None:
    """The unit of time that an argument names: day, 'day', DAY."""
    names = isinstance(node, exp.Var) or (isinstance(node, exp.Column) and not node.args.get("table"))
    return _UNITS.get(node.name.lower()) if names or (_is_text(node) and not is_word) else None


def _part(call: _Call) -> exp.Expression | None:
    """DATEPART(month, x), date_part('month', x)."""
    unit = _unit(call.arguments[0]) if len(call.arguments) == 2 else None
    if unit not in _PARTS:
        return None
    part = exp.Extract(this=exp.Var(this=unit.upper()), expression=call.arguments[1])
    return _whole_part(part, call.dialect)


def _moved(call: _Call) -> exp.Expression | None:
    """DATEADD(day, -30, x), DATE_SUB(x, INTERVAL 30 DAY)."""
    name, arguments, dialect = call.name, call.arguments, call.dialect
    if dialect.interval is None and dialect.moves_date is None:
        return None
    if len(arguments) == 2 and isinstance(arguments[1], exp.Interval) and name != "dateadd":
        sign = exp.Sub if name in ("date_sub", "subdate") else exp.Add
        date, span = arguments
        _require_moment(date)
        if dialect.interval is not None:
            date, span = _stamped(date), _in_months(span)
        return exp.Paren(this=sign(this=date, expression=span))
    if len(arguments) != 3 or name not in ("dateadd", "timestampadd", "date_add"):
        return None
    unit, date = _unit(arguments[0]), arguments[2]
    _require_moment(date)
    is_negative = isinstance(arguments[1], exp.Neg)
    amount = arguments[1].this if is_negative else arguments[1]
    if unit is None or not _is_whole(amount) or len(amount.name) > _LONGEST_AMOUNT:
        return None
    if dialect.interval is not None:
        date = _stamped(date)
    number = (-1 if is_negative else 1) * int(amount.name)
    unit, number = ("month", 3 * number) if unit == "quarter" else (unit, number)
    span = exp.Interval(this=exp.Literal.string(str(number)), unit=exp.Var(this=unit.upper()))
    return exp.Paren(this=exp.Add(this=date, expression=span))


_LONGEST_AMOUNT = 8


def _stamped(date: Any) -> Any:
    return exp.Cast(this=date, to=exp.DataType.build("timestamp")) if _is_text(date) else date


def _in_months(span: exp.Interval) -> exp.Interval:
    """INTERVAL 1 QUARTER in months; any other interval unchanged."""
    amount, unit = span.this, span.args.get("unit")
    is_whole = (
        isinstance(amount, exp.Literal) and amount.name.isdigit() and len(amount.name) <= _LONGEST_AMOUNT
    )
    if unit is None or unit.name.upper().removesuffix("S") != "QUARTER" or not is_whole:
        return span
    return exp.Interval(this=exp.Literal.string(str(3 * int(amount.name))), unit=exp.Var(this="MONTH"))


def _days_between(arguments: Sequence[Any], dialect: TextDialect) -> exp.Expression | None:
    """DATEDIFF(day, x, y) of SQL Server, DATEDIFF(y, x) of MySQL: both count midnights."""
    dates = arguments[1:] if len(arguments) == 3 and _unit(arguments[0]) == "day" else arguments[::-1]
    _require_moment(*dates)
    is_read = all(_DATE.fullmatch(part.name) for part in dates if _is_text(part))
    return (
        _filled(dialect.days_between, dates, dialect)
        if len(dates) == 2 and dialect.days_between and is_read
        else None
    )


_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


def _units_passed(call: _Call) -> exp.Expression | None:
    """TIMESTAMPDIFF(HOUR, x, y)."""
    arguments, form = call.arguments, call.dialect.units_passed
    seconds = _SECONDS.get(_unit(arguments[0]) or "") if len(arguments) == 3 else None
    if seconds is None or not form:
        return None
    _require_moment(*arguments[1:])
    return _filled(form, [*arguments[1:], exp.Literal.number(seconds)], call.dialect)


_DAY = re.compile(r"[12][0-9]{3}-[0-9]{2}-[0-9]{2}")
_DAYS = re.compile(r"([+-]?[0-9]{1,5}) days?")


def _moved_day(call: _Call) -> exp.Expression | None:
    """date('2026-04-01', '-30 days') of SQLite. Its months are not those of an interval, and 'now' is in UTC."""
    name, arguments = call.name, call.arguments
    day, *modifiers = [part.name if _is_text(part) else "" for part in arguments] or [""]
    days = _DAYS.fullmatch(modifiers[0]) if len(modifiers) == 1 and name == "date" else None
    if days is not None and _DAY.fullmatch(day):
        kind = exp.DataType.build("date")
        span = exp.Interval(this=exp.Literal.string(days[1]), unit=exp.Var(this="DAY"))
        return exp.Cast(
            this=exp.Add(this=exp.Cast(this=arguments[0], to=kind), expression=span), to=kind.copy()
        )
    if day.lower() == "now" or any(modifiers):
        hint = "Write CURRENT_DATE - INTERVAL '30 days', or date_trunc('month', CURRENT_DATE)."
        forbid(f"{name}() of this form", hint=hint)
    return None


def _truncated(call: _Call) -> exp.Expression | None:
    """DATETRUNC(month, x), DATE_TRUNC(x, MONTH)."""
    arguments = call.arguments
    if len(arguments) != 2 or _is_text(arguments[0]):
        return None
    units = [_unit(part, is_word=True) for part in arguments]
    if units.count(None) != 1:
        return None  # both could be columns
    [unit] = [unit for unit in units if unit]
    if unit == "week":
        forbid(
            "A week of this form, which begins on Sunday",
            hint="Write date_trunc('week', x): it begins on Monday.",
        )
    value = arguments[units.index(None)]
    return exp.Anonymous(this="date_trunc", expressions=[exp.Literal.string(unit), value])


def _holds(call: _Call) -> exp.Expression | None:
    """ARRAY_CONTAINS(x, y)."""
    return None if call.dialect.array is None else _filled(":b = ANY(:a)", call.arguments, call.dialect)


_SHARED_NAMES: Mapping[str, Callable[[_Call], exp.Expression | None]] = {
    **dict.fromkeys(("date", "datetime"), _date),
    "isnull": _isnull,
    **dict.fromkeys(("group_concat", "listagg"), _joined_texts),
    **dict.fromkeys(("date_trunc", "datetrunc"), _truncated),
    **dict.fromkeys(("datediff", "date_diff"), _difference),
}
"""By a function that a database may have with other arguments than another database."""

_CONVERSIONS: Mapping[str, Callable[[_Call], exp.Expression | None]] = {
    "concat": _joined,
    "array_contains": _holds,
    **dict.fromkeys(_SPELLINGS, _formatted),
    **dict.fromkeys(("datepart", "date_part"), _part),
    **dict.fromkeys(("date_add", "adddate", "date_sub", "subdate", "dateadd", "timestampadd"), _moved),
    "timestampdiff": _units_passed,
}
"""By a function that the database lacks."""
