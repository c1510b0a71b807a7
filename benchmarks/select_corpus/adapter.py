"""The codec as users get it, for the corpus of SQLAlchemy's own statements: `freeze` with its proof, then `thaw`.

A statement's registry is made of the statement: its tables and mapped classes, and whatever functions,
operators and types it names that no allow-list has; `allow_lists.json` keeps what that added up to. A proof is
made for each dialect that compiles the statement, and one that fails makes the statement refused, not wrong.
"""

from __future__ import annotations

import json
import os
import sys
import types
import warnings
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from sqlalchemy.dialects import mssql, mysql, oracle, postgresql, sqlite
from sqlalchemy.dialects.postgresql import asyncpg
from sqlalchemy.engine import Dialect
from sqlalchemy.engine.default import DefaultDialect
from sqlalchemy.orm import Mapper
from sqlalchemy.orm.util import AliasedInsp
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.sql.operators import custom_op
from sqlalchemy.sql.selectable import TableClause
from sqlalchemy.sql.sqltypes import TableValueType, TupleType
from sqlalchemy.sql.type_api import TypeEngine
from sqlalchemy.types import PickleType

# The corpus' environment has SQLAlchemy and orjson; dualsql/__init__.py would import the server's packages too.
_ROOT = Path(__file__).parents[2]
_package = types.ModuleType("dualsql")
_package.__path__ = [str(_ROOT / "dualsql")]
sys.modules.setdefault("dualsql", _package)

from dualsql.errors import ConfigurationError, DualResponseError, NotFreezableError  # noqa: E402
from dualsql.freeze import (  # noqa: E402
    Registry,
    freeze,
    prove_equal,
    thaw,
)
from dualsql.freeze.codec import is_own_class  # noqa: E402
from dualsql.freeze.types import FUNCTIONS, OP_STRINGS, UnnameableError, write_type  # noqa: E402  # noqa: E402

_LOADERS = (
    "strategies.py",
    "loading.py",
    "bulk_persistence.py",
    "persistence.py",
    "dynamic.py",
    "writeonly.py",
)


class Unsupported(Exception):  # noqa: N818 - the harness asks for this name
    """A deliberate refusal."""


def make() -> Adapter:
    return Adapter(Path(os.environ["SA_HARVEST_OUT"]))


class Adapter:
    """The harness calls `encode` once for each statement, in the order of its own records."""

    def __init__(self, folder: Path) -> None:
        self._log = (folder / "adapter.jsonl").open("w")
        self._lists = folder / "allow_lists.json"
        self._allowed: dict[str, set[str]] = {
            kind: set() for kind in ("functions", "operators", "own functions", "own elements", "types")
        }

    def encode(self, statement: Any) -> tuple[bytes, Registry]:
        note: dict[str, Any] = {"internal": _is_internal()}
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # the suite makes errors of SQLAlchemy's warnings
                registry = self._registry(statement)
                return _frozen(statement, registry), registry
        except DualResponseError as error:
            construct = str(error.details.get("construct") or error)
            note |= {"refused": construct, "where": error.details.get("where")}
            raise Unsupported(construct) from None
        finally:  # a note for each record, whatever the suite's own objects raise
            self._log.write(json.dumps(note) + "\n")
            self._log.flush()

    def decode(self, document: bytes, registry: Registry) -> Any:
        return thaw(document, registry)

    def _registry(self, statement: Any) -> Registry:
        named = Named(statement)
        for kind, names in named.unlisted().items():
            if not names <= self._allowed[kind]:
                self._allowed[kind] |= names
                lists = {kind: sorted(names) for kind, names in self._allowed.items()}
                self._lists.write_text(json.dumps(lists, indent=1))
        return Registry(
            [*named.classes, *named.tables],
            functions=[*named.functions, *named.own_functions],
            operators=named.operators,
            types=named.types,
            elements=named.own_elements,
            allow_text=True,
        )


def _frozen(statement: Any, registry: Registry) -> bytes:
    """The document, proved on every dialect that compiles the statement; on none of them, nothing to prove."""
    document, refusal = None, None
    for dialect in _dialects():
        try:
            if document is None:
                document = freeze(statement, registry, dialect=dialect)
            else:
                prove_equal(statement, thaw(document, registry), dialect)
        except NotFreezableError as error:
            if error.details.get("construct") != "statement":
                raise
            refusal = error
    if document is None:
        assert refusal is not None
        raise refusal
    return document


@cache
def _dialects() -> tuple[Dialect, ...]:
    plain = DefaultDialect()
    plain.supports_native_boolean = True
    modules = (sqlite, postgresql, asyncpg, mysql, mssql, oracle)
    return (plain, *[module.dialect() for module in modules])


def _is_internal() -> bool:
    """Whether SQLAlchemy's own code, not the test's, made the statement being executed: a loader or a flush.

    Lazy and eager loads, `Session.get`, refreshes and the SELECT before a bulk UPDATE are run by these modules
    of sqlalchemy.orm; a user neither writes nor sees those statements.
    """
    frame: Any = sys._getframe(2)
    while frame is not None:
        path = frame.f_code.co_filename
        if path.endswith(_LOADERS) and f"sqlalchemy{os.sep}orm{os.sep}" in path and _runs(frame):
            return True
        frame = frame.f_back
    return False


