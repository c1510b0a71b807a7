"""The kinds of column expressions. Parentheses and boolean flags are computed from the operator, never read."""

from __future__ import annotations

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
from dualsql.freeze import names, types
from dualsql.freeze.document import expect, malformed
from dualsql.freeze.fields import (
    BARE,
    CHAINED,
    INFIX,
    LEAVE,
    NOTED,
    ORDERING,
    PREFIXED,
    REQUIRED,
    Bare,
    Field,
    NodeKind,
    bare_copy,
    call,
    check_one,
    check_operand,
    check_right,
    choice,
    modifiers,
    name_,
    needed,
    operand,
    operands,
    operator,
    pairs,
    part,
    parts,
    type_,
    with_parentheses,
    word,
)

if TYPE_CHECKING:
    from dualsql.freeze.codec import Decoder, Encoder

_SUBQUERIES = (ScalarSelect, SelectStatementGrouping, elements.Grouping)


def _derive_binary(element: Any) -> None:
    state = element.__dict__
    op, left, right = state["operator"], state["left"], state["right"]
    # As BinaryExpression.__init__(): `_orig` is what `==` of expressions compares in a boolean context.
    state["_orig"] = hash(left), hash(right)
    state["left"] = left.self_group(against=op)
    state["right"] = right.operand_of(op) if op in BARE else check_right(right, op).self_group(against=op)
    state["_is_implicitly_boolean"] = operators.is_boolean(op)


def _derive_match(element: Any) -> None:
    # MySQL's MATCH (...) writes the parentheses of its columns itself.
    left = element.left
    _derive_binary(element)
    if isinstance(left, elements.ExpressionClauseList):
        element.left = bare_copy(left, operators.comma_op)


def _derive_list(element: Any) -> None:
    against = element.operator
    element.clauses = tuple([clause.self_group(against=against) for clause in element.clauses])
    internals.set_implicitly_boolean(element, is_boolean=operators.is_boolean(against))


def _derive_clause_list(element: Any) -> None:
    if element.operator is operators.comma_op:
        element.clauses = [clause.self_group(against=element.operator) for clause in element.clauses]
    else:
        malformed("list that is not separated by commas")
    internals.set_implicitly_boolean(element, is_boolean=False)


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
    element.element = with_parentheses(element.element, operators.eq)
    internals.set_implicitly_boolean(element, is_boolean=internals.is_implicitly_boolean(element.element))


def _derive_grouping(element: Any) -> None:
    element.type = getattr(element.element, "type", NULLTYPE)


def _derive_scalar(element: Any) -> None:
    if not isinstance(element.element, SelectBase):
        # A scalar subquery looks up a missing attribute in its element, twice if that is annotated: nested ones take
        # exponential time.
        malformed("a scalar subquery of no statement")
    element.type = internals.scalar_type(element.element)


def _derive_cast(element: Any) -> None:
    element.typeclause = elements.TypeClause(element.type)


def _derive_label(element: Any) -> None:
    state = element.__dict__
    # As Label.__init__(): a subquery finds the column by these keys.
    state["key"] = state["_tq_key_label"] = state.get("key", element.name)
    state["_tq_label"] = element.name
    state["_proxies"] = [internals.labelled_element(element)]


def _write_chain(enc: Encoder, kind: NodeKind, element: Any) -> dict[str, Any]:
    fields = enc.fields(kind, element.__dict__)
    return fields if element.group else {**fields, "bare": True}


def _read_chain(dec: Decoder, kind: NodeKind, fields: dict[str, Any]) -> Any:
    if not fields.pop("bare", False):
        return dec.fill(kind, fields)
    element = elements.ExpressionClauseList.__new__(elements.ExpressionClauseList)
    element.__dict__.update({"type": NULLTYPE, "clauses": (), "group": False})
    dec.fill_state(kind, fields, element.__dict__)
    internals.set_implicitly_boolean(element, is_boolean=False)
    return Bare(element)


