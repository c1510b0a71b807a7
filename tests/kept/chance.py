"""Texts by chance over the table of `meanings`: a grammar of what SQL has on every database, and of what each has."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from random import Random

_LEAVES: Mapping[str, str] = {
    "integer": "i; b; s; id; 0; 1; -2; 3; 2147483647; 9223372036854775807",
    "real": "r; k; 2.5; 1e0",
    "exact": "n; m; 2.50; 0.1; -3.75",
    "text": "t; 'apple'; ''; 'A%'; '12'; 'pad '; 'É'",
    "boolean": "f; TRUE; i > 1; t IS NULL",
    "date": "d; '2024-01-07'",
    "moment": "ts; '2024-01-07 10:59:58'",
    "number": "{integer}; {real}; {exact}",
    "any": "{integer}; {real}; {exact}; {text}; {boolean}; {date}; {moment}",
}
_COMMON: Mapping[str, str] = {
    "integer": "{integer} + {integer}; {integer} - {integer}; ({integer} * {integer}); {integer} / {integer}; "
    "({integer} % {integer}); -({integer}); abs({integer}); char_length({text}); coalesce({integer}, {integer}); "
    "CASE WHEN {boolean} THEN {integer} ELSE {integer} END; nullif({integer}, {integer})",
    "real": "{real} + {real}; {real} * {integer}; ({real} - {real}); {real} / {number}; -({real}); abs({real}); "
    "round({real}); CASE WHEN {boolean} THEN {real} END",
    "exact": "{exact} + {integer}; ({exact} * {exact}); {exact} / {integer}; round({exact}, 1); abs({exact}); "
    "coalesce({exact}, {exact})",
    "text": "upper({text}); lower({text}); trim({text}); substr({text}, 2); substr({text}, 0, 2); "
    "replace({text}, 'p', {text}); coalesce({text}, {text}); CASE WHEN {boolean} THEN {text} END",
    "boolean": "{number} = {number}; {number} < {number}; {text} = {text}; {text} <= {text}; {date} < {date}; "
    "{moment} >= {moment}; ({boolean} AND {boolean}); ({boolean} OR {boolean}); NOT ({boolean}); {any} IS NULL; "
    "{number} BETWEEN {number} AND {number}; {integer} IN ({integer}, {integer}, NULL); {text} LIKE {text}; "
    "{text} NOT LIKE 'a!_%' ESCAPE '!'; {integer} NOT IN (SELECT i FROM data WHERE {boolean}); ({boolean}) IS TRUE",
    "date": "d",
    "moment": "ts",
}
_OWN: Mapping[str, Mapping[str, str]] = {
    "sqlite": {
        "integer": "instr({text}, {text}); length({any}); ({boolean}) + ({boolean}); CAST({any} AS INTEGER); "
        "max({integer}, {integer}); unixepoch({moment})",
        "real": "CAST({any} AS REAL); julianday({moment}); round({real}, 2); 100.0 * {integer} / {integer}",
        "text": "typeof({any}); strftime('%Y-%m', {moment}); {text} || {integer}; CAST({any} AS TEXT); date({date})",
        "boolean": "{any} IS {any}; {integer}; {text} < {number}; {text} = {text} COLLATE NOCASE",
    },
    "postgresql": {
        "integer": "strpos({text}, {text}); CAST({number} AS INTEGER); CAST({integer} AS SMALLINT); ({date} - d); "
        "EXTRACT(DOW FROM {date}); greatest({integer}, {integer})",
        "real": "CAST({number} AS DOUBLE PRECISION); floor({real}); sqrt({real}); sign({real})",
        "exact": "CAST({number} AS NUMERIC(12, 1)); {integer} * 100.0 / {integer}; ceil({exact})",
        "text": "{text} || {text}; left({text}, 2); concat({text}, {integer}); CAST({any} AS VARCHAR(4)); "
        "to_char(ts, 'YYYY-MM')",
        "boolean": "{any} IS DISTINCT FROM {any}; {text} ILIKE {text}; {date} < {moment}",
        "date": "CAST({moment} AS DATE); d + {integer}; d - 40",
        "moment": "date_trunc('week', ts); ts + INTERVAL '1 month'; d + INTERVAL '2 hours'; CAST(d AS TIMESTAMP)",
    },
    "mariadb": {
        "integer": "({integer} DIV {integer}); CAST({number} AS SIGNED); year({date}); datediff({date}, {moment}); "
        "mod({integer}, {integer}); least({integer}, {integer})",
        "real": "CAST({number} AS DOUBLE); CAST({number} AS FLOAT); sqrt({real})",
        "exact": "round({exact}, 4); greatest({exact}, {exact})",
        "text": "concat({text}, {integer}); left({text}, 2)",
        "boolean": "{any} <=> {any}; {integer}; {text} = {number}; {date} < {moment}",
        "date": "date(ts); CAST('2024-02-29' AS DATE)",
        "moment": "CAST(d AS DATETIME); CAST('2024-02-29' AS DATETIME)",
    },
}
_GATHERED = (
    "count(*); count({any}); count(DISTINCT {any}); min({any}); max({any}); sum({number}); avg({number}); "
    "sum(CASE WHEN {boolean} THEN 1 ELSE 0 END); sum(DISTINCT {number}); round(avg({number}), 1); "
    "100.0 * sum({integer}) / count(*)"
)
_RANKED = (
    "rank(); dense_rank(); row_number(); cume_dist(); percent_rank(); sum({number}); max({number}); avg(k)"
)
_STATEMENTS = (
    "SELECT id, {any} AS x FROM data ORDER BY id",
    "SELECT id, {any} AS x FROM data WHERE id = 7",
    "SELECT id, {any} AS x FROM data WHERE id IN (11, 23, 48) ORDER BY id",
    "SELECT id FROM data WHERE {boolean} ORDER BY {any}, id LIMIT 9",
    "SELECT id FROM data WHERE {boolean} ORDER BY {any} DESC, id LIMIT 9 OFFSET 2",
    "SELECT {gathered} AS x, {gathered} AS y FROM data WHERE {boolean}",
    "SELECT i, {gathered} AS x FROM data GROUP BY i ORDER BY i",
    "SELECT f, d, {gathered} AS x FROM data WHERE {boolean} GROUP BY f, d HAVING {gathered} > 1",
    "SELECT DISTINCT {any} AS x FROM data",
    "SELECT id, {ranked} OVER (PARTITION BY i ORDER BY {any}, id) AS x FROM data ORDER BY id",
    "SELECT {integer} AS x FROM data WHERE {boolean} UNION SELECT {integer} FROM data",
)
_HOLE = re.compile(r"\{(\w+)\}")


def texts(dialect: str, seed: int) -> Iterator[str]:
    """Statements without end, the same ones for a seed."""
    chance = Random(seed)
    grammar = {
        kind: [
            *_COMMON.get(kind, "").split("; "),
            *_OWN[dialect].get(kind, "").split("; "),
        ]
        for kind in _LEAVES
    }

    def one(kind: str, depth: int) -> str:
        if kind in ("gathered", "ranked"):
            actual = chance.choice({"gathered": _GATHERED, "ranked": _RANKED}[kind].split("; "))
        else:
            known = [form for form in grammar[kind] if form] if depth else []
            # A column or a constant is as likely as all that computes with some.
            actual = chance.choice(known if known and chance.random() < 0.7 else _LEAVES[kind].split("; "))
        return _HOLE.sub(lambda hole: one(hole[1], max(0, depth - 1)), actual)

    while True:
        depth = chance.choice((1, 1, 2, 3))
        yield _HOLE.sub(lambda hole: one(hole[1], depth), chance.choice(_STATEMENTS))  # noqa: B023 - used at once
