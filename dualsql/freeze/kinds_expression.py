"""The kinds of column expressions. Parentheses and boolean flags are computed from the operator, never read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from sqlalchemy import false, null, true
from sqlalchemy.dialects.mysql import match as mysql_match
from sqlalchemy.dialects.postgresql import aggregate_order_by, array as postgresql_array
from sqlalchemy.sql import elements, operators, roles
from sqlalchemy.sql.functions import FunctionAsBinary
from sqlalchemy.sql.selectable import Exists, ScalarSelect, SelectBase, SelectStatementGrouping
from sqlalchemy.sql.type_api import BOOLEANTYPE, INTEGERTYPE, NULLTYPE
from sqlalchemy.util import immutabledict

from dualsql import sqlalchemy_internals as internals
from dualsql.freeze import sqlalchemy_internals as private, types
from dualsql.freeze.document import expect, malformed, refuse
from dualsql.freeze.fields import (
    CHAINED,
    INFIX,
    LEAVE,
    NOTED,
    ORDERING,
    PREFIXED,
    REQUIRED,
    Field,
    NodeKind,
    call,
    check_one,
    check_operand,
    choice,
    name_,
    needed,
    operand,
    operands,
    operator,
    pairs,
    part,
    parts,
    plain,
    type_,
    word,
)
from dualsql.freeze.values import is_collation, is_identifier, write_name

if TYPE_CHECKING:
    from dualsql.freeze.codec import Decoder, Encoder

_SUBQUERIES = (ScalarSelect, SelectStatementGrouping, elements.Grouping)
_MEMBERSHIP = (operators.in_op, operators.not_in_op)


def _check_right(element: Any, op: Any) -> Any:
    """Check the right operand of `op`: a collation for COLLATE, a slice for an index, otherwise an operand."""
    # `.op("IN")` is rendered like in_(), but its operator is another object.
    if op in _MEMBERSHIP or getattr(op, "opstring", "").upper() in ("IN", "NOT IN"):
        return _check_members(element)
    if op is operators.collate and isinstance(element, elements.CollationClause):
        return element
    if op is operators.getitem and isinstance(element, elements.Slice):
        return element
    return check_operand(element)


def _check_members(element: Any) -> Any:
    """Check the right side of IN. SQLite reads a bare name there as a table, also one that is not registered."""
    bare = element
    while isinstance(bare, elements.Label | elements.TypeCoerce):
        bare = private.labelled_element(bare) if isinstance(bare, elements.Label) else bare.clause
    if isinstance(bare, elements.NamedColumn):
        malformed("a name where the members of IN are due")
    if isinstance(bare, elements.BindParameter):
        return element if bare.expanding else malformed("one value where the members of IN are due")
    return check_operand(element)


# Operators whose right side is a list without parentheses, and the operator of that list.
_BARE = {
    operators.between_op: operators.and_,
    operators.not_between_op: operators.and_,
    operators.regexp_replace_op: operators.comma_op,
}


class _Bare:
    """A list without parentheses, as between BETWEEN's operands. Only a binary expression accepts it."""

    __slots__ = ("element",)

    def __init__(self, element: Any) -> None:
        self.element = element

    def operand_of(self, op: Any) -> Any:
        """The list, as the right operand of `op`."""
        element = self.element
        if element.operator is not _BARE[op]:
            malformed("operands of an operator")
        # Without parentheses, a hostile OR would apply to conditions that are later added with AND.
        pairs = [(clause, clause.self_group(against=element.operator)) for clause in element.clauses]
        element.clauses = tuple([g if isinstance(g, elements.Grouping) else clause for clause, g in pairs])
        return element


def _derive_binary(element: Any) -> None:
    state = element.__dict__
    op, left, right = state["operator"], state["left"], state["right"]
    # As BinaryExpression.__init__(): `_orig` is what `==` of expressions compares in a boolean context.
    state["_orig"] = hash(left), hash(right)
    state["left"] = left.self_group(against=op)
    state["right"] = right.operand_of(op) if op in _BARE else _check_right(right, op).self_group(against=op)
    state["_is_implicitly_boolean"] = operators.is_boolean(op)


