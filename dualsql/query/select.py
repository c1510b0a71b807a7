"""Builds the Select of a query over a stored Select.

If each row of the result is a row of its tables, conditions on plain columns are added to the author's own WHERE, so
that they can use indexes. All other queries select from the result as a subquery, which databases flatten if they can.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import BindParameter, CompoundSelect, Dialect, FromClause, select
from sqlalchemy.sql.visitors import iterate

from dualsql.capabilities import Capabilities
from dualsql.columns.instants import is_instant, normalized_instant
from dualsql.columns.meanings import Meanings
from dualsql.columns.result import ResultColumn, chosen_columns, with_criteria_of
from dualsql.errors import BadParameterError, InvalidSQLError, UnknownColumnError, refuse_unknown
from dualsql.freeze.document import AnySelect
from dualsql.kept.cells import Use
from dualsql.plan import Shape, all_rows, ordered, shape
from dualsql.plan.derived import (
    as_subquery,
    nested,
    projected,
    reads_plainly,
    sole_key,
    with_label,
    with_outputs,
)
from dualsql.plan.keys import Key
from dualsql.plan.order import require_order
from dualsql.query.aggregates import AGGREGATES, group_key, ranked_values, write_aggregate
from dualsql.query.conditions import Conditions, is_plain_text
from dualsql.query.model import (
    OPERATORS,
    AllOf,
    AnyOf,
    Comparison,
    Condition,
    Negation,
    ResultQuery,
    SQLQuery,
    StructuredQuery,
)
from dualsql.query.parse import read_structured_query
from dualsql.query.percentiles import RankedValues, with_ranks
from dualsql.resource import NOTES_OPTION, RELATION, notes_of
from dualsql.sql.orders import relation_in_order
from dualsql.sql.service import NO_TABLES, ReadableTables, sql_reader
from dualsql_client.wire import SortKey


def read_result_query(values: Any) -> ResultQuery:
    """The question in a JSON object; one with the key `sql` is a SQL text.

    Raises:
        BadParameterError, LimitExceededError: it is malformed or too large.
    """
    if isinstance(values, StructuredQuery | SQLQuery):
        return values
    return (
        read_sql_query(values)
        if isinstance(values, Mapping) and "sql" in values
        else read_structured_query(values)
    )


def build_select(
    query: ResultQuery,
    result: Shape,
    capabilities: Capabilities,
    dialect: Dialect,
    *,
    is_fenced: bool = False,
    tables: ReadableTables = NO_TABLES,
) -> AnySelect:
    """The Select that answers `query` about `result`, on the database of `dialect`.

    Args:
        is_fenced: the caller may not see all rows: expressions of a SQL text are computed for visible rows only.
        tables: that a SQL text may read besides the result.

    Raises:
        UnknownColumnError, BadParameterError: a column is not there, or has no such operation.
        InvalidSQLError, ForbiddenSQLError, UnknownTableError: the SQL text is refused; see `dualsql.sql`.
    """
    if isinstance(query, SQLQuery):
        return build_sql_select(query, result, capabilities, dialect, is_fenced=is_fenced, tables=tables)
    return build_structured_select(query, result, capabilities)


def build_structured_select(
    question: StructuredQuery, result: Shape, capabilities: Capabilities
) -> AnySelect:
    """The Select of the query `question` over `result`.

    Raises:
        UnknownColumnError: the result has no such column.
        BadParameterError: the column's type or the database does not support an operation.
    """
    statement = (
        _select_groups(question, result, capabilities)
        if question.is_grouped
        else _select_rows(question, result, capabilities)
    )
    if question.limit is None and not question.offset:
        return statement
    return statement.limit(question.limit).offset(question.offset or None)


def _select_rows(question: StructuredQuery, result: Shape, capabilities: Capabilities) -> AnySelect:
    columns = chosen_columns(result.columns, question.columns)
    names = {one.column for one in _comparisons_in(question.condition)} | {
        key.column for key in question.order
    }
    is_descending = bool(question.order) and question.order[-1].is_descending
    # Beside GROUP BY, DISTINCT or LIMIT, or about a computed column, a condition in the author's own WHERE would
    # filter other rows than those of the result.
    if not reads_plainly(result, [column for column in result.columns if column.name in names]):
        result = nested(result, capabilities, is_descending=is_descending)
        columns = chosen_columns(result.columns, question.columns)
    if question.columns is not None:
        positions = [result.columns.index(column) for column in columns]
        if projected(result.select, positions) is None:
            result = nested(result, capabilities, is_descending=is_descending)
            columns = [result.columns[position] for position in positions]
    return _selection(question, result, columns, capabilities)


def _selection(
    question: StructuredQuery, result: Shape, columns: Sequence[ResultColumn], capabilities: Capabilities
) -> AnySelect:
    statement = result.select
    if question.condition is not None:
        statement = statement.where(_conditions(result.columns, capabilities).write(question.condition))
    if question.order:
        sort = [
            SortKey(field=key.column, order="desc" if key.is_descending else "asc") for key in question.order
        ]
        keys = [_sorted_by(column, capabilities) for column in result.columns]
        statement = ordered(Shape(statement, tuple(keys)), capabilities, sort=sort).arranged
    if question.columns is None:
        return statement
    outputs = [with_label(column) for column in columns]
    return with_outputs(statement, outputs)


def _sorted_by(column: ResultColumn, capabilities: Capabilities) -> ResultColumn:
    # Where instants are kept as texts, one instant can be spelt in several ways, which sort apart.
    if not capabilities.spells_instants or not is_instant(column.expression):
        return column
    return column.moved(normalized_instant(column.expression))


def _comparisons_in(condition: Condition | None) -> Iterator[Comparison]:
    match condition:
        case AllOf(parts) | AnyOf(parts):
            for part in parts:
                yield from _comparisons_in(part)
        case Negation(part):
            yield from _comparisons_in(part)
        case Comparison():
            yield condition
        case None:
            pass


def uses_in(question: StructuredQuery) -> Iterator[tuple[str, Use]]:
    """The columns of the result, with what they are used for. Those that are only shown are left out."""
    for comparison in _comparisons_in(question.condition):
        yield comparison.column, "nulls" if OPERATORS[comparison.operator].kind == "null" else "compared"
    for group in question.groups:
        yield group.column, "grouped"
    for measure in question.aggregates:
        if measure.column is not None:
            yield measure.column, AGGREGATES[measure.function].use
    if not question.is_grouped:
        for key in question.order:
            yield key.column, "sorted"


def _select_groups(question: StructuredQuery, result: Shape, capabilities: Capabilities) -> AnySelect:
    _require_several_rows(question, result)
    relation, columns = as_relation(_with_columns(result, _read_by(question)), capabilities)
    source = _conditions(columns, capabilities)
    keys = [group_key(group, source) for group in question.groups]
    rows = None if question.condition is None else source.write(question.condition)
    values = ranked_values(question.aggregates, source)
    has_parameters = any(isinstance(part, BindParameter) for key in keys for part in iterate(key))
    if values or has_parameters or any(group.bucket for group in question.groups):
        # A computed group gets a name in a subquery: each time it is written, its parameters would be new ones, and
        # the database would see different expressions.
        relation, columns, keys = _with_keys(relation, columns, keys, rows)
        source, rows = _conditions(columns, capabilities), None
    ranks: dict[str, RankedValues] = {}
    if values:
        values = ranked_values(question.aggregates, source)
        relation, columns, keys, ranks = with_ranks(relation, columns, keys, values, capabilities)
        source = _conditions(columns, capabilities)
    outputs = [
        *(key.label(group.name) for key, group in zip(keys, question.groups, strict=True)),
        *(write_aggregate(measure, source, ranks).label(measure.name) for measure in question.aggregates),
    ]
    statement: AnySelect = select(*outputs).select_from(relation).group_by(*keys)
    if rows is not None:
        statement = statement.where(rows)
    return with_criteria_of(result.select, _finish(question, statement, capabilities, result.meanings))


def _read_by(question: StructuredQuery) -> set[str]:
    """The columns of the result that a grouped query reads."""
    measured_columns = {measure.column for measure in question.aggregates if measure.column}
    grouped_columns = {group.column for group in question.groups}
    return grouped_columns | measured_columns | {one.column for one in _comparisons_in(question.condition)}


def _with_columns(result: Shape, names: set[str]) -> Shape:
    """The result with only these columns, if the others can be omitted.

    A database that does not flatten subqueries copies every column from one to the next.
    """
    unknown = sorted(names - {column.name for column in result.columns})
    if unknown:
        raise UnknownColumnError(unknown[0], [column.name for column in result.columns])
    # count(*) reads no column, but a SELECT needs one.
    positions = [position for position, column in enumerate(result.columns) if column.name in names] or [0]
    projection = None if result.is_cut else projected(result.select, positions)
    return (
        result
        if projection is None
        else Shape(projection, tuple(result.columns[place] for place in positions))
    )


def _with_keys(
    relation: FromClause, columns: Sequence[ResultColumn], keys: Sequence[Any], rows: Any
) -> tuple[FromClause, list[ResultColumn], list[Any]]:
    """The relation with the groups' keys as columns, and only the rows of the condition."""
    labelled = [key.label(f"key_{number}") for number, key in enumerate(keys)]
    statement: AnySelect = select(*(column.expression for column in columns), *labelled).select_from(relation)
    inner = as_subquery(statement if rows is None else statement.where(rows), "bucketed")
    width = len(columns)
    relocated = [
        column.moved(element) for column, element in zip(columns, list(inner.c)[:width], strict=True)
    ]
    return inner, relocated, list(inner.c)[width:]


