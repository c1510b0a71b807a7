"""SQL read back by a parser that knows nothing of dualsql. Every placeholder keeps its place."""

from __future__ import annotations

from collections.abc import Iterator

import sqlglot
from sqlglot import exp
from sqlglot.dialects import SQLite

Tree = exp.Expr


def parsed(sql: str, dialect: str) -> Tree:
    """The SQL's tree, in which placeholder n is `:pn` (SQLite) or `$n` (PostgreSQL), from 1 on."""
    return sqlglot.parse_one(_numbered(sql) if dialect == "sqlite" else sql, read=_reads(dialect))


def written(tree: Tree, dialect: str) -> str:
    """SQL of a tree; SQLite's placeholders are `:pn`."""
    return tree.sql(dialect=_reads(dialect))


def number_of(placeholder: Tree) -> int | None:
    """n of placeholder n, or None for anything else."""
    if isinstance(placeholder, exp.Cast):
        return number_of(placeholder.this)
    if isinstance(placeholder, exp.Placeholder):
        return int(str(placeholder.this).removeprefix("p"))
    return int(str(placeholder.this)) if isinstance(placeholder, exp.Parameter) else None


def tables_in(tree: Tree) -> Iterator[exp.Table]:
    """Every reference to a table of the database: no name of a common table expression, no function."""
    named = {expression.alias for expression in tree.find_all(exp.CTE)}
    for table in tree.find_all(exp.Table):
        if isinstance(table.this, exp.Identifier) and not (table.name in named and not table.db):
            yield table


def _numbered(sql: str) -> str:
    parts, end, number = [], 0, 0
    for token in SQLite().tokenize(sql):
        if token.text == "?" and sql[token.start] == "?":
            number += 1
            parts += [sql[end : token.start], f":p{number}"]
            end = token.end + 1
    return "".join([*parts, sql[end:]])


def _reads(dialect: str) -> str:
    return {"postgresql": "postgres"}.get(dialect, dialect)
