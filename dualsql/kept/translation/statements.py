"""Translates whole statements: sources, groups, orders, limits and set operations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any, NamedTuple

from sqlalchemy import (
    CTE,
    Alias,
    BigInteger,
    BindParameter,
    Cast,
    Column,
    CompoundSelect,
    FromClause,
    Join,
    MetaData,
    Select,
    Subquery,
    Table,
    collate,
    exists,
    join,
    select,
    type_coerce,
    types,
)
from sqlalchemy.sql.elements import ClauseList, Grouping
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.sql.selectable import ScalarSelect, SelectStatementGrouping
from sqlalchemy.sql.visitors import iterate

from dualsql import sqlalchemy_internals as internals
from dualsql.columns.own_types import Element
from dualsql.columns.result import ResultColumn
from dualsql.freeze.document import AnySelect
from dualsql.kept.translation.expressions import Expressions
from dualsql.kept.translation.operators import IMPLICIT, OPERATORS
from dualsql.kept.translation.ordering import BYTEWISE_CAST, MARIADB, POSTGRESQL, SQLITE
from dualsql.kept.translation.terms import (
    Kind,
    Term,
    UntranslatableError,
    bits_of,
    finite,
    type_of,
)
from dualsql.plan import Ordered, Shape, shape
from dualsql.plan.derived import sole_key
from dualsql.plan.keys import split_modifiers

_MOST_ELEMENTS = 20_000
"""Of a translated statement: an entry may write its operand several times."""

_DIALECTS: Mapping[str, str] = {"mysql": MARIADB}


def dialect_of(name: str) -> str:
    """The name of a dialect in the tables."""
    return _DIALECTS.get(name, name)


def is_translated(name: str) -> bool:
    """Whether the tables have entries for a dialect, by SQLAlchemy's name."""
    return dialect_of(name) in OPERATORS


class KeptColumns(NamedTuple):
    """The columns of a kept result.

    Attributes:
        live: of the statement that ran. cells: how the cells of each are kept; see `KeptRows`.
        rows: the table of the file under its name in the statement, and its column that numbers the rows.
    """

    live: Shape
    cells: Sequence[str]
    rows: FromClause
    number: Element


def table_of_rows(file: KeptColumns) -> Shape:
    """The rows as a table of the database: a statement over it means what it would mean there."""
    columns = file.live.columns
    table = Table(
        "kept_rows",
        MetaData(),
        Column("n", BigInteger, primary_key=True, autoincrement=False),
        *(Column(f"c{index}", column.type) for index, column in enumerate(columns)),
    )
    rows = table.alias(str(file.rows.name))  # type: ignore[attr-defined]
    outputs = [rows.c[f"c{index}"].label(column.name) for index, column in enumerate(columns)]
    relation = shape(select(*outputs).order_by(rows.c.n), file.live.meanings)
    return relation._replace(number=rows.c.n)


def translate_statement(
    rows: Ordered, relation: Shape, file: KeptColumns, dialect: str, *, by_code_point: bool
) -> AnySelect:
    """DuckDB's statement with the meaning of a statement that reads the table of `relation`, in the same total order.

    Args:
        rows: the statement in the order of its database.
        relation: as `table_of_rows` made it of `file`.
        dialect: SQLAlchemy's name of the dialect of the statement.
        by_code_point: whether its database compares and sorts all texts by code point.

    Raises:
        UntranslatableError: a part of it has no entry.
    """
    number: Any = relation.number
    reader = StatementTranslation(dialect_of(dialect), file, number.table, by_code_point=by_code_point)
    query = reader.sort(rows).with_types(dialect_of(dialect))
    if sum(1 for _ in islice(iterate(query), _MOST_ELEMENTS)) == _MOST_ELEMENTS:
        raise UntranslatableError("a statement that grows too large")
    return query


class _Query(NamedTuple):
    """A translated SELECT, and what its columns hold."""

    select: Any
    terms: list[Term]

    def with_types(self, dialect: str) -> AnySelect:
        """The statement; each column has the type of its values."""
        outputs = [
            _output(term, dialect).label(column.name)
            for term, column in zip(self.terms, self.select.selected_columns, strict=True)
        ]
        select: AnySelect = self.select.with_only_columns(*outputs, maintain_column_froms=True)
        return select


def _output(term: Term, dialect: str) -> Element:
    if term.kind == "boolean" and term.kind in IMPLICIT[dialect]:
        return IMPLICIT[dialect][term.kind][1](term).sql  # the database has numbers for truth
    return (
        term.sql
        if term.kind in ("document", "opaque", "flag", "numeric")
        else type_coerce(term.sql, type_of(term))
    )


