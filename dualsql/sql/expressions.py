"""Columns, constants, CASE, CAST, subqueries as values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, TypeGuard

from sqlalchemy import (
    ColumnElement,
    all_,
    and_,
    any_,
    case,
    cast,
    collate,
    exists,
    extract,
    false,
    func,
    not_,
    null,
    or_,
    true,
    tuple_,
    type_coerce,
    types,
)
from sqlalchemy.sql import operators
from sqlalchemy.sql.elements import Tuple
from sqlglot import exp
from sqlglot.expressions import DType

from dualsql.columns import instants
from dualsql.columns.instants import normalized_instant
from dualsql.columns.own_types import Element, SQLType
from dualsql.freeze.types import EXTRACT_FIELDS
from dualsql.sql import durations, functions, infix, operations, values
from dualsql.sql.rows import row_value
from dualsql.sql.scope import EXPRESSION, QUOTED_WORD, Scope, excerpt, forbid, forbid_node, invalid, only
from dualsql.sqlalchemy_dialects import JSONB
from dualsql.text_dialects import TextDialect
from dualsql_client.conversions import whole_or_none

if TYPE_CHECKING:
    from dualsql.sql.translate import Translator


# More than a query needs: MariaDB's VARCHAR ends at 65,535 characters, PostgreSQL's NUMERIC at 1,000 digits.
_LARGEST = 1_000_000

_PLAIN: Mapping[Any, Callable[[], SQLType]] = {
    DType.BIGINT: types.BigInteger,
    DType.BOOLEAN: types.Boolean,
    DType.DATE: types.Date,
    DType.DATETIME: types.DateTime,
    DType.DOUBLE: types.Double,
    DType.FLOAT: types.Float,
    DType.INT: types.Integer,
    DType.SMALLINT: types.SmallInteger,
    DType.TINYINT: types.SmallInteger,
    DType.TEXT: types.Text,
    DType.TIME: types.Time,
    DType.TIMESTAMP: types.DateTime,
    DType.TIMESTAMPNTZ: types.DateTime,
    DType.TIMESTAMPTZ: lambda: types.DateTime(timezone=True),
    DType.VARBINARY: types.LargeBinary,
    DType.UUID: types.Uuid,
    DType.INTERVAL: types.Interval,
    DType.JSON: types.JSON,
    DType.JSONB: JSONB,
}
_SIZED: Mapping[Any, Callable[..., SQLType]] = {
    DType.CHAR: types.CHAR,
    DType.DECIMAL: types.Numeric,
    DType.VARCHAR: types.String,
}

# SQLite has no such types: a CAST to one of them returns a number.
DATE_LIKE = (types.Date, types.DateTime, types.Time, types.Interval)


def read_sql_type(node: Any, dialect: TextDialect) -> SQLType:
    """The type of a CAST."""
    if isinstance(node, exp.DataType):
        if node.this == DType.ARRAY and dialect.array is not None and len(node.expressions) == 1:
            items = read_sql_type(node.expressions[0], dialect)
            # SQLAlchemy's type of an array has any number of dimensions.
            return items if isinstance(items, types.ARRAY) else types.ARRAY(items)
        own = dialect.types.get(getattr(node.this, "name", ""))
        if own is not None and not node.expressions:
            return own()
        if node.this in _PLAIN and not node.expressions:
            return _PLAIN[node.this]()
        if node.this in _SIZED:
            return _SIZED[node.this](*map(_size, node.expressions))
    return forbid(
        f"CAST to {excerpt(node)}",
        hint="Write CAST(x AS DATE), or another standard type, such as INTEGER, NUMERIC or TEXT.",
    )


def _size(parameter: Any) -> int:
    text = parameter.this.name if isinstance(parameter, exp.DataTypeParam) else ""
    size = whole_or_none(text, _LARGEST)
    if size is None:
        forbid("A type of that size", hint="Give whole numbers, as in NUMERIC(10, 2).")
    return size


def _column(translator: Translator, node: Any, scope: Scope) -> Element:
    only(node, "this", "table", "db", QUOTED_WORD)
    if isinstance(node.this, exp.Star):
        forbid("A star in an expression", hint="Name the columns.")
    column = scope.column(node)
    return translator.quoted_text(node.name) if column is None else column


def _literal(translator: Translator, node: Any, _: Scope) -> Element:
    return values.string(node.name) if node.is_string else values.number(node.name, translator.dialect)


def _boolean(_: Translator, node: Any, __: Scope) -> Element:
    return true() if node.this else false()


def _null(*_: Any) -> Element:
    return null()


def _placeholder(translator: Translator, node: Any, _: Scope) -> Element:
    only(node, "this")
    if not isinstance(node.this, str):
        invalid("A parameter without a name.", hint="Write it as :name.")
    return values.value(translator.parameter(node.this))


def _paren(translator: Translator, node: Any, scope: Scope) -> Element:
    return translator.expression(only(node, "this")["this"], scope)


def _interval(translator: Translator, node: Any, _: Scope) -> Element:
    only(node, "this", "unit", "fraction_in_string")
    return durations.interval(node, translator)


def _moment(name: str, kind: Any) -> Any:
    def read(_: Translator, node: Any, __: Scope) -> Element:
        only(node)
        moment: Element = getattr(func, name)(type_=kind)
        return moment

    return read


def _connected(connect: Any) -> Any:
    def read(translator: Translator, node: Any, scope: Scope) -> Element:
        # A chain of AND is nested to the left. It is walked in a loop, because recursion would limit its length.
        parts = [translator.expression(part, scope) for part in node.flatten(unnest=False)]
        result: Element = connect(*parts)
        return result

    return read


def _disjunction(translator: Translator, node: Any, scope: Scope) -> Element:
    """The disjunction; on SQLite, the equations that all its branches have stand before it.

    Databases use the index of such a column, and see by themselves which equations are the same. SQLite does so only
    where the values are literals.
    """
    branches = [_conjuncts(part) for part in node.flatten(unnest=False)]
    shared = set.intersection(*({each for each in branch if _is_equation(each)} for branch in branches))
    is_needed = translator.dialect.distinguishes_parameters and shared
    if not is_needed or any(shared.issuperset(branch) for branch in branches):
        return _connected(or_)(translator, node, scope)  # type: ignore[no-any-return]

    def read(branch: Sequence[Any], *, are_shared: bool) -> Element:
        parts = [each for each in branch if (each in shared) is are_shared]
        return and_(*(translator.expression(each, scope) for each in parts))

    rest = or_(*(read(branch, are_shared=False) for branch in branches))
    return and_(read(branches[0], are_shared=True), rest)


def _conjuncts(part: Any) -> list[Any]:
    """The conditions of which ANDs, one in the parentheses of another, make this one, in order."""
    conjuncts, waiting = [], [part]
    while waiting:
        condition = waiting.pop()
        bare = condition.unnest()
        if isinstance(bare, exp.And):
            waiting += reversed([*bare.flatten(unnest=False)])
        else:
            conjuncts.append(bare if _is_equation(bare) else condition)
    return conjuncts


def _is_equation(part: Any) -> bool:
    """Whether it compares columns or literals: it may be evaluated before what stood before it."""
    sides = (exp.Column, exp.Literal)
    return isinstance(part, exp.EQ) and isinstance(part.this, sides) and isinstance(part.expression, sides)


def _not(translator: Translator, node: Any, scope: Scope) -> Element:
    inner = translator.expression(only(node, "this")["this"], scope)
    negation = not_(operations.operand(inner, operators.OperatorClass.BOOLEAN_ALGEBRA))
    around = node.parent
    while isinstance(around, exp.Paren):
        around = around.parent
    return negation if isinstance(around, _OF_CONDITIONS) else operations.enclose(negation)


_OF_CONDITIONS = (
    exp.Where, exp.Having, exp.Join, exp.And, exp.Or, exp.Not, exp.If, exp.Select, exp.Alias, exp.Ordered,
)  # fmt: skip
"""Where a condition stands by itself, and not as an operand."""


def _is(translator: Translator, node: Any, scope: Scope) -> Element:
    args = only(node, "this", "expression", "negate")
    left = translator.expression(args["this"], scope)
    value = args["expression"]
    if not isinstance(value, exp.Null | exp.Boolean):
        forbid_node(node)
    right = translator.expression(value, scope)
    return left.is_not(right) if args.get("negate") else left.is_(right)


def _like(affirmed: Callable[..., Element], negated: Callable[..., Element]) -> Any:
    def read(translator: Translator, node: Any, scope: Scope, escape: str | None = None) -> Element:
        args = only(node, "this", "expression", "negate")
        left, right = (translator.expression(args[name], scope) for name in ("this", "expression"))
        # Of ALL (...), NOT LIKE is another question than NOT of LIKE.
        apply = negated if args.get("negate") else affirmed
        return apply(operations.textual(left), right, escape=escape)

    return read


_LIKE = _like(ColumnElement.like, ColumnElement.not_like)
_ILIKE = _like(ColumnElement.ilike, ColumnElement.not_ilike)


def _collate(translator: Translator, node: Any, scope: Scope) -> Element:
    args = only(node, "this", "expression")
    collations = translator.dialect.collations
    name = next((one for one in collations if one.lower() == args["expression"].name.lower()), None)
    if name is None:
        forbid(f"COLLATE {args['expression'].name[:40]}", hint=f"Known: {', '.join(collations) or 'none'}.")
    return collate(operations.textual(translator.expression(args["this"], scope)), name)


def _escape(translator: Translator, node: Any, scope: Scope) -> Element:
    args = only(node, "this", "expression")
    mark = args["expression"]
    reader = {exp.Like: _LIKE, exp.ILike: _ILIKE}.get(type(args["this"]))
    if reader is None or not isinstance(mark, exp.Literal) or len(mark.name) != 1:
        forbid_node(node)
    match: Element = reader(translator, args["this"], scope, mark.name)
    return match


def _between(translator: Translator, node: Any, scope: Scope) -> Element:
    args = only(node, "this", "low", "high")
    value = translator.expression(args["this"], scope)
    low, high = (
        operations.alike(translator, translator.expression(args[name], scope), value)
        for name in ("low", "high")
    )
    values.require_same(translator, value, low)
    values.require_same(translator, value, high)
    if operations.spells_instants(translator.capabilities, value, low, high):
        return instants.between(value, low, high)
    if isinstance(value, Tuple):
        translator.repeat(value, scope.work)
        from_low = operations.comparison(operators.ge, value, low, translator.capabilities)
        return and_(from_low, operations.comparison(operators.le, value, high, translator.capabilities))
    condition: Element = value.between(operations.enclose(low), operations.enclose(high))
    condition.type = types.Boolean()  # SQLAlchemy gives it none
    return condition


def _in(translator: Translator, node: Any, scope: Scope) -> Element:
    args = only(node, "this", "expressions", "query")
    value = translator.expression(args["this"], scope)
    nodes = [args["query"]] if args.get("query") is not None else list(args.get("expressions") or ())
    if not nodes:
        invalid("IN has no values.", hint="Write some: x IN (1, 2).")
    rows = _rows(nodes)
    if rows is not None and not isinstance(value, Tuple):
        # A row of one value is that value.
        nodes = [_only_cell(row) for row in rows]
    elif rows is not None:
        tuples = [tuple_(*(translator.expression(cell, scope) for cell in row)) for row in rows]
        if _has_instants(value, translator):
            return _equals_one_row(translator, value, tuples, scope)
        if any(len(row.clauses) != len(value.clauses) for row in tuples):
            _refuse_width()
        return value.in_([operations.alike(translator, row, value) for row in tuples])
    if args.get("query") is not None:
        inner = _subselect(translator, nodes[0], scope)
        values.require_same(translator, value, next(iter(inner.selected_columns)))
        return _in_query(translator, value, inner)
    options = [operations.alike(translator, option, value) for option in _members(translator, nodes, scope)]
    for option in options:
        values.require_same(translator, value, option)
    if operations.spells_instants(translator.capabilities, value, *options):
        scope.work.spend(EXPRESSION * len(options))
        return instants.is_one_of(value, options)
    if _has_instants(value, translator) and all(isinstance(option, Tuple) for option in options):
        return _equals_one_row(translator, value, options, scope)
    constants = values.list_parameter(options)
    return value.in_(options if constants is None else constants)


def _has_instants(value: Element, translator: Translator) -> TypeGuard[Tuple]:
    """Whether it is a row with an instant that the database stores as text."""
    return isinstance(value, Tuple) and operations.spells_instants(translator.capabilities, *value.clauses)


def _equals_one_row(translator: Translator, value: Tuple, rows: list[Any], scope: Scope) -> Element:
    for _ in rows:
        translator.repeat(value, scope.work)
    return or_(*(_equals_row(translator, value, list(row.clauses)) for row in rows))


def _members(translator: Translator, nodes: list[Any], scope: Scope) -> list[Element]:
    """The members of IN. A list of constants becomes one parameter, so it may be long."""
    if not all(isinstance(option, exp.Literal) for option in nodes):
        return [translator.expression(option, scope) for option in nodes]
    scope.work.spend(len(nodes))
    return [_literal(translator, option, scope) for option in nodes]


def _equals_row(translator: Translator, value: Tuple, row: list[Element]) -> Element:
    if len(row) != len(value.clauses):
        _refuse_width()
    pairs = zip(value.clauses, row, strict=True)
    cells = ((one, operations.alike(translator, cell, one)) for one, cell in pairs)
    return and_(
        *(operations.comparison(operators.eq, one, cell, translator.capabilities) for one, cell in cells)
    )


def _in_query(translator: Translator, value: Element, query: Any) -> Element:
    outputs = list(query.selected_columns)
    if len(outputs) != (len(value.clauses) if isinstance(value, Tuple) else 1):
        _refuse_width()
    if len(outputs) == 1 and operations.spells_instants(translator.capabilities, value, *outputs):
        value, query = instants.normalized_instant(value), instants.selecting_instants(query)
    return value.in_(query)


def _rows(nodes: list[Any]) -> list[Any] | None:
    """The rows of `IN (VALUES (1, 2), (3, 4))`; None where there is no VALUES."""
    first, *others = nodes or [None]
    if isinstance(first, exp.Anonymous) and str(first.this).lower() == "values":
        # A function in MySQL's INSERT, so sqlglot reads its first row as arguments, and the others as members of IN.
        if not all(isinstance(row, exp.Paren | exp.Tuple) for row in others):
            invalid("A row of VALUES is not in parentheses.", hint="Write VALUES (1), (2).")
        return [
            first.expressions,
            *([row.this] if isinstance(row, exp.Paren) else row.expressions for row in others),
        ]
    inner = first.this if isinstance(first, exp.Subquery) else first
    if others or not isinstance(inner, exp.Values):
        return None
    return [row.expressions for row in only(inner, "expressions")["expressions"]]


def _only_cell(row: list[Any]) -> Any:
    if len(row) != 1:
        _refuse_width()
    return row[0]


def _refuse_width() -> NoReturn:
    invalid(
        "The rows of IN have another number of values than the value before IN.",
        hint="Give each row of IN as many values as stand before IN.",
    )


def _any_of(wrap: Any) -> Any:
    def read(translator: Translator, node: Any, scope: Scope) -> Element:
        inner = only(node, "this")["this"]
        if isinstance(inner, exp.Select | exp.SetOperation | exp.Subquery):
            result: Element = wrap(_subselect(translator, inner, scope).scalar_subquery())
        else:
            result = wrap(values.compared_array(translator, node, inner, scope))
        return result

    return read


def _case(translator: Translator, node: Any, scope: Scope) -> Element:
    args = only(node, "this", "ifs", "default")
    subject = None if args.get("this") is None else translator.expression(args["this"], scope)
    branches = []
    for branch in args["ifs"]:
        condition = translator.expression(only(branch, "this", "true")["this"], scope)
        if subject is not None:
            # The SQL has the subject once for each branch, and each time counts as work.
            translator.repeat(subject, scope.work)
            operand = operations.alike(translator, condition, subject)
            condition = operations.comparison(operators.eq, subject, operand, translator.capabilities)
        branches.append((condition, translator.expression(branch.args["true"], scope)))
    default = args.get("default")
    otherwise = null() if default is None else translator.expression(default, scope)
    values = [*(value for _, value in branches), otherwise]
    return functions.with_common_type(case(*branches, else_=otherwise), values)


def _cast(translator: Translator, node: Any, scope: Scope) -> Element:
    args = only(node, "this", "to")
    target = read_sql_type(args["to"], translator.dialect)
    value = translator.expression(args["this"], scope)
    is_cast = translator.dialect.casts_constants and isinstance(target, DATE_LIKE[:3])
    if not is_cast and values.is_text(value) and isinstance(target, (*DATE_LIKE, types.Uuid)):
        constant = values.typed_literal(value, target, translator.capabilities)
        if constant is not value and translator.dialect.casts_dates and isinstance(target, DATE_LIKE):
            return cast(constant, target)
        if constant is not value or translator.dialect.interval is None:
            return constant
    if translator.dialect.date_cast_hint and isinstance(value.type, types.Date | types.DateTime):
        if isinstance(target, types.Date):
            return durations.start_of(translator, value, "day")
        if isinstance(target, types.DateTime):
            return type_coerce(normalized_instant(value), types.DateTime())
    if translator.dialect.date_cast_hint and isinstance(target, DATE_LIKE):
        forbid("CAST to a date", hint=translator.dialect.date_cast_hint)
    result = cast(value, target)
    # A database that computes in doubles does not round to the scale of the type.
    return (
        functions.with_computed_type(result, translator.dialect)
        if translator.dialect.computes_in_doubles
        else result
    )


def _extract(translator: Translator, node: Any, scope: Scope) -> Element:
    args = only(node, "this", "expression")
    field = args["this"].name.lower()
    # SQLAlchemy writes the field into the SQL as it is given (sql/compiler.py: visit_extract).
    own = translator.dialect.extract_fields
    if field not in (own or EXTRACT_FIELDS):
        hint = translator.dialect.instead.get(field, "Write year, month, day, hour, minute or second.")
        invalid(f"EXTRACT has no field {field[:30]!r}.", hint=hint)
    value = translator.expression(args["expression"], scope)
    if own and isinstance(value.type, (types.Boolean, types.Numeric, types.Integer)):
        invalid("EXTRACT takes a date.", hint="Write extract(year FROM date(x)).")
    extraction: Element = extract(field, value)
    # SQLAlchemy takes every field for a whole number.
    kind = translator.capabilities.computation.fractions.get(field)
    return extraction if kind is None else type_coerce(extraction, kind)


def _zone(translator: Translator, node: Any, scope: Scope) -> Element:
    args = only(node, "this", "zone")
    at_time_zone = translator.dialect.at_time_zone
    if at_time_zone is None:
        forbid("AT TIME ZONE")
    value, zone = (translator.expression(args[name], scope) for name in ("this", "zone"))
    return at_time_zone(zone, value)


def _array(translator: Translator, node: Any, scope: Scope) -> Element:
    array = translator.dialect.array
    if array is None:
        forbid("ARRAY")
    items = [translator.expression(item, scope) for item in only(node, "expressions")["expressions"]]
    if not items and not isinstance(node.parent, exp.Cast):
        invalid("An empty array has no type.", hint="Write CAST(ARRAY[] AS INTEGER[]), or another type.")
    # SQLAlchemy takes the type of the first item, which may be NULL; PostgreSQL reads an array of NULLs as texts.
    types_of_items = (item.type for item in items if not isinstance(item.type, types.NullType))
    return array(items, type_=next(types_of_items, types.Text() if items else None))


def _bracket(translator: Translator, node: Any, scope: Scope) -> Element:
    """The element of an array, whose first one is number 1."""
    args = only(node, "this", "expressions")
    index = args["expressions"][0] if len(args["expressions"]) == 1 else None
    number = whole_or_none(index.name, _LARGEST) if isinstance(index, exp.Literal) else None
    if translator.dialect.array is None or number is None:
        forbid_node(node)
    value = translator.expression(args["this"], scope)
    if not isinstance(value.type, types.ARRAY):
        forbid(f"An element of {excerpt(args['this'])}", hint="Only arrays have elements by number.")
    # The parser counts from 0.
    item: Element = value[number + 1]
    return item


def _json(text: str, kind: Any) -> Any:
    def read(translator: Translator, node: Any, scope: Scope) -> Element:
        args = only(node, "this", "expression", "only_json_types")
        if translator.dialect.at_path is not None and args["expression"].name.startswith("$."):
            # It would be a key of this name, and NULL.
            invalid("A key is no path.", hint=f"Write x {text} 'a', or x #>> '{{a, b}}' for a path.")
        value, path = (translator.expression(args[name], scope) for name in ("this", "expression"))
        if translator.dialect.has_json_arrows:
            is_document = (
                isinstance(value.type, types.JSON) and not translator.capabilities.computation.is_loose
            )
            result_type = value.type if text == "->" and is_document else kind
            # The precedence of SQLAlchemy's own JSON operators (sqlalchemy/sql/operators.py, _PRECEDENCE).
            return value.op(text, precedence=15, return_type=result_type)(path)
        part: Element = func.json_extract(value, path)
        return func.json_unquote(part, type_=kind) if text == "->>" else part

    return read


def _subselect(translator: Translator, node: Any, scope: Scope) -> Any:
    """A query inside an expression. It may read columns of the enclosing queries."""
    if isinstance(node, exp.Subquery):
        node = only(node, "this")["this"]
    return translator.query(node, scope.inner())


def _scalar(translator: Translator, node: Any, scope: Scope) -> Element:
    statement = _subselect(translator, node, scope)
    if len(statement.selected_columns) != 1:
        invalid("A subquery used as a value must have one column.", hint="Select one column in it.")
    scalar: Element = statement.scalar_subquery()
    return scalar


def _exists(translator: Translator, node: Any, scope: Scope) -> Element:
    return exists(_subselect(translator, only(node, "this")["this"], scope))


HANDLERS: Mapping[type[exp.Expression], Any] = {
    exp.Column: _column,
    exp.Literal: _literal,
    exp.Boolean: _boolean,
    exp.Null: _null,
    exp.Placeholder: _placeholder,
    exp.Paren: _paren,
    exp.Interval: _interval,
    exp.CurrentDate: _moment("current_date", types.Date()),
    exp.CurrentTime: _moment("current_time", types.Time()),
    exp.CurrentTimestamp: _moment("current_timestamp", types.DateTime(timezone=True)),
    exp.Localtimestamp: _moment("localtimestamp", types.DateTime()),
    exp.And: _connected(and_),
    exp.Or: _disjunction,
    exp.Not: _not,
    **operations.HANDLERS,
    **infix.HANDLERS,
    exp.Is: _is,
    exp.Like: _LIKE,
    exp.ILike: _ILIKE,
    exp.Escape: _escape,
    exp.Collate: _collate,
    exp.Between: _between,
    exp.In: _in,
    exp.Any: _any_of(any_),
    exp.All: _any_of(all_),
    exp.Case: _case,
    exp.Cast: _cast,
    exp.Extract: _extract,
    exp.AtTimeZone: _zone,
    exp.Array: _array,
    exp.Tuple: row_value,
    exp.Bracket: _bracket,
    exp.JSONExtract: _json("->", types.NullType()),
    exp.JSONExtractScalar: _json("->>", types.String()),
    exp.Subquery: _scalar,
    exp.Exists: _exists,
}
