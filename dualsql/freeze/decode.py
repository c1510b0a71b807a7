"""Nodes back into a statement; the rule: one pass, every word checked, every derived flag computed anew."""

from __future__ import annotations

from typing import Any

from sqlalchemy.sql.elements import BindParameter
from sqlalchemy.sql.selectable import FromGrouping, Join, SelectBase
from sqlalchemy.sql.sqltypes import TupleType
from sqlalchemy.sql.type_api import TypeEngine

from dualsql.freeze import custody, types
from dualsql.freeze.fields import Kind
from dualsql.freeze.kinds import CLONABLE, KINDS
from dualsql.freeze.kinds_bind import Row
from dualsql.freeze.names import FreshSeeds
from dualsql.freeze.refusals import changed, expect, malformed
from dualsql.freeze.registry import Registry

MOST_NODES = 50_000
# A node that is used twice is rendered twice: 60 nodes of the form (a + a) would be 2**60 terms.
# Measured: 60,000 terms or columns take SQLAlchemy up to 1.3 s and 100 MB to compile.
MOST_TERMS = 60_000
MOST_SOURCES = 500
DEEPEST = 300
LONGEST_DESCENT = 30

# An operator checks its operands itself; the others are an annotated parameter and a text's own.
_TAKES_LISTS = frozenset({"binary", "note", "text"})

_NOTED = (SelectBase, BindParameter)
_NOTHING: frozenset[int] = frozenset()


