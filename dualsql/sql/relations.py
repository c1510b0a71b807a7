"""The FROM clause. Every table is a registered one, under an alias of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any

from sqlalchemy import (
    ARRAY,
    ColumnElement,
    Date,
    DateTime,
    FromClause,
    Interval,
    Text,
    and_,
    cast,
    column,
    false,
    func,
    join,
    literal,
    select,
    true,
    union_all,
    values,
)
from sqlalchemy.sql import operators
from sqlalchemy.sql.selectable import Join, TableClause
from sqlalchemy.types import NullType
from sqlglot import exp

from dualsql.columns.own_types import SQLType
from dualsql.databases.functions import common
from dualsql.sql.operations import comparison, require_safe_patterns
from dualsql.sql.rows import is_row, refuse_row
from dualsql.sql.scope import (
    MergedColumn,
    Scope,
    forbid,
    forbid_node,
    invalid,
    only,
    unknown_column,
    unknown_table,
)
from dualsql.sql.values import is_text, require_equality, require_same
from dualsql.text_dialects import TextDialect

if TYPE_CHECKING:
    from dualsql.sql.translate import Translator

# The default schemas of PostgreSQL, of SQLite and DuckDB, and what the catalogue calls tables without a schema.
_DEFAULT_SCHEMAS = frozenset({"", "public", "main", "default"})
_SQL_SERVER = "dbo"
"""The default schema of SQL Server. None of these databases has it, but one may have a schema of that name."""
_LARGEST_VALUES = 500
"""Rows of VALUES; as many SELECTs as SQLite joins by UNION ALL."""


def read_from(translator: Translator, select: exp.Select, scope: Scope) -> list[FromClause]:
    """The elements of the FROM clause, with joins. Their relations are added to `scope`."""
    clause = select.args.get("from_")
    if clause is None:
        return []
    elements: list[FromClause] = []
    first = only(clause, "this")["this"]
    if _is_dual(translator, first, scope) and not select.args.get("joins"):
        return []
    _append(translator, elements, first, scope)
    for join_node in select.args.get("joins") or ():
        if not any(join_node.args.get(name) for name in ("on", "using", "side", "kind", "method")):  # a comma
            _append(translator, elements, join_node.this, scope)
        else:
            elements[-1] = _join(translator, elements[-1], join_node, scope)
    # All are joined to one element: SQLAlchemy warns of several without a join, but a caller may want every pair.
    return [reduce(lambda left, right: join(left, right, true()), elements)]


def _is_dual(translator: Translator, node: Any, scope: Scope) -> bool:
    """Whether it is the table of MariaDB and Oracle for a SELECT that reads none."""
    if not isinstance(node, exp.Table) or node.name.lower() != "dual" or node.db:
        return False
    return "dual" not in scope.ctes and not translator.is_table_name("dual")


def _append(translator: Translator, elements: list[FromClause], node: Any, scope: Scope) -> None:
    """Add a relation with the joins that are in the same parentheses."""
    inner = node.args.get("joins") or ()
    element = _relation(translator, node, scope)
    for join_node in inner:
        element = _join(translator, element, join_node, scope)
    elements.append(element)


def _join(translator: Translator, left: FromClause, node: exp.Join, scope: Scope) -> FromClause:
    args = only(node, "this", "on", "using", "side", "kind", "method")
    side, kind = str(args.get("side") or "").upper(), str(args.get("kind") or "").upper()
    method = str(args.get("method") or "").upper()
    if side not in {"", "LEFT", "RIGHT", "FULL"} or kind not in {"", "INNER", "OUTER", "CROSS"}:
        forbid_node(node)
    if method not in {"", "NATURAL"}:
        forbid_node(node)
    grown: list[FromClause] = []
    _append(translator, grown, args["this"], scope)
    right = grown[0]
    names = _shared_columns(left, right, scope) if method else args.get("using") or ()
    condition = (
        _equal(translator, (left, right), names, side, scope)
        if names
        else _condition(translator, args, kind, scope)
    )
    if side == "RIGHT":
        # SQLAlchemy has no RIGHT JOIN, and SQLite has it since 3.39 only.
        return join(right, left, condition, isouter=True)
    return join(left, right, condition, isouter=side == "LEFT", full=side == "FULL")


def _condition(
    translator: Translator, args: Mapping[str, Any], kind: str, scope: Scope
) -> ColumnElement[Any]:
    condition = args.get("on")
    if condition is None:
        # MariaDB and SQLite allow a JOIN without a condition, and every database a CROSS JOIN.
        return true()
    if kind == "CROSS":
        invalid("A CROSS JOIN has no ON.", hint="Write JOIN ... ON.")
    return translator.expression(condition, scope)


def _equal(
    translator: Translator,
    sides: tuple[FromClause, FromClause],
    names: Sequence[exp.Identifier],
    side: str,
    scope: Scope,
) -> ColumnElement[bool]:
    """The condition of USING. A name without a table then refers to the merged column."""
    left, right = map(_relations_in, sides)
    pairs, merged = [], []
    for name in names:
        one, other = _column_of(left, name, scope), _column_of(right, name, scope)
        require_same(translator, one, other)
        require_equality(translator, one)
        pairs.append(comparison(operators.eq, one, other, translator.capabilities))
        # The side that an outer join keeps whole: the other one is NULL where nothing matched.
        column = {"RIGHT": other, "FULL": func.coalesce(one, other, type_=one.type)}.get(side, one)
        merged.append(MergedColumn(name.name.lower(), column, (*left, *right)))
    scope.merge(merged)
    return and_(*pairs) if pairs else false()


def _relations_in(element: FromClause) -> Sequence[FromClause]:
    """The relations of a join, or the relation itself."""
    if not isinstance(element, Join):
        return [element]
    return [*_relations_in(element.left), *_relations_in(element.right)]


def _column_of(relations: Sequence[FromClause], name: exp.Identifier, scope: Scope) -> ColumnElement[Any]:
    column = scope.own_column(name, relations)
    if column is None:
        names = [column_name for relation in relations for column_name in scope.columns_of(relation)]
        unknown_column(name.name, names, scope.work.dialect)
    return column


def _shared_columns(left: FromClause, right: FromClause, scope: Scope) -> Sequence[exp.Identifier]:
    names, others = (
        [name for relation in _relations_in(side) for name in scope.starred(relation)]
        for side in (left, right)
    )
    shared = [exp.to_identifier(name) for name in dict.fromkeys(names) if name in others]
    return shared or invalid("A NATURAL JOIN of tables without a common column.", hint="Write JOIN ... ON.")


def _relation(translator: Translator, node: Any, scope: Scope) -> FromClause:
    reader = _READERS.get(type(node))
    if reader is None:
        forbid_node(node)
    relation: FromClause = reader(translator, node, scope)
    return relation


def _table(translator: Translator, node: Any, scope: Scope) -> FromClause:
    args = only(node, "this", "db", "alias", "joins")
    if not isinstance(args["this"], exp.Identifier):
        return _function(translator, node, scope)
    name = args["this"].name
    schema = args["db"].name if args.get("db") is not None else ""
    alias = _alias(node) or name
    common = None if schema else scope.ctes.get(name.lower())
    if common is not None:
        translator.read(common, scope.work)
        # The alias gets a unique name, because SQLAlchemy treats two aliases with one name as one CTE.
        return scope.add(alias, _rename(translator, common, translator.fresh_name(alias), node, scope))
    registered = _registered_table(translator, name, schema, scope)
    translator.read(registered, scope.work)
    table = translator.fenced(registered)
    return scope.add(alias, _rename(translator, table, translator.alias(alias), node, scope))


def _rename(translator: Translator, source: FromClause, alias: str, node: Any, scope: Scope) -> FromClause:
    """The relation under its alias. `AS t(a, b)` also renames its columns."""
    names = alias_columns(node)
    if not names:
        return source.alias(alias)
    statement = with_column_names(select(*scope.columns_of(source).values()), names)
    subquery: FromClause = translator.orders.carrying(statement).subquery(alias)
    return subquery


def _registered_table(translator: Translator, name: str, schema: str, scope: Scope) -> FromClause:
    """The registered table of that name. A table outside the registry is unknown, even if the database has it."""
    tables = translator.tables.values()
    candidates = [table for table in tables if table.name == name] or [
        table for table in tables if table.name.lower() == name.lower()
    ]
    matches = [table for table in candidates if _is_in(table, schema)]
    is_default = schema.lower() == _SQL_SERVER and not any(
        _is_in(table, schema) for table in translator.registered
    )
    if not matches and (not schema or is_default):  # the only one of its name, in any schema
        matches = candidates
    if len(matches) != 1:
        unknown_table(
            f"{schema}.{name}" if schema else name,
            [*translator.tables, *scope.ctes],
            translator.dialect,
        )
    return matches[0]


def _is_in(table: TableClause, schema: str) -> bool:
    own = str(getattr(table, "schema", None) or "").lower()
    return own == schema.lower() or (not own and schema.lower() in _DEFAULT_SCHEMAS)


def _subquery(translator: Translator, node: Any, scope: Scope) -> FromClause:
    args = only(node, "this", "alias", "joins")
    alias, name = _alias_and_name(translator, node)
    inner = args["this"]
    if isinstance(inner, exp.Table | exp.Subquery) and not _alias(node):
        elements: list[FromClause] = []  # parentheses around a join
        _append(translator, elements, inner, scope)
        return elements[0]
    statement = with_column_names(translator.query(inner, scope.beside()), alias_columns(node))
    return scope.add(alias, translator.orders.carrying(statement).subquery(name))


def _lateral(translator: Translator, node: Any, scope: Scope) -> FromClause:
    args = only(node, "this", "alias")
    if isinstance(args["this"], exp.Unnest):
        unnest = args["this"].copy()
        unnest.set("alias", args.get("alias"))
        return _function(translator, unnest, scope)
    if isinstance(args["this"], exp.Anonymous):
        return _function(translator, exp.Table(this=args["this"], alias=args.get("alias")), scope)
    if not isinstance(args["this"], exp.Subquery):
        forbid_node(node)
    alias, name = _alias_and_name(translator, node)
    statement = translator.query(only(args["this"], "this")["this"], scope.inner())
    subselect = with_column_names(statement, alias_columns(node))
    return scope.add(alias, translator.orders.carrying(subselect).lateral(name))


def _values(translator: Translator, node: Any, scope: Scope) -> FromClause:
    args = only(node, "expressions", "alias")
    if any(is_row(cell) for row in args["expressions"] for cell in row.expressions):
        refuse_row()
    rows = [
        # A scope without relations: VALUES holds constants.
        [translator.expression(cell, Scope(scope.work)) for cell in row.expressions]
        for row in args["expressions"]
    ]
    if len(rows) > _LARGEST_VALUES or len({len(row) for row in rows}) != 1:
        invalid("The rows of VALUES are not equally long, or too many.")
    names = alias_columns(node) or [f"column{number}" for number in range(1, len(rows[0]) + 1)]
    if len(names) != len(rows[0]):
        invalid("VALUES has another number of columns than names.")
    alias, name = _alias_and_name(translator, node)
    return scope.add(alias, _constant_table(translator.dialect, name, names, rows))


def _constant_table(
    dialect: TextDialect, alias: str, names: Sequence[str], rows: Sequence[Any]
) -> FromClause:
    if not dialect.names_value_columns:
        selects = [select(*(cell.label(name) for cell, name in zip(row, names, strict=True))) for row in rows]
        return (union_all(*selects) if len(selects) > 1 else selects[0]).subquery(alias)
    columns = [column(name, common([row[n].type for row in rows])) for n, name in enumerate(names)]
    return values(*columns, name=alias).data([tuple(row) for row in rows])


def _function(translator: Translator, node: Any, scope: Scope) -> FromClause:
    """A function that returns rows, such as `generate_series(1, 10) AS n`. It may read the relations before it."""
    ordinal = None
    if isinstance(node, exp.Unnest):
        unnested = only(node, "expressions", "alias", "offset")
        name, nodes, ordinal = "unnest", unnested["expressions"], unnested.get("offset")
    else:
        args = only(node, "this", "alias", "ordinality")
        call, ordinal = args["this"], args.get("ordinality")
        name = str(call.this).lower() if isinstance(call, exp.Anonymous) else ""
        nodes = call.args.get("expressions") or ()
    functions = translator.dialect.table_functions
    if name not in functions:
        forbid_node(node)
    if not isinstance(node, exp.Unnest):
        only(call, "this", "expressions")
    arguments = series_arguments(name, [translator.expression(part, scope) for part in nodes])
    require_safe_patterns(translator, name, arguments)
    if name == "unnest" and len(arguments) > 1:
        forbid(
            "unnest() of several arrays",
            hint="Join them by number: unnest(a) WITH ORDINALITY AS x(item, number).",
        )
    alias = _alias(node) or name
    free = translator.alias(alias)
    columns = alias_columns(node) or ([alias] if functions[name] == (name,) else list(functions[name]))
    rows = getattr(func, name)(*arguments)
    if ordinal:
        number = _ordinality(ordinal, columns, functions[name])
        kinds = [column(one, item_type(name, arguments)) for one in columns[: len(functions[name])]]
        numbered = rows.table_valued(*kinds, with_ordinality=number)
        return scope.add(alias, numbered.render_derived(name=free))
    if len(columns) == 1 and arguments:
        kind = item_type(name, arguments)
        return scope.add(alias, rows.table_valued(column(columns[0], kind)).render_derived(name=free))
    if functions[name] == ("key", "value"):
        types = (Text(), item_type(name, arguments))
        pairs = [column(one, kind) for one, kind in zip(columns, types, strict=False)]
        return scope.add(alias, rows.table_valued(*pairs).alias(free))
    return scope.add(alias, rows.table_valued(*columns).alias(free))


def _ordinality(node: Any, columns: Sequence[str], names: Sequence[str]) -> str:
    """The name of the column that WITH ORDINALITY adds, which is the last one."""
    if isinstance(node, exp.Identifier):
        return str(node.name)
    return columns[len(names)] if len(columns) > len(names) else "ordinality"


def item_type(name: str, arguments: Sequence[Any]) -> SQLType:
    first: SQLType = arguments[0].type if arguments else NullType()
    if name.endswith(("_text", "_object_keys")):
        return Text()
    if name == "regexp_matches":
        return ARRAY(Text())
    if name == "generate_series":
        # A series of dates is one of instants.
        return DateTime(timezone=True) if isinstance(first, Date) else first
    kind: SQLType = getattr(first, "item_type", first)
    return kind


def returns_rows(item: Any, dialect: TextDialect) -> bool:
    """Whether an item of a SELECT list has a function that returns several rows."""
    parts = item.walk(prune=lambda node: isinstance(node, exp.Query)) if dialect.selects_rows else ()
    return any(gives_rows(part, dialect) for part in parts)


def gives_rows(node: Any, dialect: TextDialect) -> bool:
    """Whether it is a call, in a SELECT list, of a function that returns several rows of one column."""
    name = str(node.this).lower() if isinstance(node, exp.Anonymous) else ""
    if not dialect.selects_rows or len(dialect.table_functions.get(name, ())) != 1:
        return False
    outer = node
    while not isinstance(outer.parent, exp.Query | None):
        outer = outer.parent
    return isinstance(outer.parent, exp.Select) and outer.arg_key == "expressions"


def series_arguments(name: str, arguments: list[Any]) -> list[Any]:
    """The arguments; texts of generate_series() are instants and, the third one, an interval."""
    if name != "generate_series" or not any(map(is_text, arguments)):
        return arguments
    instants = [one.type for one in arguments[:2] if isinstance(one.type, Date | DateTime)]
    kind = instants[0] if instants else DateTime(timezone=True)
    return [
        cast(literal(one.value, Text()), Interval() if position > 1 else kind) if is_text(one) else one
        for position, one in enumerate(arguments)
    ]


def _alias_and_name(translator: Translator, node: Any) -> tuple[str, str]:
    """The name of a relation in the text, and its name for the database, which is never that of a table."""
    alias = _alias(node)
    is_free = alias and not translator.is_table_name(alias)
    name = translator.alias(alias) if is_free else translator.fresh_name(alias or "derived")
    return alias or name, name


def _alias(node: Any) -> str:
    """The alias of a relation; an empty text without one."""
    alias = node.args.get("alias")
    if alias is None or alias.this is None:
        return ""
    return str(alias.name) if isinstance(alias.this, exp.Identifier) else forbid_node(alias.this)


def alias_columns(node: Any) -> list[str]:
    """The names that `AS t(a, b)` gives to columns."""
    alias = node.args.get("alias")
    return [] if alias is None else [name.name for name in alias.args.get("columns") or ()]


def with_column_names(statement: Any, names: Sequence[str]) -> Any:
    """The statement with its columns renamed to `names`."""
    if not names:
        return statement
    outputs = list(statement.selected_columns)
    if len(outputs) != len(names):
        invalid(f"{len(outputs)} columns have {len(names)} names.", hint="Name each column once.")
    # A set operation.
    if not hasattr(statement, "with_only_columns"):
        inner = statement.subquery()
        return select(*(element.label(name) for element, name in zip(inner.c, names, strict=True)))
    labels = [element.label(name) for element, name in zip(outputs, names, strict=True)]
    return statement.with_only_columns(*labels, maintain_column_froms=True)


_READERS: Mapping[type[exp.Expression], Callable[[Any, Any, Scope], FromClause]] = {
    exp.Table: _table,
    exp.Subquery: _subquery,
    exp.Lateral: _lateral,
    exp.Unnest: _function,
    exp.Values: _values,
}