def _finish(
    question: StructuredQuery, statement: AnySelect, capabilities: Capabilities, meanings: Meanings
) -> AnySelect:
    """The requested groups, in the requested order or by their keys.

    Most databases sort the groups in an outer SELECT. With ORDER BY and LIMIT beside GROUP BY, PostgreSQL read a
    million rows by an index (804 ms instead of 188 ms).
    """
    columns = {column.name: column for column in _outputs(statement, meanings)}
    if question.having is not None:
        answer = Conditions(columns, capabilities.query, capabilities, of="The answer")
        statement = statement.having(answer.write(question.having))
    if not question.groups and not question.order:
        return statement
    outputs: Any = dict(statement.selected_columns.items())
    if capabilities.groups_before_order:
        # Each group by what it is grouped by: the tie-breaker of pages is the same, and is not added then.
        outputs |= {group.name: columns[group.name].expression for group in question.groups}
    else:
        outputs = as_subquery(statement, "answer").c
        statement = select(*outputs)
    ordered_names = {key.column for key in question.order}
    # Groups of texts come by code point on every database. Most group by what sorts so; PostgreSQL does not.
    query = capabilities.query
    texts = {group.name for group in question.groups if is_plain_text(columns[group.name])}
    by_code_point = texts if query.ordered is not query.exact else set()
    order = [(key.column, key.is_descending) for key in question.order]
    order += [(group.name, False) for group in question.groups if group.name not in dict(order)]
    for name, is_descending in order:
        if name not in columns:
            raise UnknownColumnError(name, list(columns), of="The answer")
        if name in ordered_names:
            require_order(columns[name])
        expression = capabilities.sortable(outputs[name])
        expression = query.ordered(expression) if name in by_code_point else expression
        key = Key(expression=expression, is_descending=is_descending, is_nulls_last=True)
        statement = statement.order_by(*key.clauses(capabilities))
    return statement


