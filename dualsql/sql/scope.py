"""The names that each part of a query can use, the limit on the work of one text, and errors.

A name has to be that of a registered table. Work is counted during the translation, in units of about 10 microseconds
of the whole time until the document is stored.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, NoReturn

from sqlalchemy import ColumnElement, FromClause
from sqlglot import ErrorLevel, exp

from dualsql.errors import ForbiddenSQLError, InvalidSQLError, UnknownColumnError, UnknownTableError

_SHOWN = 60
_LISTED = 40


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
    forbid(f"{_words(kind)} ({shown(node)})" if isinstance(node, exp.Expression) else kind)


def invalid(message: str, hint: str = "") -> NoReturn:
    """Raise InvalidSQLError."""
    raise InvalidSQLError(message, hint=hint)


def too_deep() -> InvalidSQLError:
    """The error for a text with too many nested parts."""
    return InvalidSQLError("The SQL is nested too deeply.", hint="Use WITH to name the inner parts.")


CATALOGUE = "Look at the tables with list_tables, and at the columns of one with describe_table."
"""The hint for a text that reads the database's own catalogue."""

_STANDARD_CATALOGUE = "information_schema"


def unknown_table(name: str, known: Iterable[str], *, system: tuple[str, ...] = ()) -> NoReturn:
    """Refuse an unknown table. The answer is the same for a table that exists but is not registered.

    Args:
        system: prefixes of the names of the database's own tables.
    """
    tables = sorted(known)
    if any(part.startswith((_STANDARD_CATALOGUE, *system)) for part in name.lower().split(".")):
        raise UnknownTableError(
            f"There is no table {name[:_SHOWN]!r}.",
            hint=CATALOGUE,
            details={"table": name[:_SHOWN], "suggestions": [], "tables": tables[:_LISTED]},
        )
    close = get_close_matches(name.lower(), [table.lower() for table in tables], n=3, cutoff=0.5)
    suggestions = [table for likeness in close for table in tables if table.lower() == likeness]
    listed = ", ".join(tables[:_LISTED]) or "none"
    raise UnknownTableError(
        f"There is no table {name[:_SHOWN]!r}.",
        hint=f"Did you mean {' or '.join(suggestions)}?" if suggestions else f"There are: {listed}.",
        details={"table": name[:_SHOWN], "suggestions": suggestions, "tables": tables[:_LISTED]},
    )


def unknown_column(name: str, known: Iterable[str], *, hint: str = "") -> NoReturn:
    """Refuse a column that no relation in the FROM clause has."""
    # SQLAlchemy names anonymous columns, for example "%(140 anon)s". Such names are not suggested.
    names = [one for one in dict.fromkeys(known) if "%(" not in one]
    error = UnknownColumnError(name, names[:_LISTED], of="The query")
    error.hint = hint or error.hint
    raise error


def shown(node: exp.Expression) -> str:
    """A part of the text, shortened for a message."""
    try:
        text = node.sql(unsupported_level=ErrorLevel.IGNORE)
    except (ValueError, RecursionError):
        text = type(node).__name__
    text = " ".join(text.split())
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."


def _words(name: str) -> str:
    """`TableSample` as `table sample`."""
    return "".join(f" {letter.lower()}" if letter.isupper() else letter for letter in name).strip()


# Arguments that the parser adds itself. They do not change the meaning.
_NOTES = frozenset({"_type", "big_int", "typed", "safe", "nested", "value_constructor", "materialized"})


def only(node: exp.Expression, *names: str) -> Mapping[str, Any]:
    """The arguments of `node`. Arguments other than `names` are refused."""
    # What a later release of the parser adds is refused, and never ignored.
    for name, value in node.args.items():
        if value and name not in names and name not in _NOTES:
            words = name.rstrip("_").replace("_", " ").upper()
            forbid(f"{words} in {shown(node)}")
    return node.args


Columns = Mapping[str, ColumnElement[Any]]


MAXIMUM_WORK = 4_000
"""The 400 queries of the tests take at most 630 units."""

EXPRESSION = 5
COLUMN = 1
OUTPUT = 5
SELECT = 20
RELATION = 6
_NAMES = 10
"""Names that can be searched in one unit of work."""


