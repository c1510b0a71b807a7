"""Function calls, aggregates and windows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, NoReturn, cast, get_args

from sqlalchemy import (
    all_,
    any_,
    case,
    cast as cast_type,
    distinct,
    func,
    literal,
    null,
    type_coerce,
    types,
)
from sqlalchemy.sql.functions import Function
from sqlalchemy.sql.operators import OperatorClass
from sqlglot import exp

from dualsql.columns.instants import instants, is_instant, normalized_instant
from dualsql.columns.own_types import Element
from dualsql.databases.functions import FRACTIONS, is_exact, result_of
from dualsql.errors import ForbiddenSQLError
from dualsql.sql import durations
from dualsql.sql.foreign import NUMBERS_ONLY, TEXTS_ONLY, form_of
from dualsql.sql.functions import (
    absent,
    allowed_functions,
    instead,
    is_aggregate,
    is_windowed,
    with_common_type,
)
from dualsql.sql.operations import operand, require_safe_patterns, spells_instants
from dualsql.sql.queries import read_order
from dualsql.sql.relations import gives_rows, item_type, series_arguments
from dualsql.sql.scope import Scope, forbid, forbid_node, invalid, only
from dualsql.sql.values import compared_array, is_text
from dualsql.sqlalchemy_dialects import aggregate_order_by
from dualsql.text_dialects import ResultOf
from dualsql_client.conversions import whole_or_none
from dualsql_client.wire_requests import Bucket

if TYPE_CHECKING:
    from dualsql.sql.translate import Translator


_COMPARING = frozenset({"max", "min", "nullif"})

_COMPARED = {"all": all_, "any": any_, "some": any_}
"""What stands before an array that a value is compared with."""

_LARGEST_FRAME = 2**31 - 1


def call(translator: Translator, name: str, arguments: Sequence[Any]) -> Any:
    """`name(arguments)`, if this database has such a function and dualsql allows it."""
    lowercase = name.lower()
    result = _result_type(translator, lowercase)
    require_safe_patterns(translator, lowercase, arguments)
    # Where instants are kept as texts, the greatest text need not be the latest instant.
    if lowercase in _COMPARING and spells_instants(translator.capabilities, *arguments):
        arguments = instants(arguments)
    # format(x, 2) and FORMAT(x, 'yyyy-MM') of other databases would take x for the format, and return it.
    is_format = lowercase in {"format", "printf"} and "printf" in translator.dialect.functions
    if is_format and arguments and not is_text(arguments[0]):
        invalid(
            f"{lowercase}() takes a constant format as its first argument.",
            hint="Write printf('%.2f', x) for a number, strftime('%Y-%m', x) for a date.",
        )
    argument_types = translator.dialect.argument_types.get(lowercase, {})
    arguments = [
        cast_type(argument, argument_types[index])
        if index in argument_types and is_text(argument)
        else argument
        for index, argument in enumerate(arguments)
    ]
    try:
        function = getattr(func, lowercase)(*arguments, type_=result(list(arguments), translator.dialect))
    except TypeError:  # SQLAlchemy has classes for some functions, which check the number of arguments
        function = None
    # On PostgreSQL SQLAlchemy writes the arguments of substring one by one, and no fourth.
    if function is None or (lowercase == "substring" and len(arguments) not in (2, 3)):
        invalid(
            f"{lowercase}() takes another number of arguments.", hint="Check the arguments of the function."
        )
    return function


def _result_type(translator: Translator, name: str) -> Any:
    """The function for the result type of a function. An unknown one is refused."""
    is_absent = absent(name, translator.dialect, translator.version)
    result = None if is_absent else result_of(name, translator.dialect)
    return result or _refuse(translator, name)


def _refuse(translator: Translator, name: str) -> NoReturn:
    """Refuse an unknown function, with a hint that says what to write instead."""
    dialect, version = translator.dialect, translator.version
    close = get_close_matches(name, allowed_functions(dialect, version), n=3, cutoff=0.75)
    guess = f"Did you mean {' or '.join(close)}?" if close else "Use a standard function."
    form = form_of(name)
    hint = instead(name, dialect) or (f"Write {form}." if form else guess)
    if not absent(name, dialect, version) and name not in dialect.instead:
        forbid(f"The function {name[:60]}()", hint=hint, suggestions=close)
    engine = translator.capabilities.name
    if name in dialect.since and version is not None:
        engine += " " + ".".join(map(str, version[:2]))
    raise ForbiddenSQLError(
        f"{engine} has no function {name[:60]}().", hint=hint, details={"suggestions": close}
    )


def _anonymous(translator: Translator, node: Any, scope: Scope) -> Element:
    args = only(node, "this", "expressions")
    if not isinstance(args["this"], str):
        forbid_node(node)
    _require_window(translator, node, args["this"].lower())
    if node.meta.get(NUMBERS_ONLY):
        return _number_or(translator, node, scope)
    compared = _COMPARED.get(args["this"].lower()) if translator.dialect.array is not None else None
    if compared is not None and len(args.get("expressions") or ()) == 1:
        every: Element = compared(compared_array(translator, node, args["expressions"][0], scope))
        return every
    shifted = durations.duration_call(
        translator, args["this"].lower(), list(args.get("expressions") or ()), scope
    )
    if shifted is not None:
        return shifted
    if gives_rows(node, translator.dialect):
        return _several(translator, node, scope)
    if _is_query_in_array(translator, node):
        query: Any = translator.expression(exp.Subquery(this=node.expressions[0]), scope)
        array: Element = func.array(query, type_=types.ARRAY(query.type))
        return array
    return _call(translator, args["this"], list(args.get("expressions") or ()), scope)


def _number_or(translator: Translator, node: Any, scope: Scope) -> Element:
    """SQL Server's isnull(x, 0), which has the type of x; coalesce(x, 0) has it of numbers alone."""
    number, otherwise = (translator.expression(part, scope) for part in node.expressions)
    if not isinstance(number.type, types.Integer | types.Numeric):
        forbid("isnull() of a value that is no number", hint="Write coalesce(x, y), or x IS NULL.")
    result: Element = call(translator, node.name, [number, otherwise])
    return result


