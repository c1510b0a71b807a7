"""The check on writing: a document is stored only if it compiles to the same SQL, parameters and columns."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from hashlib import sha256
from typing import Any, NoReturn

from sqlalchemy import util
from sqlalchemy.engine import Dialect
from sqlalchemy.engine.default import StrCompileDialect
from sqlalchemy.exc import SQLAlchemyError

from dualsql import sqlalchemy_internals as internals
from dualsql.errors import NotFreezableError
from dualsql.freeze.document import refuse
from dualsql.freeze.values import exact_forms

_PLAIN = StrCompileDialect()
# Anonymous names differ in their seed, which is a memory address.
_SEED = re.compile(r"%\(\S+ ")
# SQLAlchemy raises all of these for statements that a dialect cannot render.
UNCOMPILABLE = (
    SQLAlchemyError,
    RecursionError,
    ArithmeticError,
    LookupError,
    TypeError,
    ValueError,
    AttributeError,
    AssertionError,
)


class Proofs(util.LRUCache[object, bool]):
    """The `proof_key` of statements that were compared with their documents, for one dialect and one registry."""

    # Several threads may use SQLAlchemy's LRUCache: statements of texts are frozen in worker threads.
    def __init__(self) -> None:
        super().__init__(500)


def proof_key(statement: Any, plain: bytes) -> object | None:
    """What identifies a comparison that need not be repeated; None if it has to be.

    Statements with one cache key are one SQL text to SQLAlchemy, which runs them by it. So a document of the same
    bytes needs no second comparison for a statement of the same key and values.
    """
    key = internals.cache_key(statement)
    values = key and exact_forms(bound.effective_value for bound in key.bindparams)
    return None if key is None or values is None else (key.key, values, sha256(plain).digest())


def prove_equal(statement: Any, thawed: Any, dialect: Dialect | None) -> None:
    """Raise NotFreezableError unless both statements compile to the same on `dialect`."""
    dialect = dialect or _PLAIN
    ours = _compiled(statement, dialect)
    theirs = _compiled(thawed, dialect)
    if ours.string != theirs.string:
        _refuse("SQL", f"{dialect.name}: {_difference(ours.string, theirs.string)}")
    if not _same(ours.params, theirs.params):
        _refuse("parameters", f"parameters on {dialect.name}")
    for aspect, names in _NAMES.items():
        if names(ours) != names(theirs):
            _refuse(aspect, f"{aspect} on {dialect.name}")
    for aspect, types in _TYPES.items():
        if not all(map(_alike, types(ours), types(theirs))):  # equally many, because their names are equal
            _refuse(aspect, f"{aspect} on {dialect.name}")


def _compiled(statement: Any, dialect: Dialect) -> Any:
    try:
        return statement.compile(dialect=dialect)
    except UNCOMPILABLE as error:
        raise NotFreezableError(
            f"The statement cannot be stored: {dialect.name} cannot compile it ({type(error).__name__}).",
            hint="Run the statement on the database, and correct it until it works there.",
            details={"construct": "statement", "where": f"SQL of {dialect.name}"},
        ) from error


# Attributes of a compiled statement that execution uses besides the SQL, the values and their types.
_NAMES: dict[str, Callable[[Any], list[Any]]] = {
    "order of parameters": lambda compiled: compiled.positiontup or [],
    "columns": lambda compiled: [
        (_anonymized(entry.keyname), _anonymized(entry.name))
        for entry in internals.result_columns_of(compiled)
    ],
    "names of parameters": lambda compiled: list(compiled.bind_names.values()),
    "literal parameters": lambda compiled: _names(compiled, compiled.literal_execute_params),
    "expanding parameters": lambda compiled: _names(compiled, compiled.post_compile_params),
}

_TYPES: dict[str, Callable[[Any], list[Any]]] = {
    "types of columns": lambda compiled: [entry.type for entry in internals.result_columns_of(compiled)],
    "types of parameters": lambda compiled: [bind.type for bind in compiled.bind_names],
}


def _names(compiled: Any, binds: Iterable[Any]) -> list[str]:
    return sorted(compiled.bind_names[bind] for bind in binds)


def _refuse(aspect: str, where: str) -> NoReturn:
    refuse(f"{aspect} that would change", "Write it in a simpler way, or report the statement.", where=where)


def _difference(ours: str, theirs: str) -> str:
    """The words of the SQL around the first character that differs."""
    pairs = enumerate(zip(ours, theirs, strict=False))
    start = next((at for at, (a, b) in pairs if a != b), min(len(ours), len(theirs)))
    return " ".join(ours[max(0, start - 30) : start + 30].split())


def _anonymized(name: Any) -> Any:
    return _SEED.sub("%(", name) if isinstance(name, str) and "%(" in name else name


def _alike(one: Any, other: Any) -> bool:
    """Whether SQLAlchemy treats two types as the same."""
    if one is other:
        return True
    return type(one) is type(other) and _type_form(one) == _type_form(other)


def _type_form(type_: Any) -> Any:
    key = internals.type_key(type_)
    if isinstance(key, tuple):
        return repr(key) if len(key) > 1 else key  # a key of one item is the class itself
    return repr(type_)


def _same(one: Any, other: Any) -> bool:
    """Whether two values and their types are equal: 1 is not True, and NaN equals NaN."""
    return (one == other and list(_leaves(one)) == list(_leaves(other))) or repr(one) == repr(other)


def _leaves(value: Any) -> Iterator[type]:
    if isinstance(value, dict):
        for item in value.values():
            yield from _leaves(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _leaves(item)
    else:
        yield type(value)
