"""Grows SQL texts over the table `readings`, and damages them."""

from __future__ import annotations

import re
from functools import cache

from dualsql.freeze.types import FUNCTIONS
from tests.fuzz.running import Case, odd_text
from tests.query.readings import READINGS
from tests.sql.attacks import ATTACKS
from tests.sql.forms import NESTED, QUERIES, RELATIONS
from tests.sql.value_texts import texts_of

COLUMNS = [column.name for column in READINGS.c]
NAMES = sorted(FUNCTIONS)
TYPES = (
    "TEXT",
    "INTEGER",
    "BIGINT",
    "NUMERIC(12, 2)",
    "DOUBLE PRECISION",
    "DATE",
    "TIMESTAMP",
    "BOOLEAN",
    "VARCHAR(3)",
)
INFIX = (
    "+",
    "-",
    "*",
    "/",
    "%",
    "||",
    "=",
    "<>",
    "<",
    ">=",
    "AND",
    "OR",
    "LIKE",
    "NOT LIKE",
    "IS",
    "IS NOT",
    "->",
    "->>",
    "&",
    "|",
    "^",
    "<<",
    "~",
    "REGEXP",
    "ILIKE",
    "GLOB",
    "IS DISTINCT FROM",
    "SIMILAR TO",
    "@>",
)
CONSTANTS = (
    "0",
    "1",
    "-1",
    "2.5",
    "1e300",
    "1e-300",
    "9223372036854775807",
    "9223372036854775808",
    "99999999999999999999999",
    "NULL",
    "TRUE",
    "FALSE",
    "'a'",
    "''",
    "'2024-02-30'",
    "'2023-12-31 23:59:59'",
    "DATE '2024-01-01'",
    "'[1, 2]'",
    "'{\"a\": 1}'",
    "'(a+)+$'",
    "CURRENT_DATE",
    "INTERVAL '1' DAY",
    "x'00ff'",
    "'NaN'",
    "0.1",
    ":p",
)
AGGREGATES = (
    "count",
    "sum",
    "avg",
    "min",
    "max",
    "string_agg",
    "group_concat",
    "median",
    "stddev",
    "bool_and",
)


_AS_READINGS = {
    "item": "{table}",
    "whole": "small",
    "other": "id",
    "amount": "price",
    "grp": "tenant",
    "note": "text",
    "word": "text",
}
"""The table of the texts whose values are compared, and its columns, as those of the readings."""

_OF_ROWS = re.compile(r"SELECT id, (.+) AS v FROM item ORDER BY id")


@cache
def valid_texts(engine: str) -> tuple[list[str], list[str]]:
    """Texts that mean something on the database, over `{table}`: queries, and expressions of a row."""
    queries = [text.sql for text in texts_of(engine) if " tag" not in text.sql]
    expressions = [found[1] for text in queries if (found := _OF_ROWS.fullmatch(text))]
    return [_over_readings(text) for text in queries], [_over_readings(text) for text in expressions]


def _over_readings(text: str) -> str:
    """The text over `{table}`; what is within quotes stays."""
    parts = text.replace("{", "").replace("}", "").split("'")
    for place in range(0, len(parts), 2):
        parts[place] = re.sub(r"\w+", lambda match: _AS_READINGS.get(match[0], match[0]), parts[place])
    return "'".join(parts)


def expression(case: Case, depth: int, engine: str) -> str:
    """An expression; the deeper, the simpler. Half of them are valid on the database."""
    draw = case.choices.random()
    if depth <= 0 or draw < 0.15:
        return case.one_of(COLUMNS)
    if draw < 0.3:
        return case.one_of(CONSTANTS) if draw < 0.27 else "'" + odd_text(case).replace("'", "''") + "'"
    if draw < 0.65:
        return case.one_of(valid_texts(engine)[1])
    inner = [expression(case, depth - 1, engine) for _ in range(3)]
    shapes = (
        f"({inner[0]} {case.one_of(INFIX)} {inner[1]})",
        f"{case.one_of(NAMES)}({', '.join(inner[: case.choices.randrange(4)])})",
        f"CAST({inner[0]} AS {case.one_of(TYPES)})",
        f"CASE WHEN {inner[0]} THEN {inner[1]} ELSE {inner[2]} END",
        f"{inner[0]} IN ({inner[1]}, {inner[2]})",
        f"{inner[0]} BETWEEN {inner[1]} AND {inner[2]}",
        f"{case.one_of(AGGREGATES)}({inner[0]}) OVER (PARTITION BY {inner[1]} ORDER BY {inner[2]})",
        f"{case.one_of(AGGREGATES)}({inner[0]})",
        f"(SELECT max({inner[0]}) FROM {{table}} WHERE {inner[1]})",
        f"EXISTS (SELECT 1 FROM {{table}} AS r WHERE {inner[0]})",
        f"NOT {inner[0]}",
        f"-{inner[0]}",
        f"EXTRACT({case.one_of(('year', 'month', 'dow', 'epoch', 'hour'))} FROM {inner[0]})",
        f"substring({inner[0]} FROM {inner[1]} FOR {inner[2]})",
        f"count(*) FILTER (WHERE {inner[0]})",
    )
    return case.one_of(shapes)