def _several(translator: Translator, node: Any, scope: Scope) -> Element:
    """A function in the SELECT list that returns several rows."""
    name = node.this.lower()
    arguments = [translator.expression(part, scope) for part in node.expressions]
    require_safe_patterns(translator, name, arguments)
    several: Element = getattr(func, name)(
        *series_arguments(name, arguments), type_=item_type(name, arguments)
    )
    return several


def _is_query_in_array(translator: Translator, node: Any) -> bool:
    """Whether it is ARRAY(SELECT ...)."""
    is_array = translator.dialect.array is not None and node.this.lower() == "array"
    return is_array and len(node.expressions) == 1 and isinstance(node.expressions[0], exp.Query)


def _require_window(translator: Translator, node: Any, name: str) -> None:
    """Refuse a function without OVER that this database has only with it."""
    if not is_windowed(name, translator.dialect):
        return
    outer = node.parent
    while isinstance(outer, exp.WithinGroup | exp.Filter | exp.IgnoreNulls | exp.RespectNulls):
        outer = outer.parent
    if isinstance(outer, exp.Window):
        return
    invalid(
        f"On {translator.capabilities.name}, {name}() needs OVER (...).",
        hint=translator.dialect.instead.get(name) or f"Write {name}(...) OVER (ORDER BY x).",
    )


def _call(translator: Translator, name: str, nodes: list[Any], scope: Scope) -> Element:
    if is_aggregate(name.lower()) and len(nodes) == 1:
        single = nodes[0]
        if isinstance(single, exp.Star) and name.lower() == "count":
            only(single)
            return func.count(type_=types.BigInteger())
        if isinstance(single, exp.Distinct):
            return _of_distinct(translator, name, single, scope)
    if name.lower() == "date_trunc" and (beginning := _beginning(translator, nodes, scope)) is not None:
        return beginning
    # First: the arguments of a function of another database may be none here, such as the unit of DATEDIFF(day, a, b).
    _result_type(translator, name.lower())
    nodes = _by_position(translator, name, nodes)
    sorted_argument = _ordered_argument(translator, nodes, scope)
    arguments = sorted_argument or [translator.expression(argument, scope) for argument in nodes]
    result: Element = call(translator, name, arguments)
    return result


