"""SQL types in documents; the rule: a class of the table below with checked arguments, or a type by reference.

A type that runs somebody's code on values (PickleType, a TypeDecorator) is never built from a document: it is
named by a registered name, or it is "the type of that node", which `custody` then confines to its column.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from sqlalchemy import types as sqltypes
from sqlalchemy.dialects import mssql, mysql, oracle, postgresql, sqlite
from sqlalchemy.sql.type_api import NULLTYPE, TypeEngine
from sqlalchemy.util.langhelpers import get_cls_kwargs

from dualsql.freeze import names
from dualsql.freeze.allowed import INTERVAL_FIELDS
from dualsql.freeze.refusals import malformed

_LARGEST = 2**31


class UnnameableError(Exception):
    """The type cannot be written by name; the message says why."""


def _number(value: Any) -> bool:
    return type(value) is int and 0 <= value < _LARGEST


def _flag(value: Any) -> bool:
    return type(value) is bool


def _collation(value: Any) -> bool:
    return type(value) is str and names.is_collation(value)


def _is_type(value: Any) -> bool:
    return isinstance(value, TypeEngine)


# Argument -> what its value must be. An argument that is not listed makes the type unnameable.
_ARGUMENTS: dict[str, Callable[[Any], bool]] = {
    **dict.fromkeys(
        "length precision scale decimal_return_scale dimensions second_precision day_precision display_width fsp "
        "binary_precision dim".split(),
        _number,
    ),
    **dict.fromkeys(
        "asdecimal timezone local_timezone as_tuple zero_indexes native as_uuid native_uuid none_as_null varying "
        "unsigned zerofill convert_int filestream ascii unicode binary national retrieve_as_bitwise".split(),
        _flag,
    ),
    **dict.fromkeys(["collation", "charset"], _collation),
    "fields": lambda value: type(value) is str and value.upper() in INTERVAL_FIELDS,
    "item_type": _is_type,
    "astext_type": _is_type,
    "text_type": _is_type,
}

# A type in SQL text of its own (DOMAIN), or no type at all.
_ABSTRACT = (TypeEngine, postgresql.DOMAIN)
_SPECIAL = (sqltypes.PickleType, sqltypes.TypeDecorator, sqltypes.Enum, sqltypes.TupleType, sqltypes.Variant)


def _classes() -> Iterator[tuple[str, type[TypeEngine[Any]]]]:
    """Every concrete type that SQLAlchemy exports and that has no code of its user's in it."""
    for prefix, module in (
        ("", sqltypes),
        ("postgresql.", postgresql),
        ("mysql.", mysql),
        ("sqlite.", sqlite),
        ("mssql.", mssql),
        ("oracle.", oracle),
    ):
        for name, cls in vars(module).items():
            if isinstance(cls, type) and issubclass(cls, TypeEngine) and not name.startswith("_"):
                yield prefix + name, cls
    for inner in ("JSONIndexType", "JSONIntIndexType", "JSONStrIndexType", "JSONPathType", "JSONElementType"):
        yield f"JSON.{inner}", getattr(sqltypes.JSON, inner)


# A TypeDecorator, but SQLAlchemy's own.
_OWN: dict[str, type[TypeEngine[Any]]] = {"Interval": sqltypes.Interval}

CLASSES: dict[str, type[TypeEngine[Any]]] = {}
CLASS_NAMES: dict[type[TypeEngine[Any]], str] = {}
for _name, _cls in (*_classes(), *_OWN.items()):
    if (
        _cls not in CLASS_NAMES
        and (_name in _OWN or not issubclass(_cls, _SPECIAL))
        and _cls not in _ABSTRACT
    ):
        CLASSES[_name], CLASS_NAMES[_cls] = _cls, _name

_KEYWORDS = {cls: sorted(get_cls_kwargs(cls) & _ARGUMENTS.keys()) for cls in CLASS_NAMES}
# The types without arguments, each one object that all documents share.
PLAIN = {name: cls() for name, cls in CLASSES.items() if "item_type" not in _KEYWORDS[cls]}
# State of a type that is no argument of ours and must have its default.
_IGNORED = frozenset({"dispatch", "_variant_mapping", "_has_events", "should_evaluate_none"})
_ENUMS: dict[type, str] = {sqltypes.Enum: "Enum", postgresql.ENUM: "postgresql.ENUM"}
_MEMOS: set[tuple[type, str]] = set()


