"""Functions of other databases, written as the database of a text has them.

A model that knows several databases writes NVL(x, y), YEAR(x) or DATEADD(day, -30, x) on any. Where the database has
the same in another form, the call is read as that form, before anything else is read. A call that could mean two
things, such as WEEKDAY(x), is left as it is, and is refused with a hint.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

from sqlglot import exp

from dualsql.databases.functions import result_of
from dualsql.sql.functions import Version, absent
from dualsql.sql.parse import parse_own
from dualsql.text_dialects import TextDialect

_PARTS = "year quarter month day hour minute".split()

_FORMS: Mapping[str, str] = {
    **dict.fromkeys(("nvl", "ifnull", "isnull"), "coalesce(:a, :b)"),
    "nvl2": "CASE WHEN :a IS NOT NULL THEN :b ELSE :c END",
    **dict.fromkeys(("iif", "iff"), "CASE WHEN :a THEN :b ELSE :c END"),
    "zeroifnull": "coalesce(:a, 0)",
    **dict.fromkeys(("count_if", "countif"), "count(CASE WHEN :a THEN 1 END)"),
    **dict.fromkeys(("getdate", "sysdate", "sysdatetime", "now"), "CURRENT_TIMESTAMP"),
    **dict.fromkeys(("curdate", "today"), "CURRENT_DATE"),
    **dict.fromkeys(("len", "character_length", "char_length"), "length(:a)"),
    "lcase": "lower(:a)",
    "ucase": "upper(:a)",
    **dict.fromkeys(("charindex", "locate"), "position(:a IN :b)"),
    **dict.fromkeys(("instr", "strpos"), "position(:b IN :a)"),
    "left": "substr(:a, 1, :b)",
    "listagg": "string_agg(:a, :b)",
    "approx_count_distinct": "count(DISTINCT :a)",
    "stdev": "stddev(:a)",
    "square": "power(:a, 2)",
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
    "format": ("yyyy", "MM", "dd", "HH", "mm", "ss"),
    "to_date": ("YYYY", "MM", "DD"),
    "str_to_date": ("%Y", "%m", "%d"),
}
"""How the format of a function spells year, month, day, hour, minute and second."""
_BETWEEN = re.compile(r"[-/:., ]*")


def in_own_form(query: exp.Query, dialect: TextDialect, version: Version | None) -> None:
    """Write the calls of other databases in `query` as this database has them."""
    # The inner calls first.
    node: Any
    for node in reversed(list(query.find_all(exp.Anonymous, exp.Cast))):
        if isinstance(node, exp.Cast):
            own = _day(node, dialect)
        elif isinstance(node.this, str):
            own = _own_form(node.this.lower(), node.expressions, dialect, version)
        else:
            own = None
        if own is not None and node.name.lower() in _NOW and isinstance(node.parent, exp.Add | exp.Sub):
            _count_in_days(node.parent)
        if isinstance(own, exp.GroupConcat) and isinstance(node.parent, exp.WithinGroup):
            # LISTAGG(x, ', ') WITHIN GROUP (ORDER BY y)
            node = node.parent
            own.set("this", exp.Order(this=own.this.copy(), expressions=node.expression.expressions))
        if own is not None:
            node.replace(own)
    for extraction in list(query.find_all(exp.Extract)) if dialect.extracts else ():
        form = dialect.extracts.get(extraction.name.lower())
        own = _filled(form, [extraction.expression], dialect) if form else None
        if own is not None:
            extraction.replace(own)


_NOW = frozenset({"getdate", "sysdate", "sysdatetime"})
"""Of SQL Server and Oracle, where a number beside an instant is a number of days."""


def _count_in_days(sum_or_difference: Any) -> None:
    number = sum_or_difference.expression
    if isinstance(number, exp.Literal) and number.name.isdigit():
        days = exp.Interval(this=exp.Literal.string(number.name), unit=exp.Var(this="DAY"))
        sum_or_difference.set("expression", days)


def form_of(name: str, dialect: TextDialect) -> str | None:
    """What means the same as a function of another database, for a hint."""
    form = dialect.equivalents.get(name) or _FORMS.get(name)
    return None if form is None else re.sub(r":([a-c])\b", r"\1", form)


def _own_form(
    name: str, arguments: Sequence[Any], dialect: TextDialect, version: Version | None
) -> exp.Expression | None:
    """What means the same as the call; None if the database has the function, or nothing like it."""
    if name in _CONVERSIONS and dialect.interval is not None:
        return _modified(name, arguments)
    if name == "date_trunc":
        return _truncated(name, arguments, dialect)
    if not absent(name, dialect, version) and result_of(name, dialect) is not None:
        return None
    convert = _CONVERSIONS.get(name)
    own = None if convert is None else convert(name, arguments, dialect)
    if own is not None:
        return own
    if name == "isnull" and len(arguments) == 1:
        return exp.Paren(this=exp.Is(this=arguments[0], expression=exp.Null()))
    form = dialect.equivalents.get(name) or _FORMS.get(name)
    return None if form is None else _filled(form, arguments, dialect)


def _filled(form: str, arguments: Sequence[Any], dialect: TextDialect) -> exp.Expression | None:
    """The form with these arguments in it; None if it takes another number of them."""
    own = _parsed(form, dialect.parser).copy()
    gaps = {gap.name: gap for gap in own.find_all(exp.Placeholder)}
    if len(gaps) != len(arguments) or any(isinstance(part, exp.Distinct | exp.Order) for part in arguments):
        return None
    for name, argument in zip(sorted(gaps), arguments, strict=True):
        gaps[name].replace(argument.copy())
    return own


@cache
def _parsed(form: str, parser: str) -> exp.Expression:
    [own] = parse_own(f"SELECT {form}", parser).expressions
    return exp.Paren(this=own) if isinstance(own, exp.Binary) else own


def _joined(_: str, arguments: Sequence[Any], dialect: TextDialect) -> exp.Expression | None:
    """concat(x, y, ...), to which NULL is an empty text."""
    if not arguments:
        return None
    parts = [_filled("coalesce(CAST(:a AS TEXT), '')", [part], dialect) for part in arguments]
    if any(part is None for part in parts):
        return None
    joined = parts[0]
    for part in parts[1:]:
        joined = exp.DPipe(this=joined, expression=part)
    return exp.Paren(this=joined)


def _listed(_: str, arguments: Sequence[Any], __: TextDialect) -> exp.Expression | None:
    """GROUP_CONCAT(x), GROUP_CONCAT(DISTINCT x ORDER BY y SEPARATOR ', '), with a comma for the word."""
    *values, separator = arguments if len(arguments) == 2 else (*arguments, exp.Literal.string(","))
    if len(values) != 1 or not _is_text(separator):
        return None
    order = values[0].copy() if isinstance(values[0], exp.Order) else None
    value = values[0].copy() if order is None else order.this
    is_distinct = isinstance(value, exp.Distinct)
    # The separator is the last of what ORDER BY or DISTINCT has.
    ends = order.expressions if order is not None else value.expressions if is_distinct else []
    last = ends[-1].this if order is not None else ends[-1] if ends else None
    if len(ends) > 1 and _is_text(last):
        separator = ends.pop().find(exp.Literal)
    if is_distinct and len(value.expressions) != 1:
        return None
    plain = value.expressions[0] if is_distinct else value
    text: Any = exp.Cast(this=plain.copy(), to=exp.DataType.build("text"))
    if is_distinct:
        text = exp.Distinct(expressions=[plain.copy() if order else text])
    if order is not None:
        order.set("this", text)
    return exp.GroupConcat(this=order or text, separator=separator.copy())


def _formatted(name: str, arguments: Sequence[Any], dialect: TextDialect) -> exp.Expression | None:
    """A date as a text, or the reverse, by a format that means the same here."""
    form = dialect.reads_formats if name in ("to_date", "str_to_date") else dialect.writes_formats
    texts = [part for part in arguments if _is_text(part)]
    if not form or len(arguments) != 2 or len(texts) != 1:
        return None
    [value] = [part for part in arguments if part is not texts[0]]
    own = _respelled(texts[0].name, _SPELLINGS[name], _SPELLINGS[form.partition("(")[0]])
    return None if own is None else _filled(form, [value, exp.Literal.string(own)], dialect)


def _respelled(text: str, spelling: Sequence[str], own: Sequence[str]) -> str | None:
    """A format in another spelling; None if it has anything but these parts and signs between them."""
    parts = re.split("(" + "|".join(map(re.escape, spelling)) + ")", text)
    if len(parts) < 3 or not all(_BETWEEN.fullmatch(between) for between in parts[::2]):
        return None
    signs = dict(zip(spelling, own, strict=False))
    if any(part not in signs for part in parts[1::2]):
        return None
    return "".join(signs.get(part, part) for part in parts)


def _is_text(node: Any) -> bool:
    return isinstance(node, exp.Literal) and bool(node.args.get("is_string"))


def _unit(node: Any) -> str | None:
    """The unit of time that an argument names: day, 'day', DAY."""
    is_word = isinstance(node, exp.Var) or (isinstance(node, exp.Column) and not node.args.get("table"))
    return _UNITS.get(node.name.lower()) if is_word or _is_text(node) else None


def _part(_: str, arguments: Sequence[Any], __: TextDialect) -> exp.Expression | None:
    """DATEPART(month, x), date_part('month', x)."""
    unit = _unit(arguments[0]) if len(arguments) == 2 else None
    if unit not in _PARTS:
        return None
    return exp.Extract(this=exp.Var(this=unit.upper()), expression=arguments[1].copy())


def _moved(name: str, arguments: Sequence[Any], dialect: TextDialect) -> exp.Expression | None:
    """DATEADD(day, -30, x), DATE_SUB(x, INTERVAL 30 DAY)."""
    if dialect.interval is None and dialect.moves_date is None:
        return None
    if len(arguments) == 2 and isinstance(arguments[1], exp.Interval) and name != "dateadd":
        sign = exp.Sub if name in ("date_sub", "subdate") else exp.Add
        return exp.Paren(this=sign(this=arguments[0].copy(), expression=arguments[1].copy()))
    if name == "add_months" and len(arguments) == 2:
        return _moved("dateadd", [exp.Var(this="MONTH"), arguments[1], arguments[0]], dialect)
    if len(arguments) != 3 or name not in ("dateadd", "timestampadd", "date_add"):
        return None
    unit, number = _unit(arguments[0]), arguments[1].sql()
    date = arguments[2].copy()
    if _is_text(date) and dialect.interval is not None:
        date = exp.Cast(this=date, to=exp.DataType.build("timestamp"))
    if unit is None or re.fullmatch("-?[0-9]{1,9}", number) is None:
        return None
    if unit == "quarter":
        unit, number = "month", str(3 * int(number))
    span = exp.Interval(this=exp.Literal.string(number), unit=exp.Var(this=unit.upper()))
    return exp.Paren(this=exp.Add(this=date, expression=span))


def _days_between(_: str, arguments: Sequence[Any], dialect: TextDialect) -> exp.Expression | None:
    """DATEDIFF(day, x, y) of SQL Server, DATEDIFF(y, x) of MySQL: both count midnights."""
    if not dialect.days_between:
        return None
    if len(arguments) == 3 and _unit(arguments[0]) == "day":
        return _filled(dialect.days_between, arguments[1:], dialect)
    return _filled(dialect.days_between, arguments[::-1], dialect) if len(arguments) == 2 else None


def _units_passed(_: str, arguments: Sequence[Any], dialect: TextDialect) -> exp.Expression | None:
    """TIMESTAMPDIFF(HOUR, x, y)."""
    seconds = _SECONDS.get(_unit(arguments[0]) or "") if len(arguments) == 3 else None
    if seconds is None or not dialect.units_passed:
        return None
    return _filled(dialect.units_passed, [*arguments[1:], exp.Literal.number(seconds)], dialect)


_CONVERSIONS = {"date": "DATE", "datetime": "TIMESTAMP"}
_MODIFIER = re.compile(r"([+-]?[0-9]{1,6}) (year|month|day|hour|minute|second)s?")


def _modified(name: str, arguments: Sequence[Any]) -> exp.Expression | None:
    """date('now', '-30 days') and datetime(x, 'start of month') of SQLite, where intervals are values of their own."""
    if not arguments or not all(map(_is_text, arguments[1:])):
        return None
    is_now = _is_text(arguments[0]) and arguments[0].name.lower() == "now"
    if len(arguments) == 1 and not is_now and name == "date":
        return None
    kind = exp.DataType.build(_CONVERSIONS[name])
    moved: Any = exp.CurrentTimestamp() if is_now else arguments[0].copy()
    moved = exp.Cast(this=moved, to=kind.copy())
    for modifier in arguments[1:]:
        span = _MODIFIER.fullmatch(modifier.name)
        unit = modifier.name.removeprefix("start of ")
        if span is not None:
            number, unit = span.groups()
            step = exp.Interval(this=exp.Literal.string(number), unit=exp.Var(this=unit.upper()))
            moved = exp.Paren(this=exp.Add(this=moved, expression=step))
        elif unit in ("year", "month", "day") and unit != modifier.name:
            moved = exp.Anonymous(this="date_trunc", expressions=[exp.Literal.string(unit), moved])
        else:
            return None
    return exp.Cast(this=moved, to=kind)


def _at_path(name: str, arguments: Sequence[Any], dialect: TextDialect) -> exp.Expression | None:
    """JSON_VALUE(x, '$.a.b') and JSON_EXTRACT(x, '$.a.b'), where a path is a list of names."""
    if dialect.at_path is None or len(arguments) != 2 or not _is_text(arguments[1]):
        return None
    path = re.fullmatch(r"\$((?:\.\w+)+)", arguments[1].name)
    if path is None:
        return None
    kind = exp.JSONBExtractScalar if name == "json_value" else exp.JSONBExtract
    names = ",".join(path[1].split(".")[1:])
    return exp.Paren(this=kind(this=arguments[0].copy(), expression=exp.Literal.string(f"{{{names}}}")))


def _unquoted(_: str, arguments: Sequence[Any], __: TextDialect) -> exp.Expression | None:
    """JSON_UNQUOTE(JSON_EXTRACT(x, '$.a')), of which the inner call is read already."""
    part = arguments[0].this if len(arguments) == 1 and isinstance(arguments[0], exp.Paren) else None
    if not isinstance(part, exp.JSONBExtract):
        return None
    return exp.Paren(this=exp.JSONBExtractScalar(this=part.this.copy(), expression=part.expression.copy()))


def _day(cast: exp.Cast, dialect: TextDialect) -> exp.Expression | None:
    """CAST(x AS DATE), where the database has no such type. DATE '2026-01-31' is a constant."""
    is_day = cast.to.this == exp.DataType.Type.DATE and not _is_text(cast.this)
    return _filled(dialect.makes_date, [cast.this], dialect) if is_day and dialect.makes_date else None


def _truncated(_: str, arguments: Sequence[Any], __: TextDialect) -> exp.Expression | None:
    """DATETRUNC(month, x), DATE_TRUNC(x, MONTH)."""
    if len(arguments) != 2 or _is_text(arguments[0]):
        return None
    units = [_unit(part) for part in arguments]
    if units.count(None) != 1:
        return None  # both could be columns
    [unit] = [unit for unit in units if unit]
    value = arguments[units.index(None)].copy()
    return exp.Anonymous(this="date_trunc", expressions=[exp.Literal.string(unit), value])


_CONVERSIONS: Mapping[str, Callable[[str, Sequence[Any], TextDialect], exp.Expression | None]] = {
    "concat": _joined,
    **dict.fromkeys(_SPELLINGS, _formatted),
    **dict.fromkeys(("datepart", "date_part"), _part),
    **dict.fromkeys(
        ("date_add", "adddate", "date_sub", "subdate", "dateadd", "timestampadd", "add_months"), _moved
    ),
    **dict.fromkeys(("datediff", "date_diff"), _days_between),
    "datetrunc": _truncated,
    "group_concat": _listed,
    **dict.fromkeys(("json_extract", "json_value"), _at_path),
    "json_unquote": _unquoted,
    "timestampdiff": _units_passed,
}