def _beginning(translator: Translator, nodes: list[Any], scope: Scope) -> Element | None:
    """date_trunc('month', x), where the database has no such function; None for another unit."""
    is_own = result_of("date_trunc", translator.dialect) is not None
    if is_own or len(nodes) != 2 or not isinstance(nodes[0], exp.Literal):
        return None
    unit = next((bucket for bucket in get_args(Bucket) if bucket == nodes[0].name.lower()), None)
    if unit is None:
        return None
    return durations.start_of(translator, translator.expression(nodes[1], scope), unit)


def _by_position(translator: Translator, name: str, nodes: list[Any]) -> list[Any]:
    """The arguments; those with names, as in make_interval(days => 3), where they belong."""
    by_name = {one.this.name.lower(): one.expression for one in nodes if isinstance(one, exp.Kwarg)}
    if not by_name:
        return nodes
    names = translator.dialect.named_arguments.get(name.lower(), ())
    plain = [one for one in nodes if not isinstance(one, exp.Kwarg)]
    left = names[len(plain) :]
    if len(plain) + len(by_name) < len(nodes) or not by_name.keys() <= set(left):
        hint = f"It has {', '.join(names)}." if names else "Write them by their places."
        invalid(f"{name[:60]}() has no such argument.", hint=hint)
    return [*plain, *(by_name.get(one, exp.Literal.number(0)) for one in left)]


def _of_distinct(translator: Translator, name: str, node: Any, scope: Scope) -> Element:
    expressions = only(node, "expressions")["expressions"]
    if len(expressions) > 1 and name.lower() == "count" and translator.dialect.counts_rows:
        first, *others = (translator.expression(part, scope) for part in expressions)
        return Function("count", distinct(first), *others, type_=types.BigInteger())
    if len(expressions) != 1:
        forbid(
            "DISTINCT over several values",
            hint="Write SELECT count(*) FROM (SELECT DISTINCT x, y FROM t) AS s.",
        )
    value = translator.expression(expressions[0], scope)
    if spells_instants(translator.capabilities, value):
        value = normalized_instant(value)
    result: Element = call(translator, name, [distinct(value)])
    return result


def _ordered_argument(translator: Translator, nodes: list[Any], scope: Scope) -> list[Element] | None:
    """Arguments of `array_agg(x ORDER BY y)`: the order belongs to the last one."""
    if not nodes or not isinstance(nodes[-1], exp.Order):
        return None
    _require_ordered_aggregates(translator)
    last = nodes[-1]
    inner = only(last, "this", "expressions")["this"]
    is_distinct = isinstance(inner, exp.Distinct) and len(inner.expressions) == 1
    if is_distinct:
        [inner] = only(inner, "expressions")["expressions"]
    arguments = [translator.expression(argument, scope) for argument in [*nodes[:-1], inner]]
    if is_distinct:
        arguments[-1] = distinct(arguments[-1])
    return [*arguments[:-1], aggregate_order_by(arguments[-1], *read_order(translator, last, scope))]


def _join(translator: Translator, node: Any, scope: Scope) -> Element:
    """STRING_AGG and GROUP_CONCAT, whose separator is not an ordinary argument in the parser's tree."""
    args = only(node, "this", "separator")
    inner, separator = args["this"], args.get("separator")
    order = None
    if isinstance(inner, exp.Order):
        order, inner = inner, only(inner, "this", "expressions")["this"]
    is_distinct = isinstance(inner, exp.Distinct)
    joined: list[Any] = [inner]
    if is_distinct:
        joined = only(inner, "expressions").get("expressions") or []
    if len(joined) != 1 or joined[0] is None:
        forbid("A join of texts without one value", hint="Write group_concat(DISTINCT x).")
    [value] = joined
    if is_distinct and separator is not None and not translator.dialect.orders_joined_texts:
        forbid(
            "DISTINCT with a separator",
            hint="Write group_concat(DISTINCT x), or select the distinct texts in a subquery in FROM.",
        )
    texts = _text_to_join(
        translator,
        translator.expression(value, scope),
        is_sorted_by_itself=is_distinct and order is not None,
        is_foreign=bool(node.meta.get(TEXTS_ONLY)),
    )
    values: Any = distinct(texts) if is_distinct else texts
    if separator is None and translator.dialect.has_default_separator:
        result: Any = call(translator, "group_concat", [values])
    else:
        between: Any = literal(",") if separator is None else translator.expression(separator, scope)
        if isinstance(texts.type, types.LargeBinary) and "string_agg" not in translator.dialect.absent:
            result = call(translator, "string_agg", [values, between])
        else:
            # SQLAlchemy writes it as string_agg or group_concat, as the dialect has it: always a text.
            result = func.aggregate_strings(values, between)
    if order is None:
        return cast("Element", result)
    if not translator.dialect.orders_joined_texts:
        _require_ordered_aggregates(translator)
    return cast("Element", result.aggregate_order_by(*read_order(translator, order, scope)))