def _write_label(enc: Encoder, kind: NodeKind, label: Any) -> dict[str, Any]:
    fields = enc.fields(kind, label.__dict__)
    return fields if label.key == label.name else {**fields, "key": names.write_name(label.key, enc.seeds)}


# SQLAlchemy has one object of each and compares by identity, so a copy of null() would not be null().
def _singleton(tag: str, element: Any) -> NodeKind:
    return NodeKind(tag, type(element), write=lambda *_: {}, read=lambda *_: element, is_own=False)


def _wrapped(tag: str, cls: Any, *fields: Field, **more: Any) -> NodeKind:
    return NodeKind(tag, cls, (*fields, type_(NULLTYPE), *NOTED), **more)


# The `type` of OVER, FILTER and WITHIN GROUP is a property that returns the type of the function.
def _followed(tag: str, cls: Any, *fields: Field) -> NodeKind:
    """A kind whose type is that of the function inside it."""
    return NodeKind(tag, cls, (*fields, *NOTED), frozenset({"type"}))


def _position(name: str, attribute: str) -> Field:
    return Field(
        name=name,
        attribute=attribute,
        write=lambda enc, value: value,
        read=lambda dec, wire: expect(wire, int),
        absent=REQUIRED,
    )


_BINARY = (
    operand("left"),
    needed("right"),
    operator("operator", INFIX, absent=REQUIRED),
    operator("negate", INFIX),
    modifiers(),
    type_(BOOLEANTYPE),
    *NOTED,
)
_LIST = (operands("clauses"), operator("operator", CHAINED, absent=REQUIRED))
_UNARY = (needed("element"), operator("operator", PREFIXED), operator("modifier", ORDERING))
# `negation_clause`: the negated form of relationship.contains(), for a later NOT.
_FLAGS = frozenset(
    {"group", "group_contents", "_is_implicitly_boolean", "_text_converter_role", "negation_clause"}
)

