"""A statement as a flat list of nodes, and back, by the table of the kinds of nodes that a document can hold.

Whatever is not in the table is refused, and every value is checked, on both sides.

Nodes are in post-order and refer only to earlier nodes, so that decoding is one pass without recursion. Every attribute
in an element's `__dict__` must be a field of its kind, a value that the kind computes again, or a value that SQLAlchemy
memoized. If a newer SQLAlchemy adds an attribute, freezing fails: no attribute is dropped silently.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, NoReturn

from sqlalchemy import JSON, Column, Select, Table
from sqlalchemy.orm.attributes import QueryableAttribute
from sqlalchemy.sql import operators
from sqlalchemy.sql.annotation import Annotated
from sqlalchemy.sql.elements import (
    BinaryExpression,
    BindParameter,
    ClauseElement,
    ColumnClause,
    Grouping,
    WrapsColumnExpression,
)
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.sql.lambdas import LambdaElement
from sqlalchemy.sql.selectable import FromGrouping, Join, NamedFromClause, SelectBase, TableClause
from sqlalchemy.sql.sqltypes import TupleType
from sqlalchemy.sql.type_api import TypeEngine

from dualsql import sqlalchemy_internals as internals
from dualsql.errors import NotFreezableError
from dualsql.freeze import kinds_expression, kinds_function, kinds_orm, kinds_select, types
from dualsql.freeze.document import expect, located, malformed, refuse, refuse_changed
from dualsql.freeze.fields import NodeKind
from dualsql.freeze.kinds_function import Row
from dualsql.freeze.kinds_orm import MAPPED
from dualsql.freeze.registry import Registry
from dualsql.freeze.values import ANONYMOUS, FreshSeeds, Renumbering

MODULES = (kinds_function, kinds_expression, kinds_select, kinds_orm)
KINDS: Mapping[str, NodeKind] = {kind.tag: kind for module in MODULES for kind in module.KINDS}
_BY_CLASS: dict[type, NodeKind] = {kind.cls: kind for kind in KINDS.values()}
_BY_CLASS[ColumnClause] = KINDS["column"]
_BY_CLASS[TableClause] = KINDS["table"]


@cache
def rare_kinds() -> Mapping[str, NodeKind]:
    """The kinds that few statements have: loader options that change the SQL, elements of an application's classes."""
    from dualsql.freeze import kinds_options, kinds_own

    return {kind.tag: kind for kind in (*kinds_options.KINDS, kinds_own.OWN)}


def kind_of_tag(tag: str) -> NodeKind:
    """The kind of a node; KeyError for a tag of none."""
    return KINDS.get(tag) or rare_kinds()[tag]


def node_kind_of(element: Any) -> NodeKind | None:
    """The kind of an element by its exact class, or None if documents cannot hold it."""
    cls = type(element)
    kind = _BY_CLASS.get(cls)
    if kind is not None:
        return kind
    if issubclass(cls, Annotated):
        return kinds_orm.NOTE
    if issubclass(cls, FunctionElement):
        return kinds_function.FUNCTION
    if issubclass(cls, QueryableAttribute):
        return kinds_orm.ATTRIBUTE
    return _kind_of_subclass(cls)


def _kind_of_subclass(cls: type) -> NodeKind | None:
    # A subclass of Table or Column is stored by name, as any table or column is.
    if issubclass(cls, Table):
        return KINDS["table"]
    if issubclass(cls, ColumnClause):
        return KINDS["column"]
    if kinds_select.is_plain_select(cls):
        return KINDS["select"]
    if is_own_class(cls):
        return rare_kinds()["own"]
    return next((kind for kind in rare_kinds().values() if kind.cls is cls and kind.tag != "own"), None)


def is_own_class(cls: type) -> bool:
    """Whether `cls` is an element class that is not SQLAlchemy's."""
    return issubclass(cls, ClauseElement) and not cls.__module__.startswith("sqlalchemy.")


PENDING = -1
DEEPEST_DESCENT = 30
"""Nested elements that are written by recursion: a few hundred frames of Python's stack at most."""