def _runs(frame: Any) -> bool:
    """Not the function that only turns the rows of a user's statement into objects, when it is called first."""
    return bool(frame.f_code.co_name != "instances")


class Named:
    """Everything that a statement names."""

    def __init__(self, statement: Any) -> None:
        self.tables: list[Any] = []
        self.classes: list[Any] = []
        self.functions: set[str] = set()
        self.own_functions: set[type] = set()
        self.own_elements: set[type] = set()
        self.operators: set[str] = set()
        self.types: dict[str, TypeEngine[Any]] = {}
        mappers: dict[Mapper[Any], None] = {}
        for element in _walk(statement):
            self._note(element, mappers)
        for mapper in tuple(mappers):
            mappers.update(dict.fromkeys(mapper.registry.mappers))
        for mapper in mappers:
            for link in mapper.relationships:
                froms = [] if link.secondary is None else link.secondary._from_objects
                self.tables += [source for source in froms if isinstance(source, TableClause)]
        self.classes = [mapper.class_ for mapper in mappers]

    def unlisted(self) -> dict[str, set[str]]:
        """What `Registry` would not allow of itself."""
        return {
            "functions": {name for name in self.functions if name.lower() not in FUNCTIONS},
            "operators": self.operators - OP_STRINGS,
            "own functions": {f"{cls.__module__}.{cls.__qualname__}" for cls in self.own_functions},
            "own elements": {f"{cls.__module__}.{cls.__qualname__}" for cls in self.own_elements},
            "types": {f"{type(it).__module__}.{type(it).__qualname__}" for it in self.types.values()},
        }

    def _note(self, element: Any, mappers: dict[Mapper[Any], None]) -> None:
        if isinstance(element, TableClause) and not hasattr(element, "_Annotated__element"):
            if element not in self.tables:
                self.tables.append(element)
        elif isinstance(element, Mapper):
            mappers[element] = None
        elif isinstance(element, FunctionElement):
            self._note_function(element)
        elif _is_own(type(element)):
            self.own_elements.add(type(element))
        for attribute in ("operator", "modifier", "negate", "expand_op"):
            operator = None if isinstance(element, type) else getattr(element, attribute, None)
            if isinstance(operator, custom_op):
                self.operators.add(operator.opstring)
        self._note_type(element)

    def _note_function(self, element: Any) -> None:
        packages = getattr(element, "packagenames", ())
        self.functions.add(".".join([*packages, getattr(element, "name", "")]))
        if not type(element).__module__.startswith("sqlalchemy."):
            self.own_functions.add(type(element))

    def _note_type(self, element: Any) -> None:
        kind = getattr(element, "type", None)
        if isinstance(kind, TypeEngine) and not isinstance(kind, PickleType | TableValueType | TupleType):
            try:
                write_type(kind)
            except UnnameableError:
                self.types[f"t{len(self.types)}"] = kind


_LINKS = (
    *("_Annotated__element", "element", "table", "_restates", "_cte_alias", "scalar_alias", "fn"),
    *("_limit_clause", "selectable", "_target", "plugin_subject", "parententity", "parentmapper"),
    *("proxy_owner", "entity_namespace", "parent", "_parententity", "_of_type", "mapper", "entity"),
    *("where_criteria", "_entity_namespace"),
)
_LISTS = (
    *("_correlate", "_correlate_except"),
    *("_extra_criteria", "_with_options", "context", "_raw_columns", "with_polymorphic_mappers"),
)


def _walk(statement: Any) -> Iterator[Any]:
    ids: set[int] = set()
    elements: list[Any] = []
    waiting: list[Any] = [statement]
    while waiting:
        element = waiting.pop()
        if element is None or isinstance(element, str | type) or id(element) in ids:
            continue
        ids.add(id(element))
        elements.append(element)  # an id stays its own only while the object lives
        yield element
        waiting += _linked(element)


def _linked(element: Any) -> Iterator[Any]:
    for name in _LINKS:
        yield _of(element, name)
    for name in _LISTS:
        yield from _of(element, name) or ()
    if isinstance(element, Mapper | AliasedInsp):
        return
    if _is_own(type(element)):
        yield from vars(element).values()
    for notes in (_of(element, "_propagate_attrs"), _of(element, "_annotations")):
        yield from (notes or {}).values()
    for join in _of(element, "_setup_joins") or ():
        yield from join[:3]
    yield from _of(element, "_memoized_select_entities") or ()
    path = _of(element, "path")
    yield from getattr(path, "path", ()) or ()
    try:
        yield from element.get_children()
    except Exception:  # noqa: BLE001 - the suite has elements that cannot be walked; freeze says what it thinks
        return


def _is_own(cls: Any) -> bool:
    """Whether a registry takes the class of an element: it says no when it is made."""
    with suppress(ConfigurationError):
        return is_own_class(cls) and bool(Registry([], elements=[cls]))
    return False


def _of(element: Any, name: str) -> Any:
    try:
        return getattr(element, name, None)
    except Exception:  # noqa: BLE001 - as above: a property of the suite's own element
        return None


__all__ = ["Adapter", "ConfigurationError", "Unsupported", "make"]
