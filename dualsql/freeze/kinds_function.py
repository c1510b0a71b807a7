"""Functions, bound parameters and elements of an application's own classes.

The registry lists the application's own classes. Their `@compiles` functions render their arguments wherever an
expression is allowed. A document may therefore give them only values that cannot be rendered as free text:
expressions, whole numbers and flags.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import select
from sqlalchemy.sql import elements
from sqlalchemy.sql.base import SyntaxExtension
from sqlalchemy.sql.elements import (
    ClauseElement,
    ClauseList,
    ColumnClause,
    ColumnElement,
    ElementList,
    Grouping,
)
from sqlalchemy.sql.functions import Function, GenericFunction, ScalarFunctionColumn
from sqlalchemy.sql.sqltypes import TableValueType
from sqlalchemy.sql.type_api import NULLTYPE
from sqlalchemy.sql.visitors import InternalTraversal

from dualsql import sqlalchemy_internals as internals
from dualsql.freeze import names
from dualsql.freeze.document import expect, malformed, refuse
from dualsql.freeze.fields import (
    INFIX,
    LEAVE,
    NOTED,
    ORM,
    Field,
    NodeKind,
    check_operand,
    flag,
    name_,
    needed,
    operator,
    type_,
    value_,
)
from dualsql.freeze.names import is_identifier, read_name, write_name

if TYPE_CHECKING:
    from dualsql.freeze.codec import Decoder, Encoder


def _write_bind(enc: Encoder, kind: NodeKind, element: Any) -> dict[str, Any]:
    state = element.__dict__
    if state.get("isoutparam"):
        refuse("an OUT parameter", "Bind a plain value.")
    if state.get("callable") is not None:
        # The callable is called now, because the document stores values.
        state = {**state, "callable": None, "value": enc.once(element, lambda: element.effective_value)}
    fields = enc.fields(kind, state)
    key = element.key
    original = _original_key(key)
    if not _is_rendered(key, original):
        refuse(f"the parameter name {str(key)!r}"[:120], "Choose a name of letters, digits and _.")
    if fields.get("was") == original:
        del fields["was"]
    if type(key) is not internals.AnonymousLabel and element.unique:
        refuse(
            "a bound parameter that is unique but has a fixed name", "Use bindparam() without unique=True."
        )
    return fields


class Row(elements.BindParameter[Any]):
    """A list of values outside of IN. Its class makes SQLAlchemy's cache key differ from a single value's."""

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
    state["unique"] = type(key) is internals.AnonymousLabel
    if state["unique"]:
        # Of "%(140 name)s", as BindParameter.__init__ has it.
        state["_anon_map_key"] = key[2:-2]
    state["_orig_key"] = state.get("_orig_key") or original
    state["required"] = state["required"] and state["value"] is None


def _original_key(key: str) -> str:
    """The name of a bound parameter before SQLAlchemy made it unique."""
    match = names.ANONYMOUS.fullmatch(key)
    return match[2] if match else key


def _is_rendered(key: str, original: str) -> bool:
    """Whether every dialect can render the name of a bound parameter."""
    if type(key) is not internals.AnonymousLabel:
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

BIND_KINDS = tuple(
    NodeKind(tag, cls, _BIND_FIELDS, _BIND_IGNORED, _BIND_STATE, _derive_bind, _write_bind)
    for tag, cls in (("bind", elements.BindParameter), ("count", internals.OffsetLimitParam), ("row", Row))
)


def _write_type(enc: Encoder, value: Any) -> Any:
    if type(value) is not TableValueType:
        return enc.type(value)
    return [
        "table",
        [
            [write_name(column.name, enc.seeds), enc.type(column.type)]
            for column in internals.columns_of_row_type(value)
        ],
    ]


def _read_type(dec: Decoder, wire: Any) -> Any:
    if type(wire) is list and wire[0] == "table":
        return TableValueType(
            *[ColumnClause(read_name(name, dec.seeds), dec.trusted_type(kind)) for name, kind in wire[1]]
        )
    return dec.type(wire)


def check_rows(kind: Any, rows: Any) -> None:
    """Refuse two row types with different columns, because SQLAlchemy's cache keys do not distinguish them."""
    declared, actual = (
        [(column.name, internals.type_key(column.type)) for column in internals.columns_of_row_type(type_)]
        for type_ in (kind, rows)
    )
    if declared != actual:
        malformed("rows of a function with other columns than its type")


def function_type(name: str, attribute: str, absent: Any) -> Field:
    """A type that may be a row type with named columns."""
    return Field(
        name=name,
        attribute=attribute,
        write=_write_type,
        read=_read_type,
        default=None if absent is LEAVE else absent,
        absent=absent,
    )


_FIELDS = (
    needed("arguments", "clause_expr"),
    function_type("type", "type", NULLTYPE),
    function_type("rows", "_table_value_type", LEAVE),
    flag("ordinality", "_with_ordinality", absent=LEAVE),
    flag("monotonic", absent=LEAVE),
    *NOTED,
)
# SQLAlchemy reads execution options from the whole statement, not from a function in it.
_IGNORED = frozenset(
    {"_has_args", "clauses", "packagenames", "name", "coerce_arguments", "_execution_options"}
)