class Encoder:
    """Encodes one statement.

    Attributes:
        nodes: the finished nodes, each `[tag, fields]`.
        dependencies: the (table name, column key) pairs that the document depends on.
        uses_text: whether it contains text(), literal_column() or other text that is rendered as written.
        leaves_options_out: loader options are not written, because the SQL is the same without them.
    """

    # A kind that inspects other elements uses this function, because it cannot import the table that lists it.
    kind_of = staticmethod(node_kind_of)

    def __init__(self, registry: Registry, *, leaves_options_out: bool = False) -> None:
        self.registry = registry
        self.leaves_options_out = leaves_options_out
        self.nodes: list[Any] = []
        self.dependencies: set[tuple[str, str]] = set()
        self.uses_text = False
        self.seeds = Renumbering()
        # Elements are identified by id(): their == builds an expression.
        self._numbers: dict[int, int] = {}
        self._pending: list[Any] = []
        self._open: set[int] = set()
        # Cleared after each descent: an element shared by many others is not tried again for each of them.
        self._deferred: set[int] = set()
        self._current: Any = None
        # An id in _numbers is unique only while its object lives.
        self._alive: list[Any] = []
        self._parents: dict[int, Any] = {}
        self._types: dict[int, Any] = {}
        self._columns: dict[int, dict[int, int | str]] = {}
        self._origins: dict[int, list[int]] = {}
        self._results: dict[int, Any] = {}

    def encode(self, statement: Any) -> list[Any]:
        """All nodes of `statement`; the last node is the statement."""
        try:
            return self._encode(statement)
        except NotFreezableError as error:
            located(error, self._path(self._current))
            raise

    def _encode(self, statement: Any) -> list[Any]:
        # A stack and no recursion: a statement may be deeper than Python's stack.
        stack = [statement]
        waited: set[int] = set()
        while stack:
            element = stack[-1]
            if id(element) in self._numbers or self._write(element) is not PENDING:
                stack.pop()
            # All elements below it are written. If it waits again, it contains itself.
            elif id(element) in waited:
                _refuse_cycle()
            else:
                waited.add(id(element))
                stack += reversed(self._pending)
                self._pending.clear()
                self._deferred.clear()
        return self.nodes

    def _path(self, element: Any) -> str:
        from dualsql.freeze.paths import path

        return path(element, self._parents, node_kind_of)

    def where(self, number: int) -> str:
        """The path to a node's element, for messages."""
        return self._path(next((each for each in self._alive if self._numbers.get(id(each)) == number), None))

    @property
    def is_inside_another(self) -> bool:
        """Whether the element that is being written is a part of another one."""
        return self._parents.get(id(self._current)) is not None

    def ref(self, element: Any) -> int:
        """The number of an element's node, which is written if it does not exist yet.

        Below DEEPEST_DESCENT the result is PENDING: `encode` writes that node and then repeats the one above it.
        """
        number = self._numbers.get(id(element))
        if number is not None:
            return number
        # Most elements are columns of registered tables: their nodes without the steps that any other kind takes.
        if type(element) is Column and (name := self.registry.name_of_column(element)) is not None:
            table = self._numbers.get(id(element.table))
            if table is not None:
                self.dependencies.add(name)
                number = self._numbers[id(element)] = len(self.nodes)
                self.nodes.append(["column", {"of": table, "key": name[1]}])
                self._alive.append(element)
                return number
        if isinstance(element, LambdaElement):
            return self.ref(self.resolved(element))
        # An element that is being written is an ancestor of this one.
        if id(element) in self._open:
            _refuse_cycle()
        self._parents[id(element)] = self._current
        if len(self._open) < DEEPEST_DESCENT and id(element) not in self._deferred:
            return self._write(element)
        self._pending.append(element)
        return PENDING

    def _write(self, element: Any) -> int:
        """The number of the element's new node, or PENDING if an element below it has to be written first."""
        outer, waiting = self._current, len(self._pending)
        self._current = element
        self._open.add(id(element))
        kind = MAPPED if id(element) in self.registry.mapped_sources else node_kind_of(element)
        if kind is None:
            cls = type(element)
            refuse(f"a {cls.__module__}.{cls.__qualname__}", "Use SQLAlchemy's own constructs.")
        write = kind.write
        fields = write(self, kind, element) if write else self.fields(kind, element.__dict__)
        self._open.discard(id(element))
        self._current = outer
        if len(self._pending) == waiting:
            return self._finish(element, kind, fields)
        self._deferred.add(id(element))
        return PENDING

    def once(self, element: Any, make: Callable[[], Any]) -> Any:
        """The result of `make` for `element`. It is called once, also if the node is written in several attempts."""
        if id(element) not in self._results:
            self._alive.append(element)
            self._results[id(element)] = make()
        return self._results[id(element)]

    def resolved(self, element: LambdaElement) -> Any:
        """The result of a lambda. It is called once."""
        return self.once(element, lambda: internals.resolved_lambda(element))

    def fields(self, kind: NodeKind, state: dict[str, Any]) -> dict[str, Any]:
        """The wire form of an element's attributes."""
        fields: dict[str, Any] = {}
        writers = kind.writers
        for attribute, value in state.items():
            if value is None:
                continue
            try:
                field = writers[attribute]
            # An attribute without a field: of a later SQLAlchemy, or an application's. It is never dropped silently.
            except KeyError:
                kind.skip_or_refuse(attribute, value)
                continue
            if field is None or value is field.default or (isinstance(value, field.empties) and not value):
                continue
            wire = field.write(self, value)
            if wire is not None:
                fields[field.name] = wire
        return fields

    def type(self, type_: TypeEngine[Any]) -> Any:
        """A type by name, or as ["=", node]: the type of that node."""
        wire = self._types.get(id(type_))
        if wire is None:
            wire = self._type(type_)
            # While elements are pending, the wire form contains PENDING and is built again.
            if not self._pending:
                self._alive.append(type_)
                self._types[id(type_)] = wire
        return wire

    def _type(self, type_: TypeEngine[Any]) -> Any:
        if type(type_) is TupleType:
            return ["tuple", [self.type(item) for item in type_.types]]
        try:
            return self.registry.wire_of_type(type_)
        except types.UnnameableError as reason:
            owner = self.registry.type_owners.get(id(type_))
            if owner is None:
                hint = "Register it: Registry(..., types={'name': TheType}), or cast to a standard type."
                refuse(str(reason), hint)
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
                    and not isinstance(key, internals.AnonymousLabel)
                    and not ANONYMOUS.search(key)
                    and columns.get(key) is column
                )
                keys[id(column)] = str(key) if plain else position
            self._alive.append(source)
        return keys

    def note_text(self, what: str) -> None:
        """Record that `what` is rendered as written; raise NotFreezableError if the registry does not allow text."""
        if not self.registry.allow_text:
            refuse(what, "Use SQLAlchemy's constructs, or pass settings=Settings(allow_text=True).")
        self.uses_text = True

    def clones(self) -> list[list[int]]:
        """Groups of nodes that were cloned from one element. SQLAlchemy treats such clones as equal."""
        groups = []
        for origin, members in self._origins.items():
            number = self._numbers.get(origin)
            group = members if number is None else [number, *members]
            if len(group) > 1:
                groups.append(group)
        return groups

    def _finish(self, element: Any, kind: NodeKind, fields: dict[str, Any]) -> int:
        number = self._numbers[id(element)] = len(self.nodes)
        self.nodes.append([kind.tag, fields])
        self._alive.append(element)
        origin = element.__dict__.get("_is_clone_of") if kind.is_own else None
        if origin is not None:
            self._alive.append(origin)
            self._origins.setdefault(id(origin), []).append(number)
        return number


