"""Bound parameters; the rule: a value of a known type, under a name that every dialect can render."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy.sql import elements
from sqlalchemy.sql.elements import _anonymous_label
from sqlalchemy.sql.selectable import _OffsetLimitParam
from sqlalchemy.sql.type_api import NULLTYPE

from dualsql.freeze import names
from dualsql.freeze.fields import LEAVE, Kind, flag, name_, type_, value_
from dualsql.freeze.operands import INFIX
from dualsql.freeze.operator_fields import operator
from dualsql.freeze.refusals import malformed, refuse

if TYPE_CHECKING:
    from dualsql.freeze.encode import Encoder


def _write_bind(enc: Encoder, kind: Kind, element: Any) -> dict[str, Any]:
    state = element.__dict__
    if state.get("isoutparam"):
        refuse("an OUT parameter", "Bind a plain value.")
    if state.get("callable") is not None:
        # Called now: what is stored is a value, as it is for every other parameter.
        state = {**state, "callable": None, "value": enc.once(element, lambda: element.effective_value)}
    written = enc.fields(kind, state)
    key = element.key
    original = _original_key(key)
    if not _is_rendered(key, original):
        refuse(f"the parameter name {str(key)!r}"[:120], "Choose a name of letters, digits and _.")
    if written.get("was") == original:
        del written["was"]
    if type(key) is not _anonymous_label and element.unique:
        refuse(
            "a bound parameter that is unique but has a fixed name", "Use bindparam() without unique=True."
        )
    return written


class Row(elements.BindParameter[Any]):
    """A list of values outside of IN: by the class, SQLAlchemy's cache keys tell it from a single value."""

    inherit_cache = True


def as_row(enc: Encoder, column: Any) -> Any:
    """`column`, or a Row for a list of values."""
    if type(column) is not elements.BindParameter or not column.expanding:
        return column
    row = enc.once(column, lambda: Row.__new__(Row))
    row.__dict__.update(column.__dict__)
    return row


def _derive_bind(element: Any) -> None:
    key = element.key
    original = _original_key(key)
    if not _is_rendered(key, original):
        malformed("name of a bound parameter")
    if isinstance(element, Row) and not element.expanding:
        malformed("one value as a row")
    state = element.__dict__
    state["_identifying_key"] = key
    state["unique"] = type(key) is _anonymous_label
    if state["unique"]:
        state["_anon_map_key"] = key[2:-2]
    state["_orig_key"] = state.get("_orig_key") or original
    state["required"] = state["required"] and state["value"] is None


def _original_key(key: str) -> str:
    """What a bound parameter was named before SQLAlchemy made the name unique."""
    match = names.ANONYMOUS.fullmatch(key)
    return match[2] if match else key


def _is_rendered(key: str, original: str) -> bool:
    """Whether every dialect can render the name of a bound parameter."""
    if type(key) is not _anonymous_label:
        return names.is_bind_name(str(key))
    return names.is_bind_name(names.bodies(key) if original is key else original)


_BIND_FIELDS = (
    name_("name", "key"),
    name_("was", "_orig_key", absent=LEAVE),
    value_("value", "value"),
    type_(NULLTYPE),
    flag("expanding"),
    flag("required"),
    flag("literal", "literal_execute"),
    operator("expands", INFIX, "expand_op"),
)
_BIND_STATE = {"callable": None, "isoutparam": False, "unique": False}
_BIND_IGNORED = frozenset({"_identifying_key", "_anon_map_key", "unique", "callable", "isoutparam"})

KINDS = tuple(
    Kind(tag, cls, _BIND_FIELDS, _BIND_IGNORED, _BIND_STATE, _derive_bind, _write_bind)
    for tag, cls in (("bind", elements.BindParameter), ("count", _OffsetLimitParam), ("row", Row))
)