def _derive_match(element: Any) -> None:
    left = element.left
    _derive_binary(element)
    if isinstance(left, elements.ExpressionClauseList):
        if left.operator is not operators.comma_op:
            malformed("operands of an operator")
        # MySQL's MATCH (...) writes the parentheses of its columns itself.
        element.left = type(left).__new__(type(left))
        element.left.__dict__.update(left.__dict__, group=False)


def _derive_list(element: Any) -> None:
    against = element.operator
    element.clauses = type(element.clauses)(
        [clause.self_group(against=against) for clause in element.clauses]
    )
    private.set_implicitly_boolean(element, is_boolean=operators.is_boolean(against))


def _derive_commas(element: Any) -> None:
    if element.operator is not operators.comma_op:
        malformed("list that is not separated by commas")
    _derive_list(element)


def _derive_unary(element: Any) -> None:
    # With a modifier (DESC, NULLS LAST) it is not an operand, and it may hold another modifier.
    if element.modifier is None:
        check_operand(element.element)
    element.element = element.element.self_group(against=element.operator or element.modifier)


def _derive_exists(element: Any) -> None:
    if not isinstance(element.element, _SUBQUERIES) or element.operator is not operators.exists:
        malformed("EXISTS of something else than a subquery")


def _derive_as_boolean(element: Any) -> None:
    # AsBoolean renders `x = 1` on databases without a boolean type, so the operand needs the parentheses of `=`.
    grouped = element.element.self_group(against=operators.eq)
    if not isinstance(grouped, elements.AsBoolean):
        element.element = grouped
    private.set_implicitly_boolean(element, is_boolean=private.is_implicitly_boolean(element.element))


def _derive_scalar(element: Any) -> None:
    if not isinstance(element.element, SelectBase):
        # A scalar subquery looks up a missing attribute in its element, twice if that is annotated: nested ones take
        # exponential time.
        malformed("a scalar subquery of no statement")
    element.type = private.scalar_type(element.element)


def _derive_label(element: Any) -> None:
    state = element.__dict__
    # As Label.__init__(): a subquery finds the column by these keys.
    state["key"] = state["_tq_key_label"] = state.get("key", element.name)
    state["_tq_label"] = element.name
    state["_proxies"] = [private.labelled_element(element)]


def _write_chain(enc: Encoder, kind: NodeKind, element: Any) -> dict[str, Any]:
    fields = enc.fields(kind, element.__dict__)
    return fields if element.group else {**fields, "bare": True}


def _read_chain(dec: Decoder, kind: NodeKind, fields: dict[str, Any]) -> Any:
    if not fields.pop("bare", False):
        return dec.fill(kind, fields)
    element = elements.ExpressionClauseList.__new__(elements.ExpressionClauseList)
    element.__dict__.update({"type": NULLTYPE, "clauses": (), "group": False})
    dec.fill_state(kind, fields, element.__dict__)
    private.set_implicitly_boolean(element, is_boolean=False)
    return _Bare(element)


def _write_label(enc: Encoder, kind: NodeKind, label: Any) -> dict[str, Any]:
    fields = enc.fields(kind, label.__dict__)
    return fields if label.key == label.name else {**fields, "key": write_name(label.key, enc.seeds)}


# SQLAlchemy has one object of each and compares by identity, so a copy of null() would not be null().
def _singleton(tag: str, element: Any) -> NodeKind:
    return NodeKind(tag, type(element), write=lambda *_: {}, read=lambda *_: element, is_own=False)


def _wrapped(tag: str, cls: Any, *fields: Field, **more: Any) -> NodeKind:
    return NodeKind(tag, cls, *fields, type_(NULLTYPE), *NOTED, **more)


# The `type` of OVER, FILTER and WITHIN GROUP is a property that returns the type of the function.
def _followed(tag: str, cls: Any, *fields: Field) -> NodeKind:
    """A kind whose type is that of the function inside it."""
    return NodeKind(tag, cls, *fields, *NOTED, ignored="type")


# `negation_clause`: the negated form of relationship.contains(), for a later NOT.
_FLAGS = "group group_contents _is_implicitly_boolean _text_converter_role negation_clause"