def write_type(type_: TypeEngine[Any]) -> Any:
    """A type as JSON: "Integer", or ["String", {"length": 20}].

    Raises:
        UnnameableError: it must be written by reference or by a registered name.
    """
    cls = type(type_)
    name = CLASS_NAMES.get(cls)
    if cls in _ENUMS:
        return _write_enum(type_)
    if name is None or type_._variant_mapping or vars(type_).get("should_evaluate_none"):
        raise UnnameableError(f"the type {cls.__name__}")
    arguments = dict(_written_arguments(type_, cls, name))
    return [name, arguments] if arguments else name


def _written_arguments(type_: Any, cls: type, name: str) -> Iterator[tuple[str, Any]]:
    state = vars(type_)
    if not state:
        return
    plain = vars(PLAIN[name]) if name in PLAIN else {}
    keywords = _KEYWORDS[cls]
    for attribute, value in state.items():
        if attribute in _IGNORED or _is_memo(cls, attribute) or value == plain.get(attribute):
            continue
        if isinstance(value, TypeEngine) and repr(value) == repr(plain.get(attribute)):
            continue
        if attribute not in keywords or not _ARGUMENTS[attribute](value):
            raise UnnameableError(f"the type {cls.__name__} with {attribute}={value!r}"[:120])
        yield attribute, write_type(value) if isinstance(value, TypeEngine) else value


def _is_memo(cls: type, attribute: str) -> bool:
    """Whether the attribute is a value that SQLAlchemy computed and kept on the type."""
    if (cls, attribute) in _MEMOS:
        return True
    found = next((vars(c)[attribute] for c in cls.__mro__ if attribute in vars(c)), None)
    if found is None or "memoized" not in type(found).__name__:
        return False
    _MEMOS.add((cls, attribute))
    return True


def read_type(wire: Any) -> TypeEngine[Any]:
    """The reverse of `write_type`."""
    if type(wire) is str:
        return PLAIN[wire]
    name, arguments = wire
    if name in ("Enum", "postgresql.ENUM"):
        return _read_enum(sqltypes.Enum if name == "Enum" else postgresql.ENUM, arguments)
    cls = CLASSES[name]
    return cls(**{key: _read_argument(cls, key, value) for key, value in arguments.items()})


def _read_argument(cls: type[TypeEngine[Any]], key: str, wire: Any) -> Any:
    if key not in _KEYWORDS[cls]:
        malformed("argument of a type")
    check = _ARGUMENTS[key]
    value = read_type(wire) if check is _is_type else wire
    if value is not None and not check(value):
        malformed("value of a type's argument")
    return value


def _write_enum(type_: Any) -> Any:
    """An Enum of strings; one over a Python class is written as the type of its column."""
    if type_.enum_class is not None or type_.validate_strings or type_._variant_mapping:
        raise UnnameableError(f"the type {type(type_).__name__} over a Python class or with options")
    texts = [None if text is None else str(text) for text in (type_.name, type_.schema)]
    return [_ENUMS[type(type_)], [list(type_.enums), *texts, type_.native_enum]]


def _read_enum(cls: Any, arguments: Any) -> TypeEngine[Any]:
    values, name, schema, native = arguments
    for text in (*values, name or "", schema or ""):
        if type(text) is not str or len(text) > 1024 or "\x00" in text:
            malformed("value of an Enum")
    if type(native) is not bool:
        malformed("native_enum")
    enum: TypeEngine[Any] = cls(*values, name=name, schema=schema, native_enum=native)
    return enum


def is_safe(type_: TypeEngine[Any]) -> bool:
    """Whether reading a value of this type runs no code that a user wrote, and unpickles nothing."""
    if not all(is_safe(variant) for variant in type_._variant_mapping.values()):
        return False
    if isinstance(type_, sqltypes.ARRAY) and not is_safe(type_.item_type):
        return False
    if isinstance(type_, sqltypes.TupleType):
        return all(is_safe(item) for item in type_.types)
    if isinstance(type_, postgresql.DOMAIN) and not is_safe(type_.data_type):
        return False
    return type(type_) in CLASS_NAMES or type_ is NULLTYPE or _is_builtin(type(type_))


def _is_builtin(cls: type) -> bool:
    return cls.__module__.startswith("sqlalchemy.") and not issubclass(cls, sqltypes.PickleType)