def query(case: Case, depth: int, engine: str) -> str:
    """A SELECT from `{table}`."""
    draw = case.choices.random
    columns = ", ".join(f"{expression(case, 2, engine)} AS c{n}" for n in range(case.choices.randrange(1, 4)))
    text = f"SELECT {'DISTINCT ' * (draw() < 0.1)}{'*' if draw() < 0.1 else columns} FROM {{table}}"
    if draw() < 0.2 and depth:
        text = f"SELECT * FROM ({query(case, depth - 1, engine)}) AS s"
    if draw() < 0.15:
        text += f" {case.one_of(('JOIN', 'LEFT JOIN', 'CROSS JOIN'))} {{table}} AS r2 ON {expression(case, 1, engine)}"
    if draw() < 0.5:
        text += f" WHERE {expression(case, 3, engine)}"
    if draw() < 0.2:
        text += f" GROUP BY {expression(case, 1, engine)}"
        text += f" HAVING {expression(case, 2, engine)}" * (draw() < 0.3)
    if draw() < 0.15 and depth:
        text += (
            f" {case.one_of(('UNION', 'UNION ALL', 'EXCEPT', 'INTERSECT'))} {query(case, depth - 1, engine)}"
        )
    if draw() < 0.3:
        text += f" ORDER BY {expression(case, 1, engine)} {case.one_of(('', 'DESC', 'NULLS FIRST', 'DESC NULLS LAST'))}"
    if draw() < 0.3:
        text += f" LIMIT {case.one_of(CONSTANTS)}"
    if draw() < 0.1 and depth:
        text = f"WITH w AS ({query(case, depth - 1, engine)}) {text.replace('{table}', 'w', 1)}"
    return text


_TOKEN = re.compile(r"\w+|\s+|[^\w\s]")
_HOSTILE = [*(form.text(3) for form in (*NESTED, *QUERIES, *RELATIONS)), *ATTACKS]


def damaged(case: Case, text: str) -> str:
    """The text with some of its tokens left out, doubled, exchanged or replaced by those of another."""
    tokens = _TOKEN.findall(text)
    for _ in range(case.choices.randrange(1, 4)):
        if not tokens:
            break
        place = case.choices.randrange(len(tokens))
        match case.choices.randrange(5):
            case 0:
                del tokens[place]
            case 1:
                tokens.insert(place, case.one_of(tokens))
            case 2:
                tokens[place] = case.one_of(tokens)
            case 3:
                tokens[place] = odd_text(case)
            case _:
                others = _TOKEN.findall(case.one_of(_HOSTILE))
                start = case.choices.randrange(len(others))
                tokens[place : place + 1] = others[start : start + 6]
    return "".join(tokens)


def sql_text(case: Case, table: str, engine: str = "sqlite") -> str:
    """A text over `table`: valid on the database, grown, damaged, or a hostile one that names it."""
    draw = case.choices.random()
    if draw < 0.1:
        text = (
            case.one_of(_HOSTILE)
            .replace("customer", "{table}")
            .replace("c_name", "text")
            .replace("c_custkey", "id")
        )
    elif draw < 0.35:
        text = case.one_of(valid_texts(engine)[0])
    else:
        text = query(case, 2, engine)
    if draw < 0.05 or 0.25 < draw < 0.35 or draw > 0.7:
        text = damaged(case, text)
    return text.replace("{table}", table)
