"""SQL text to a Select. A node without a handler is refused.

A database may compute 1/(id - 3) for a row before it tests the rule that hides the row. The failure of the query would
then reveal the row. No database moves a condition past OFFSET. So if an expression could fail, tables with rules are
read through `OFFSET 0` (a fence). Conditions then cannot use indexes. Comparisons cannot fail and need no fence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from itertools import islice
from typing import Any

from sqlalchemy import CTE, ColumnElement, FromClause, Subquery, TableClause, select, type_coerce, types
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.sql import visitors
from sqlalchemy.sql.functions import FunctionElement
from sqlglot import exp

from dualsql.capabilities import Capabilities, capabilities_named
from dualsql.columns.meanings import STANDARD, Meanings
from dualsql.errors import ConfigurationError, InvalidSQLError
from dualsql.freeze import Registry
from dualsql.freeze.document import AnyCompound, AnySelect, MalformedError
from dualsql.freeze.registry import check_column
from dualsql.plan.derived import FreeNames
from dualsql.resource import NOTES_OPTION
from dualsql.sql import calls, expressions, queries, values
from dualsql.sql.constructs import require_constructs
from dualsql.sql.expansion import require_bounded
from dualsql.sql.foreign import in_own_form
from dualsql.sql.functions import gathers
from dualsql.sql.lengths import require_short_texts
from dualsql.sql.orders import CarriedOrders
from dualsql.sql.parse import parse_text
from dualsql.sql.scope import (
    COLUMN,
    EXPRESSION,
    MAXIMUM_WORK,
    Scope,
    WorkBudget,
    forbid_node,
    invalid,
    reserved_columns,
    too_deep,
)
from dualsql.tenancy.compiler import OWN_NAMES
from dualsql.text_dialects import TextDialect
from dualsql_client import conversions

_LONGEST_NAME = 60
"""Characters. PostgreSQL cuts names after 63 bytes, and the number stands before."""

_HARMLESS = frozenset({
    exp.Select, exp.From, exp.Join, exp.Where, exp.Having, exp.Group, exp.Order, exp.Ordered, exp.Limit, exp.Offset,
    exp.Distinct, exp.With, exp.CTE, exp.Union, exp.Except, exp.Intersect, exp.Subquery, exp.Table, exp.TableAlias,
    exp.Alias, exp.Column, exp.Identifier, exp.Star, exp.Literal, exp.Boolean, exp.Null, exp.Paren, exp.And, exp.Or,
    exp.Not, exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.Is, exp.In, exp.Between, exp.Placeholder, exp.Tuple,
    exp.Neg, exp.Cast, exp.DataType, exp.Like, exp.Anonymous, exp.Exists,
})  # fmt: skip

_FIGURES = frozenset({"count", "min", "max"})
_OF_VISIBLE_ROWS = frozenset({"sum", "avg"})
"""They can overflow, but only because of visible rows, unless a hidden row decides which of these are added."""

_DATES = frozenset({exp.DataType.Type.DATE, exp.DataType.Type.TIMESTAMP, exp.DataType.Type.DATETIME})
_SOURCES = (exp.From, exp.Join, exp.Subquery, exp.SetOperation, exp.CTE)


def can_fail(query: exp.Expression, dialect: TextDialect) -> bool:
    """Whether computing an expression of the text for a row could fail."""
    if dialect.comparisons_can_fail:
        return True
    nodes = list(query.walk())
    is_nested = sum(isinstance(node, exp.Select) for node in nodes) > 1
    return not all(_is_harmless(node, is_nested=is_nested) for node in nodes)


def _is_harmless(node: Any, *, is_nested: bool) -> bool:
    match node:
        case exp.Anonymous():
            name = str(node.this).lower()
            return name in _FIGURES or (name in _OF_VISIBLE_ROWS and not is_nested)
        case exp.Subquery():
            # A subquery that is used as a value fails if it has two rows.
            return node.parent is None or isinstance(node.parent, _SOURCES) or node.arg_key == "query"
        # The least whole number has no negative: of a column, -x could overflow.
        case exp.Neg():
            return isinstance(node.this, exp.Literal)
        case exp.Cast():
            return isinstance(node.this, exp.Literal) and node.to.this in _DATES
        case exp.Like():
            pattern = node.expression
            # PostgreSQL fails for a pattern that ends in its escape character.
            return isinstance(pattern, exp.Literal) and "\\" not in pattern.name
        case _:
            return type(node) in _HARMLESS


def fence(relation: FromClause) -> FromClause:
    """The relation behind `OFFSET 0`, so that the database applies its rules before it computes anything else."""
    outer: FromClause = select(*relation.c).offset(0).subquery()
    return outer


Handler = Callable[[Any, Any, Scope], ColumnElement[Any]]

_LISTED_TEXTS = 5
_LONGEST_EXCERPT = 40


def _short(word: str) -> str:
    return word if len(word) <= _LONGEST_EXCERPT else word[: _LONGEST_EXCERPT - 3] + "..."


_HANDLERS: Mapping[type[exp.Expression], Handler] = {**expressions.HANDLERS, **calls.HANDLERS}


def read_select(
    sql: str,
    registry: Registry,
    dialect: str,
    parameters: Mapping[str, Any] | None = None,
    *,
    is_visible: Callable[[TableClause], bool] | None = None,
    relations: Mapping[str, FromClause] | None = None,
    orders: CarriedOrders | None = None,
    hides: Callable[[FromClause], bool] | None = None,
    meanings: Meanings = STANDARD,
    version: tuple[int, ...] | None = None,
) -> AnySelect | AnyCompound:
    """Translate `sql` into a Select over tables of the registry.

    Args:
        dialect: SQLAlchemy's name of the dialect of the text, such as "postgresql".
        parameters: values of `:name` in the text.
        is_visible: whether the caller may see a table of the registry. Other tables are unknown.
        relations: further relations that the text may name, by names in lower case.
        orders: the orders of these relations.
        meanings: the meanings of types.
        hides: whether rows of a table or relation are hidden from the caller. Such a relation is read behind a fence
            if an expression of the text could fail. None hides nothing.
        version: of the database, such as (3, 40, 1). Functions that it lacks are refused by name. None if unknown.

    Raises:
        InvalidSQLError: the text cannot be parsed, or is not valid.
        ConfigurationError: dualsql does not know the dialect.
        UnknownTableError, UnknownColumnError: it names an unknown table or column; the details have suggestions.
        ForbiddenSQLError: it is not a single query, or contains a construct without a translation.
    """
    capabilities = _capabilities(dialect)
    work = WorkBudget(capabilities.text)
    tables = _tables(registry, is_visible)
    try:
        tree = parse_text(sql, capabilities.text, work)
    except InvalidSQLError as error:
        names = sorted(reserved_columns(sql, tables.values(), capabilities.text))
        if names:
            hint = f"{error.hint} The name of a column that is a word of SQL is written in quotes: {', '.join(names)}."
            raise InvalidSQLError(error.message, hint=hint) from error
        raise
    in_own_form(tree, capabilities.text, version)
    require_constructs(tree, capabilities)
    fails = can_fail(tree, capabilities.text)

    def translated(is_fenced: Callable[[FromClause], bool]) -> AnySelect | AnyCompound:
        translator = Translator(
            tables,
            capabilities,
            parameters or {},
            registry=registry,
            is_fenced=is_fenced,
            relations=(relations or {}).values(),
            orders=orders,
            meanings=meanings,
            version=version,
        )
        return _translate(translator, tree, work, relations or {})

    statement = translated(hides if hides is not None and fails else _nothing)
    # What the database is to read is known of the types beside it, and not of the text.
    if hides is not None and not fails and values.reads_constants(statement):
        return translated(hides)
    return statement


def _translate(
    translator: Translator, tree: exp.Expression, work: WorkBudget, relations: Mapping[str, FromClause]
) -> AnySelect | AnyCompound:
    try:
        fenced_relations = {name: translator.fenced(relation) for name, relation in relations.items()}
        statement: AnySelect | AnyCompound = translator.query(
            tree, Scope(work, hidden=translator.orders.prefix, ctes=fenced_relations)
        )
        statement = translator.orders.in_order_unless_limited(statement)
        require_bounded(statement)
        require_short_texts(statement, translator.dialect.longest_text)
    except RecursionError as error:
        raise too_deep() from error
    except SQLAlchemyError as error:
        raise InvalidSQLError("The parts of the SQL do not fit together.", hint="Simplify it.") from error
    translator.require_used()
    notes = tuple(translator.notes())
    return statement.execution_options(**{NOTES_OPTION: notes}) if notes else statement


def _capabilities(dialect: str) -> Capabilities:
    capabilities = capabilities_named(dialect)
    if capabilities is None:
        raise ConfigurationError(
            f"The SQL of {dialect[:40]!r} is not known.",
            hint="Give the name of a database that dualsql serves.",
        )
    return capabilities


def _nothing(_: FromClause) -> bool:
    return False


def _tables(
    registry: Registry, is_visible: Callable[[TableClause], bool] | None
) -> Mapping[str, TableClause]:
    tables = {name: table for name, table in registry.tables.items() if isinstance(table, TableClause)}
    return {name: table for name, table in tables.items() if is_visible is None or is_visible(table)}


class Translator:
    """Translates the parts of one text.

    Attributes:
        tables: tables that the text may name, by their names in the registry.
        capabilities: of the database of the text.
        dialect: the constructs and functions that a text for that database may have.
        registered: all tables, also those that the text may not name.
        relations: those that are no tables.
        orders: their orders.
        meanings: the meanings of types.
        version: of the database; None if unknown.
    """

    def __init__(
        self,
        tables: Mapping[str, TableClause],
        capabilities: Capabilities,
        parameters: Mapping[str, Any],
        *,
        registry: Registry,
        is_fenced: Callable[[FromClause], bool],
        meanings: Meanings,
        relations: Iterable[FromClause] = (),
        orders: CarriedOrders | None = None,
        version: tuple[int, ...] | None = None,
    ) -> None:
        self.version = version
        self.tables = tables
        self.capabilities = capabilities
        self.dialect = capabilities.text
        self.meanings = meanings
        self._parameters = parameters
        self._registry = registry
        self.registered = _tables(registry, None).values()
        self._is_fenced = is_fenced
        self._used: set[str] = set()
        # Id of an element -> the work that it took. Elements are kept alive, so that the ids stay unique.
        self._worth: dict[int, tuple[Any, int]] = {}
        self._quoted_texts: dict[str, None] = {}
        self._names = 0
        self._free = FreeNames(*set(relations))
        self._table_names = {table.name.lower() for table in tables.values()}
        self.orders = replace(orders or CarriedOrders(), is_aggregate=self._is_aggregate)

    def typed_output(self, value: ColumnElement[Any]) -> ColumnElement[Any]:
        """An output. What is computed of a column of an own type has the type that the database describes."""
        try:
            check_column(value, self._registry)
        except MalformedError:
            return type_coerce(value, types.NullType())
        return value

    def expression(self, node: Any, scope: Scope) -> ColumnElement[Any]:
        """Translate an expression."""
        element = scope.translated_parts.get(node)
        if element is not None:
            self.repeat(element, scope.work)
            values.require_place(self, element, node)
            return element
        handler = _HANDLERS.get(type(node))
        if handler is None:
            forbid_node(node)
        before = scope.work.spent
        scope.work.spend(COLUMN if isinstance(node, exp.Column) else EXPRESSION)
        element = scope.translated_parts[node] = handler(self, node, scope)
        worth = scope.work.spent - before
        if isinstance(node, exp.Column):
            worth = COLUMN
            self.repeat(element, scope.work)  # a name of the SELECT list repeats its expression
        self._worth.setdefault(id(element), (element, worth))
        values.require_place(self, element, node)
        return element

    def repeat(self, element: Any, work: WorkBudget) -> None:
        """Count the work of an existing element that is written again."""
        work.spend(self._worth.get(id(element), (element, 0))[1])

    def read(self, relation: FromClause, work: WorkBudget) -> None:
        """Count the work of writing a relation: the columns of a table with rules, or a given SELECT."""
        if not isinstance(relation, Subquery):
            work.spend(0 if isinstance(relation, CTE) else len(relation.c) // 4)
            return
        self.repeat(relation, work)
        if id(relation) not in self._worth:
            size = sum(1 for _ in islice(visitors.iterate(relation), MAXIMUM_WORK))
            self._worth[id(relation)] = relation, size

    def name(self, element: ColumnElement[Any], name: str) -> ColumnElement[Any]:
        """The element with a label. Its work is that of the element."""
        label = element.label(name)
        self._worth[id(label)] = label, self._worth.get(id(element), (element, 0))[1]
        return label

    def query(self, node: Any, scope: Scope) -> Any:
        """Translate a SELECT or a set operation."""
        return queries.read_query(self, node, scope)

    def fenced(self, relation: FromClause) -> FromClause:
        """The relation, behind a fence if the text could reveal its hidden rows."""
        return fence(relation) if self._is_fenced(relation) else relation

    def parameter(self, name: str) -> Any:
        """The value given for `:name`."""
        if name not in self._parameters:
            invalid(f"The parameter {name[:60]!r} has no value.", hint="Give it in parameters.")
        self._used.add(name)
        value = self._parameters[name]
        try:
            conversions.require_storable(value)
        except ValueError:
            invalid(
                f"The parameter {name[:60]!r} holds a value that no database takes.",
                hint="Whole numbers have 64 bits: write the digits of a longer one in a text. "
                "A text is Unicode without NUL characters.",
            )
        return value

    def quoted_text(self, word: str) -> ColumnElement[Any]:
        """The text that a word in double quotes is, which names no column."""
        self._quoted_texts[word] = None
        return values.string(word)

    def notes(self) -> list[str]:
        """The notes of an answer on how the text was read."""
        words = list(self._quoted_texts)
        if not words:
            return []
        word_list = ", ".join(f'"{_short(word)}"' for word in words[:_LISTED_TEXTS])
        more = f" and {len(words) - _LISTED_TEXTS} more" if len(words) > _LISTED_TEXTS else ""
        verb, be = ("names", "is") if len(words) == 1 else ("name", "are")
        quoted = _short(words[0]).replace("'", "''")
        sentence = (
            f"{word_list}{more} {verb} no column and {be} taken as text, as {self.capabilities.name} does."
        )
        return [f"{sentence} Write texts in single quotes: '{quoted}'."]

    def require_used(self) -> None:
        """Refuse values for parameters that the text does not have."""
        unused = sorted(set(self._parameters) - self._used)
        if unused:
            invalid(f"The SQL has no parameter {unused[0][:60]!r}.", hint="Write it as :name.")

    def _is_aggregate(self, function: FunctionElement[Any]) -> bool:
        return gathers(function.name, len(function.clauses), self.dialect)

    def fresh_name(self, stem: str) -> str:
        """A name that nothing else has: neither the statement, nor a table of the database, seen or hidden.

        A WITH query of a table's name would take its place in the rules of other tables, so the compiler of
        `dualsql.tenancy` refuses it. The refusal would reveal a hidden table.
        """
        self._names += 1
        return self._free.take(f"{OWN_NAMES}{self._names}_{stem}"[:_LONGEST_NAME])

    def is_table_name(self, name: str) -> bool:
        """Whether a table that the text may name has this name, in any schema."""
        return name.lower() in self._table_names

    def alias(self, name: str) -> str:
        """The name of an alias of the text: that alias, unless something else in the statement has it."""
        if name.casefold().startswith(OWN_NAMES):
            invalid(
                f"The alias {name[:60]!r} is reserved.",
                hint=f"Names that begin with {OWN_NAMES} are dualsql's own.",
            )
        return self._free.take(name)
