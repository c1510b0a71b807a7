"""The names that each part of a query can use, the limit on the work of one text, and errors.

A name has to be that of a registered table. Work is counted during the translation, in units of about 10 microseconds
of the whole time until the document is stored.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import lru_cache
from typing import Any, NamedTuple, NoReturn

from sqlalchemy import ColumnElement, FromClause
from sqlalchemy.sql.functions import FunctionElement
from sqlglot import Dialect, ErrorLevel, exp
from sqlglot.errors import TokenError
from sqlglot.tokenizer_core import TokenType

from dualsql import sqlalchemy_internals as internals
from dualsql.errors import ForbiddenSQLError, InvalidSQLError, UnknownColumnError, UnknownTableError
from dualsql.freeze.row_number import ROW_NUMBER_OF, ROW_NUMBERS
from dualsql.text_dialects import TextDialect

_LONGEST_EXCERPT = 60
_LISTED = 40

QUOTED_WORD = "quoted_word"
"""Set on a column without a table that is written in double quotes, where the database may take it for a text."""

_SHORT_ALIAS = 2
"""Letters. `SELECT count(*) AS n ... WHERE state = "NJ"` does not mean the alias."""


def forbid(what: str, hint: str = "", *, suggestions: Sequence[str] = ()) -> NoReturn:
    """Raise ForbiddenSQLError for a construct that dualsql does not translate."""
    raise ForbiddenSQLError(
        f"{what} cannot be run here.",
        hint=hint or "Write one plain SELECT over the tables that are served.",
        details={"suggestions": list(suggestions)},
    )


def forbid_node(node: Any) -> NoReturn:
    """Refuse a part of the tree that has no translation."""
    kind = type(node).__name__ if isinstance(node, exp.Expression) else str(node)
    hint = _NODES.get(kind, "")
    forbid(f"{_words(kind)} ({excerpt(node)})" if isinstance(node, exp.Expression) else kind, hint=hint)


_NODES: Mapping[str, str] = {
    "Bracket": "Write x ->> 'a' for a part of a document.",
    "Parameter": "Write a parameter as :name.",
    "RegexpILike": "Write x LIKE 'a%'.",
    "RegexpLike": "Write x LIKE 'a%'.",
    "TryCast": "Write CAST(x AS INTEGER), or the type that you want.",
}
"""What to write in place of a part of the tree that has no translation, by its class."""


def invalid(message: str, hint: str = "") -> NoReturn:
    """Raise InvalidSQLError."""
    raise InvalidSQLError(message, hint=hint or None)


def too_deep() -> InvalidSQLError:
    """The error for a text with too many nested parts."""
    return InvalidSQLError("The SQL is nested too deeply.", hint="Use WITH to name the inner parts.")


CATALOGUE = "Look at the tables with list_tables, and at the columns of one with describe_table."
"""The hint for a text that reads the database's own catalogue."""

_STANDARD_CATALOGUE = "information_schema"


def unknown_table(name: str, names: Iterable[str], dialect: TextDialect) -> NoReturn:
    """Refuse an unknown table. The answer is the same for a table that exists but is not registered."""
    tables = sorted(names)
    system = (_STANDARD_CATALOGUE, *dialect.system_tables)
    if any(part.startswith(system) for part in name.lower().split(".")):
        raise UnknownTableError(
            f"There is no table {name[:_LONGEST_EXCERPT]!r}.",
            hint=CATALOGUE,
            details={"table": name[:_LONGEST_EXCERPT], "suggestions": [], "tables": tables[:_LISTED]},
        )
    close = get_close_matches(name.lower(), [table.lower() for table in tables], n=3, cutoff=0.5)
    suggestions = [table for likeness in close for table in tables if table.lower() == likeness]
    qualified = [
        ".".join(quote_name(part, dialect) for part in table.split("."))
        for table in suggestions or tables[:_LISTED]
    ]
    all_names = ", ".join(qualified) or "none"
    raise UnknownTableError(
        f"There is no table {name[:_LONGEST_EXCERPT]!r}.",
        hint=f"Did you mean {' or '.join(qualified)}?" if suggestions else f"There are: {all_names}.",
        details={"table": name[:_LONGEST_EXCERPT], "suggestions": suggestions, "tables": tables[:_LISTED]},
    )


