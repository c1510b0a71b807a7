"""A statement as a flat list of nodes; the rule: what no kind knows is refused, never skipped.

Nodes stand in post-order and refer only backwards, so that decoding is one pass without recursion. Every
attribute in an element's `__dict__` must be a field of its kind, a value the kind derives again, or a memo of
SQLAlchemy's: an attribute that a newer SQLAlchemy adds makes freezing fail, instead of being lost.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from sqlalchemy.sql.elements import _anonymous_label
from sqlalchemy.sql.lambdas import LambdaElement
from sqlalchemy.sql.sqltypes import TupleType
from sqlalchemy.sql.type_api import TypeEngine

from dualsql.errors import NotFreezableError
from dualsql.freeze import types
from dualsql.freeze.fields import Kind
from dualsql.freeze.kinds import kind_of
from dualsql.freeze.names import ANONYMOUS, Renumbering
from dualsql.freeze.refusals import located, refuse
from dualsql.freeze.registry import Registry
from dualsql.freeze.whereabouts import path

PENDING = -1
DEEPEST_DESCENT = 30
"""Elements inside one another that are written in one go: a few hundred frames of Python's stack at most."""


class Encoder:
    """Encodes one statement.

    Attributes:
        nodes: the finished nodes, each `[tag, fields]`.
        named: the (table name, column key) pairs that the document depends on.
        uses_text: whether text(), literal_column() or the like is in it.
        leaves_options_out: loader options are not written: the SQL is the same without them.
    """

    def __init__(self, registry: Registry, *, leaves_options_out: bool = False) -> None:
        self.registry = registry
        self.leaves_options_out = leaves_options_out
        self.nodes: list[Any] = []
        self.named: set[tuple[str, str]] = set()
        self.uses_text = False
        self.seeds = Renumbering()
        self._numbers: dict[int, int] = {}
        self._pending: list[Any] = []
        self._open: set[int] = set()
        self._put_off: set[int] = (
            set()
        )  # in this descent: what many share must not be attempted by each of them
        self._current: Any = None
        self._alive: list[Any] = []  # ids in _numbers stay unique only while their objects live
        self._parents: dict[int, Any] = {}
        self._types: dict[int, Any] = {}
        self._columns: dict[int, dict[int, int | str]] = {}
        self._origins: dict[int, list[int]] = {}
        self._made: dict[int, Any] = {}

    def encode(self, statement: Any) -> list[Any]:
        """All nodes of `statement`; the last one is itself."""
        try:
            return self._encode(statement)
        except NotFreezableError as error:
            located(error, path(self._current, self._parents) or "statement")
            raise

    def _encode(self, statement: Any) -> list[Any]:
        stack = [statement]
        waited: set[int] = set()
        while stack:
            element = stack[-1]
            if id(element) in self._numbers or self._write(element) is not PENDING:
                stack.pop()
            elif id(element) in waited:
                _refuse_cycle()
            else:
                waited.add(id(element))
                stack += reversed(self._pending)
                self._pending.clear()
                self._put_off.clear()
        return self.nodes

    def ref(self, element: Any) -> int:
        """The number of an element's node, which is written first if need be.

        Below DEEPEST_DESCENT it is PENDING: `encode` writes that node and comes back to the one that asked.
        """
        number = self._numbers.get(id(element))
        if number is not None:
            return number
        if isinstance(element, LambdaElement):
            return self.ref(self.resolved(element))
        if id(element) in self._open:
            _refuse_cycle()
        self._parents[id(element)] = self._current
        if len(self._open) < DEEPEST_DESCENT and id(element) not in self._put_off:
            return self._write(element)
        self._pending.append(element)
        return PENDING

    def _write(self, element: Any) -> int:
        """The number of the element's new node, or PENDING when something below it has to be written first."""
        outer, waiting = self._current, len(self._pending)
        self._current = element
        self._open.add(id(element))
        kind = kind_of(element) or _refuse_class(type(element))
        write = kind.write
        fields = write(self, kind, element) if write else self.fields(kind, element.__dict__)
        self._open.discard(id(element))
        self._current = outer
        if len(self._pending) == waiting:
            return self._finish(element, kind, fields)
        self._put_off.add(id(element))
        return PENDING

    def once(self, element: Any, make: Callable[[], Any]) -> Any:
        """What `make` gives for `element`: the same object however often its node is attempted."""
        if id(element) not in self._made:
            self._alive.append(element)
            self._made[id(element)] = make()
        return self._made[id(element)]

    def resolved(self, element: LambdaElement) -> Any:
        """What a lambda gives: the same object however often it is asked for."""
        return self.once(element, lambda: element._resolved)

    def is_numbered(self, element: Any) -> bool:
        """Whether the element's node is already written."""
        return id(element) in self._numbers

    def fields(self, kind: Kind, state: dict[str, Any]) -> dict[str, Any]:
        """The wire form of an element's attributes."""
        written: dict[str, Any] = {}
        writers = kind.writers
        for attribute, value in state.items():
            if value is None:
                continue
            try:
                field = writers[attribute]
            except KeyError:
                kind.skip_or_refuse(attribute, value)
                continue
            if field is None or value is field.default or (isinstance(value, field.empties) and not value):
                continue
            wire = field.write(self, value)
            if wire is not None:
                written[field.name] = wire
        return written

    def type(self, type_: TypeEngine[Any]) -> Any:
        """A type by name, or as ["=", node]: the type of that node."""
        wire = self._types.get(id(type_))
        if wire is None:
            wire = self._type(type_)
            if not self._pending:
                self._alive.append(type_)
                self._types[id(type_)] = wire
        return wire

    def _type(self, type_: TypeEngine[Any]) -> Any:
        if type(type_) is TupleType:
            return ["tuple", [self.type(item) for item in type_.types]]
        wire = self.registry.wire_of_type(type_)
        if wire is not None:
            return wire
        owner = self.registry.owner_of_type(type_)
        if owner is None:
            _refuse_type(type_)
        return ["=", self.ref(owner)]

    def column_keys(self, source: Any) -> dict[int, int | str]:
        """id of a column of `source` -> its key in `source.c`, or its position where the key is not unique."""
        keys = self._columns.get(id(source))
        if keys is None:
            columns = source.c
            keys = self._columns[id(source)] = {}
            for position, (key, column) in enumerate(columns.items()):
                plain = (
                    isinstance(key, str)
                    and not isinstance(key, _anonymous_label)
                    and not ANONYMOUS.search(key)
                    and columns.get(key) is column
                )
                keys[id(column)] = str(key) if plain else position
            self._alive.append(source)
        return keys

    def text_used(self, what: str) -> None:
        """Note that `what` is rendered as written; refuses it where the registry does not allow text."""
        if not self.registry.allow_text:
            refuse(what, "Write it with SQLAlchemy's constructs, or create the server with allow_text=True.")
        self.uses_text = True

    def where(self, number: int) -> str:
        """The place of a node's element in the statement, in words."""
        found = next((element for element in self._alive if self._numbers.get(id(element)) == number), None)
        return path(found, self._parents) or "statement"

    def clones(self) -> list[list[int]]:
        """Groups of nodes cloned from one origin; SQLAlchemy compares clones by it."""
        groups = []
        for origin, members in self._origins.items():
            number = self._numbers.get(origin)
            group = members if number is None else [number, *members]
            if len(group) > 1:
                groups.append(group)
        return groups

    def _finish(self, element: Any, kind: Kind, fields: dict[str, Any]) -> int:
        number = self._numbers[id(element)] = len(self.nodes)
        self.nodes.append([kind.tag, fields])
        self._alive.append(element)
        origin = element.__dict__.get("_is_clone_of") if kind.is_own else None
        if origin is not None:
            self._alive.append(origin)
            self._origins.setdefault(id(origin), []).append(number)
        return number


def _refuse_class(cls: type) -> NoReturn:
    refuse(f"a {cls.__module__}.{cls.__qualname__}", "Write it with SQLAlchemy's own constructs.")


def _refuse_cycle() -> NoReturn:
    refuse("an element that contains itself", "Build the statement without cycles.")


def _refuse_type(type_: TypeEngine[Any]) -> NoReturn:
    hint = "Register it: Registry(..., types={'name': TheType}), or cast to a standard type."
    try:
        refuse(f"the type {types.write_type(type_)}", hint)
    except types.UnnameableError as reason:
        refuse(str(reason), hint)