def _refuse_cycle() -> NoReturn:
    refuse("an element that contains itself", "Build the statement without cycles.")


MOST_NODES = 50_000
# A node that is used twice is rendered twice: 60 nodes of the form (a + a) would be 2**60 terms.
# Measured: 60,000 terms or columns take SQLAlchemy up to 1.3 s and 100 MB to compile.
MOST_TERMS = 60_000
MOST_SOURCES = 500
DEEPEST = 300
# SQLAlchemy follows _is_clone_of in a loop whenever it compares two elements.
LONGEST_DESCENT = 30
# SQLAlchemy looks up the name of a converted element twice for each conversion: 10 nested ones take 20 ms, 20 take ten
# seconds.
MOST_CONVERSIONS = 10

# An operator checks its operands itself. The others are an annotated parameter and the parameters of a text.
_TAKES_LISTS = frozenset({"binary", "note", "text"})

_NOTED = (SelectBase, BindParameter)

_JSON_ITEMS = (operators.json_getitem_op, operators.json_path_getitem_op)


def _repeats_operands(element: BinaryExpression[Any]) -> bool:
    """Whether some database's compiler writes the operands twice.

    SQLite has no XOR: SQLAlchemy writes `(a | b) - (a & b)`. MySQL and SQL Server compare an item of a JSON document
    with null before they convert it.
    """
    if element.operator in _JSON_ITEMS:
        return not isinstance(element.type, JSON)
    return element.operator is operators.bitwise_xor_op


_NO_SOURCES: frozenset[int] = frozenset()


