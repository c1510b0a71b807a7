"""SQL texts drawn from the grammar that `dualsql.sql` reads: every handler of a node, every function it knows.

A form that is read and has no maker here fails `test_noninterference.py`.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping

from sqlalchemy import types
from sqlglot import exp

from dualsql.databases.functions import result_of
from dualsql.sql.functions import allowed_functions
from tests.engines import text_of

COLUMNS: Mapping[str, tuple[str, ...]] = {
    "number": ("id", "small", "big", "price", "ratio"),
    "text": ("text", "secret", "tenant", "text"),
    "truth": ("flag",),
    "moment": ("moment", "day", "moment"),
    "other": ("word", "clock", "span", "code", "blob"),
}
ALL_COLUMNS = [name for names in COLUMNS.values() for name in names]
LITERALS: Mapping[str, tuple[str, ...]] = {
    "number": ("0", "1", "-1", "2.5", "18014398509481984", "3"),
    "text": ("'a'", "''", "'100%'", "'1'", "'north'", "'hidden'", "'{\"a\": [1, 2]}'", "NULL"),
    "truth": ("TRUE", "FALSE"),
    "moment": ("'2024-01-01'", "NULL"),
    "other": ("NULL",),
}
OTHER_TABLES = ("payroll", "nothing", "sqlite_master", "pg_class")

# They tell the time, which is another at each reading.
_OF_NOW = frozenset("now transaction_timestamp localtimestamp curdate current_date to_timestamp age".split())

_OF_NOW_ALONE = frozenset("date datetime julianday strftime time unixepoch".split())
"""Without an argument."""


class Draw:
    """Draws parts of texts; the same seed draws the same texts."""

    def __init__(self, seed: int, dialect: str) -> None:
        self._random = random.Random(seed)
        self.dialect = dialect
        self.functions = [name for name in allowed_functions(text_of(dialect)) if name not in _OF_NOW]
        self._kinds = {name: _kind_of(name, dialect) for name in self.functions}

    def of(self, *choices: str) -> str:
        return self._random.choice(choices)

    def chance(self, one_in: int) -> bool:
        return self._random.randrange(one_in) == 0

    def column(self, kind: str = "") -> str:
        return f"{self.of('r.', '', '')}{self.of(*COLUMNS.get(kind, ALL_COLUMNS))}"

    def value(self, depth: int, kind: str = "") -> str:
        """An expression of at most `depth` levels, mostly of that kind: what fits together is computed, too."""
        kind = self.of(*COLUMNS) if not kind or self.chance(9) else kind
        if depth <= 0 or self.chance(3):
            return self.of(self.column(kind), self.column(kind), self.of(*LITERALS[kind]))
        if self.chance(3):
            names = [name for name, each in self._kinds.items() if each == kind] or self.functions
            return self.call(depth - 1, self.of(*names))
        makers = [maker for each, maker in MAKERS.values() if each in (kind, "")]
        return self._random.choice(makers)(self, depth - 1) if makers else self.column(kind)

    def call(self, depth: int, name: str) -> str:
        """A call of the function, with up to three arguments."""
        kind = self.of(self._kinds.get(name, "text") or "number", "text", "number")
        count = self._random.choice((1, 1, 2, 2, 3)) if name in _OF_NOW_ALONE or not self.chance(9) else 0
        return f"{name}({', '.join(self.value(depth, kind) for _ in range(count))})"

    def condition(self, depth: int = 2) -> str:
        """What may be true."""
        kind = self.of(*COLUMNS)
        if self.chance(2):
            return f"{self.column(kind)} {self.of('=', '<>', '<', '>=')} {self.value(depth - 1, kind)}"
        return self.value(depth, "truth")

    def select(self, depth: int = 1) -> str:
        """One SELECT with any of its clauses."""
        source = f"{self.of(*['readings'] * 30, *OTHER_TABLES)} r"
        if self.chance(5):
            source += self.of(
                " LEFT JOIN readings s ON r.id = s.id", " JOIN readings s USING (id)", ", readings s"
            )
        elif self.chance(6) and depth:
            source = f"({self.select(depth - 1)}) AS r"
        elif self.chance(12) and (tables := text_of(self.dialect).table_functions):
            source += f", {self.call(0, self.of(*tables))} AS f"
        outputs = ", ".join(self.value(2) for _ in range(self._random.randrange(1, 4)))
        grouped = self.column()
        is_grouped = self.chance(4)
        if is_grouped:
            outputs = self.of(
                grouped, f"{grouped}, count(*)", f"{grouped}, max({self.column('number')})", outputs
            )
        star = "" if is_grouped else self.of("*, ", "", "")
        text = f"SELECT {self.of('', '', 'DISTINCT ')}{star}{outputs} FROM {source}"
        if self.chance(2):
            text += f" WHERE {self.condition()}"
        if is_grouped:
            text += f" GROUP BY {self.of('1', grouped, grouped, f'ROLLUP ({grouped})')}"
            text += self.of("", "", " HAVING count(*) > 1", f" HAVING {self.condition(1)}")
        if self.chance(3):
            text += f" ORDER BY {self.of('1', '1', self.value(1))}{self.of('', ' DESC', ' NULLS LAST')}"
        if self.chance(4):
            text += f" LIMIT {self.of('0', '3', '100')}{self.of('', ' OFFSET 2')}"
        return text

    def text(self) -> str:
        """A whole text."""
        if self.chance(10):
            columns = ", ".join(self.column() for _ in range(2))
            one, other = [f"SELECT {columns} FROM readings r WHERE {self.condition()}" for _ in range(2)]
            return f"{one} {self.of('UNION', 'UNION ALL', 'EXCEPT', 'INTERSECT')} {other}"
        if self.chance(8):
            return f"WITH x AS ({self.select()}) SELECT {self.of('*', 'count(*)', '*')} FROM x r"
        return self.select()


def _kind_of(name: str, dialect: str) -> str:
    """What a function gives, as far as its type says so."""
    result = result_of(name, text_of(dialect))
    affinity = result([], text_of(dialect))._type_affinity if result is not None else None
    for kind, affinities in _AFFINITIES.items():
        if affinity in affinities:
            return kind
    return ""


_AFFINITIES: Mapping[str, tuple[type, ...]] = {
    "number": (types.Integer, types.Numeric, types.Float),
    "text": (types.String,),
    "truth": (types.Boolean,),
    "moment": (types.Date, types.DateTime),
}


Maker = Callable[[Draw, int], str]
Kind = str


def _pair(sign: str) -> tuple[Kind, Maker]:
    def make(draw: Draw, depth: int) -> str:
        kind = draw.of(*COLUMNS)
        return f"({draw.value(depth, kind)} {sign} {draw.value(depth, kind)})"

    return "truth", make


def _joined(sign: str) -> tuple[Kind, Maker]:
    return "truth", lambda draw, depth: f"({draw.value(depth, 'truth')} {sign} {draw.value(depth, 'truth')})"


def _numbers(sign: str) -> tuple[Kind, Maker]:
    return (
        "number",
        lambda draw, depth: f"({draw.value(depth, 'number')} {sign} {draw.value(depth, 'number')})",
    )


def _fixed(kind: Kind, *texts: str) -> tuple[Kind, Maker]:
    return kind, lambda draw, _: draw.of(*texts)


def _written(kind: Kind, form: str) -> tuple[Kind, Maker]:
    """A form with places for values: {n} a number, {t} a text, {m} a moment, {b} a truth, {c} any column."""
    kinds = {"n": "number", "t": "text", "m": "moment", "b": "truth"}

    def make(draw: Draw, depth: int) -> str:
        filled = re.sub(r"\{([ntmb])\}", lambda match: draw.value(depth, kinds[match[1]]), form)
        return re.sub(r"\{c\}", lambda _: draw.of(*ALL_COLUMNS), filled)

    return kind, make


def _window(draw: Draw, depth: int) -> str:
    call = draw.of(
        "count(*)", "row_number()", f"sum({draw.column('number')})", f"min({draw.value(depth, 'number')})"
    )
    frame = draw.of("", " ROWS BETWEEN 1 PRECEDING AND CURRENT ROW", " RANGE UNBOUNDED PRECEDING")
    return f"{call} OVER ({draw.of('', f'PARTITION BY {draw.column()} ')}ORDER BY {draw.column()}, id{frame})"


MAKERS: Mapping[type[exp.Expression], tuple[Kind, Maker]] = {
    exp.Column: ("", lambda draw, _: draw.column()),
    exp.Literal: _fixed("number", *LITERALS["number"]),
    exp.Boolean: _fixed("truth", "TRUE", "FALSE"),
    exp.Null: _fixed("", "NULL"),
    exp.Placeholder: _fixed("other", "?", ":x"),
    exp.Paren: _written("truth", "({b})"),
    exp.Interval: _fixed("other", "INTERVAL '1 day'", "INTERVAL '2' MONTH"),
    exp.CurrentDate: _fixed("truth", "(CURRENT_DATE > '1990-01-01')"),
    exp.CurrentTime: _fixed("truth", "(CURRENT_TIME IS NULL)"),
    exp.CurrentTimestamp: _fixed("truth", "(CURRENT_TIMESTAMP IS NULL)"),
    exp.Localtimestamp: _fixed("truth", "(LOCALTIMESTAMP IS NULL)"),
    exp.And: _joined("AND"),
    exp.Or: _joined("OR"),
    exp.Xor: _joined("XOR"),
    exp.Overlaps: _written("truth", "(({m}, {m}) OVERLAPS ({m}, {m}))"),
    exp.Not: _written("truth", "(NOT {b})"),
    exp.Neg: _written("number", "(-{n})"),
    exp.EQ: _pair("="),
    exp.NEQ: _pair("<>"),
    exp.LT: _pair("<"),
    exp.LTE: _pair("<="),
    exp.GT: _pair(">"),
    exp.GTE: _pair(">="),
    exp.NullSafeEQ: _pair("IS NOT DISTINCT FROM"),
    exp.NullSafeNEQ: _pair("IS DISTINCT FROM"),
    exp.Add: _numbers("+"),
    exp.Sub: _numbers("-"),
    exp.Mul: _numbers("*"),
    exp.Div: _numbers("/"),
    exp.IntDiv: _numbers("//"),
    exp.Mod: _numbers("%"),
    exp.DPipe: _written("text", "({t} || {t})"),
    exp.BitwiseAnd: _numbers("&"),
    exp.BitwiseOr: _numbers("|"),
    exp.BitwiseXor: _written("number", "xor({n}, {n})"),
    exp.BitwiseNot: _written("number", "(~ {n})"),
    exp.BitwiseLeftShift: _numbers("<<"),
    exp.BitwiseRightShift: _numbers(">>"),
    exp.Pow: _written("number", "power({n}, 2)"),
    exp.Sqrt: _written("number", "sqrt({n})"),
    exp.Collate: _written("text", "({t} COLLATE NOCASE)"),
    exp.SimilarTo: _written("truth", "({t} SIMILAR TO 'a%')"),
    exp.RegexpLike: _written("truth", "({t} ~ {t})"),
    exp.RegexpILike: _written("truth", "({t} ~* 'a')"),
    exp.Glob: _written("truth", "({t} GLOB {t})"),
    exp.Is: ("truth", lambda draw, _: f"({draw.column()} IS {draw.of('NULL', 'NOT NULL')})"),
    exp.Like: _written("truth", "({t} LIKE {t})"),
    exp.ILike: _written("truth", "({t} ILIKE 'A%')"),
    exp.Escape: _written("truth", "({t} LIKE '1!_0' ESCAPE '!')"),
    exp.Between: _written("truth", "({n} BETWEEN {n} AND {n})"),
    exp.In: _written("truth", "({t} IN ({t}, 'a', 'north'))"),
    exp.Any: _written("truth", "({n} = ANY (SELECT s.small FROM readings s))"),
    exp.All: _written("truth", "({n} >= ALL (SELECT s.id FROM readings s))"),
    exp.Case: _written("number", "CASE WHEN {b} THEN {n} ELSE {n} END"),
    exp.Cast: _written("number", "CAST({t} AS INTEGER)"),
    exp.Extract: _written("number", "EXTRACT(year FROM {m})"),
    exp.AtTimeZone: _written("moment", "(moment AT TIME ZONE 'UTC')"),
    exp.Array: _written("other", "ARRAY[{n}, {n}]"),
    exp.Tuple: _written("truth", "(({n}, {t}) = ({n}, {t}))"),
    exp.JSONExtract: _written("other", "({t} -> 'a')"),
    exp.JSONExtractScalar: _written("text", "({t} ->> 'a')"),
    exp.JSONBExtract: _written("other", "({t} #> '{a}')"),
    exp.JSONBExtractScalar: _written("text", "({t} #>> '{a}')"),
    exp.JSONBContainsTopKey: _written("truth", "({t} ? 'a')"),
    exp.JSONBContainsAnyTopKeys: _written("truth", "({t} ?| ARRAY['a'])"),
    exp.JSONBContainsAllTopKeys: _written("truth", "({t} ?& ARRAY['a'])"),
    exp.ArrayContainsAll: _written("truth", "(ARRAY[{n}, {n}] @> ARRAY[{n}])"),
    exp.ArrayContainedBy: _written("truth", "(ARRAY[{n}] <@ ARRAY[{n}, {n}])"),
    exp.ArrayOverlaps: _written("truth", "(ARRAY[{n}] && ARRAY[{n}])"),
    exp.Bracket: _written("number", "(ARRAY[{n}, {n}])[1]"),
    exp.Subquery: _written("number", "(SELECT max(s.small) FROM readings s WHERE s.{c} = r.{c})"),
    exp.Exists: _written("truth", "(EXISTS (SELECT 1 FROM readings s WHERE s.id = {n} AND s.{c} IS NULL))"),
    exp.Anonymous: _written("number", "abs({n})"),
    exp.Ceil: _written("number", "CEIL({n})"),
    exp.Floor: _written("number", "FLOOR({n})"),
    exp.Filter: _written("number", "(SELECT count(*) FILTER (WHERE s.{c} IS NULL) FROM readings s)"),
    exp.GroupConcat: _written("text", "(SELECT string_agg(s.text, ',' ORDER BY s.id) FROM readings s)"),
    exp.If: _written("number", "IF({b}, {n}, {n})"),
    exp.Overlay: _written("text", "OVERLAY({t} PLACING 'x' FROM 1)"),
    exp.StrPosition: _written("number", "POSITION('a' IN {t})"),
    exp.Substring: _written("text", "SUBSTRING({t} FROM 1 FOR small)"),
    exp.Trim: _written("text", "TRIM(LEADING 'a' FROM {t})"),
    exp.Window: ("number", _window),
    exp.WithinGroup: _written(
        "number", "(SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY s.ratio) FROM readings s)"
    ),
}