class WorkBudget:
    """Counts the work of one text, and caches results that are needed again."""

    def __init__(self) -> None:
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
        found = self._columns.get(relation)
        if found is None:
            found = self._columns[relation] = {str(column.name): column for column in relation.c}
            self.spend(len(relation.c))
        return found

    def column_of(self, relation: FromClause, name: exp.Identifier) -> ColumnElement[Any] | None:
        """The column of that name: an exact match first, then one without regard to case, as databases do."""
        columns = self.columns_of(relation)
        if name.name in columns:
            return columns[name.name]
        # Without an exact match, every name is compared.
        self.spend(len(columns) // _NAMES)
        folded = [column for found, column in columns.items() if found.lower() == name.name.lower()]
        return folded[0] if len(folded) == 1 and not name.args.get("quoted") else None


@dataclass(eq=False)
class Scope:
    """The relations that one SELECT may name, and those of the enclosing SELECTs.

    Attributes:
        work: of the whole text.
        hidden: prefix of the names of columns that carry an order and that a text may not name; empty for none.
        ctes: common table expressions that are visible here, by their names in lower case.
        relations: the FROM clause, by alias in lower case, in order.
        merged: columns that JOIN ... USING merged.
        outputs: named expressions of the SELECT list. ORDER BY sees them, and other clauses if no column has the name.
        windows: the WINDOW clause.
        made: translated parts of the text. Equal parts become the same element, so that GROUP BY and the SELECT list
            share their bound parameters and the database sees them as equal.
    """

    work: WorkBudget
    parent: Scope | None = None
    hidden: str = ""
    ctes: dict[str, FromClause] = field(default_factory=dict)
    relations: dict[str, FromClause] = field(default_factory=dict)
    merged: dict[str, ColumnElement[Any]] = field(default_factory=dict)
    outputs: dict[str, ColumnElement[Any]] = field(default_factory=dict)
    windows: dict[str, exp.Window] = field(default_factory=dict)
    made: dict[exp.Expression, ColumnElement[Any]] = field(default_factory=dict)

    def inner(self) -> Scope:
        """The scope of a subquery that may read columns of the enclosing query."""
        return Scope(self.work, parent=self, hidden=self.hidden, ctes=dict(self.ctes))

    def separate(self) -> Scope:
        """The scope of a subquery in FROM: it sees neither the other relations nor the enclosing queries."""
        return Scope(self.work, hidden=self.hidden, ctes=dict(self.ctes))

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

    def around(self) -> list[FromClause]:
        """Every relation of the enclosing scopes."""
        return [relation for scope in list(self.outward())[1:] for relation in scope.relations.values()]

    def relation(self, name: str) -> FromClause:
        """The relation of that alias, in this scope or an enclosing one."""
        for scope in self.outward():
            if name.lower() in scope.relations:
                return scope.relations[name.lower()]
        return unknown_table(name, [alias for scope in self.outward() for alias in scope.relations])

    def column(self, node: exp.Column) -> ColumnElement[Any]:
        """The column that `node` names."""
        table = node.args.get("table")
        if table is not None:
            relation = self.relation(
                table.name
            )  # a schema before the alias is ignored, because aliases are unique
            found = self.work.column_of(relation, node.this)
            if found is None:
                hint = self._elsewhere(node.this, relation)
                unknown_column(f"{table.name}.{node.name}", self.columns_of(relation), hint=hint)
            return found
        for scope in self.outward():
            found = scope.own_column(node.this)
            if found is not None:
                return found
        alias = self.outputs.get(node.name.lower())
        if alias is not None:
            return alias
        is_text = node.this.args.get("quoted")
        hint = f"Text is written in single quotes: '{node.name[:_SHOWN]}'." if is_text else ""
        return unknown_column(node.name, self._columns(), hint=hint)

    def _elsewhere(self, name: exp.Identifier, relation: FromClause) -> str:
        """A hint that names the other relations with this column."""
        found = [
            f"{alias}.{name.name[:_SHOWN]}"
            for scope in self.outward()
            for alias, other in scope.relations.items()
            if other is not relation and self.work.column_of(other, name) is not None
        ]
        return f"Write {' or '.join(found[:3])}." if found else ""

    def own_column(self, name: exp.Identifier) -> ColumnElement[Any] | None:
        """The column of that name among this scope's relations."""
        if name.name.lower() in self.merged:
            return self.merged[name.name.lower()]
        self.work.spend(len(self.relations) // _NAMES)
        found = {
            alias: column
            for alias, relation in self.relations.items()
            if (column := self.work.column_of(relation, name)) is not None
        }
        if len(found) > 1:
            choices = " or ".join(f"{alias}.{name.name}" for alias in found)
            invalid(f"The column {name.name[:60]!r} is ambiguous.", hint=f"Write {choices}."[:200])
        return next(iter(found.values()), None)

    def _columns(self) -> list[str]:
        relations = (relation for scope in self.outward() for relation in scope.relations.values())
        return [name for relation in relations for name in self.columns_of(relation)]

    def columns_of(self, relation: FromClause) -> Columns:
        """The columns that a text may name, by their names in the database, in order."""
        columns = self.work.columns_of(relation)
        if not self.hidden:
            return columns
        return {name: column for name, column in columns.items() if not name.startswith(self.hidden)}
