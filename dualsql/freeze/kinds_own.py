"""Elements of an application's own classes, which the registry lists.

Their `@compiles` functions render their arguments wherever an expression is allowed. A document may therefore give them
only values that cannot be rendered as free text: expressions, whole numbers and flags.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy.sql.elements import ClauseElement, ColumnElement
from sqlalchemy.sql.visitors import InternalTraversal

from dualsql.freeze.document import expect, malformed, refuse
from dualsql.freeze.fields import ORM, NodeKind, check_operand, type_
from dualsql.freeze.values import is_identifier

if TYPE_CHECKING:
    from dualsql.freeze.codec import Decoder, Encoder

# Description of an attribute in `_traverse_internals` -> form of its values in a document.
_FORMS = {
    InternalTraversal.dp_clauseelement: "one",
    InternalTraversal.dp_clauseelement_list: "list",
    InternalTraversal.dp_clauseelement_tuple: "tuple",
}
_LISTS: dict[str, type] = {"list": list, "tuple": tuple}
# The range of 64 bits. Every JSON library writes these numbers exactly.
_LARGEST = 2**63


def _forms(cls: Any, name: str) -> tuple[str, ...]:
    """The forms that a document may give the attribute: those of its description, or all if there is none."""
    descriptions = dict(getattr(cls, "_traverse_internals", ()))
    if name in descriptions:
        form = _FORMS.get(descriptions[name])
        return () if form is None else (form,)
    return ("one", "list", "tuple", "plain") if is_identifier(name) and not hasattr(cls, name) else ()


def _write_own(enc: Encoder, kind: NodeKind, element: Any) -> dict[str, Any]:
    cls = type(element)
    if enc.registry.element_classes.get(cls.__name__) is not cls:
        refuse(
            f"a {cls.__module__}.{cls.__qualname__}",
            "Register the class: Registry(..., elements=[TheClass]), or use SQLAlchemy's own constructs.",
        )
    attributes = {name: value for name, value in vars(element).items() if _forms(cls, name)}
    state = {name: value for name, value in vars(element).items() if name not in attributes}
    fields: dict[str, Any] = {"class": cls.__name__, **enc.fields(kind, state)}
    fields["holds"] = {name: _write_attribute(enc, name, value) for name, value in attributes.items()}
    return fields


def _write_attribute(enc: Encoder, name: str, value: Any) -> list[Any]:
    if isinstance(value, ClauseElement):
        return ["one", enc.ref(value)]
    if type(value) in (list, tuple) and all(isinstance(item, ClauseElement) for item in value):
        return [type(value).__name__, [enc.ref(item) for item in value]]
    if not _is_plain(value):
        refuse(
            f"a custom element with {name}={value!r}",
            "Store only expressions in its attributes, such as literal('x').",
        )
    return ["plain", value]


def _is_plain(value: Any) -> bool:
    return value is None or type(value) is bool or (type(value) is int and -_LARGEST <= value < _LARGEST)


def _read_own(dec: Decoder, kind: NodeKind, fields: dict[str, Any]) -> Any:
    cls: Any = dec.registry.element_classes[expect(fields.pop("class"), str)]
    element = cls.__new__(cls)
    for name, wire in expect(fields.pop("holds"), dict).items():
        form, value = expect(wire, list)
        if form not in _forms(cls, name):
            malformed("attribute of an own element")
        element.__dict__[name] = _read_attribute(dec, form, value)
    dec.fill_state(kind, fields, element.__dict__)
    return element


def _read_attribute(dec: Decoder, form: str, value: Any) -> Any:
    if form == "one":
        return check_operand(dec.element(value))
    if form == "plain":
        return value if _is_plain(value) else malformed("text in an own element")
    return _LISTS[form]([check_operand(dec.element(number)) for number in expect(value, list)])


OWN = NodeKind("own", ColumnElement, type_(), ORM, write=_write_own, read=_read_own)
