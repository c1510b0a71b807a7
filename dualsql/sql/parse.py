"""Parses a SQL text of one statement, in time linear in its length.

sqlglot's parser backtracks in nested calls: its time doubles with each JOIN without ON and with each nested `date(`.
Therefore the steps of the parser are counted, and limited in proportion to the length of the text. Texts are short,
because they are parsed on the event loop: docs/sql.md has the measurements.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from functools import cache
from itertools import islice, pairwise
from types import FunctionType
from typing import Any, NoReturn

from sqlglot import Dialect, ErrorLevel, Parser, exp
from sqlglot.tokenizer_core import Token, TokenType
from sqlglot.tokens import SQLGLOTC_INSTALLED

from dualsql.errors import ConfigurationError, ForbiddenSQLError, InvalidSQLError
from dualsql.freeze.values import can_be_stored
from dualsql.sql.scope import CATALOGUE, QUOTED_WORD, WorkBudget, forbid, invalid, too_deep
from dualsql.sql.tokens import in_own_words
from dualsql.text_dialects import TextDialect

MAXIMUM_LENGTH = 64 * 1024
MAXIMUM_TOKENS = 3_000
"""One token takes 5 to 8 microseconds to parse."""
MAXIMUM_SELECTS = 100
"""One takes 100 microseconds to parse."""
MAXIMUM_BRACKETS = 40
"""Nested parentheses and CASEs: each takes 25 frames of Python's stack to parse."""
MAXIMUM_DEPTH = 200
"""Nested nodes. A chain of AND, of OR or of one set operation counts once, a chain of + does not."""
_LEVELS_OF_SELECT = 6
"""Nested elements of the statement in its document, which may have 300 levels."""
LONGEST_NUMBER = 100
_LONGEST_EXCERPT = 24
LONGEST_TYPED = 200
"""Characters of a text after a type name. The parser's regular expressions for intervals and zones are quadratic."""

STEPS_PER_TOKEN = 2
FREE_STEPS = 300
"""The 400 queries of the tests have at most 205 tokens and take at most 1.6 steps for each token."""

if SQLGLOTC_INSTALLED or not isinstance(vars(Parser)["_advance"], FunctionType):
    raise ConfigurationError(
        "The compiled build of sqlglot is installed, whose steps cannot be counted.",
        hint="Uninstall it: pip uninstall sqlglotc.",
    )

_WORD = re.compile(r"\w+|[^\w\s]")
_ENDS_OF_TYPES = frozenset({TokenType.VAR, TokenType.IDENTIFIER, TokenType.R_PAREN, TokenType.INTERVAL})
_NUMBERS = frozenset({TokenType.NUMBER, TokenType.HEX_STRING, TokenType.BIT_STRING, TokenType.BYTE_STRING})

_OPENING = frozenset({TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE, TokenType.CASE})
_CLOSING = frozenset({TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE, TokenType.END})

# The parser's nodes for a semicolon at the end, with or without a comment after it.
_NOTHING = (type(None), exp.Semicolon)

_QUERIES = frozenset({TokenType.SELECT, TokenType.WITH, TokenType.L_PAREN})

# Calls with plain arguments for which the parser has nodes of its own. They are kept as they are written.
_PLAIN_CALLS = frozenset(
    """APPROX_QUANTILE ARGMAX ARGMIN ARG_MAX ARG_MIN CHAR CHR DATE_PART DECODE INITCAP JSONB_EXISTS JSON_AGG JSON_OBJECT
    JSON_VALUE LISTAGG MAX MAX_BY MIN MIN_BY NORMALIZE QUANTILE QUANTILE_CONT QUANTILE_DISC VALUES""".split()
)

Query = exp.Select | exp.SetOperation
"""The kinds of statement that a text may be."""


def parse_text(sql: str, dialect: TextDialect, work: WorkBudget) -> Query:
    """Parse `sql`, which has to be one query.

    Raises:
        InvalidSQLError: the text cannot be parsed, or is too large.
        ForbiddenSQLError: there are several statements, or the statement is not a query.
    """
    if not sql.strip():
        invalid("There is no SQL.", hint="Write one SELECT.")
    if len(sql) > MAXIMUM_LENGTH:
        invalid(f"The SQL is longer than {MAXIMUM_LENGTH:,} characters.", hint="Write less of it.")
    if "\x00" in sql:
        invalid("The SQL holds a NUL character.", hint="Leave it out.")
    sql = _without_fence(sql.strip())
    statements = [tree for tree in _statements(sql, dialect, work) if not isinstance(tree, _NOTHING)]
    if not statements:
        invalid("There is no SQL but a comment.", hint="Write one SELECT.")
    if len(statements) != 1:
        forbid("More than one statement", hint="Send one SELECT.")
    query = _query(statements[0])
    _check_depth(query)
    _check_names(query)
    if dialect.quoted_words_are_texts and '"' in sql:
        _mark_quoted_words(query, sql)
    return query


