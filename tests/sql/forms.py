"""Texts that repeat or nest one form of the grammar: what a parser, or what follows it, could take too long for.

A form is written as a person would begin to attack: `before`, then `opening` n times, a `core`, `closing` n times,
`after`. A repeated form has no closing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from sqlglot import Dialect

TIMES = (6, 12, 24, 40, 200)
SQLGLOT = {"sqlite": "sqlite", "postgresql": "postgres", "mysql": "mysql", "duckdb": "duckdb"}

_VALUE = "SELECT {} FROM customer"
_CONDITION = "SELECT c_name FROM customer WHERE {}"
_QUERY = "{}"
_FROM = "SELECT 1 FROM customer {}"


class Form(NamedTuple):
    """One form: `frame` holds what is repeated."""

    frame: str
    opening: str
    closing: str = ""
    core: str = "1"

    def text(self, times: int) -> str:
        return self.frame.format(self.opening * times + self.core + self.closing * times)


# Each stands for one rule of the grammar that is read here, or for a way in which a text was slow.
NESTED = [
    Form(_VALUE, opening, closing)
    for opening, closing in (
        ("(", ")"), ("abs(", ")"), ("date(", ")"), ("coalesce(1, ", ")"), ("CASE WHEN 1 = 1 THEN ", " END"),
        ("CASE ", " WHEN 1 THEN 1 WHEN 2 THEN 2 END"), ("CASE WHEN ", " THEN 1 END"), ("(SELECT ", ")"),
        ("EXISTS (SELECT ", ")"), ("1 IN (", ")"), ("1 IN (SELECT ", ")"), ("NOT ", ""), ("- ", ""), ("1 + ", ""),
        ("1 - (", ")"), ("'a' || ", ""), ("1 = ", ""), ("1 AND ", ""), ("1 OR (", ")"), ("1 BETWEEN 1 AND ", ""),
        ("1 BETWEEN ", " AND 2"), ("'a' LIKE ", ""), ("CAST(", " AS TEXT)"), ("CAST(", " AS NUMERIC(10, 2))"),
        ("1 -> ", ""), ("1 ->> ", ""), ("a[", "]"), ("ARRAY[", "]"), ("[", "]"), ("{a: ", "}"), ("ROW(", ")"),
        ("INTERVAL ", " DAY"), ("EXTRACT(year FROM ", ")"), ("trim(", ")"), ("substring(", " FROM 1)"),
        ("position('a' IN ", ")"), ("sum(", ") OVER (ORDER BY c_name)"), ("sum(1) OVER (PARTITION BY ", ")"),
        ("sum(", ") FILTER (WHERE 1 = 1)"), ("string_agg(", ", ',')"), ("group_concat(", ")"), ("1 IS ", ""),
        ("1 IS DISTINCT FROM ", ""), ("1 = ANY (", ")"), ("1 = ALL (SELECT ", ")"), ("1 AT TIME ZONE ", ""),
        ("1 COLLATE ", ""), ("x.", ""), ("x -> ", ""), ("/*+ a(", ") */"), ("count(DISTINCT ", ")"),
        ("1::int + ", ""), ("coalesce(:a, current_date, current_time, current_timestamp, localtimestamp, ", ")"),
        ("STRUCT(", ")"), ("MAP {1: ", "}"), ("COLUMNS(", ")"), ("* EXCEPT (", ")"), ("1 ^ ", ""),
        ("1 OPERATOR(+) ", ""), ("1 GLOB ", ""), ("'a' ~ ", ""), ("1 // ", ""), ("1 DIV ", ""), ("'a' ILIKE ", ""),
        ("floor(", ")"), ("ceil(", ")"), ("overlay('a' PLACING ", " FROM 1)"),
    )
]  # fmt: skip
QUERIES = [
    Form(_QUERY, opening, closing, core)
    for opening, closing, core in (
        ("SELECT * FROM (", ") AS a", "SELECT 1 AS x"), ("(", ")", "SELECT 1"), ("SELECT 1 UNION ", "", "SELECT 1"),
        ("SELECT 1 UNION ALL (", ")", "SELECT 1"), ("SELECT 1 UNION SELECT 1 UNION ALL ", "", "SELECT 1"),
        ("SELECT 1 EXCEPT ", "", "SELECT 1"), ("WITH a AS (", ") SELECT 1", "SELECT 1"),
        ("WITH a AS (SELECT 1) ", "", "SELECT 1"), ("VALUES (1) UNION ", "", "SELECT 1"),
        ("SELECT CAST(CAST(1 AS TEXT) AS TEXT) UNION ", "", "SELECT 'a'"), ("FROM a |> ", "", "SELECT 1"),
    )
]  # fmt: skip
RELATIONS = [
    Form(_FROM, opening, closing, core="")
    for opening, closing in (
        ("JOIN customer ", ""), ("LEFT JOIN customer ", ""), ("CROSS JOIN customer ", ""), (", customer ", ""),
        ("NATURAL JOIN customer ", ""), ("JOIN customer USING (c_name) ", ""), ("JOIN customer ON 1 = 1 ", ""),
        ("JOIN (customer ", ")"), ("LEFT JOIN (SELECT 1) x ", ""), ("JOIN LATERAL (SELECT 1) x ", ""),
        ("JOIN (SELECT 1 FROM customer ", ") x ON 1 = 1"), (", LATERAL (SELECT 1) x ", ""), (", UNNEST(", ")"),
        ("STRAIGHT_JOIN customer ", ""), ("ASOF JOIN customer ", ""), ("PIVOT (", ")"), ("TABLESAMPLE (", ")"),
        ("WHERE 1 = 1 OR 1 = 1 ", ""), ("GROUP BY ROLLUP(", ")"), ("GROUP BY CUBE(c_name), ", ""),
        ("WINDOW w AS (", ")"),
    )
]  # fmt: skip


def listed(times: int) -> dict[str, str]:
    """Texts that are long by a list, by names that stand for more than they show, or by what a star stands for."""
    some = range(times)
    doubled = ", ".join(f"a{n} + a{n} AS a{n + 1}" for n in some)
    both = "".join(f", a{n + 1} AS (SELECT x.* FROM a{n} x, a{n} y)" for n in some)
    many = ", ".join(f"customer a{n}" for n in some)
    return {
        "OR": _CONDITION.format(" OR ".join(f"c_custkey = {n}" for n in some)),
        "AND": _CONDITION.format(" AND ".join(f"c_custkey <> {n}" for n in some)),
        "IN": _CONDITION.format(f"c_custkey IN ({', '.join(map(str, some))})"),
        "IN of a query": _CONDITION.format(" AND ".join(["c_custkey IN (SELECT 1)"] * times)),
        "WHEN": _VALUE.format(f"CASE {' '.join(f'WHEN c_custkey = {n} THEN {n}' for n in some)} END"),
        "SELECT list": _VALUE.format(", ".join(f"c_name AS a{n}" for n in some)),
        "names of the SELECT list": _VALUE.format(f"c_custkey + 1 AS a0, {doubled}"),
        "CTEs that read each other twice": f"WITH a0 AS (SELECT * FROM customer){both} SELECT * FROM a{times}",
        "commas": f"SELECT a0.c_name FROM {many}",
        "stars": f"SELECT * FROM {many}",
        "columns of each": f"SELECT {', '.join(f'a{n}.c_name AS x{n}' for n in some)} FROM {many}",
        "FULL JOIN": _FROM.format(" ".join(f"FULL JOIN customer a{n} USING (c_custkey)" for n in some)),
        "ORDER BY": _FROM.format(f"ORDER BY {', '.join(['c_custkey'] * times)}"),
        "GROUP BY": _FROM.format(f"GROUP BY {', '.join(['c_custkey'] * times)}"),
        "UNION ALL": " UNION ALL ".join(["SELECT c_name FROM customer"] * times),
        "WITH": f"WITH {', '.join(f'a{n} AS (SELECT 1 AS x)' for n in some)} SELECT * FROM a0",
        "windows": _FROM.format(f"WINDOW {', '.join(f'w{n} AS (PARTITION BY c_name)' for n in some)}"),
    }


# Each is repeated to 64 KiB.
UNITS = (
    "a ", "1,", "'", '"', "`", "/*", "*/", "--\n", "$$", "$a$", "(", ")", "\\", "''", "a.", "1.", "1e", "0x", "0b1 ",
    "E'", "{{", "}}", "{%", "|>", "::", "/*+ */", "\n", " ", ";", "é", "　", "b'", "x'", "N'", "@", "#", "%", "?",
    ":a ",
    "\N{GRINNING FACE}", "q'[", 'R"""', "$1", "<<", "->", "/*+ a(", '"a".', "[a]", 'U&"', "1_000_", "NOT ", "SELECT ",
)  # fmt: skip