def unknown_column(name: str, columns: Iterable[str], dialect: TextDialect, *, hint: str = "") -> NoReturn:
    """Refuse a column that no relation in the FROM clause has."""
    # SQLAlchemy names anonymous columns, for example "%(140 anon)s". Such names are not suggested.
    names = [one for one in dict.fromkeys(columns) if "%(" not in one]
    error = UnknownColumnError(
        name, names[:_LISTED], of="The query", spelled=lambda one: quote_name(one, dialect)
    )
    hint = hint or ("" if names else "Name a table in FROM; write a text in single quotes.")
    error.hint = f"{error.hint} {hint}" if hint and error.details["suggestions"] else hint or error.hint
    raise error


def excerpt(node: exp.Expression) -> str:
    """A part of the text, shortened for a message."""
    try:
        text = node.sql(unsupported_level=ErrorLevel.IGNORE)
    except (ValueError, RecursionError):
        text = type(node).__name__
    text = " ".join(text.split())
    return text if len(text) <= _LONGEST_EXCERPT else text[: _LONGEST_EXCERPT - 3] + "..."


def _words(name: str) -> str:
    """`TableSample` as `table sample`."""
    return "".join(f" {letter.lower()}" if letter.isupper() else letter for letter in name).strip()


# Arguments that the parser adds itself. They do not change the meaning.
_NOTES = frozenset({"_type", "big_int", "typed", "safe", "nested", "value_constructor", "materialized"})


_CLAUSES = {
    "locks": "Leave it out: results are read only.",
    "hints": "Leave it out.",
    "catalog": "Leave out the name of the database: write schema.table.",
    "all": "Name the columns: GROUP BY 1, 2.",
    "except_": "Name the columns that you want.",
    "field": "Write 'x' = ANY(y) for an array y.",
    "qualify": "Put it into a subquery: SELECT * FROM (SELECT x, row_number() OVER (ORDER BY y) AS n FROM t) AS s"
    " WHERE n = 1.",
    "sample": "Each page runs the query again, so its rows may not change by chance: order by columns, with a LIMIT.",
}
"""What to write in place of a clause."""
_WORDS: Mapping[str, str] = {
    "sysdate": "Write CURRENT_TIMESTAMP.",
    "localtimestamp": "Write CURRENT_TIMESTAMP.",
    "rownum": "Write LIMIT 10 at the end of the SELECT.",
}
"""What to write for a word of another database that stands like a column."""
_CLAUSE_WORDS = {"locks": "FOR UPDATE or FOR SHARE"}


def only(node: exp.Expression, *names: str) -> Mapping[str, Any]:
    """The arguments of `node`. Arguments other than `names` are refused."""
    # What a later release of the parser adds is refused, and never ignored.
    for name, value in node.args.items():
        if value and name not in names and name not in _NOTES:
            words = _CLAUSE_WORDS.get(name) or name.rstrip("_").replace("_", " ").upper()
            forbid(f"{words} in {excerpt(node)}", hint=_CLAUSES.get(name, ""))
    return node.args


Columns = Mapping[str, ColumnElement[Any]]

_UNKNOWN = TextDialect()


MAXIMUM_WORK = 4_400
"""The 400 queries of the tests take at most 630 units, the largest of the public analytic benchmarks 4,175."""

EXPRESSION = 5
COLUMN = 1
OUTPUT = 5
SELECT = 20
RELATION = 6
_NAMES = 10
"""Names that can be searched in one unit of work."""