def parse_own(sql: str, parser: str) -> exp.Select:
    """Parse a SELECT of dualsql's own."""
    dialect = _counting_dialect(parser)
    tokens = dialect.tokenize(sql)
    dialect.steps_left = FREE_STEPS + STEPS_PER_TOKEN * len(tokens)
    query: exp.Select
    [query] = dialect.parser(error_level=ErrorLevel.IMMEDIATE).parse(tokens, sql)
    return query


_FENCE = re.compile(r"```[ \t]*(?:\w+[ \t]*)?\r?\n")
_STATEMENT = re.compile(r"\bSELECT\b|;|\A(?:WITH\b|\()", re.IGNORECASE)


def _without_fence(sql: str) -> str:
    """The text within a fence of Markdown, the only one, and without the words of a model around it."""
    opening = _FENCE.search(sql) if sql.count("```") == 2 else None
    if opening is None or sql.lstrip().startswith(("/*", "--")):
        return sql
    before, (block, _, after) = sql[: opening.start()], sql[opening.end() :].partition("```")
    # Within a text of SQL, it is a part of the statement.
    is_fence = before[-1:] in ("", "\n") and not _STATEMENT.search(before) and not _STATEMENT.search(after)
    return block if is_fence else sql


def _check_names(query: Query) -> None:
    """Refuse names given by the text that no statement is stored with."""
    for node in query.find_all(exp.Alias, exp.TableAlias):
        for name in (node.alias or node.name, *(column.name for column in node.args.get("columns") or ())):
            if not can_be_stored(name):
                invalid(
                    f"The name {name[:60]!r} has control characters, or is too long.",
                    hint="Choose a shorter name of printable characters.",
                )


def _mark_quoted_words(query: Query, sql: str) -> None:
    for column in query.find_all(exp.Column):
        start = column.this.meta.get("start")
        if not column.args.get("table") and start is not None and sql[start] == '"':
            column.set(QUOTED_WORD, sql[start])


