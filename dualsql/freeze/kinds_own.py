"""Elements of an application's own classes; the rule: they hold expressions, whole numbers and flags, never text.

Which classes there are is said by the registry, and what they render by their `@compiles` functions: these may get
any expression where an expression is due. What a document brings is therefore held to what cannot be rendered as
text of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import select
from sqlalchemy.sql.base import SyntaxExtension
from sqlalchemy.sql.elements import ClauseElement, ColumnElement, ElementList
from sqlalchemy.sql.visitors import InternalTraversal

from dualsql.freeze.fields import LEAVE, Field, Kind, type_
from dualsql.freeze.names import is_identifier
from dualsql.freeze.notes import ORM
from dualsql.freeze.operands import check_operand
from dualsql.freeze.refusals import expect, malformed, refuse

if TYPE_CHECKING:
    from dualsql.freeze.decode import Decoder
    from dualsql.freeze.encode import Encoder

# How a class describes an attribute (`_traverse_internals`) -> the form that its values have in a document.
_FORMS = {
    InternalTraversal.dp_clauseelement: "one",
    InternalTraversal.dp_clauseelement_list: "list",
    InternalTraversal.dp_clauseelement_tuple: "tuple",
}
_LISTS: dict[str, type] = {"list": list, "tuple": tuple}
_LARGEST = 2**63


def is_own_class(cls: type) -> bool:
    """Whether `cls` is an element that SQLAlchemy does not bring."""
    return issubclass(cls, ClauseElement) and not cls.__module__.startswith("sqlalchemy.")


def _forms(cls: Any, name: str) -> tuple[str, ...]:
    """What documents may set the attribute to: as the class describes it; anything, if it knows nothing of it."""
    described = dict(getattr(cls, "_traverse_internals", ()))
    if name in described:
        form = _FORMS.get(described[name])
        return () if form is None else (form,)
    return ("one", "list", "tuple", "plain") if is_identifier(name) and not hasattr(cls, name) else ()


def _write(enc: Encoder, kind: Kind, element: Any) -> dict[str, Any]:
    cls = type(element)
    if not enc.registry.has_element_class(cls):
        refuse(
            f"a {cls.__module__}.{cls.__qualname__}",
            "Register the class: Registry(..., elements=[TheClass]), or use SQLAlchemy's own constructs.",
        )
    held = {name: value for name, value in vars(element).items() if _forms(cls, name)}
    state = {name: value for name, value in vars(element).items() if name not in held}
    written: dict[str, Any] = {"class": cls.__name__, **enc.fields(kind, state)}
    written["holds"] = {name: _write_held(enc, name, value) for name, value in held.items()}
    return written


def _write_held(enc: Encoder, name: str, value: Any) -> list[Any]:
    if isinstance(value, ClauseElement):
        return ["one", enc.ref(value)]
    if type(value) in (list, tuple) and all(isinstance(item, ClauseElement) for item in value):
        return [type(value).__name__, [enc.ref(item) for item in value]]
    if not _is_plain(value):
        refuse(f"an own element with {name}={value!r}"[:120], "Keep expressions in it: literal('x').")
    return ["plain", value]


def _is_plain(value: Any) -> bool:
    return value is None or type(value) is bool or (type(value) is int and -_LARGEST <= value < _LARGEST)


def _read(dec: Decoder, kind: Kind, fields: dict[str, Any]) -> Any:
    cls: Any = dec.registry.element_classes[expect(fields.pop("class"), str)]
    element = cls.__new__(cls)
    for name, wire in expect(fields.pop("holds"), dict).items():
        form, value = expect(wire, list)
        if form not in _forms(cls, name):
            malformed("attribute of an own element")
        element.__dict__[name] = _read_held(dec, form, value)
    dec.fill_state(kind, fields, element.__dict__)
    return element


def _read_held(dec: Decoder, form: str, value: Any) -> Any:
    if form == "one":
        return check_operand(dec.element(value))
    if form == "plain":
        return value if _is_plain(value) else malformed("text in an own element")
    return _LISTS[form]([check_operand(dec.element(number)) for number in expect(value, list)])


# --- where extensions of the syntax stand -----------------------------------------------------------------------


def extension(name: str, attribute: str) -> Field:
    """A clause of its own, as DISTINCT ON; any other element there would run into the clause before it."""

    def read(dec: Decoder, wire: Any) -> Any:
        element = dec.element(wire)
        for clause in element.clauses if isinstance(element, ElementList) else [element]:
            _check_place(clause, attribute)
        return element

    return Field(
        name=name, attribute=attribute, write=lambda enc, value: enc.ref(value), read=read, absent=LEAVE
    )


def _check_place(clause: Any, attribute: str) -> None:
    """Raise MalformedError unless `clause` puts itself into this place of a select."""
    if not isinstance(clause, SyntaxExtension):
        malformed("clause in a wrong place")
    if getattr(select().ext(clause), attribute) is not clause:
        malformed("clause of another place")


OWN = Kind("own", ColumnElement, (type_(), ORM), write=_write, read=_read)
KINDS = (OWN,)