class Decoder:
    """Decodes one document.

    Attributes:
        dependencies: the (table name, column key) pairs that the document depends on.
        uses_text: whether it contains text that is rendered as written.
    """

    kind_of = staticmethod(node_kind_of)

    def __init__(self, registry: Registry) -> None:
        self.registry = registry
        self.dependencies: set[tuple[str, str]] = set()
        self.uses_text = False
        self.seeds = FreshSeeds()
        self._elements: list[Any] = []
        # For each node: its terms, its depth, and the sources that are in FROM because it names one of their columns.
        self._weights: list[tuple[int, int, frozenset[int]]] = []
        self._sources = _NO_SOURCES
        self._alive: list[Any] = []
        self._shared_terms = 0
        self._bind_names: set[str] = set()
        self._lists: set[int] = set()  # numbers of the expanding parameters
        self._tag = ""
        self._reads_own_types = False
        self._term = 1
        self._depth = 0
        self._count = 0

    def decode(self, nodes: list[Any], clones: list[Any]) -> Any:
        """The statement of the last node."""
        if not 0 < len(nodes) <= MOST_NODES:
            malformed("number of nodes")
        self._count = len(nodes)
        for tag, fields in nodes:
            kind = kind_of_tag(tag)
            self._tag, self._term, self._depth, self._sources = tag, 1, 0, _NO_SOURCES
            if type(fields) is not dict:
                malformed("fields of a node")
            read = kind.read
            element = read(self, kind, fields) if read else self.fill(kind, fields)
            if isinstance(element, _NOTED):
                self._note(element)
            if isinstance(element, BinaryExpression) and _repeats_operands(element):
                self._term *= 2
            # A CTE or table is rendered once. Further references render its name only.
            if kind.is_shared:
                self._shared_terms += self._term
                self._term = 1
            if self._term + self._shared_terms > MOST_TERMS or self._depth > DEEPEST or element is None:
                malformed("a statement that is too large when written out")
            self._elements.append(element)
            self._weights.append((self._term, self._depth + 1, self._sources))
        self._restore_lineage(nodes, expect(clones, list))
        if self._reads_own_types:
            from dualsql.freeze.shadowing import check_names

            check_names(self._elements, self.registry)
        return self._elements[-1]

    @property
    def position(self) -> int:
        """The number of the node that is being read, or of the last node."""
        return min(len(self._elements), max(self._count - 1, 0))

    def element(self, number: Any) -> Any:
        """The element of an earlier node, as a part of the node being read."""
        if type(number) is not int or not 0 <= number < len(self._elements):
            malformed("reference")
        terms, depth, sources = self._weights[number]
        self._term += terms
        if depth > self._depth:  # noqa: PLR1730 - max() is slower, and this runs for every reference
            self._depth = depth
        if sources:
            self._add_sources(sources)
        if number in self._lists and self._tag not in _TAKES_LISTS:
            malformed("a list of values outside of IN")
        return self._elements[number]

    def source(self, number: Any) -> Any:
        """The element of an earlier node that the enclosing statement reads, rendered once in its FROM."""
        element = self.neighbour(number)
        if self._weights[number][1] > 1:
            self._add_sources(frozenset((number,)))
        return element

    def _add_sources(self, numbers: frozenset[int]) -> None:
        self._sources |= numbers
        if len(self._sources) > MOST_SOURCES:
            malformed("a statement of too many sources")

    def neighbour(self, number: Any) -> Any:
        """The element of an earlier node that is referred to, but not rendered inside this one."""
        if type(number) is not int or not 0 <= number < len(self._elements):
            malformed("reference")
        return self._elements[number]

    def table(self, name: Any) -> Any:
        """The registered table of that name. Every table of a thawed statement comes from this method."""
        table = self.registry.tables.get(expect(name, str))
        self.note_source(name)
        return refuse_changed() if table is None else table

    def note_source(self, name: str | None) -> None:
        """Record that the statement reads the registered table `name`, directly or through a mapped class."""
        self._reads_own_types = self._reads_own_types or name in self.registry.tables_with_own_types

    def widen(self, count: int) -> None:
        """Count terms of the node being read that are not references: rows, the columns of a table."""
        self._term += count

    def spend(self, count: int) -> None:
        """Count work that is done once, for any number of references to the node being read."""
        self._shared_terms += count

    def is_bind(self, name: str) -> bool:
        """Whether an earlier node is a bound parameter with this fixed name."""
        return name in self._bind_names

    def _note(self, element: Any) -> None:
        if isinstance(element, SelectBase):
            _check_names(element)
            for number in self._sources:
                terms, depth, _ = self._weights[number]
                self._term += terms
                self._depth = max(self._depth, depth)
            self._sources = _NO_SOURCES
            return
        if not element.unique:
            self._bind_names.add(element.key)
        if element.expanding and not isinstance(element, Row):
            self._lists.add(len(self._elements))

    def keep(self, item: Any) -> None:
        """Keep an object alive until the statement is complete, because SQLAlchemy has a weak reference only."""
        self._alive.append(item)

    def fill(self, kind: NodeKind, fields: dict[str, Any]) -> Any:
        """A new element of the kind's class, with its attributes set and its derived state computed."""
        element = kind.cls.__new__(kind.cls)
        state = element.__dict__
        state.update(kind.constants)
        if not kind.required.issubset(fields):
            malformed(f"{kind.tag} without a field it needs")
        self.fill_state(kind, fields, state)
        for field in kind.factories:
            if field.name not in fields:
                state[field.attribute] = field.absent()
        kind.derive(element)
        return element

    def fill_state(self, kind: NodeKind, fields: dict[str, Any], state: dict[str, Any]) -> None:
        """Read `fields` into an element's attributes."""
        by_name = kind.by_name
        for name, wire in fields.items():
            field = by_name[name]
            state[field.attribute] = field.read(self, wire)

    def type(self, wire: Any) -> TypeEngine[Any]:
        """A type by name, by registered name, or of an earlier node."""
        if type(wire) is list and len(wire) == 2:
            if wire[0] == "=":
                type_: TypeEngine[Any] = self.neighbour(wire[1]).type
                return type_
            if wire[0] == "tuple":
                return TupleType(*[self.type(item) for item in expect(wire[1], list)])
            if wire[0] == "own":
                return self.registry.types[wire[1]]
        return types.read_type(wire)

    def trusted_type(self, wire: Any) -> TypeEngine[Any]:
        """The type of a column that belongs to no table. It has to be trusted with values of any origin."""
        type_ = self.type(wire)
        if not self.registry.is_trusted(type_):
            malformed("own type of a column on a row of values")
        return type_

    def note_text(self) -> None:
        """Record that the node being read is rendered as written."""
        if not self.registry.allow_text:
            malformed("text where none is allowed")
        self.uses_text = True

    def _restore_lineage(self, nodes: list[Any], clones: list[Any]) -> None:
        origins: dict[int, int] = {}
        for group in clones:
            if not all(kind_of_tag(nodes[expect(number, int)][0]).is_own for number in expect(group, list)):
                malformed("lineage of an element that is not this document's own")
            origin, *others = group
            for number in others:
                # A clone has the class and the name of its origin. A forged one could pass for an element of another
                # kind, or take another source's place in FROM, which SQLAlchemy's cache key does not tell.
                clone, whole = self._elements[number], self._elements[origin]
                if type(clone) is not type(whole) or _name(clone) != _name(whole) or number in origins:
                    malformed("clones of different kinds or names, or of two origins")
                origins[number] = origin
        for number, origin in origins.items():
            _check_descent(number, origins)
            _check_apart(self._elements[number], self._elements[origin])
            state = self._elements[number].__dict__
            state["_is_clone_of"] = self._elements[origin]
            # SQLAlchemy memoizes the set of origins; it was computed without this one.
            state.pop("_cloned_set", None)


