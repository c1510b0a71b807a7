"""Functions and bound parameters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy.sql import elements
from sqlalchemy.sql.elements import ClauseList, ColumnClause, Grouping
from sqlalchemy.sql.functions import Function, GenericFunction, ScalarFunctionColumn
from sqlalchemy.sql.sqltypes import TableValueType
from sqlalchemy.sql.type_api import NULLTYPE

from dualsql import sqlalchemy_internals as internals
from dualsql.freeze import sqlalchemy_internals as private
from dualsql.freeze.document import expect, malformed, refuse
from dualsql.freeze.fields import INFIX, LEAVE, NOTED, Field, NodeKind, flag, name_, needed, operator, type_
from dualsql.freeze.values import ANONYMOUS, bodies, is_bind_name, read_name, write_name

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
        refuse(f"the parameter name {str(key)!r}", "Choose a name of letters, digits and _.")
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
    match = ANONYMOUS.fullmatch(key)
    return match[2] if match else key


def _is_rendered(key: str, original: str) -> bool:
    """Whether every dialect can render the name of a bound parameter."""
    if type(key) is not internals.AnonymousLabel:
        return is_bind_name(str(key))
    return is_bind_name(bodies(key) if original is key else original)


def _write_value(enc: Encoder, value: Any) -> Any:
    return enc.registry.values.write(value)


def _read_value(dec: Decoder, wire: Any) -> Any:
    return dec.registry.values.read(wire)


_BINDS = (
    NodeKind(
        tag,
        cls,
        name_("name", "key"),
        name_("was", "_orig_key", absent=LEAVE),
        Field("value", "value", _write_value, _read_value, absent=None, empties=()),
        type_(NULLTYPE),
        flag("expanding"),
        flag("required"),
        flag("literal", "literal_execute"),
        operator("expands", INFIX, "expand_op"),
        ignored="_identifying_key _anon_map_key unique callable isoutparam",
        constants={"callable": None, "isoutparam": False, "unique": False},
        derive=_derive_bind,
        write=_write_bind,
    )
    for tag, cls in (("bind", elements.BindParameter), ("count", private.OffsetLimitParam), ("row", Row))
)


def _write_type(enc: Encoder, value: Any) -> Any:
    if type(value) is not TableValueType:
        return enc.type(value)
    columns = private.columns_of_row_type(value)
    return ["table", [[write_name(column.name, enc.seeds), enc.type(column.type)] for column in columns]]


def _read_type(dec: Decoder, wire: Any) -> Any:
    if type(wire) is not list or wire[0] != "table":
        return dec.type(wire)
    columns = [ColumnClause(read_name(name, dec.seeds), dec.trusted_type(kind)) for name, kind in wire[1]]
    return TableValueType(*columns)


def check_rows(kind: Any, rows: Any) -> None:
    """Refuse two row types with different columns, because SQLAlchemy's cache keys do not distinguish them."""
    declared, actual = (
        [(column.name, internals.type_key(column.type)) for column in private.columns_of_row_type(type_)]
        for type_ in (kind, rows)
    )
    if declared != actual:
        malformed("rows of a function with other columns than its type")


def function_type(name: str, attribute: str, absent: Any) -> Field:
    """A type that may be a row type with named columns."""
    return Field(name, attribute, _write_type, _read_type, absent, None if absent is LEAVE else absent)


def _write(enc: Encoder, kind: NodeKind, element: Any) -> dict[str, Any]:
    cls = type(element)
    if enc.registry.function_classes.get(cls.__name__) is cls:
        return {**enc.fields(kind, element.__dict__), "class": cls.__name__}
    full_name = ".".join([*getattr(element, "packagenames", ()), getattr(element, "name", cls.__name__)])
    if full_name.lower() not in enc.registry.functions:
        refuse(
            f"the function {full_name}",
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
        own: Any = dec.registry.function_classes[expect(fields.pop("class"), str)]
        return _filled(dec, kind, fields, own.__new__(own))
    name = read_name(fields.pop("name"), dec.seeds)
    packages = tuple([read_name(item, dec.seeds) for item in expect(fields.pop("packages", []), list)])
    if ".".join([*packages, name]).lower() not in dec.registry.functions:
        malformed("function that is not allowed")
    cls = None if fields.pop("plain", False) else _class_of(name)
    element: Any = (cls or Function).__new__(cls or Function)
    state = element.__dict__
    state.update(kind.constants)
    _filled(dec, kind, fields, element)
    rows = state.get("_table_value_type")
    if rows is not None and type(rows) is not TableValueType:  # SQLAlchemy asks it for a cache key
        malformed("rows of a function that are no row type")
    check_rows(state["type"], rows)
    state["packagenames"] = packages
    if cls is None:
        state["name"] = name
    return element


def _filled(dec: Decoder, kind: NodeKind, fields: dict[str, Any], element: Any) -> Any:
    dec.fill_state(kind, fields, element.__dict__)
    arguments = element.__dict__.get("clause_expr")
    if not isinstance(arguments, Grouping) or not isinstance(arguments.element, ClauseList):
        malformed("function without arguments in parentheses")
    # The declaration of the class applies: current_date is rendered without parentheses, count() always with them.
    element.__dict__["_has_args"] = bool(
        getattr(type(element), "_has_args", False) or arguments.element.clauses
    )
    return element


def _class_of(name: str) -> type[GenericFunction[Any]] | None:
    """SQLAlchemy's own class for a function name, not one that an application defined under that name."""
    cls = private.registered_function(name)
    if isinstance(cls, type) and issubclass(cls, GenericFunction) and cls.name == name:
        return cls
    return None


FUNCTION = NodeKind(
    "function",
    Function,
    needed("arguments", "clause_expr"),
    function_type("type", "type", NULLTYPE),
    function_type("rows", "_table_value_type", LEAVE),
    flag("ordinality", "_with_ordinality", absent=LEAVE),
    flag("monotonic", absent=LEAVE),
    *NOTED,
    # SQLAlchemy reads execution options from the whole statement, not from a function in it.
    ignored="_has_args clauses packagenames name coerce_arguments _execution_options",
    write=_write,
    read=_read,
)
KINDS = (
    *_BINDS,
    FUNCTION,
    NodeKind(
        "function column",
        ScalarFunctionColumn,
        name_(),
        needed("of", "fn"),
        type_(NULLTYPE),
        ignored="key",
        derive=lambda it: setattr(it, "key", it.name),
    ),
)