class WorkBudget:
    """Counts the work of one text, and caches results that are needed again.

    Args:
        dialect: that of the text.
    """

    def __init__(self, dialect: TextDialect = _UNKNOWN) -> None:
        self.dialect = dialect
        self.spent = 0
        self._columns: dict[FromClause, Columns] = {}

    def spend(self, units: int) -> None:
        """Count `units` of work. Raise InvalidSQLError if the text exceeds its limit."""
        self.spent += units
        if self.spent > MAXIMUM_WORK:
            invalid(
                "The SQL is too much work.",
                hint="Name fewer columns and tables, or write a list as IN (...).",
            )

    def columns_of(self, relation: FromClause) -> Columns:
        """Columns by their names in the database, in order."""
        columns = self._columns.get(relation)
        if columns is None:
            columns = self._columns[relation] = {str(column.name): column for column in relation.c}
            self.spend(len(relation.c))
        return columns

    def column_of(
        self, relation: FromClause, name: exp.Identifier, *, is_exact: bool = False
    ) -> ColumnElement[Any] | None:
        """The column of that name: an exact match first, then one without regard to case, as databases do."""
        columns = self.columns_of(relation)
        if name.name in columns:
            return columns[name.name]
        # Without an exact match, every name is compared.
        self.spend(len(columns) // _NAMES)
        matches = [column for key, column in columns.items() if key.lower() == name.name.lower()]
        return matches[0] if len(matches) == 1 and not is_exact else None


class MergedColumn(NamedTuple):
    """A column that JOIN ... USING makes of equal ones.

    Attributes:
        name: in lower case.
        relations: those of both sides of the join.
    """

    name: str
    column: ColumnElement[Any]
    relations: Sequence[FromClause]


@dataclass(eq=False)
class Scope:
    """The relations that one SELECT may name, and those of the enclosing SELECTs.

    Attributes:
        work: of the whole text.
        siblings: of a subquery in FROM, the scope that it stands in.
        hidden: prefix of the names of columns that carry an order and that a text may not name; empty for none.
        is_in_recursion: it is in the recursive part of a WITH. A WITH here may read the rows so far, so it stays here.
        ctes: common table expressions that are visible here, by their names in lower case.
        relations: the FROM clause, by alias in lower case, in order.
        merged: columns that JOIN ... USING merged, those of the last join first.
        outputs: named expressions of the SELECT list. ORDER BY sees them, and other clauses if no column has the name.
        windows: the WINDOW clause.
        translated_parts: of the text. Equal parts become the same element, so that GROUP BY and the SELECT list
            share their bound parameters and the database sees them as equal.
    """

    work: WorkBudget
    parent: Scope | None = None
    siblings: Scope | None = None
    hidden: str = ""
    is_in_recursion: bool = False
    ctes: dict[str, FromClause] = field(default_factory=dict)
    relations: dict[str, FromClause] = field(default_factory=dict)
    merged: list[MergedColumn] = field(default_factory=list)
    outputs: dict[str, ColumnElement[Any]] = field(default_factory=dict)
    windows: dict[str, exp.Window] = field(default_factory=dict)
    translated_parts: dict[exp.Expression, ColumnElement[Any]] = field(default_factory=dict)

    def inner(self) -> Scope:
        """The scope of a subquery that may read columns of the enclosing query."""
        return self._below(self)

    def separate(self) -> Scope:
        """The scope of a query in WITH: it sees neither the other relations nor the enclosing queries."""
        return self._below()

    def beside(self) -> Scope:
        """The scope of a subquery in FROM: it sees the enclosing queries where it may, and no relation beside it."""
        parent = self.parent if self.work.dialect.correlates_from else None
        return self._below(parent, siblings=self)

    def _below(self, parent: Scope | None = None, siblings: Scope | None = None) -> Scope:
        return Scope(self.work, parent, siblings, self.hidden, self.is_in_recursion, dict(self.ctes))

    def add(self, name: str, relation: FromClause) -> FromClause:
        """Add `relation` under `name`."""
        key = name.lower()
        self.work.spend(RELATION)
        if key in self.relations:
            invalid(f"The alias {name[:60]!r} is given twice.", hint="Give each table an alias of its own.")
        self.relations[key] = relation
        return relation

    def outward(self) -> Iterator[Scope]:
        """This scope, then the enclosing ones."""
        scope: Scope | None = self
        while scope is not None:
            yield scope
            scope = scope.parent

    def merge(self, columns: Sequence[MergedColumn]) -> None:
        """Add the merged columns of a join. They take the place of those that they are made of."""
        merged = {(column.name, relation) for column in columns for relation in column.relations}
        self.merged = [*columns, *(one for one in self.merged if (one.name, one.relations[0]) not in merged)]

    def around(self) -> list[FromClause]:
        """Every relation of the enclosing scopes."""
        return [relation for scope in list(self.outward())[1:] for relation in scope.relations.values()]

    def relation(self, name: str) -> FromClause:
        """The relation of that alias, in this scope or an enclosing one."""
        for scope in self.outward():
            if name.lower() in scope.relations:
                return scope.relations[name.lower()]
            if scope.siblings is not None and name.lower() in scope.siblings.relations:
                hint = self.work.dialect.lacks.get("LATERAL", "Write LATERAL before the subquery.")
                forbid(f"A subquery in FROM that reads {name[:_LONGEST_EXCERPT]!r} beside it", hint=hint)
        if any(name.lower() == column.lower() for column in self._columns()):
            forbid(f"A part of the column {name[:_LONGEST_EXCERPT]!r} after a point", hint=_NODES["Bracket"])
        aliases = [alias for scope in self.outward() for alias in scope.relations]
        return unknown_table(name, aliases, self.work.dialect)

    def column(self, node: exp.Column) -> ColumnElement[Any] | None:
        """The column that `node` names; None for a word that its database takes for a text."""
        table = node.args.get("table")
        if table is not None:
            relation = self.relation(
                table.name
            )  # a schema before the alias is ignored, because aliases are unique
            column = self.work.column_of(relation, node.this)
            if column is None:
                hint = self._elsewhere(node.this, relation)
                names = self.columns_of(relation)
                unknown_column(f"{table.name}.{node.name}", names, self.work.dialect, hint=hint)
            return column
        # A quoted name in another case is the last choice: an enclosing query may have it exactly.
        for is_exact in (True, False) if node.this.args.get("quoted") else (False,):
            for scope in self.outward():
                column = scope.own_column(node.this, is_exact=is_exact)
                if column is not None:
                    return column
        alias = self.outputs.get(node.name.lower())
        if alias is not None:
            return alias
        if node.args.get(QUOTED_WORD) and not self._is_like_a_name(node.name):
            return None
        is_text = node.this.args.get("quoted")
        text = node.name[:_LONGEST_EXCERPT].replace("'", "''")
        hint = _WORDS.get(node.name.lower(), "")
        if is_text:
            hint = f"Text is written in single quotes: '{text}'."
        elif node.name.startswith("$"):
            hint = _NODES["Parameter"]
        return unknown_column(node.name, self._columns(), self.work.dialect, hint=hint)

    def _is_like_a_name(self, word: str) -> bool:
        """Whether the word may be meant as the name of a column."""
        aliases = (name for scope in self.outward() for name in scope.outputs)
        names = [*self._columns(), *(name for name in aliases if len(name) > _SHORT_ALIAS)]
        self.work.spend(len(names) // _NAMES)
        # A single letter has nothing in common with another one.
        is_near = len(word) > 1 and any(is_one_edit_apart(word, name) for name in names)
        # SQLite reads the number of a row by its name in double quotes, too.
        return is_near or word.lower() in ROW_NUMBERS

    def _elsewhere(self, name: exp.Identifier, relation: FromClause) -> str:
        """A hint that names the other relations with this column."""
        names = [
            self._spell(alias, name.name)
            for scope in self.outward()
            for alias, other in scope.relations.items()
            if other is not relation and self.work.column_of(other, name) is not None
        ]
        return f"Write {' or '.join(names[:3])}." if names else ""

    def _spell(self, alias: str, name: str) -> str:
        return ".".join(quote_name(part, self.work.dialect) for part in (alias, name))

    def own_column(
        self,
        name: exp.Identifier,
        relations: Collection[FromClause] | None = None,
        *,
        is_exact: bool = False,
    ) -> ColumnElement[Any] | None:
        """The column of that name among this scope's relations, or among some of them."""
        self.work.spend(len(self.relations) // _NAMES)
        columns: dict[FromClause, ColumnElement[Any]] = {}
        for relation in self.relations.values() if relations is None else relations:
            merged = self._merged(name.name, relation)
            if merged is not None:
                columns[merged.relations[0]] = merged.column
            elif (column := self.work.column_of(relation, name, is_exact=is_exact)) is not None:
                columns[relation] = column
        if len(columns) > 1:
            choices = " or ".join(
                self._spell(alias, name.name) for alias, one in self.relations.items() if one in columns
            )
            invalid(f"The column {name.name[:60]!r} is ambiguous.", hint=f"Write {choices}."[:200])
        return next(iter(columns.values()), None)

    def _merged(self, name: str, relation: FromClause) -> MergedColumn | None:
        """The merged column that stands for the one of that name of a relation."""
        matches = (one for one in self.merged if one.name == name.lower() and relation in one.relations)
        return next(matches, None)

    def all_columns(self) -> Iterator[ColumnElement[Any]]:
        """The columns of `SELECT *`: those of each relation in order, what is merged of them before or among them."""
        merged_in_place: set[int] = set()
        for relation in self.relations.values():
            if not self.work.dialect.merges_in_place:
                yield from (
                    output_of(one.name, one.column) for one in self.merged if one.relations[0] is relation
                )
            for name, column in self.starred(relation).items():
                merged = self._merged(name, relation)
                if merged is None:
                    yield column
                elif self.work.dialect.merges_in_place and id(merged) not in merged_in_place:
                    merged_in_place.add(id(merged))
                    yield output_of(merged.name, merged.column)

    def _columns(self) -> list[str]:
        relations = (relation for scope in self.outward() for relation in scope.relations.values())
        return [name for relation in relations for name in self.columns_of(relation)]

    def columns_of(self, relation: FromClause) -> Columns:
        """The columns that a text may name, by their names in the database, in order."""
        columns = self.work.columns_of(relation)
        if not self.hidden:
            return columns
        return {name: column for name, column in columns.items() if not name.startswith(self.hidden)}

    def starred(self, relation: FromClause) -> Columns:
        """The columns that `*` stands for: not the number of the row of a file, as in DuckDB."""
        number = getattr(internals.table_under(relation), "info", {}).get(ROW_NUMBER_OF)
        return {name: column for name, column in self.columns_of(relation).items() if name != number}


def output_of(name: str, column: ColumnElement[Any]) -> ColumnElement[Any]:
    """A column in a SELECT list. What FULL JOIN merges is a function, which has no name of its own."""
    return column.label(name) if isinstance(column, FunctionElement) else column


# Names as a text writes them: between quotes where they need some, and which of them look alike.


def quote_name(name: str, dialect: TextDialect) -> str:
    """The name as it can be written in a text of the dialect, at most 60 characters of it."""
    return _quote_name(
        name[:_LONGEST_EXCERPT], dialect.parser, dialect.name_quotes, folds=dialect.folds_names
    )


def reserved_columns(sql: str, tables: Iterable[FromClause], dialect: TextDialect) -> set[str]:
    """The columns whose names are words of SQL that stand in a text, as they have to be written."""
    words = {form for word in set(_WORD.findall(sql)) for form in (word, word.lower())}
    quoted = {word: form for word in words if (form := quote_name(word, dialect)) != word}
    return {form for table in tables for word, form in quoted.items() if word in table.c}


_WORD = re.compile(r"\b[A-Za-z]+\b")


@lru_cache(maxsize=1024)
def _quote_name(name: str, parser: str, quotes: str, *, folds: bool) -> str:
    try:
        tokens = Dialect.get_or_raise(parser).tokenize(name)
    except TokenError:
        tokens = []
    names = {TokenType.VAR, *Dialect.get_or_raise(parser).parser_class.ID_VAR_TOKENS}
    is_word = len(tokens) == 1 and tokens[0].token_type in names and tokens[0].text == name
    if is_word and (not folds or name == name.lower()):
        return name
    return quotes + name.replace(quotes, quotes * 2) + quotes


def is_one_edit_apart(one: str, other: str) -> bool:
    """Whether the names differ by at most one letter that is added, left out, changed or swapped with the next one."""
    one, other = one.lower(), other.lower()
    if len(one) > len(other):
        one, other = other, one
    if len(other) - len(one) > 1:
        return False
    start = next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), len(one))
    rest, others = one[start:], other[start:]
    if len(one) < len(other):
        return rest == others[1:]
    return rest[1:] == others[1:] or (rest[:2] == others[1::-1] and rest[2:] == others[2:])