def _outputs(statement: AnySelect, meanings: Meanings) -> list[ResultColumn]:
    """The columns of the answer as expressions without labels, because HAVING cannot use labels."""
    elements: list[Any] = list(statement.selected_columns)
    return [ResultColumn(column.name, column.element, column.type, meanings=meanings) for column in elements]


def _require_several_rows(question: StructuredQuery, result: Shape) -> None:
    """Refuse groups by a unique column: each group would be one row."""
    key = sole_key(result.select)
    for group in question.groups:
        column = next((one for one in result.columns if one.name == group.column), None)
        if column is not None and key is not None and key(column.expression):
            others = [one.name for one in result.columns if not key(one.expression)]
            raise BadParameterError(
                f"Each row has a value of {group.column[:80]!r} of its own, and would be a group.",
                hint=f"Group by another column: {', '.join(others[:10])}.",
                details={"column": group.column, "columns": others[:100]},
            )


def as_relation(result: Shape, capabilities: Capabilities) -> tuple[FromClause, list[ResultColumn]]:
    """The result as a subquery, and its columns under the result's own names."""
    inner = as_subquery(all_rows(ordered(result, capabilities)), RELATION)
    return inner, [column.moved(element) for column, element in zip(result.columns, inner.c, strict=True)]


def _conditions(columns: Sequence[ResultColumn], capabilities: Capabilities) -> Conditions:
    by_name = {column.name: column for column in columns}
    return Conditions(by_name, capabilities.query, capabilities)