def _text_to_join(
    translator: Translator, element: Element, *, is_sorted_by_itself: bool, is_foreign: bool
) -> Element:
    """Whole numbers as texts, where only texts are joined. Other values have several texts."""
    is_text = isinstance(element.type, (types.String, types.LargeBinary, types.NullType))
    if is_text or not (translator.dialect.joins_texts_only or is_foreign):
        return element
    if is_sorted_by_itself or not isinstance(element.type, types.Integer):
        invalid("string_agg() joins texts.", hint="Write string_agg(CAST(x AS TEXT), ', ').")
    return cast_type(element, types.Text())


def _require_ordered_aggregates(translator: Translator) -> None:
    if not translator.dialect.orders_aggregates:
        forbid("ORDER BY in an aggregate", hint="Sort the rows in a subquery in FROM.")


def _positional(name: str, *names: str) -> Any:
    """A call that SQL writes with words between its arguments."""

    def read(translator: Translator, node: Any, scope: Scope) -> Element:
        args = only(node, *names)
        nodes = [args[key] for key in names if args.get(key) is not None]
        return _call(translator, name, nodes, scope)

    return read


def _position(translator: Translator, node: Any, scope: Scope) -> Element:
    args = only(node, "this", "substr")
    return _call(translator, translator.dialect.position, [args["this"], args["substr"]], scope)


def _trim(translator: Translator, node: Any, scope: Scope) -> Element:
    args = only(node, "this", "expression", "position")
    names = {"": "trim", "BOTH": "btrim", "LEADING": "ltrim", "TRAILING": "rtrim"}
    side = str(args.get("position") or "").upper()
    name = names[side] if side in names else forbid_node(node)
    if args.get("expression") is not None and name == "trim" and translator.dialect.has_btrim:
        name = "btrim"
    if not translator.dialect.has_btrim and name == "btrim":
        name = "trim"
    if args.get("expression") is not None and not translator.dialect.trims_characters:
        forbid("TRIM of given characters", hint="Write trim(x) for spaces, or replace(x, y, '').")
    nodes = [args["this"]] + ([args["expression"]] if args.get("expression") is not None else [])
    return _call(translator, name, nodes, scope)


def _aggregate(translator: Translator, node: Any, scope: Scope, method: str) -> Any:
    """What FILTER, WITHIN GROUP or OVER stands behind."""
    element = translator.expression(node, scope)
    if not hasattr(element, method):
        invalid("OVER, FILTER and WITHIN GROUP stand behind an aggregate.", hint="Write sum(x) OVER (...).")
    return element


def _filter(translator: Translator, node: Any, scope: Scope) -> Element:
    args = only(node, "this", "expression")
    aggregate = _aggregate(translator, args["this"], scope, "filter")
    condition = only(args["expression"], "this")["this"]
    filtered: Element = aggregate.filter(translator.expression(condition, scope))
    return (
        filtered if isinstance(node.parent, exp.Window) else _with_type_of_middle(translator, node, filtered)
    )


def _within_group(translator: Translator, node: Any, scope: Scope) -> Element:
    args = only(node, "this", "expression")
    aggregate = _aggregate(translator, args["this"], scope, "within_group")
    result: Any = aggregate.within_group(*read_order(translator, args["expression"], scope))
    is_operand = isinstance(node.parent, exp.Window | exp.Filter)
    return cast("Element", result) if is_operand else _with_type_of_middle(translator, node, result)


def _with_type_of_middle(translator: Translator, node: Any, element: Any) -> Element:
    """percentile_cont() with its type: a double, except of decimals where the database has a decimal between two.

    SQLAlchemy gives it the type of the values.
    """
    while isinstance(node, exp.Window | exp.Filter):
        node = node.this
    if not isinstance(node, exp.WithinGroup) or node.this.name.lower() != "percentile_cont":
        return cast("Element", element)
    keeps_decimals = translator.dialect.functions.get("percentile_cont") is ResultOf.MIDDLE
    is_number = isinstance(element.type, (types.Integer, *FRACTIONS))
    if not is_number or (keeps_decimals and is_exact(element.type)):
        return cast("Element", element)
    return type_coerce(element, types.Double())