def _operation(
    tag: str,
    cls: Any,
    *fields: Field,
    ignored: str = "",
    derive: Callable[[Any], None] = lambda element: None,
    write: Any = None,
    read: Any = None,
    **constants: Any,
) -> NodeKind:
    return NodeKind(
        tag,
        cls,
        *fields,
        *NOTED,
        ignored=f"{_FLAGS} {ignored}",
        constants=constants,
        derive=derive,
        write=write,
        read=read,
    )


def _is_position(value: Any) -> bool:
    return type(value) is int


# Keyword arguments of operators: escape= and flags= are rendered as literals, the others add fixed words.
_MODIFIERS: dict[str, Callable[[Any], bool]] = {
    "escape": lambda value: type(value) is str and len(value) <= 2 and "\x00" not in value,
    "flags": lambda value: type(value) is str and value.isprintable() and len(value) <= 20,
    "postgresql_regconfig": lambda value: type(value) is str and is_identifier(value),
    **dict.fromkeys(
        "autoescape symmetric mysql_boolean_mode mysql_natural_language mysql_query_expansion".split(),
        types.is_flag,
    ),
}


def _write_modifiers(enc: Encoder, value: Mapping[str, Any]) -> dict[str, Any]:
    wire: dict[str, Any] = {}
    for key, item in value.items():
        if key == "_python_is_types":  # used when the operand was coerced, and not needed after that
            continue
        if key not in _MODIFIERS or not (item is None or _MODIFIERS[key](item)):
            refuse(f"an operator with {key}={item!r}", "Leave that argument out.")
        wire[key] = item
    return wire


def _read_modifiers(dec: Decoder, wire: Any) -> dict[str, Any]:
    if not all(item is None or _MODIFIERS[key](item) for key, item in expect(wire, dict).items()):
        malformed("modifier")
    return dict(wire)


_BINARY = (
    operand("left"),
    needed("right"),
    operator("operator", INFIX, absent=REQUIRED),
    operator("negate", INFIX),
    Field("with", "modifiers", _write_modifiers, _read_modifiers, dict),
    type_(BOOLEANTYPE),
)
_LIST = (operands("clauses"), operator("operator", CHAINED, absent=REQUIRED))
_COMMAS = (parts("clauses", cls=list), operator("operator", CHAINED, absent=operators.comma_op))
_UNARY = (needed("element"), operator("operator", PREFIXED), operator("modifier", ORDERING))