KINDS = (
    _singleton("null", null()),
    _singleton("true", true()),
    _singleton("false", false()),
    NodeKind("binary", elements.BinaryExpression, _BINARY, _FLAGS, {}, _derive_binary),
    NodeKind(
        "comparison",
        FunctionAsBinary,
        (
            call("call", "sql_function"),
            _position("left", "left_index"),
            _position("right", "right_index"),
            *NOTED,
        ),
        _FLAGS | {"operator", "negate", "modifiers", "type"},
        {
            "operator": operators.function_as_comparison_op,
            "type": BOOLEANTYPE,
            "negate": None,
            "modifiers": immutabledict(),
            "_is_implicitly_boolean": True,
        },
    ),
    NodeKind("index", elements.IndexExpression, _BINARY, _FLAGS, {}, _derive_binary),
    NodeKind("mysql match", mysql_match, _BINARY, _FLAGS, {}, _derive_match),
    NodeKind(
        "boolean",
        elements.BooleanClauseList,
        (*_LIST, *NOTED),
        _FLAGS | {"type"},
        {"group": True, "type": BOOLEANTYPE},
        _derive_list,
    ),
    NodeKind(
        "chain",
        elements.ExpressionClauseList,
        (*_LIST, type_(NULLTYPE), *NOTED),
        _FLAGS,
        {"group": True},
        _derive_list,
        _write_chain,
        _read_chain,
    ),
    NodeKind(
        "array", postgresql_array, (*_LIST, type_(NULLTYPE), *NOTED), _FLAGS, {"group": True}, _derive_list
    ),
    NodeKind(
        "list",
        elements.ClauseList,
        (parts("clauses", cls=list), operator("operator", CHAINED, absent=operators.comma_op), *NOTED),
        _FLAGS,
        {"group": True, "group_contents": True, "_text_converter_role": roles.ByOfRole},
        _derive_clause_list,
    ),
    NodeKind(
        "tuple",
        elements.Tuple,
        (
            parts("clauses", cls=list),
            operator("operator", CHAINED, absent=operators.comma_op),
            type_(),
            *NOTED,
        ),
        _FLAGS,
        {"group": True, "group_contents": True, "_text_converter_role": roles.WhereHavingRole},
        _derive_clause_list,
    ),
    # SQLAlchemy's own list of syntax extensions at one position.
    NodeKind("elements", elements.ElementList, (parts("clauses"),)),
    NodeKind(
        "order list",
        elements.OrderByList,
        (parts("clauses", cls=list), *NOTED),
        _FLAGS,
        {"_text_converter_role": roles.OrderByRole},
    ),
    NodeKind(
        "unary", elements.UnaryExpression, (*_UNARY, type_(NULLTYPE), *NOTED), _FLAGS, {}, _derive_unary
    ),
    NodeKind(
        "any", elements.CollectionAggregate, (*_UNARY, type_(BOOLEANTYPE), *NOTED), _FLAGS, {}, _derive_unary
    ),
    NodeKind("exists", Exists, (*_UNARY, type_(BOOLEANTYPE), *NOTED), _FLAGS, {}, _derive_exists),
    NodeKind(
        "as boolean",
        elements.AsBoolean,
        (*_UNARY, operator("negate", PREFIXED), type_(BOOLEANTYPE), *NOTED),
        _FLAGS,
        {},
        _derive_as_boolean,
    ),
    NodeKind(
        "grouping", elements.Grouping, (needed("element"), *NOTED), frozenset({"type"}), {}, _derive_grouping
    ),
    NodeKind("scalar", ScalarSelect, (needed("element"), *NOTED), frozenset({"type"}), {}, _derive_scalar),
    NodeKind(
        "slice",
        elements.Slice,
        (needed("start"), needed("stop"), needed("step")),
        frozenset({"type"}),
        {"type": NULLTYPE},
    ),
    _wrapped("case", elements.Case, part("value"), pairs("whens", "whens"), part("else", "else_")),
    _wrapped(
        "cast", elements.Cast, needed("of", "clause"), ignored=frozenset({"typeclause"}), derive=_derive_cast
    ),
    _wrapped(
        "try cast",
        elements.TryCast,
        needed("of", "clause"),
        ignored=frozenset({"typeclause"}),
        derive=_derive_cast,
    ),
    _wrapped("coerce", elements.TypeCoerce, operand("of", "clause"), derive=lambda it: check_one(it.clause)),
    NodeKind("type", elements.TypeClause, (type_(),)),
    NodeKind(
        "extract",
        elements.Extract,
        (
            word("field", "field", lambda text: text.lower() in types.EXTRACT_FIELDS, REQUIRED),
            needed("from", "expr"),
            *NOTED,
        ),
        frozenset({"type"}),
        {"type": INTEGERTYPE},
    ),
    NodeKind(
        "label",
        elements.Label,
        (
            name_(),
            operand("of", "_element"),
            type_(NULLTYPE),
            name_("resolve", "_resolve_label", LEAVE),
            name_("key", absent=LEAVE),
            *NOTED,
        ),
        frozenset({"key", "_tq_label", "_tq_key_label", "_proxies", "element"}),
        {},
        _derive_label,
        _write_label,
    ),
    NodeKind("label reference", internals.LabelReference, (needed("element"), *NOTED)),
    NodeKind("label name", internals.TextualLabelReference, (name_("element", "element"),)),
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
        (
            part("lower", "lower_bind"),
            part("upper", "upper_bind"),
            choice("from", "lower_type", elements.FrameClauseType, REQUIRED),
            choice("to", "upper_type", elements.FrameClauseType, REQUIRED),
        ),
    ),
    _followed("within group", elements.WithinGroup, call("element"), part("order", "order_by")),
    _followed("aggregate order", elements.AggregateOrderBy, call("element"), part("order", "order_by")),
    _wrapped("postgresql order", aggregate_order_by, needed("target"), needed("order", "order_by")),
    _followed("filter", elements.FunctionFilter, call("of", "func"), part("where", "criterion")),
    NodeKind(
        "collation",
        elements.CollationClause,
        (
            word("name", "collation", names.is_collation, REQUIRED),
            word("schema", "collation_schema", names.is_identifier),
        ),
    ),
)