def _check_names(statement: Any) -> None:
    """Refuse a column without a label that SQLAlchemy would take too long to name."""
    for column in internals.raw_columns(statement) if isinstance(statement, Select) else ():
        inner = column
        for _ in range(MOST_CONVERSIONS):
            if not isinstance(inner, WrapsColumnExpression | Grouping):
                break
            inner = inner.element if isinstance(inner, Grouping) else inner.wrapped_column_expression
        else:
            malformed("conversions of conversions, without a label")


def _name(element: Any) -> str | None:
    return element.name if isinstance(element, NamedFromClause) else None


def _check_apart(clone: Any, origin: Any) -> None:
    """Refuse an element inside its own clone: a join removes its members and their clones from FROM."""
    for join, other in ((clone, origin), (origin, clone)):
        waiting = [join]
        while waiting:
            part = waiting.pop()
            if isinstance(part, Join):
                waiting += [part.left, part.right]
            elif isinstance(part, FromGrouping):
                waiting.append(part.element)
            if part is other:
                malformed("a join that is a clone of its own part")


def _check_descent(number: int, origins: dict[int, int]) -> None:
    """Refuse a cycle of clones, which SQLAlchemy would follow for ever, and a long chain of them."""
    for _ in range(LONGEST_DESCENT):
        if number not in origins:
            return
        number = origins[number]
    malformed("a long or endless descent")
