"""SELECT, set operations, WITH and ORDER BY."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from sqlalchemy import (
    BindParameter,
    ColumnElement,
    cast,
    except_,
    except_all,
    func,
    intersect,
    intersect_all,
    select,
    tuple_,
    types,
    union,
    union_all,
)
from sqlalchemy.sql.elements import Label, Null, WrapsColumnExpression
from sqlglot import exp

from dualsql import sqlalchemy_internals as internals
from dualsql.columns import instants
from dualsql.columns.instants import normalized_instant
from dualsql.columns.own_types import Element
from dualsql.sql import functions, operations
from dualsql.sql.operations import spells_instants
from dualsql.sql.parse import nulls_first
from dualsql.sql.relations import alias_columns, read_from, returns_rows, with_column_names
from dualsql.sql.rows import refuse_row
from dualsql.sql.scope import OUTPUT, SELECT, Scope, forbid, forbid_node, invalid, only, output_of
from dualsql.sql.values import require_groups, require_same, require_sortable
from dualsql.sqlalchemy_dialects import distinct_on
from dualsql.text_dialects import TextDialect
from dualsql_client.conversions import whole_or_none

if TYPE_CHECKING:
    from dualsql.sql.translate import Translator


def read_order(translator: Translator, node: Any, scope: Scope) -> Iterator[ColumnElement[Any]]:
    """The keys of an ORDER BY inside an expression."""
    for key in node.expressions:
        args = only(key, "this", "desc", "nulls_first")
        yield with_direction(translator, translator.expression(args["this"], scope), key)


def with_direction(translator: Translator, element: ColumnElement[Any], key: Any) -> ColumnElement[Any]:
    """The element with the direction that `key`, an exp.Ordered, gives it."""
    require_sortable(translator, element)
    if spells_instants(translator.capabilities, element):
        element = normalized_instant(element)
    descending = bool(key.args.get("desc"))
    sort_key: ColumnElement[Any] = element.desc() if descending else element
    first = bool(key.args.get("nulls_first"))
    if first == nulls_first(translator.dialect, descending=descending):
        return sort_key
    return sort_key.nulls_first() if first else sort_key.nulls_last()


_LARGEST_LIMIT = 2**31 - 1
_OPERATIONS = {
    (exp.Union, True): union,
    (exp.Union, False): union_all,
    (exp.Except, True): except_,
    (exp.Except, False): except_all,
    (exp.Intersect, True): intersect,
    (exp.Intersect, False): intersect_all,
}


def read_query(translator: Translator, node: Any, scope: Scope) -> Any:
    """Translate a query. Its relations are added to `scope`."""
    if isinstance(node, exp.Subquery):
        inner = only(node, "this", "order", "limit", "offset")
        if any(inner.get(name) is not None for name in ("order", "limit", "offset")):
            return _wrap(translator, node, scope)
        return read_query(translator, inner["this"], scope)
    if isinstance(node, exp.Select):
        return _select(translator, node, scope)
    if isinstance(node, exp.SetOperation):
        return _set_operation(translator, node, scope)
    return forbid_node(node)


_SELECT = (
    "expressions", "from_", "joins", "where", "group", "having", "order", "limit", "offset", "fetch", "distinct",
    "windows", "with_", "kind",
)  # fmt: skip


def _select(translator: Translator, node: exp.Select, scope: Scope) -> Any:
    args = only(node, *_SELECT)
    if args.get("kind"):
        forbid_node(node)
    scope.work.spend(SELECT)
    _read_with(translator, args.get("with_"), scope)
    # As SQL resolves names, and not as it is written: what WITH and FROM bring is known to all that follows.
    elements = read_from(translator, node, scope)
    scope.windows = {window.name.lower(): window for window in args.get("windows") or ()}
    outputs = _outputs(translator, node, scope)
    if translator.capabilities.spells_instants and (args.get("group") or args.get("distinct")) is not None:
        outputs = _merge(outputs, scope)
    statement = _correlate(select(*outputs).select_from(*elements), scope)
    if args.get("where") is not None:
        statement = statement.where(translator.expression(only(args["where"], "this")["this"], scope))
    if args.get("group") is not None:
        groups = list(_groups(translator, args["group"], outputs, scope))
        require_groups(translator, *groups)
        statement = statement.group_by(*groups)
    if args.get("having") is not None:
        statement = statement.having(translator.expression(only(args["having"], "this")["this"], scope))
    statement = _distinct(translator, statement, args.get("distinct"), outputs, scope)
    if args.get("distinct") is not None:
        require_groups(translator, *outputs)
    if any(returns_rows(item, translator.dialect) for item in node.expressions):
        # Rows that come of a function are counted and sorted outside.
        statement = select(*statement.subquery(translator.fresh_name("repeated")).c)
        outputs = list(statement.selected_columns)
        scope = Scope(scope.work, outputs=_by_name(outputs))
    keys = list(_keys(translator, args.get("order"), outputs, scope))
    group = args.get("group")
    has_rollup = group is not None and group.args.get("rollup")
    if not keys and has_rollup and not translator.dialect.sorts_rollups:
        # WITH ROLLUP cannot be combined with ORDER BY, which pages need.
        statement = select(*statement.subquery(translator.fresh_name("rollup")).c)
    statement = statement.order_by(*keys)
    if any(args.get(name) for name in ("limit", "offset", "fetch")):
        statement = translator.orders.in_order(statement)
    return _with_limits(statement, args)


def _correlate(statement: Any, scope: Scope) -> Any:
    """The SELECT, which reads no relation of an enclosing query itself, also where it has no FROM of its own."""
    return statement if scope.parent is None else statement.correlate(*scope.around())


def _outputs(translator: Translator, node: exp.Select, scope: Scope) -> list[Element]:
    outputs: list[Element] = []
    for item in node.expressions:
        if isinstance(item, exp.Star) or (isinstance(item, exp.Column) and isinstance(item.this, exp.Star)):
            outputs += _expand_star(item, scope)
        else:
            outputs.append(_output(translator, item, scope))
    scope.work.spend(OUTPUT * len(outputs))
    return outputs or invalid("SELECT has no columns.", hint="Name some, or write SELECT *.")


def _merge(outputs: Sequence[Element], scope: Scope) -> list[Element]:
    """The outputs of a SELECT that merges equal instants, converted to one spelling."""
    labelled_outputs = [instants.labelled(output) for output in outputs]
    scope.outputs.update(
        (name, new)
        for name, output in list(scope.outputs.items())
        for old, new in zip(outputs, labelled_outputs, strict=True)
        if old is output
    )
    return labelled_outputs


def _output(translator: Translator, item: Any, scope: Scope) -> Element:
    is_named = isinstance(item, exp.Alias)
    args = only(item, "this", "alias") if is_named else {"this": item}
    value = operations.as_output(translator.expression(args["this"], scope), translator.capabilities)
    value = translator.typed_output(value)
    if isinstance(value.type, types.TupleType):
        forbid("A row as one column", hint="Select each of its values as a column.")
    if is_named:
        label = translator.name(value, args["alias"].name)
        scope.outputs[args["alias"].name.lower()] = label
        return label
    if isinstance(item, exp.Column):
        return output_of(item.name, value)
    name = _own_name(item, translator.dialect)
    # As in PostgreSQL, a call without an alias has the name of its function.
    return value.label(name) if name else _with_inner_name(value)


def _with_inner_name(element: Element) -> Element:
    """The element. A conversion of a conversion is given the name that SQLAlchemy would derive.

    SQLAlchemy asks each conversion twice for the name of its operand, so 20 nested ones would take seconds.
    """
    inner = element
    while isinstance(inner, WrapsColumnExpression):
        inner = inner.wrapped_column_expression
    is_deep = isinstance(element, WrapsColumnExpression) and element.wrapped_column_expression is not inner
    return element.label(internals.named_label(inner)) if is_deep else element


def _own_name(item: Any, dialect: TextDialect) -> str:
    while isinstance(item, exp.Filter | exp.Window | exp.WithinGroup):
        item = item.this
    if isinstance(item, exp.Anonymous):
        return str(item.this).lower()
    if isinstance(item, exp.Ceil | exp.Extract | exp.Floor):
        return item.sql_name().lower()
    if isinstance(item, exp.GroupConcat):
        return "string_agg" if "group_concat" in dialect.absent else "group_concat"
    return ""


def _expand_star(item: Any, scope: Scope) -> Iterator[Element]:
    star = item.this if isinstance(item, exp.Column) else item
    only(star)
    if isinstance(item, exp.Column):
        yield from scope.starred(scope.relation(item.table)).values()
        return
    if not scope.relations:
        invalid("SELECT * needs a FROM clause.")
    if scope.work.dialect.swaps_right_joins and any(map(_merges_right, item.parent.args.get("joins") or ())):
        forbid(
            "SELECT * of RIGHT JOIN ... USING", hint="Name the columns, or exchange the tables: LEFT JOIN."
        )
    yield from scope.all_columns()


def _merges_right(join: exp.Join) -> bool:
    return join.side == "RIGHT" and bool(join.args.get("using") or join.method)


def _distinct(
    translator: Translator, statement: Any, node: Any, outputs: Sequence[Element], scope: Scope
) -> Any:
    if node is None:
        return statement
    on = only(node, "on").get("on")
    if on is None:
        return statement.distinct()
    if not translator.dialect.has_distinct_on:
        forbid("DISTINCT ON", hint="Use row_number() OVER (PARTITION BY ... ORDER BY ...) = 1 in a subquery.")
    if any(returns_rows(item, translator.dialect) for item in node.parent.expressions):
        forbid("DISTINCT ON beside a function that returns rows", hint="Use DISTINCT ON in a subquery.")
    keys = (_bare(_key(translator, key, outputs, scope)) for key in on.expressions)
    return statement.ext(distinct_on(*keys))


def _groups(translator: Translator, node: Any, outputs: Sequence[Element], scope: Scope) -> Iterator[Any]:
    args = only(node, "expressions", "rollup", "cube", "grouping_sets")
    if node.args.get("all") is False:
        forbid("GROUP BY DISTINCT", hint="Name each grouping set once: GROUP BY GROUPING SETS (...).")
    plain = [_group(translator, key, outputs, scope) for key in args.get("expressions") or ()]
    for name in ("rollup", "cube", "grouping_sets"):
        for special in args.get(name) or ():
            plain = [*plain, *_superaggregate(translator, special, plain, outputs, scope)]
            if not getattr(special, "expressions", None):  # MariaDB's WITH ROLLUP takes the keys before it
                plain = plain[-1:]
    if node.find(exp.Rollup, exp.Cube, exp.GroupingSets):
        _require_one_name(translator, node, outputs, scope)
    # A constant makes no groups of its own. DuckDB takes none that is a parameter.
    varying = [key for key in plain if not isinstance(key, BindParameter | Null)]
    yield from varying or (cast(key, types.Text()) for key in plain[:1])


def _require_one_name(translator: Translator, node: Any, outputs: Sequence[Element], scope: Scope) -> None:
    """Refuse keys that name one expression twice: PostgreSQL has a NULL for each of them by itself."""
    keys = [
        _ordinal(key, outputs) if _is_ordinal(key) else translator.expression(key, scope)
        for key in map(_without_parentheses, _single_keys(node))
    ]
    labels = {key for key in keys if isinstance(key, Label)}
    if len({_bare(label) for label in labels}) < len(labels):
        forbid("One expression under two names in GROUP BY", hint="Group by one of the names.")


def _single_keys(node: Any) -> Iterator[Any]:
    """The keys of GROUP BY, also those in sets of keys."""
    for key in node.expressions:
        is_set = isinstance(key, exp.Rollup | exp.Cube | exp.GroupingSets | exp.Tuple)
        yield from _single_keys(key) if is_set else (key,)


def _without_parentheses(node: Any) -> Any:
    """A key without parentheses around it; a subquery keeps its own."""
    return node if isinstance(node, exp.Subquery) else node.unnest()


def _group(translator: Translator, key: Any, outputs: Sequence[Element], scope: Scope) -> Any:
    if isinstance(key, exp.Rollup | exp.Cube | exp.GroupingSets):
        return _superaggregate(translator, key, [], outputs, scope)[0]
    key = _without_parentheses(key)
    if _is_ordinal(key):
        return _bare(_ordinal(key, outputs))
    if isinstance(key, exp.Tuple):
        if not translator.dialect.has_row_values:
            refuse_row()
        return tuple_(*(_group(translator, part, outputs, scope) for part in key.expressions))
    element = translator.expression(key, scope)
    return (
        instants.normalized_instant(element)
        if operations.spells_instants(translator.capabilities, element)
        else _bare(element)
    )


def _superaggregate(
    translator: Translator, node: Any, before: list[Any], outputs: Sequence[Element], scope: Scope
) -> list[Any]:
    name = {exp.Rollup: "rollup", exp.Cube: "cube", exp.GroupingSets: "grouping_sets"}.get(type(node))
    if name is None or not translator.dialect.has_superaggregates:
        forbid_node(node)
    keys = [
        _group(translator, key, outputs, scope) for key in only(node, "expressions").get("expressions") or ()
    ]
    return [getattr(func, name)(*(keys or before))]


def _bare(element: Any) -> Any:
    """The expression without its label. GROUP BY needs the expression."""
    return element.element if isinstance(element, Label) else element


def _is_ordinal(key: Any) -> bool:
    return isinstance(key, exp.Literal) and not key.is_string


def _ordinal(key: exp.Literal, outputs: Sequence[Element]) -> Element:
    number = whole_or_none(key.name, len(outputs))
    if not number:
        invalid(f"There is no column number {key.name[:20]}.", hint=f"The SELECT list has {len(outputs)}.")
    return outputs[number - 1]


def _keys(translator: Translator, node: Any, outputs: Sequence[Element], scope: Scope) -> Iterator[Element]:
    if node is None:
        return
    for key in only(node, "expressions")["expressions"]:
        args = only(key, "this", "desc", "nulls_first")
        value = _key(translator, args["this"], outputs, scope)
        if isinstance(value.type, types.TupleType) and not translator.dialect.sorts_row_values:
            refuse_row()
        yield with_direction(translator, value, key)


def _key(translator: Translator, node: Any, outputs: Sequence[Element], scope: Scope) -> Element:
    node = _without_parentheses(node)
    if _is_ordinal(node):
        return _ordinal(node, outputs)
    # A bare name in ORDER BY refers to the SELECT list first.
    if isinstance(node, exp.Column) and not node.table and node.name.lower() in scope.outputs:
        return scope.outputs[node.name.lower()]
    return translator.expression(node, scope)


def _with_limits(statement: Any, args: Any) -> Any:
    limit, offset, fetch = args.get("limit"), args.get("offset"), args.get("fetch")
    if isinstance(limit, exp.Fetch):
        limit, fetch = None, limit
    if limit is not None:
        arguments = only(limit, "expression", "offset")
        statement = _limit(statement, arguments["expression"])
        offset = arguments.get("offset") or offset
    if fetch is not None:
        statement = _fetch(statement, fetch)
    if offset is not None:
        value = offset.args["expression"] if isinstance(offset, exp.Offset) else offset
        statement = statement.offset(_whole(value))
    return statement


def _fetch(statement: Any, node: Any) -> Any:
    """FETCH FIRST n ROWS ONLY, as LIMIT n."""
    args = only(node, "count", "direction", "limit_options")
    options = args.get("limit_options")
    if options is not None:
        only(options, "rows")
    count = args.get("count")
    return _limit(statement, count.this if isinstance(count, exp.Paren) else count)


def _limit(statement: Any, node: Any) -> Any:
    if node is None:
        return statement.limit(1)
    # PostgreSQL: LIMIT ALL and LIMIT NULL are as no LIMIT.
    if isinstance(node, exp.Null) or (isinstance(node, exp.Column | exp.Var) and node.name.upper() == "ALL"):
        return statement
    return statement.limit(_whole(node))


def _whole(node: Any) -> int:
    text = node.name if isinstance(node, exp.Literal) and not node.is_string else ""
    number = whole_or_none(text, _LARGEST_LIMIT)
    if number is None:
        invalid("LIMIT and OFFSET must be plain whole numbers.", hint="Write LIMIT 10.")
    return number


def _set_operation(translator: Translator, node: Any, scope: Scope) -> Any:
    args = only(node, "this", "expression", "distinct", "order", "limit", "offset", "with_")
    _read_with(translator, args.get("with_"), scope)
    kind = next((base for base in (exp.Union, exp.Except, exp.Intersect) if isinstance(node, base)), None)
    combine = _OPERATIONS.get((kind, bool(args.get("distinct"))))  # type: ignore[arg-type]
    if combine is None:
        forbid_node(node)
    # As one flat list: SQLAlchemy puts nested operands into parentheses, which SQLite does not accept.
    operands = [_operand(translator, part, scope) for part in _chain(node)]
    if len({len(operand.selected_columns) for operand in operands}) != 1:
        invalid(
            "The parts of a set operation have different numbers of columns.",
            hint="Select the same number of columns in each part, NULL in place of a missing one.",
        )
    for one, *others in zip(*(operand.selected_columns for operand in operands), strict=True):
        if (kind, bool(args.get("distinct"))) != (exp.Union, False):
            require_groups(translator, one)
        for other in others:
            require_same(translator, one, other)
    if translator.capabilities.spells_instants and kind is not None and args.get("distinct", True):
        operands = [instants.selecting_instants(operand) for operand in operands]
    statement: Any = combine(*_alike(operands))
    outputs = list(statement.selected_columns)
    if args.get("order") is not None and operations.spells_instants(translator.capabilities, *outputs):
        # A set operation can be sorted by its own columns only.
        statement = select(*statement.subquery(translator.fresh_name("operand")).c)
        outputs = list(statement.selected_columns)
    keys = _keys(translator, args.get("order"), outputs, Scope(scope.work, outputs=_by_name(outputs)))
    return _with_limits(statement.order_by(*keys), args)


def _alike(operands: list[Any]) -> list[Any]:
    """The operands. The columns of the first one get the common types of all operands."""
    first = list(operands[0].selected_columns)
    columns = [
        functions.with_common_type(outputs[0], outputs)
        for outputs in zip(*(operand.selected_columns for operand in operands), strict=True)
    ]
    if all(one is other for one, other in zip(first, columns, strict=True)):
        return operands
    outputs = [
        one.label(other.name) if hasattr(other, "name") else one
        for one, other in zip(columns, first, strict=True)
    ]
    # SQLAlchemy drops a FROM that only the replaced columns name, unless the option keeps it.
    return [operands[0].with_only_columns(*outputs, maintain_column_froms=True), *operands[1:]]


def _by_name(outputs: Sequence[Element]) -> dict[str, Element]:
    return {str(getattr(output, "name", "")).lower(): output for output in outputs}


def _chain(node: Any) -> list[Any]:
    """The operands of a chain of equal operations: a UNION b UNION c has three."""
    operands: list[Any] = []
    current = node
    while True:
        operands.append(current.args["expression"])
        left = current.args["this"]
        is_same = type(left) is type(node) and left.args.get("distinct") == node.args.get("distinct")
        if not is_same or any(left.args.get(name) for name in ("order", "limit", "offset", "with_")):
            return [left, *reversed(operands)]
        current = left


def _operand(translator: Translator, node: Any, scope: Scope) -> Any:
    statement = translator.query(node, scope.inner() if scope.parent else scope.separate())
    is_plain = isinstance(node, exp.Select) and not any(
        node.args.get(name) for name in ("order", "limit", "offset", "with_")
    )
    if is_plain:
        return statement
    # SQLite does not accept parentheses here, so an operand that is not a plain SELECT is wrapped in one.
    scope.work.spend(SELECT)
    return select(*statement.subquery(translator.fresh_name("operand")).c)


def _wrap(translator: Translator, node: Any, scope: Scope) -> Any:
    """`(SELECT ...) ORDER BY ... LIMIT ...`."""
    statement = translator.orders.carrying(translator.query(node.this, scope))
    outputs = list(scope.columns_of(statement.subquery(translator.fresh_name("operand"))).values())
    keys = _keys(translator, node.args.get("order"), outputs, Scope(scope.work, outputs=_by_name(outputs)))
    return _with_limits(translator.orders.in_order(select(*outputs).order_by(*keys)), node.args)


def _read_with(translator: Translator, node: Any, scope: Scope) -> None:
    if node is None:
        return
    args = only(node, "expressions", "recursive")
    for part in args["expressions"]:
        only(part, "this", "alias")
        # RECURSIVE stands once for the whole list; each part may name itself, and need not.
        is_recursive = (
            _names_itself(part.this, part.alias)
            if args.get("recursive")
            else _must_mean_itself(translator, part, scope)
        )
        translate = _recursive if is_recursive else _common
        scope.ctes[part.alias.lower()] = translate(translator, part, scope)


def _must_mean_itself(translator: Translator, part: Any, scope: Scope) -> bool:
    """Whether a query without the word RECURSIVE, which SQLite and SQL Server do not require, reads its own rows."""
    query, name = part.this, part.alias
    if not isinstance(query, exp.Union) or query.find(exp.With):
        return False
    is_another = name.lower() in scope.ctes or translator.is_table_name(name)
    return not is_another and _names_itself(query.expression, name)


def _names_itself(query: Any, name: str) -> bool:
    return any(table.name.lower() == name.lower() and not table.db for table in query.find_all(exp.Table))


def _common(translator: Translator, part: Any, scope: Scope) -> Any:
    statement = with_column_names(translator.query(part.this, scope.separate()), alias_columns(part))
    name = translator.fresh_name(part.alias)
    return translator.orders.carrying(statement).cte(name, nesting=scope.is_in_recursion)


def _recursive(translator: Translator, part: Any, scope: Scope) -> Any:
    query = part.this
    if not isinstance(query, exp.Union):
        invalid("A recursive WITH is an anchor, UNION ALL and what is added.")
    args = only(query, "this", "expression", "distinct")
    anchor = with_column_names(translator.query(args["this"], scope.separate()), alias_columns(part))
    cte = anchor.cte(translator.fresh_name(part.alias), recursive=True, nesting=scope.is_in_recursion)
    inner = scope.separate()
    inner.is_in_recursion = True
    inner.ctes[part.alias.lower()] = cte
    arm = args["expression"]
    # SQLAlchemy would write a WITH of the arm itself before the whole UNION.
    step = _operand(translator, arm, inner) if arm.find(exp.With) else translator.query(arm, inner)
    return cte.union(step) if args.get("distinct") else cte.union_all(step)
