"""Operators and their arguments as fields; the rule: each place takes only the operators that belong there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from sqlalchemy.sql.operators import OperatorClass, custom_op

from dualsql.freeze import names
from dualsql.freeze.allowed import OPERATOR_NAMES, OPERATORS, POSTGRESQL_OPERATORS
from dualsql.freeze.fields import Field
from dualsql.freeze.operands import INFIX
from dualsql.freeze.refusals import expect, malformed, refuse

if TYPE_CHECKING:
    from dualsql.freeze.decode import Decoder
    from dualsql.freeze.encode import Encoder

# Logical operators on some database (|| is OR on MySQL): they must always be grouped under AND.
_LOOSE = frozenset({"||", "&&", "XOR", "OR", "AND", "NOT"})
_POSTGRESQL_NAMES = {op: name for name, op in POSTGRESQL_OPERATORS.items()}


def operator(name: str, places: frozenset[str], attribute: str | None = None, absent: Any = None) -> Field:
    """An operator, by its name in SQLAlchemy or by a text of the allow-list.

    Args:
        places: names of the operators that can stand here.
    """

    def read(dec: Decoder, wire: Any) -> Any:
        if type(wire) is str:
            return OPERATORS[wire] if wire in places else malformed("operator in a wrong place")
        return _read_custom(dec, wire, is_infix=places is INFIX)

    return Field(name=name, attribute=attribute or name, write=_write_operator, read=read, absent=absent)


def _write_operator(enc: Encoder, op: Any) -> Any:
    known = OPERATOR_NAMES.get(op)
    if known is not None:
        return known
    if not isinstance(op, custom_op):
        refuse(f"the operator {getattr(op, '__name__', op)}", "Use a standard operator.")
    known = _POSTGRESQL_NAMES.get(op)
    if known is not None and POSTGRESQL_OPERATORS[known] is op:
        return ["postgresql", known]
    if (
        type(op) is not custom_op
        or op.visit_name is not None
        or not enc.registry.allows_operator(op.opstring)
    ):
        refuse(f"the operator {op.opstring!r}"[:120], "Allow it: Registry(..., operators=[text]).")
    returns = None if op.return_type is None else enc.type(op.return_type)
    flags = [op.is_comparison, op.natural_self_precedent, op.eager_grouping]
    return ["op", op.opstring, op.precedence, flags, returns, op.operator_class.name]


def _read_custom(dec: Decoder, wire: Any, *, is_infix: bool) -> Any:
    mark, text, *rest = wire
    if text in _LOOSE and not is_infix:
        malformed("operator in a wrong place")
    if mark == "postgresql":
        return POSTGRESQL_OPERATORS[text]
    precedence, flags, returns, operator_class = rest
    if not dec.registry.allows_operator(expect(text, str)) or not -20 <= expect(precedence, int) <= 20:
        malformed("operator")
    comparison, natural, eager = (expect(item, bool) for item in flags)
    return custom_op(
        text,
        precedence=min(precedence, 0) if text.upper() in _LOOSE else precedence,
        is_comparison=comparison,
        natural_self_precedent=natural,
        eager_grouping=eager,
        return_type=None if returns is None else dec.type(returns),
        operator_class=OperatorClass[operator_class],
    )


# --- modifiers of operators -------------------------------------------------------------------------------------


def _is_escape(value: Any) -> bool:
    return type(value) is str and len(value) <= 2 and "\x00" not in value


def _is_flags(value: Any) -> bool:
    return type(value) is str and value.isprintable() and len(value) <= 20


# Keyword arguments of operators: escape= and flags= are rendered as literals, the others switch words on.
_MODIFIERS: dict[str, Callable[[Any], bool]] = {
    "escape": _is_escape,
    "flags": _is_flags,
    "autoescape": lambda value: type(value) is bool,
    "symmetric": lambda value: type(value) is bool,
    "mysql_boolean_mode": lambda value: type(value) is bool,
    "mysql_natural_language": lambda value: type(value) is bool,
    "mysql_query_expansion": lambda value: type(value) is bool,
    "postgresql_regconfig": lambda value: type(value) is str and names.is_identifier(value),
}


def modifiers(name: str = "with", attribute: str = "modifiers") -> Field:
    """The keyword arguments of an operator."""
    return Field(name=name, attribute=attribute, write=_write_modifiers, read=_read_modifiers, absent=dict)


def _write_modifiers(enc: Encoder, value: Mapping[str, Any]) -> dict[str, Any]:
    written: dict[str, Any] = {}
    for key, item in value.items():
        if key == "_python_is_types":  # steers how an operand was coerced, which has happened
            continue
        if key not in _MODIFIERS or not (item is None or _MODIFIERS[key](item)):
            refuse(f"an operator with {key}={item!r}"[:120], "Leave that argument out.")
        written[key] = item
    return written


def _read_modifiers(dec: Decoder, wire: Any) -> dict[str, Any]:
    for key, item in expect(wire, dict).items():
        if not (item is None or _MODIFIERS[key](item)):
            malformed("modifier")
    read: dict[str, Any] = wire
    return read