MAXIMUM_PARAMETERS = 100

TEXT_KEYS = ("sql", "parameters", "columns", "limit", "offset")
"""Keys of a query in SQL."""


def read_sql_query(values: Any) -> SQLQuery:
    """Read a query from `{"sql": "SELECT ... FROM data", "parameters": {"state": "NJ"}}`.

    Raises:
        BadParameterError: the object is malformed. The SQL is parsed later.
    """
    if not isinstance(values, Mapping):
        raise BadParameterError(
            "A question is a JSON object.", hint='Such as {"sql": "SELECT count(*) FROM data"}.'
        )
    refuse_unknown(values, TEXT_KEYS, "key")
    sql, parameters = values.get("sql"), values.get("parameters") or {}
    if not isinstance(sql, str) or not sql.strip():
        raise BadParameterError(
            "sql is a text.", hint="Such as SELECT state, count(*) FROM data GROUP BY state."
        )
    if not isinstance(parameters, Mapping) or len(parameters) > MAXIMUM_PARAMETERS:
        raise BadParameterError(f"parameters is an object of at most {MAXIMUM_PARAMETERS} values.")
    for name, value in parameters.items():
        if not isinstance(name, str) or not isinstance(value, str | int | float | None):
            raise BadParameterError(
                "A parameter is a text, a number, true, false or null.", details={"name": name}
            )
    rest = read_structured_query({key: values[key] for key in TEXT_KEYS[2:] if key in values})
    return SQLQuery(
        sql,
        tuple(sorted(parameters.items())),
        columns=rest.columns,
        limit=rest.limit,
        offset=rest.offset,
    )


def build_sql_select(
    text: SQLQuery,
    result: Shape,
    capabilities: Capabilities,
    dialect: Dialect,
    *,
    is_fenced: bool,
    tables: ReadableTables,
) -> AnySelect:
    """The Select of the SQL text, which reads `result` and `tables`. If fenced, it computes nothing from hidden rows.

    Raises:
        InvalidSQLError, ForbiddenSQLError, UnknownTableError, UnknownColumnError: see `dualsql.sql`.
        PackageMissingError: the extra `sql` is not installed.
    """
    read_select = sql_reader()
    reserved = " ".join([text.sql, *tables.column_names()])
    relation, orders = relation_in_order(ordered(result, capabilities), RELATION, reserved)
    hides = (lambda _: True) if is_fenced else None
    statement: Any = read_select(
        text.sql,
        tables.registry,
        dialect.name,
        dict(text.parameters),
        is_visible=tables.is_visible,
        relations={RELATION: relation},
        orders=orders,
        hides=hides,
        meanings=result.meanings,
        version=getattr(dialect, "server_version_info", None),
    )
    if text.needs_result and not any(part is relation for part in iterate(statement)):
        raise InvalidSQLError(
            f"The SQL does not read the result, which is called {RELATION}.",
            hint=f"Write FROM {RELATION}, and tables only beside it.",
        )
    notes = notes_of(statement)
    if isinstance(statement, CompoundSelect):
        statement = select(*as_subquery(statement, "answer").c)
    if text.columns is not None or text.limit is not None or text.offset:
        part = StructuredQuery(columns=text.columns, limit=text.limit, offset=text.offset)
        statement = build_structured_select(part, shape(statement), capabilities)
    answer: AnySelect = with_criteria_of(result.select, statement)
    return answer.execution_options(**{NOTES_OPTION: notes}) if notes else answer
