"""Functions; the rule: by name against the registry's allow-list, never by class."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy.sql import functions
from sqlalchemy.sql.elements import ClauseList, ColumnClause, Grouping
from sqlalchemy.sql.functions import Function, FunctionElement, GenericFunction, ScalarFunctionColumn
from sqlalchemy.sql.sqltypes import TableValueType
from sqlalchemy.sql.type_api import NULLTYPE

from dualsql.freeze.fields import LEAVE, Field, Kind, flag, name_, needed, type_
from dualsql.freeze.names import read_name, write_name
from dualsql.freeze.notes import NOTED
from dualsql.freeze.refusals import expect, malformed, refuse

if TYPE_CHECKING:
    from dualsql.freeze.decode import Decoder
    from dualsql.freeze.encode import Encoder


def _write_type(enc: Encoder, value: Any) -> Any:
    if type(value) is not TableValueType:
        return enc.type(value)
    return [
        "table",
        [[write_name(column.name, enc.seeds), enc.type(column.type)] for column in value._elements],
    ]


def _read_type(dec: Decoder, wire: Any) -> Any:
    if type(wire) is list and wire[0] == "table":
        return TableValueType(
            *[_column(read_name(name, dec.seeds), dec.trusted_type(kind)) for name, kind in wire[1]]
        )
    return dec.type(wire)


def _column(name: str, type_: Any) -> Any:
    return ColumnClause(name, type_)


def check_rows(kind: Any, rows: Any) -> None:
    """Refuse two row types of other columns: SQLAlchemy's cache keys tell only one of them apart."""
    wanted, found = (
        [(column.name, column.type._static_cache_key) for column in getattr(type_, "_elements", ())]
        for type_ in (kind, rows)
    )
    if wanted != found:
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
# Execution options are read from the whole statement, never from a function in it.
_IGNORED = frozenset(
    {"_has_args", "clauses", "packagenames", "name", "coerce_arguments", "_execution_options"}
)


def _write(enc: Encoder, kind: Kind, element: Any) -> dict[str, Any]:
    cls = type(element)
    if enc.registry.has_function_class(cls):
        return {**enc.fields(kind, element.__dict__), "class": cls.__name__}
    full_name = ".".join([*getattr(element, "packagenames", ()), getattr(element, "name", cls.__name__)])
    if not enc.registry.allows_function(full_name):
        refuse(f"the function {full_name}"[:120], "If it is pure, allow it: Registry(..., functions=[name]).")
    if cls is not Function and _class_of(element.name) is not cls:
        refuse(
            f"the function class {cls.__qualname__}",
            "Use func.name(...), or register the class: Registry(..., functions=[TheClass]).",
        )
    written = enc.fields(kind, element.__dict__)
    written["name"] = write_name(element.name, enc.seeds)
    if element.packagenames:
        written["packages"] = [write_name(name, enc.seeds) for name in element.packagenames]
    if cls is Function and _class_of(element.name) is not None:
        written["plain"] = True
    return written


def _read(dec: Decoder, kind: Kind, fields: dict[str, Any]) -> Any:
    if "class" in fields:
        return _read_own(dec, kind, fields)
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
    check_rows(state["type"], state.get("_table_value_type"))
    state["packagenames"] = packages
    if cls is None:
        state["name"] = name
    # What the class declares wins: current_date renders without parentheses, count() always with.
    state["_has_args"] = bool(getattr(cls or Function, "_has_args", False)) or bool(
        element.clause_expr.element.clauses
    )
    return element


def _read_own(dec: Decoder, kind: Kind, fields: dict[str, Any]) -> Any:
    """A function of a class that the application has registered."""
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
    """SQLAlchemy's own class for a function name; classes that applications define are found by the same name."""
    found = functions._registry["_default"].get(name.lower())
    if isinstance(found, type) and issubclass(found, GenericFunction) and found.name == name:
        return found
    return None


def _derive_column(element: Any) -> None:
    element.key = element.name


FUNCTION = Kind("function", Function, _FIELDS, _IGNORED, write=_write, read=_read)
KINDS = (
    FUNCTION,
    Kind(
        "function column",
        ScalarFunctionColumn,
        (name_(), needed("of", "fn"), type_(NULLTYPE)),
        frozenset({"key"}),
        derive=_derive_column,
    ),
)


def is_function(cls: type) -> bool:
    """Whether elements of `cls` are encoded by the FUNCTION kind."""
    return issubclass(cls, FunctionElement)