def _statements(sql: str, dialect: TextDialect, work: WorkBudget) -> list[Any]:
    own = _counting_dialect(dialect.parser)
    try:
        tokens = own.tokenize(sql)
        _check_kind(tokens)
        tokens, top = _without_top(tokens)
        tokens = in_own_words(tokens, sql, dialect)
        work.spend(len(tokens) // 2)
        own.steps_left = FREE_STEPS + STEPS_PER_TOKEN * len(tokens)
        statements = list(own.parser(error_level=ErrorLevel.IMMEDIATE).parse(tokens, sql))
        return statements if top is None else _with_limit(statements, top)
    except (InvalidSQLError, ForbiddenSQLError):
        raise
    except _TooManyStepsError as error:
        raise InvalidSQLError(
            "The SQL takes too long to read.",
            hint="Give each JOIN its ON, or write CROSS JOIN; nest calls less deeply, with WITH.",
        ) from error
    except RecursionError as error:
        raise too_deep() from error
    except Exception as error:
        # sqlglot raises errors of Python for some texts: KeyError for the type NULLABLE, AttributeError for |>.
        raise InvalidSQLError(_message(error), hint=_syntax_hint(sql)) from error


def _syntax_hint(sql: str) -> str:
    if sql.count("'") % 2:
        return "Close each text with a quote, and write a quote within a text twice: 'O''Brien'."
    if re.search(r"\bCONVERT\s*\(", sql, re.IGNORECASE):
        return "Write CAST(x AS DATE), or another type after AS."
    if re.search(r"\bMINUS\s+SELECT\b", sql, re.IGNORECASE):
        return "Write EXCEPT in place of MINUS."
    return "Check the syntax near there, and send the SELECT alone, without words around it."


def _without_top(tokens: list[Token]) -> tuple[list[Token], str | None]:
    """The tokens without the TOP n of their first SELECT, as SQL Server has it, and n.

    In the dialects here, no number follows a column called top.
    """
    for index in range(1, len(tokens) - 1):
        is_top = tokens[index].text.upper() == "TOP" and tokens[index].token_type is TokenType.VAR
        is_first = tokens[index - 1].token_type in _BEFORE_TOP
        if not (is_top and is_first):
            continue
        number = tokens[index + 1 : index + 4]
        is_bracketed = [token.token_type for token in number] == _BRACKETED
        count = number[1] if is_bracketed else number[0]
        if count.token_type is not TokenType.NUMBER:
            continue
        end = index + (4 if is_bracketed else 2)
        following = tokens[end].text.upper() if end < len(tokens) else ""
        if following in _TOP_HINTS or tokens[0].token_type is not TokenType.SELECT or index > _LAST_TOP:
            _refuse_top(count.text, following)
        return [*tokens[:index], *tokens[end:]], count.text
    return tokens, None


_BEFORE_TOP = frozenset({TokenType.SELECT, TokenType.DISTINCT, TokenType.ALL})
_BRACKETED = [TokenType.L_PAREN, TokenType.NUMBER, TokenType.R_PAREN]
_LAST_TOP = 2  # SELECT DISTINCT TOP
_TOP_HINTS: Mapping[str, str] = {
    "PERCENT": "LIMIT takes a number of rows: count them first, or keep rows by percent_rank() OVER (ORDER BY ...) "
    "in a subquery.",
    "WITH": "LIMIT leaves out rows of equal rank: keep rows by rank() OVER (ORDER BY ...) in a subquery.",
}
"""What to write for a TOP that is no number of rows, by the word behind the number."""


def _with_limit(statements: list[Any], top: str) -> list[Any]:
    """The statements of a text that begins with SELECT TOP n, with LIMIT n in its place."""
    query = statements[0]
    if not isinstance(query, exp.Select) or query.args.get("limit") or not top.isdigit():
        _refuse_top(top)
    query.set("limit", exp.Limit(expression=exp.Literal.number(top)))
    return statements


def _refuse_top(count: str, following: str = "") -> NoReturn:
    hint = _TOP_HINTS.get(following, f"Write LIMIT {count[:20]} at the end of the SELECT.")
    invalid("TOP is not read here.", hint=hint)


def _counting_dialect(name: str) -> Any:
    """A dialect whose parsers count their steps in it.

    Hints and quoted type names are texts within the text, and other parser objects read them. The dialect creates all
    parsers and the tokens, so it sees every step.
    """
    own: Any = type(_dialect(name))()
    plain = own.tokenize

    def tokenize(sql: str, dialect: Any = None) -> list[Token]:
        if sum(1 for _ in islice(_WORD.finditer(sql), MAXIMUM_TOKENS + 1)) > MAXIMUM_TOKENS:
            invalid(
                f"The SQL has more than {MAXIMUM_TOKENS:,} words and signs.",
                hint="Write less of it; give long texts as parameters.",
            )
        tokens: list[Token] = plain(sql, dialect)
        _check_size(tokens, own.parser_class.TYPE_TOKENS)
        return tokens

    own.parser_class, own.tokenize = _parser(name), tokenize
    return own


class _TooManyStepsError(Exception):
    """The text needs more parser steps than its length allows. sqlglot does not catch this class."""


def nulls_first(dialect: TextDialect, *, descending: bool) -> bool:
    """Whether NULLs come first if the text does not say so, as on the database itself."""
    ordering = _dialect(dialect.parser).NULL_ORDERING
    return ordering != "nulls_are_last" and descending is (ordering == "nulls_are_large")


def _query(statement: Any) -> Query:
    while isinstance(statement, exp.Subquery) and not any(
        value for name, value in statement.args.items() if name != "this"
    ):
        statement = statement.this
    if not isinstance(statement, Query):
        _forbid_kind()
    return statement


_CATALOGUE_COMMANDS = frozenset({"SHOW", "PRAGMA", "DESCRIBE", "DESC", "EXPLAIN", "USE", "\\", "."})
_SETTINGS = frozenset({"SET", "USE", "BEGIN", "START", "DECLARE"})


def _check_kind(tokens: list[Token]) -> None:
    # The parser would keep an unknown statement as text and write it to the log.
    if tokens and tokens[0].token_type not in _QUERIES:
        word = tokens[0].text.upper()
        has_query = any("SELECT" in token.text.upper() for token in tokens)
        if word == "EXPLAIN" and has_query:
            forbid("EXPLAIN", hint="Send the SELECT itself.")
        if word in _SETTINGS and has_query:
            forbid(word, hint="Send the SELECT alone, with the schema before the table: schema.table.")
        if word in _CATALOGUE_COMMANDS:
            forbid("A statement that is not a SELECT", hint=CATALOGUE)
        _forbid_kind()


def _forbid_kind() -> NoReturn:
    forbid(
        "A statement that is not a SELECT", hint="Only SELECT, WITH ... SELECT and set operations run here."
    )


def _check_size(tokens: list[Token], types: Collection[TokenType]) -> None:
    if len(tokens) > MAXIMUM_TOKENS:
        invalid(f"The SQL has more than {MAXIMUM_TOKENS:,} words and signs.", hint="Write less of it.")
    if sum(token.token_type is TokenType.SELECT for token in tokens) > MAXIMUM_SELECTS:
        invalid(f"The SQL has more than {MAXIMUM_SELECTS} SELECTs.", hint="Write less of it.")
    for one, other in pairwise(tokens):
        is_typed = one.token_type in _ENDS_OF_TYPES or one.token_type in types
        if is_typed and len(other.text) > LONGEST_TYPED and other.token_type is TokenType.STRING:
            invalid(
                f"A constant of a type has more than {LONGEST_TYPED} characters.", hint="Write less of it."
            )
    _check_brackets(tokens)


def _check_brackets(tokens: list[Token]) -> None:
    depth = 0
    for token in tokens:
        if token.token_type in _OPENING:
            depth += 1
            if depth > MAXIMUM_BRACKETS:
                raise too_deep()
        elif token.token_type in _CLOSING:
            depth = max(0, depth - 1)
        elif token.token_type in _NUMBERS and len(token.text) > LONGEST_NUMBER:
            invalid(f"A number has more than {LONGEST_NUMBER} digits.", hint="Write fewer digits.")


def _check_depth(query: exp.Expression) -> None:
    waiting = [(query, 1)]
    while waiting:
        node, depth = waiting.pop()
        if depth > MAXIMUM_DEPTH:
            raise too_deep()
        waiting += [(part, depth + _levels(part, node)) for part in node.iter_expressions()]


def _levels(part: exp.Expression, node: exp.Expression) -> int:
    """The levels that `part` of `node` adds: none in a chain, which is walked in a loop."""
    if isinstance(part, exp.Select):
        return _LEVELS_OF_SELECT
    is_alike = isinstance(part, exp.And | exp.Or | exp.SetOperation) and type(part) is type(node)
    return 0 if is_alike and part.args.get("distinct") == node.args.get("distinct") else 1


def _message(error: Exception) -> str:
    errors = getattr(error, "errors", None)
    if not errors:
        return "The SQL cannot be read."
    first = errors[0]
    near = " ".join(
        f"{first.get('highlight') or ''}{first.get('end_context') or ''}"[:_LONGEST_EXCERPT].split()
    )
    place = f"line {first.get('line')}, column {first.get('col')}"
    return f"The SQL cannot be read: {place}{f', at {near!r}' if near else ''}."


def _dialect(name: str) -> Dialect:
    return Dialect.get_or_raise(name)


@cache
def _parser(name: str) -> type[Parser]:
    """The dialect's parser without its table of functions, so that each call keeps its written name and arguments."""
    parser = _dialect(name).parser_class
    operators = {
        **parser.COLUMN_OPERATORS,
        TokenType.ARROW: _unread(exp.JSONExtract),
        TokenType.DARROW: _unread(exp.JSONExtractScalar),
    }
    parsers = {name: parse for name, parse in parser.FUNCTION_PARSERS.items() if name not in _PLAIN_CALLS}
    return type(
        "PlainParser",
        (parser,),
        {
            "FUNCTIONS": {},
            # f(x -> 'a') is a part of a document, and f(x => 1) an argument with a name.
            "LAMBDAS": {TokenType.FARROW: parser.LAMBDAS[TokenType.FARROW]},
            "FUNCTION_PARSERS": parsers,
            "COLUMN_OPERATORS": operators,
            "_advance": _count_steps(vars(Parser)["_advance"]),
        },
    )


def _count_steps(advance: Any) -> Any:
    """The parser's method that moves forwards and back, with a counter."""

    def count(self: Any, times: int = 1) -> None:
        # Tokens after a step back are read again.
        self.dialect.steps_left -= 1 if times > 0 else -2 * times
        if self.dialect.steps_left < 0:
            raise _TooManyStepsError
        advance(self, times)

    return count


def _unread(kind: type[exp.Expression]) -> Any:
    """A parser function for a JSON operator that keeps its path as it is written."""
    return lambda self, this, path: self.expression(kind(this=this, expression=path))