def long_texts() -> Iterator[tuple[str, str]]:
    """Texts of 64 KiB."""
    for unit in UNITS:
        yield f"64 KiB of {unit!r}", ("SELECT " + unit * 70_000)[:65_536]
    for text in (
        "INTERVAL '{}' DAY",
        "TIMESTAMP '{}'",
        "'{}'",
        "INTERVAL '1' 'a{}'",
        "TIME WITH TIME ZONE '{}'",
    ):
        for unit in ("9", ":", " ", "1 a "):
            yield f"{text} of {unit!r}", f"SELECT {text}".format(unit * (60_000 // len(unit)))


# Numbers and texts that Python refuses to convert, or converts to what fails later.
NUMBERS = (
    "9" * 5_000, "1." + "9" * 5_000, "0x" + "f" * 5_000, "0b" + "1" * 20_000, "x'" + "f" * 5_000 + "'", "1e9999999",
    "1e" + "9" * 50, "." + "0" * 60_000 + "1", "-" + "9" * 5_000, "9" * 90, "9" * 41, "1e999", "1e-999", "²",
    "٣", "'٣'",
    "1_000", "0x", "1e", "1e400",
)  # fmt: skip
PLACES = (
    "SELECT {}", "SELECT 1 LIMIT {}", "SELECT 1 OFFSET {}", "SELECT 1 FETCH FIRST {} ROWS ONLY", "SELECT -{}",
    "SELECT c_name FROM customer ORDER BY {}", "SELECT count(*) FROM customer GROUP BY {}",
    "SELECT CAST(1 AS NUMERIC({}))", "SELECT CAST(1 AS VARCHAR({}))", "SELECT 1 FROM customer WHERE c_acctbal > {}",
    "SELECT 1 FROM customer WHERE c_acctbal > '{}'", "SELECT 1 FROM customer WHERE c_custkey IN ('{}', {})",
    "SELECT sum(1) OVER (ORDER BY c_name ROWS {} PRECEDING) FROM customer", "SELECT INTERVAL '{}' DAY",
    "SELECT INTERVAL {} DAY", "SELECT ntile({}) OVER () FROM customer", "SELECT EXTRACT({} FROM c_name) FROM customer",
    "SELECT ${}", "SELECT :a{}", "SELECT CAST('{}' AS DATE)", "SELECT DATE '{}'", "SELECT CAST('{}' AS UUID)",
    "SELECT a[{}] FROM customer", "SELECT c_name -> '$[{}]' FROM customer", "SELECT * FROM customer TABLESAMPLE ({})",
    "SELECT * FROM customer |> LIMIT {} |> LIMIT {}", "SELECT round(1, {})", "SELECT '{}'::int", "VALUES ({})",
    "SELECT * FROM generate_series(1, {})", "SELECT 1 FROM orders WHERE o_orderdate > '{}'",
    "SELECT 1 FROM event WHERE v_at > '{}'", "SELECT 1 FROM employee WHERE e_active = '{}'",
)  # fmt: skip
WORDS = (
    "sNaN", "-sNaN", "NaN", "nan123", "Infinity", "-inf", "1E+1000000000", "0001-01-01", "10000-01-01", "24:00",
    "9999-12-31T23:59:59.999999+23:59", "2024-02-30", "{}", "\N{ARABIC-INDIC DIGIT THREE}", "\ud800",
)  # fmt: skip


def converted() -> Iterator[tuple[str, str]]:
    """Every number and every word at every place where a text is converted."""
    for place in PLACES:
        for given in (*NUMBERS, *WORDS):
            yield f"{given[:12]!a} in {place}", place.replace("{}", given)


def of_the_dialect(name: str, times: int) -> Iterator[tuple[str, str]]:
    """Each word that the dialect's tokenizer knows and each function that its parser knows, at several places."""
    dialect: Any = Dialect.get_or_raise(SQLGLOT[name])
    parser = dialect.parser_class
    functions = {*parser.FUNCTION_PARSERS, *map(str, parser.NO_PAREN_FUNCTION_PARSERS), "f"}
    for word in sorted(functions):
        yield f"{word}(", f"SELECT {f'{word}(' * times}1{')' * times}"
        yield f"{word}(1,", f"SELECT {f'{word}(1, ' * times}1{')' * times}"
        yield f"{word} list", f"SELECT {', '.join([f'{word}(c_name)'] * times)} FROM customer"
    for word in sorted(filter(str.strip, dialect.tokenizer_class.KEYWORDS)):
        yield f"{word} value", f"SELECT {f'{word} ' * times}1"
        yield f"{word} call", f"SELECT {f'{word} (' * times}1{')' * times}"
        yield f"{word} relation", f"SELECT 1 FROM customer {f'{word} customer ' * times}"
        yield f"{word} bracket", f"SELECT 1 FROM {f'{word} (customer ' * times}{')' * times}"
        yield f"{word} operator", f"SELECT {f'1 {word} ' * times}1"
        yield f"{word} tail", f"SELECT 1 FROM customer {f'{word} 1 ' * times}"
        yield f"{word} type", f"SELECT CAST(1 AS {f'{word}<' * times}int{'>' * times})"
        yield f"{word} size", f"SELECT CAST(1 AS {f'{word}(' * times}int{')' * times})"