def _window(translator: Translator, node: Any, scope: Scope) -> Element:
    only(node, "this", "partition_by", "order", "spec", "alias", "over", "first")
    aggregate = _aggregate(translator, node.this, scope, "over")
    spec = _window_of(node, scope)
    frame = _frame(spec.args.get("spec"))
    partitions = [translator.expression(part, scope) for part in spec.args.get("partition_by") or ()]
    if translator.capabilities.spells_instants:
        partitions = [normalized_instant(part) if is_instant(part) else part for part in partitions]
    order = spec.args.get("order")
    over: Element = aggregate.over(
        partition_by=partitions or None,
        order_by=list(read_order(translator, order, scope)) if order is not None else None,
        **frame,
    )
    return _with_type_of_middle(translator, node, over)


def _window_of(node: Any, scope: Scope) -> Any:
    """The window itself, or the window of the WINDOW clause that it names."""
    alias = node.args.get("alias")
    if alias is None:
        return node
    if any(node.args.get(name) for name in ("partition_by", "order", "spec")):
        forbid("A window that extends another", hint="Write the whole window in OVER.")
    name = alias.name.lower()
    if name not in scope.windows:
        invalid(f"There is no window {name[:60]!r}.", hint="Write it in OVER (...).")
    return _window_of(scope.windows[name], scope)


def _frame(spec: Any) -> dict[str, tuple[int | None, int | None]]:
    if spec is None:
        return {}
    args = only(spec, "kind", "start", "start_side", "end", "end_side")
    kind = {"ROWS": "rows", "RANGE": "range_", "GROUPS": "groups"}.get(str(args["kind"]).upper())
    if kind is None:
        forbid_node(spec)
    start = _bound(args["start"], args.get("start_side"))
    # Without BETWEEN, a frame ends at the current row.
    end = 0 if args.get("end") is None else _bound(args["end"], args.get("end_side"))
    return {kind: (start, end)}


def _bound(bound: Any, side: Any) -> int | None:
    """A frame bound in SQLAlchemy's form: None for unbounded, 0 for the current row, negative for rows before it."""
    text = bound.name if isinstance(bound, exp.Expression) else str(bound).upper()
    if text == "UNBOUNDED":
        return None
    if text == "CURRENT ROW":
        return 0
    number = whole_or_none(text, _LARGEST_FRAME)
    if number is None:
        forbid("A frame whose bound is not a whole number")
    return -number if str(side).upper() == "PRECEDING" else number


def _floor(translator: Translator, node: Any, scope: Scope) -> Element:
    value = translator.expression(only(node, "this")["this"], scope)
    if not translator.dialect.lacks_floor:
        floor: Element = call(translator, "floor", [value])
        return floor
    below: Element = -operand(
        call(translator, "ceil", [-operand(value, OperatorClass.MATH)]), OperatorClass.MATH
    )
    return below


def _if(translator: Translator, node: Any, scope: Scope) -> Element:
    args = only(node, "this", "true", "false")
    condition, value = (translator.expression(args[name], scope) for name in ("this", "true"))
    other = args.get("false")
    otherwise = null() if other is None else translator.expression(other, scope)
    return with_common_type(case((condition, value), else_=otherwise), [value, otherwise])


HANDLERS: Mapping[type[exp.Expression], Any] = {
    exp.Anonymous: _anonymous,
    exp.Ceil: _positional("ceil", "this"),
    exp.Floor: _floor,
    exp.Filter: _filter,
    exp.GroupConcat: _join,
    exp.If: _if,
    exp.Pow: _positional("power", "this", "expression"),
    exp.Sqrt: _positional("sqrt", "this"),
    exp.Overlay: _positional("overlay", "this", "expression", "from_", "for_"),
    exp.StrPosition: _position,
    exp.Substring: _positional("substring", "this", "start", "length"),
    exp.Trim: _trim,
    exp.Window: _window,
    exp.WithinGroup: _within_group,
}
