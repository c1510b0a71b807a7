"""Text to a tree; the rule: one statement, bounded before it is parsed."""

from __future__ import annotations

from functools import cache
from typing import Any, NoReturn

from sqlglot import Dialect, ErrorLevel, Parser, exp
from sqlglot.errors import SqlglotError
from sqlglot.tokenizer_core import Token, TokenType

from dualsql.errors import InvalidSQLError
from dualsql.sql.refusals import forbid, invalid

MAXIMUM_LENGTH = 64 * 1024
MAXIMUM_TOKENS = 16 * 1024
MAXIMUM_DEPTH = 40
"""Brackets within brackets, CASE within CASE: the parser's time can double with each."""

_OPENING = frozenset({TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE, TokenType.CASE})
_CLOSING = frozenset({TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE, TokenType.END})

# What is left of a semicolon at the end, with a comment after it or without.
_NOTHING = (type(None), exp.Semicolon)

_QUERIES = frozenset({TokenType.SELECT, TokenType.WITH, TokenType.L_PAREN})

# Calls without words between their arguments, which the parser would give a meaning of its own.
_PLAIN_CALLS = frozenset(
    """APPROX_QUANTILE ARGMAX ARGMIN ARG_MAX ARG_MIN CHAR CHR DATE_PART DECODE INITCAP JSONB_EXISTS JSON_AGG LISTAGG MAX
    MAX_BY MIN MIN_BY NORMALIZE QUANTILE QUANTILE_CONT QUANTILE_DISC VALUES""".split()
)

Query = exp.Select | exp.SetOperation
"""What a text may be."""

# SQLAlchemy's names of dialects -> sqlglot's.
_DIALECTS = {
    "postgresql": "postgres",
    "sqlite": "sqlite",
    "mysql": "mysql",
    "mariadb": "mysql",
    "duckdb": "duckdb",
}


def parse(sql: str, dialect: str) -> Query:
    """The tree of the one query that `sql` is.

    Raises:
        InvalidSQLError: it cannot be parsed, or is too large.
        ForbiddenSQLError: it is more than one statement, or none that reads.
    """
    if not sql.strip():
        invalid("There is no SQL.", hint="Write one SELECT.")
    if len(sql) > MAXIMUM_LENGTH:
        invalid(f"The SQL is longer than {MAXIMUM_LENGTH:,} characters.", hint="Write less of it.")
    if "\x00" in sql:
        invalid("The SQL holds a NUL character.", hint="Leave it out.")
    try:
        tokens = _dialect(dialect).tokenize(sql)
        _check_size(tokens)
        _check_kind(tokens)
        parser = _parser(dialect)(dialect=_dialect(dialect), error_level=ErrorLevel.IMMEDIATE)
        statements = [found for found in parser.parse(tokens, sql) if not isinstance(found, _NOTHING)]
    except SqlglotError as error:
        raise InvalidSQLError(_message(error), hint="Check the syntax near there.") from error
    except RecursionError as error:
        raise _too_deep() from error
    if len(statements) != 1:
        forbid("More than one statement", hint="Send one SELECT.")
    return _query(statements[0])


def is_case_sensitive(dialect: str) -> bool:
    """Whether an unquoted name stands for its lower-case spelling alone."""
    return dialect == "postgresql"


def nulls_first(dialect: str, *, descending: bool) -> bool:
    """Where the parser's tree puts NULLs when the text does not say: as the engine itself does."""
    ordering = _dialect(dialect).NULL_ORDERING
    return ordering != "nulls_are_last" and descending is (ordering == "nulls_are_large")


def _query(statement: Any) -> Query:
    while isinstance(statement, exp.Subquery) and not any(
        value for name, value in statement.args.items() if name != "this"
    ):
        statement = statement.this
    if not isinstance(statement, Query):
        _forbid_kind()
    return statement


def _check_kind(tokens: list[Token]) -> None:
    # What the parser does not know it would keep as text, and write to the log.
    if tokens and tokens[0].token_type not in _QUERIES:
        _forbid_kind()


def _forbid_kind() -> NoReturn:
    forbid(
        "A statement that is not a SELECT", hint="Only SELECT, WITH ... SELECT and set operations run here."
    )


def _check_size(tokens: list[Token]) -> None:
    if len(tokens) > MAXIMUM_TOKENS:
        invalid(f"The SQL has more than {MAXIMUM_TOKENS:,} words and signs.", hint="Write less of it.")
    depth = 0
    for token in tokens:
        if token.token_type in _OPENING:
            depth += 1
            if depth > MAXIMUM_DEPTH:
                raise _too_deep()
        elif token.token_type in _CLOSING:
            depth = max(0, depth - 1)


def _too_deep() -> InvalidSQLError:
    return InvalidSQLError("The SQL is nested too deeply.", hint="Use WITH to name the inner parts.")


def _message(error: SqlglotError) -> str:
    found = getattr(error, "errors", None)
    if not found:
        return "The SQL cannot be read."
    first = found[0]
    return f"The SQL cannot be read: line {first.get('line')}, column {first.get('col')}."


def _dialect(name: str) -> Dialect:
    return Dialect.get_or_raise(_DIALECTS.get(name, ""))


@cache
def _parser(name: str) -> type[Parser]:
    """The dialect's parser, without its functions: each call stays the name and the arguments that were written."""
    parser = _dialect(name).parser_class
    operators = {
        **parser.COLUMN_OPERATORS,
        TokenType.ARROW: _unread(exp.JSONExtract),
        TokenType.DARROW: _unread(exp.JSONExtractScalar),
    }
    parsers = {name: read for name, read in parser.FUNCTION_PARSERS.items() if name not in _PLAIN_CALLS}
    return type(
        "PlainParser",
        (parser,),
        {"FUNCTIONS": {}, "FUNCTION_PARSERS": parsers, "COLUMN_OPERATORS": operators},
    )


def _unread(kind: type[exp.Expression]) -> Any:
    """A JSON operator whose path is kept as it was written."""
    return lambda self, this, path: self.expression(kind(this=this, expression=path))