KINDS = (
    _singleton("null", null()),
    _singleton("true", true()),
    _singleton("false", false()),
    _operation("binary", elements.BinaryExpression, *_BINARY, derive=_derive_binary),
    _operation(
        "comparison",
        FunctionAsBinary,
        call("call", "sql_function"),
        plain("left", "left_index", _is_position, REQUIRED),
        plain("right", "right_index", _is_position, REQUIRED),
        ignored="operator negate modifiers type",
        operator=operators.function_as_comparison_op,
        type=BOOLEANTYPE,
        negate=None,
        modifiers=immutabledict(),
        _is_implicitly_boolean=True,
    ),
    _operation("index", elements.IndexExpression, *_BINARY, derive=_derive_binary),
    _operation("mysql match", mysql_match, *_BINARY, derive=_derive_match),
    _operation(
        "boolean",
        elements.BooleanClauseList,
        *_LIST,
        ignored="type",
        derive=_derive_list,
        group=True,
        type=BOOLEANTYPE,
    ),
    _operation(
        "chain",
        elements.ExpressionClauseList,
        *_LIST,
        type_(NULLTYPE),
        derive=_derive_list,
        write=_write_chain,
        read=_read_chain,
        group=True,
    ),
    _operation("array", postgresql_array, *_LIST, type_(NULLTYPE), derive=_derive_list, group=True),
    _operation(
        "list",
        elements.ClauseList,
        *_COMMAS,
        derive=_derive_commas,
        group=True,
        group_contents=True,
        _text_converter_role=roles.ByOfRole,
    ),
    _operation(
        "tuple",
        elements.Tuple,
        *_COMMAS,
        type_(),
        derive=_derive_commas,
        group=True,
        group_contents=True,
        _text_converter_role=roles.WhereHavingRole,
    ),
    # SQLAlchemy's own list of syntax extensions at one position.
    NodeKind("elements", elements.ElementList, parts("clauses")),
    _operation(
        "order list",
        elements.OrderByList,
        parts("clauses", cls=list),
        _text_converter_role=roles.OrderByRole,
    ),
    _operation("unary", elements.UnaryExpression, *_UNARY, type_(NULLTYPE), derive=_derive_unary),
    _operation("any", elements.CollectionAggregate, *_UNARY, type_(BOOLEANTYPE), derive=_derive_unary),
    _operation("exists", Exists, *_UNARY, type_(BOOLEANTYPE), derive=_derive_exists),
    _operation(
        "as boolean",
        elements.AsBoolean,
        *_UNARY,
        operator("negate", PREFIXED),
        type_(BOOLEANTYPE),
        derive=_derive_as_boolean,
    ),
    NodeKind(
        "grouping",
        elements.Grouping,
        needed("element"),
        *NOTED,
        ignored="type",
        derive=lambda it: setattr(it, "type", getattr(it.element, "type", NULLTYPE)),
    ),
    NodeKind("scalar", ScalarSelect, needed("element"), *NOTED, ignored="type", derive=_derive_scalar),
    NodeKind(
        "slice",
        elements.Slice,
        *(needed("start"), needed("stop"), needed("step")),
        ignored="type",
        constants={"type": NULLTYPE},
    ),
    _wrapped("case", elements.Case, part("value"), pairs("whens", "whens"), part("else", "else_")),
    *[
        _wrapped(
            tag,
            cls,
            needed("of", "clause"),
            ignored="typeclause",
            derive=lambda it: setattr(it, "typeclause", elements.TypeClause(it.type)),
        )
        for tag, cls in (("cast", elements.Cast), ("try cast", elements.TryCast))
    ],
    _wrapped("coerce", elements.TypeCoerce, operand("of", "clause"), derive=lambda it: check_one(it.clause)),
    NodeKind("type", elements.TypeClause, type_()),
    NodeKind(
        "extract",
        elements.Extract,
        word("field", "field", lambda text: text.lower() in types.EXTRACT_FIELDS, REQUIRED),
        needed("from", "expr"),
        *NOTED,
        ignored="type",
        constants={"type": INTEGERTYPE},
    ),
    _wrapped(
        "label",
        elements.Label,
        name_(),
        operand("of", "_element"),
        name_("resolve", "_resolve_label", LEAVE),
        name_("key", absent=LEAVE),
        ignored="key _tq_label _tq_key_label _proxies element",
        derive=_derive_label,
        write=_write_label,
    ),
    NodeKind("label reference", internals.LabelReference, needed("element"), *NOTED),
    NodeKind("label name", internals.TextualLabelReference, name_("element")),
    _followed(
        "over",
        elements.Over,
        call("element"),
        part("order", "order_by"),
        part("partition", "partition_by"),
        part("range", "range_"),
        part("rows"),
        part("groups"),
        word("exclude", "exclude", lambda text: text.upper() in types.FRAME_EXCLUSIONS),
    ),
    NodeKind(
        "frame",
        elements.FrameClause,
        part("lower", "lower_bind"),
        part("upper", "upper_bind"),
        choice("from", "lower_type", elements.FrameClauseType, REQUIRED),
        choice("to", "upper_type", elements.FrameClauseType, REQUIRED),
    ),
    _followed("within group", elements.WithinGroup, call("element"), part("order", "order_by")),
    _followed("aggregate order", elements.AggregateOrderBy, call("element"), part("order", "order_by")),
    _wrapped("postgresql order", aggregate_order_by, needed("target"), needed("order", "order_by")),
    _followed("filter", elements.FunctionFilter, call("of", "func"), part("where", "criterion")),
    NodeKind(
        "collation",
        elements.CollationClause,
        word("name", "collation", is_collation, REQUIRED),
        word("schema", "collation_schema", is_identifier),
    ),
)