def _write(enc: Encoder, kind: NodeKind, element: Any) -> dict[str, Any]:
    cls = type(element)
    if enc.registry.has_function_class(cls):
        return {**enc.fields(kind, element.__dict__), "class": cls.__name__}
    full_name = ".".join([*getattr(element, "packagenames", ()), getattr(element, "name", cls.__name__)])
    if not enc.registry.allows_function(full_name):
        refuse(
            f"the function {full_name}"[:120],
            "If the function has no side effects, register it: Registry(..., functions=[name]).",
        )
    # SQLAlchemy finds a class by the function's name, so reading would build the class registered under that name.
    if cls is not Function and _class_of(element.name) is not cls:
        refuse(
            f"the function class {cls.__qualname__}",
            "Use func.name(...), or register the class: Registry(..., functions=[TheClass]).",
        )
    fields = enc.fields(kind, element.__dict__)
    fields["name"] = write_name(element.name, enc.seeds)
    if element.packagenames:
        fields["packages"] = [write_name(name, enc.seeds) for name in element.packagenames]
    if cls is Function and _class_of(element.name) is not None:
        fields["plain"] = True
    return fields


def _read(dec: Decoder, kind: NodeKind, fields: dict[str, Any]) -> Any:
    if "class" in fields:
        return _read_own_function(dec, kind, fields)
    name = read_name(fields.pop("name"), dec.seeds)
    packages = tuple([read_name(item, dec.seeds) for item in expect(fields.pop("packages", []), list)])
    if not dec.registry.allows_function(".".join([*packages, name])):
        malformed("function that is not allowed")
    cls = None if fields.pop("plain", False) else _class_of(name)
    element: Any = (cls or Function).__new__(cls or Function)
    state = element.__dict__
    state.update(kind.constants)
    dec.fill_state(kind, fields, state)
    _check_arguments(state)
    rows = state.get("_table_value_type")
    if rows is not None and type(rows) is not TableValueType:  # SQLAlchemy asks it for a cache key
        malformed("rows of a function that are no row type")
    check_rows(state["type"], rows)
    state["packagenames"] = packages
    if cls is None:
        state["name"] = name
    # The declaration of the class applies: current_date is rendered without parentheses, count() always with them.
    state["_has_args"] = bool(getattr(cls or Function, "_has_args", False)) or bool(
        element.clause_expr.element.clauses
    )
    return element


def _read_own_function(dec: Decoder, kind: NodeKind, fields: dict[str, Any]) -> Any:
    """A function of a registered class."""
    cls: Any = dec.registry.function_classes[expect(fields.pop("class"), str)]
    element = cls.__new__(cls)
    dec.fill_state(kind, fields, element.__dict__)
    _check_arguments(element.__dict__)
    element.__dict__["_has_args"] = bool(getattr(cls, "_has_args", False)) or bool(
        element.clause_expr.element.clauses
    )
    return element


def _check_arguments(state: dict[str, Any]) -> None:
    arguments = state.get("clause_expr")
    if not isinstance(arguments, Grouping) or not isinstance(arguments.element, ClauseList):
        malformed("function without arguments in parentheses")


def _class_of(name: str) -> type[GenericFunction[Any]] | None:
    """SQLAlchemy's own class for a function name, not one that an application defined under that name."""
    cls = internals.registered_function(name)
    if isinstance(cls, type) and issubclass(cls, GenericFunction) and cls.name == name:
        return cls
    return None


def _derive_column(element: Any) -> None:
    element.key = element.name


FUNCTION = NodeKind("function", Function, _FIELDS, _IGNORED, write=_write, read=_read)
FUNCTION_KINDS = (
    FUNCTION,
    NodeKind(
        "function column",
        ScalarFunctionColumn,
        (name_(), needed("of", "fn"), type_(NULLTYPE)),
        frozenset({"key"}),
        derive=_derive_column,
    ),
)


# Description of an attribute in `_traverse_internals` -> form of its values in a document.
_FORMS = {
    InternalTraversal.dp_clauseelement: "one",
    InternalTraversal.dp_clauseelement_list: "list",
    InternalTraversal.dp_clauseelement_tuple: "tuple",
}
_LISTS: dict[str, type] = {"list": list, "tuple": tuple}
# The range of 64 bits. Every JSON library writes these numbers exactly.
_LARGEST = 2**63


def is_own_class(cls: type) -> bool:
    """Whether `cls` is an element class that is not SQLAlchemy's."""
    return issubclass(cls, ClauseElement) and not cls.__module__.startswith("sqlalchemy.")


def _forms(cls: Any, name: str) -> tuple[str, ...]:
    """The forms that a document may give the attribute: those of its description, or all if there is none."""
    descriptions = dict(getattr(cls, "_traverse_internals", ()))
    if name in descriptions:
        form = _FORMS.get(descriptions[name])
        return () if form is None else (form,)
    return ("one", "list", "tuple", "plain") if is_identifier(name) and not hasattr(cls, name) else ()


def _write_own(enc: Encoder, kind: NodeKind, element: Any) -> dict[str, Any]:
    cls = type(element)
    if not enc.registry.has_element_class(cls):
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
            f"a custom element with {name}={value!r}"[:120],
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


def extension(name: str, attribute: str) -> Field:
    """A separate clause, such as DISTINCT ON. Any other element there would be read as part of the clause before it."""

    def read(dec: Decoder, wire: Any) -> Any:
        element = dec.element(wire)
        for clause in element.clauses if isinstance(element, ElementList) else [element]:
            _check_position(clause, attribute)
        return element

    return Field(
        name=name, attribute=attribute, write=lambda enc, value: enc.ref(value), read=read, absent=LEAVE
    )


def _check_position(clause: Any, attribute: str) -> None:
    """Raise MalformedError unless `clause` adds itself at this position of a select."""
    if not isinstance(clause, SyntaxExtension):
        malformed("clause in a wrong position")
    # The class defines its position: apply_to_select() adds it there.
    if getattr(select().ext(clause), attribute) is not clause:
        malformed("clause of another position")


OWN = NodeKind("own", ColumnElement, (type_(), ORM), write=_write_own, read=_read_own)
OWN_KINDS = (OWN,)