def _move(terms: Sequence[Term], columns: Sequence[Any]) -> list[Term]:
    """The terms as columns of a subquery."""
    return [
        replace(term, sql=column, is_constant=False, value=None, is_checked=True)
        for term, column in zip(terms, columns, strict=True)
    ]


class StatementTranslation:
    """Translates the queries of one statement."""

    def __init__(self, dialect: str, file: KeptColumns, table: Any, *, by_code_point: bool) -> None:
        self._dialect = dialect
        self._expressions = Expressions(
            dialect, self, by_code_point=by_code_point, compensates=file.live.meanings.computation.compensates
        )
        # Id of a source -> the source, its translation, and what its columns hold.
        self._sources: dict[int, tuple[Any, Any, list[Term]]] = {}
        self._unique: set[Any] = set()
        self._read_table(file, table)

    def _read_table(self, file: KeptColumns, table: Any) -> None:
        key = sole_key(file.live.select)
        columns: list[Any] = list(table.c)
        terms = [Term(sql=file.number, kind="integer")]
        for index, (cell, column) in enumerate(zip(file.cells, file.live.columns, strict=True)):
            own = file.rows.c[f"c{index}"]
            terms.append(column_term(cell, column, own, self._dialect))
            if key is not None and key(column.expression):
                self._unique.add(columns[index + 1])
        self._unique.add(columns[0])
        self._sources[id(table)] = table, file.rows, terms

    #
    # Sources.

    def column(self, column: Any) -> Term:
        """A column of a source."""
        source: Any = getattr(column, "table", None)
        entry = self._sources.get(id(source))
        if entry is None:
            raise UntranslatableError("a column of another source")
        index = next((index for index, one in enumerate(source.c) if one is column), None)
        if index is None:
            raise UntranslatableError("a column that its source does not have")
        return entry[2][index]

    def is_unique(self, column: Any) -> bool:
        """Whether no two rows have the same value in a column."""
        while True:
            if column in self._unique:
                return True
            inner = getattr(getattr(column, "table", None), "element", None)
            if not isinstance(inner, Select) or len(internals.final_froms(inner)) != 1:
                return False
            if internals.group_by_clauses(inner):
                return False
            outputs = list(inner.selected_columns)
            index = next((at for at, one in enumerate(list(column.table.c)) if one is column), None)
            if index is None:
                return False
            column = getattr(outputs[index], "element", outputs[index])

    def _source(self, source: Any) -> Any:
        entry = self._sources.get(id(source))
        if entry is None:
            translation, terms = self._translated_source(source)
            entry = self._sources[id(source)] = source, translation, terms
        return entry[1]

    def _translated_source(self, source: Any) -> tuple[Any, list[Term]]:
        if isinstance(source, Join):
            left, right = self._source(source.left), self._source(source.right)
            on = self._expressions.truth(source.onclause)
            return join(left, right, on, isouter=source.isouter, full=source.full), []
        if type(source) is CTE:
            return self._common(source)
        if type(source) is Alias:
            inner = self._source(source.element)
            alias = inner.alias(source.name)
            return alias, _move(self._sources[id(source.element)][2], list(alias.c))
        if type(source) is Subquery:
            query = self.query(source.element)
            subquery = query.select.subquery(source.name)
            return subquery, _move(query.terms, list(subquery.c))
        raise UntranslatableError(type(source).__name__)

    def _common(self, source: Any) -> tuple[Any, list[Term]]:
        if source.recursive or internals.restated_cte(source) is not None:
            raise UntranslatableError("a recursive WITH")
        original = internals.cte_alias(source)
        if original is not None:
            cte = self._source(original).alias(source.name)
            return cte, _move(self._sources[id(original)][2], list(cte.c))
        query = self.query(source.element)
        cte = query.select.cte(source.name)
        return cte, _move(query.terms, list(cte.c))

    #
    # Queries.

    def query(self, statement: Any) -> _Query:
        """A SELECT or a set operation."""
        while isinstance(statement, SelectStatementGrouping | Grouping | ScalarSelect):
            statement = statement.element
        if isinstance(statement, CompoundSelect):
            return self._compound(statement)
        if type(statement) is not Select:
            raise UntranslatableError(type(statement).__name__)
        self._require_plain(statement)
        froms = [self._source(source) for source in internals.final_froms(statement)]
        terms = [finite(self._expressions.term(column)) for column in statement.selected_columns]
        outputs = [
            term.sql.label(getattr(column, "name", None))
            for term, column in zip(terms, statement.selected_columns, strict=True)
        ]
        query: Any = select(*outputs).select_from(*froms)
        criteria = [self._expressions.truth(part) for part in internals.where_criteria(statement)]
        query = query.where(*criteria) if criteria else query
        groups = self._groups(statement)
        query = query.group_by(*groups) if groups else query
        having = [self._expressions.truth(part) for part in internals.having_criteria(statement)]
        query = query.having(*having) if having else query
        if internals.distinct_word(statement):
            self._require_groups(terms)
            self._require_keys_of(statement, terms)
            query = query.distinct()
        correlated = getattr(statement, "_correlate", ())
        if correlated:
            query = query.correlate(*(self._source(source) for source in correlated))
        return _Query(self._order_and_limit(query, statement), terms)

    def sort(self, rows: Ordered) -> _Query:
        """A SELECT in its total order."""
        statement = rows.shape.select
        query = self.query(statement)
        keys = []
        for key in rows.order.keys:
            if key.is_text:
                raise UntranslatableError("an order that is text")
            expression = key.expression if key.author_clause is not None else self._tie(key.expression)
            if expression is not None:
                keys.append(
                    self._expressions.sort_term(
                        expression, is_descending=key.is_descending, is_last=key.is_nulls_last
                    )
                )
            if self._is_settled(statement, key.expression):
                break
        select = query.select.order_by(None).order_by(*keys) if keys else query.select
        limit, offset = rows.shape.limit, rows.shape.offset
        select = select if limit is None else select.limit(limit)
        return _Query(select.offset(offset) if offset else select, query.terms)

    def _tie(self, expression: Any) -> Any:
        """A key that distinguishes rows, without its CAST; None if it distinguishes no more than its value does."""
        if not isinstance(expression, Cast):
            return expression
        inner: Any = expression.clause
        if isinstance(inner, FunctionElement) and inner.name == "concat" and len(inner.clauses) == 1:
            (inner,) = inner.clauses
        if self._expressions.term(inner).kind != "text":
            return None  # it stands behind its value: 1.0 and 1.00, which are kept alike
        return collate(inner, BYTEWISE_CAST)

    def _is_settled(self, statement: Any, key: Any) -> bool:
        """Whether no two rows of the statement have the same key."""
        sources = internals.final_froms(statement)
        is_plain = len(sources) == 1 and not isinstance(sources[0], Join)
        return is_plain and not internals.group_by_clauses(statement) and self.is_unique(key)

    def _require_plain(self, statement: Any) -> None:
        """Refuse what `query` does not read."""
        others = (
            internals.distinct_on(statement),
            internals.prefixes(statement),
            internals.suffixes(statement),
            internals.statement_hints(statement),
            internals.fetch_clause(statement) is not None,
            any(part is not None for part in internals.syntax_extensions(statement)),
            internals.extension_after_criteria(statement) is not None,
            isinstance(internals.distinct_word(statement), str),
            getattr(statement, "_for_update_arg", None) is not None,
        )
        if any(others):
            raise UntranslatableError("another part of SELECT")

    def _groups(self, statement: Any) -> list[Element]:
        groups = []
        clauses: Sequence[Any] = internals.group_by_clauses(statement)
        for clause in clauses:
            parts = clause.clauses if type(clause) is ClauseList else [clause]
            groups += [self._expressions.group_key(part) for part in parts]
        return groups

    def _require_groups(self, terms: Sequence[Term]) -> None:
        for term in terms:
            if not self._expressions.groups(term):
                raise UntranslatableError(f"distinct values of a {term.kind}")

    def _require_keys_of(self, statement: Any, terms: Sequence[Term]) -> None:
        """Refuse an order of distinct rows by what they do not have: SQLite takes the value of any of the rows."""
        keys = {id(term.sql) for term in terms}
        for clause in internals.order_by_clauses(statement):
            if id(finite(self._expressions.term(split_modifiers(clause)[0])).sql) not in keys:
                raise UntranslatableError("an order of distinct rows by others")

    def _order_and_limit(self, query: Any, statement: Any) -> Any:
        keys = [self._expressions.sort_key(clause) for clause in internals.order_by_clauses(statement)]
        query = query.order_by(*keys) if keys else query
        limit, offset = internals.limit_clause(statement), internals.offset_clause(statement)
        if limit is not None:
            query = query.limit(_whole(limit))
        return query if offset is None else query.offset(_whole(offset))

    def _compound(self, statement: Any) -> _Query:
        if internals.order_by_clauses(statement):
            raise UntranslatableError("an order of a set operation")
        queries = [self.query(part) for part in statement.selects]
        columns = [list(terms) for terms in zip(*(query.terms for query in queries), strict=True)]
        for terms in columns:
            if len({(term.kind, term.scale) for term in terms}) != 1 or terms[0].kind in (
                "document",
                "opaque",
            ):
                raise UntranslatableError("a set operation of values of several kinds")
            if statement.keyword.name != "UNION_ALL":
                self._require_groups(terms)
        compound: Any = CompoundSelect(statement.keyword, *(query.select for query in queries))
        terms = [replace(parts[0], bits=max(term.bits for term in parts)) for parts in columns]
        outputs = list(compound.selected_columns)
        return _Query(self._order_and_limit(compound, statement), _move(terms, outputs))

    #
    # Subqueries in expressions.

    def scalar(self, statement: Any) -> Term:
        """A subquery as a value. SQLite takes the first of several rows; here several fail."""
        query = self.query(statement)
        if len(query.terms) != 1 or query.terms[0].kind in ("document", "opaque", "flag"):
            raise UntranslatableError("a subquery as such a value")
        return replace(query.terms[0], sql=query.select.scalar_subquery(), is_constant=False, value=None)

    def member(self, statement: Any) -> tuple[Any, Term]:
        """A subquery of one column, and what it holds."""
        query = self.query(statement)
        if len(query.terms) != 1:
            raise UntranslatableError("IN of several columns")
        return query.select, query.terms[0]

    def exists(self, statement: Any) -> Element:
        """EXISTS of a subquery."""
        return exists(self.query(statement).select)