class Decoder:
    """Decodes one document.

    Attributes:
        named: the (table name, column key) pairs that the document depends on.
        uses_text: whether text rendered as written is in it.
    """

    def __init__(self, registry: Registry) -> None:
        self.registry = registry
        self.named: set[tuple[str, str]] = set()
        self.uses_text = False
        self.seeds = FreshSeeds()
        self._elements: list[Any] = []
        # For each node: its terms, its depth, and what stands in FROM because it names a column.
        self._weights: list[tuple[int, int, frozenset[int]]] = []
        self._used = _NOTHING
        self._kept: list[Any] = []
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
            kind = KINDS[tag]
            self._tag, self._term, self._depth, self._used = tag, 1, 0, _NOTHING
            if type(fields) is not dict:
                malformed("fields of a node")
            read = kind.read
            element = read(self, kind, fields) if read else self.fill(kind, fields)
            if isinstance(element, _NOTED):
                self._note(element)
            if kind.is_shared:  # rendered once, and referred to by its name
                self._shared_terms += self._term
                self._term = 1
            if self._term + self._shared_terms > MOST_TERMS or self._depth > DEEPEST or element is None:
                malformed("a statement that is too large when written out")
            self._elements.append(element)
            self._weights.append((self._term, self._depth + 1, self._used))
        self._restore_lineage(nodes, expect(clones, list))
        if self._reads_own_types:
            custody.check_names(self._elements, self.registry)
        return self._elements[-1]

    @property
    def position(self) -> int:
        """The number of the node that is being read, or of the last one."""
        return min(len(self._elements), max(self._count - 1, 0))

    def element(self, number: Any) -> Any:
        """The element of an earlier node, which becomes a part of the one being read."""
        if type(number) is not int or not 0 <= number < len(self._elements):
            malformed("reference")
        terms, depth, sources = self._weights[number]
        self._term += terms
        if depth > self._depth:  # noqa: PLR1730 - max() is slower, and this runs for every reference
            self._depth = depth
        if sources:
            self._use(sources)
        if number in self._lists and self._tag not in _TAKES_LISTS:
            malformed("a list of values outside of IN")
        return self._elements[number]

    def source(self, number: Any) -> Any:
        """The element of an earlier node that the statement around this one will read, rendered once in its FROM."""
        found = self.neighbour(number)
        if self._weights[number][1] > 1:
            self._use(frozenset((number,)))
        return found

    def _use(self, numbers: frozenset[int]) -> None:
        self._used |= numbers
        if len(self._used) > MOST_SOURCES:
            malformed("a statement of too many sources")

    def _count_sources(self) -> None:
        for number in self._used:
            terms, depth, _ = self._weights[number]
            self._term += terms
            self._depth = max(self._depth, depth)
        self._used = _NOTHING

    def neighbour(self, number: Any) -> Any:
        """The element of an earlier node that is only pointed at, not rendered inside this one."""
        if type(number) is not int or not 0 <= number < len(self._elements):
            malformed("reference")
        return self._elements[number]

    def table(self, name: Any) -> Any:
        """The choke point: every table enters a statement here and nowhere else."""
        table = self.registry.tables.get(expect(name, str))
        self.note_source(name)
        return changed() if table is None else table

    def note_source(self, name: str | None) -> None:
        """Note that the statement reads the registered table `name`, by itself or through a mapped class."""
        self._reads_own_types = self._reads_own_types or name in self.registry.tables_with_own_types

    def widen(self, count: int) -> None:
        """Count more terms of the node being read than it has references: rows, the columns of a table."""
        self._term += count

    def spend(self, count: int) -> None:
        """Count work that is done once, however often the node being read is referred to."""
        self._shared_terms += count

    def is_bind(self, name: str) -> bool:
        """Whether an earlier node is a bound parameter with this fixed name."""
        return name in self._bind_names

    def _note(self, element: Any) -> None:
        if isinstance(element, SelectBase):
            self._count_sources()
            return
        if not element.unique:
            self._bind_names.add(element.key)
        if element.expanding and not isinstance(element, Row):
            self._lists.add(len(self._elements))

    def keep(self, item: Any) -> None:
        """Keep an object alive that SQLAlchemy holds by a weak reference, at least until the statement is whole."""
        self._kept.append(item)

    def check_fingerprint(self, stored: Any) -> None:
        """Refuse a document whose tables and columns are not declared as they were."""
        if stored != self.registry.fingerprint(self.named):
            changed()

    def fill(self, kind: Kind, fields: dict[str, Any]) -> Any:
        """A new element of the kind's class, with its attributes set and its derived state computed."""
        element = kind.cls.__new__(kind.cls)
        state = element.__dict__
        state.update(kind.constants)
        if not kind.required.issubset(fields):
            malformed(f"{kind.tag} without a field it needs")
        self.fill_state(kind, fields, state)
        for name, attribute, make in kind.made:
            if name not in fields:
                state[attribute] = make()
        kind.derive(element)
        return element

    def fill_state(self, kind: Kind, fields: dict[str, Any], state: dict[str, Any]) -> None:
        """Read `fields` into an element's attributes."""
        readers = kind.readers
        for name, wire in fields.items():
            attribute, read = readers[name]
            state[attribute] = read(self, wire)

    def type(self, wire: Any) -> TypeEngine[Any]:
        """A type by name, by registered name, or of an earlier node."""
        if type(wire) is list and len(wire) == 2:
            if wire[0] == "=":
                found: TypeEngine[Any] = self.neighbour(wire[1]).type
                return found
            if wire[0] == "tuple":
                return TupleType(*[self.type(item) for item in expect(wire[1], list)])
            if wire[0] == "own":
                return self.registry.types[wire[1]]
        return types.read_type(wire)

    def trusted_type(self, wire: Any) -> TypeEngine[Any]:
        """The type of a column that is no table's: one that may read values of any origin."""
        found = self.type(wire)
        if not self.registry.is_trusted(found):
            malformed("own type of a column on a row of values")
        return found

    def text_used(self) -> None:
        """Note that the node being read is rendered as written."""
        if not self.registry.allow_text:
            malformed("text where none is allowed")
        self.uses_text = True

    def confine(self, select: Any) -> None:
        """Refuse a select that reads one column's bytes through another column's own type."""
        custody.check(select, self.registry)

    def _restore_lineage(self, nodes: list[Any], clones: list[Any]) -> None:
        origins: dict[int, int] = {}
        for group in clones:
            if not all(nodes[expect(number, int)][0] in CLONABLE for number in expect(group, list)):
                malformed("lineage of an element that is not this document's own")
            origin, *others = group
            for number in others:
                if type(self._elements[number]) is not type(self._elements[origin]) or number in origins:
                    malformed("clones of different kinds, or of two origins")
                origins[number] = origin
        for number, origin in origins.items():
            _check_descent(number, origins)
            _check_apart(self._elements[number], self._elements[origin])
            state = self._elements[number].__dict__
            state["_is_clone_of"] = self._elements[origin]
            state.pop("_cloned_set", None)


def _check_apart(clone: Any, origin: Any) -> None:
    """A join takes what it joins out of FROM, and clones of it too: one within its own clone would vanish."""
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
    """A clone of its own clone would be followed for ever, a long descent for too long."""
    for _ in range(LONGEST_DESCENT):
        if number not in origins:
            return
        number = origins[number]
    malformed("a long or endless descent")