def _whole(clause: Any) -> int:
    value = clause.effective_value if isinstance(clause, BindParameter) else None
    if type(value) is not int:
        raise UntranslatableError("a limit that is no number")
    return value


#
# Columns.

_TEXTS = (types.CHAR, types.NCHAR, types.Enum)
_KINDS: Mapping[str, Kind] = {
    "integer": "integer",
    "float": "real",
    "text": "text",
    "boolean": "boolean",
    "date": "date",
    "datetime": "datetime",
    "decimal": "decimal",
}
_TYPES: Mapping[str, type[Any]] = {
    "integer": types.Integer,
    "boolean": types.Boolean,
    "date": types.Date,
    "datetime": types.DateTime,
    "decimal": types.Numeric,
}
"""The types whose cells mean what their kind does in the tables."""


def column_term(cell: str, column: ResultColumn, sql: Element, dialect: str) -> Term:
    """A kept column as a term; one whose values the application makes, or that has no kind, is opaque."""
    name, _, detail = cell.partition(":")
    scale = int(detail or 0) if name == "decimal" else 0
    kind = _KINDS.get(name, "opaque")
    plain: Any = column.stored
    if isinstance(plain, types.JSON):
        return Term(sql=sql, kind="document")
    is_untyped = isinstance(plain, types.NullType)
    if column.meaning.reads is not None or not column.meaning.is_same or (is_untyped and dialect != SQLITE):
        kind = "opaque"
    if kind == "text" and not _is_plain_text(plain, dialect):
        kind = "opaque"
    if not is_untyped and not isinstance(plain, _TYPES.get(name, object)):
        kind = "opaque"  # such as an OID of PostgreSQL and a YEAR of MariaDB, which are kept as whole numbers
    if kind == "integer" and getattr(plain, "unsigned", False):
        kind = "opaque"
    if kind == "real" and dialect != SQLITE and not isinstance(plain, types.Double):
        kind = "opaque"  # of four bytes, perhaps
    if kind == "boolean" and dialect != POSTGRESQL:
        kind = "flag"
    if kind == "decimal":
        kind = "opaque" if not detail else "numeric" if dialect == SQLITE else "decimal"
    if kind == "datetime" and getattr(plain, "timezone", False):
        kind = "opaque"
    return Term(sql=sql, kind=kind, scale=scale, bits=_bits(column, plain))


def _bits(column: ResultColumn, plain: Any) -> int:
    """The bits of a whole number; 0 if its type is SQLAlchemy's guess."""
    if not isinstance(plain, types.Integer) or column.is_computed:
        return 0
    return bits_of(plain)


def _is_plain_text(plain: Any, dialect: str) -> bool:
    if isinstance(plain, types.NullType):
        return dialect == SQLITE
    is_own = type(plain).__name__ in ("CITEXT", "UUID")
    is_text = isinstance(plain, types.String) and not isinstance(plain, _TEXTS) and not is_own
    return is_text and not getattr(plain, "collation", None)
