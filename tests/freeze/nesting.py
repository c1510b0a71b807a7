"""Forged documents in which each kind of node stands in each other kind, many levels deep."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any, NamedTuple

from sqlalchemy import func, select
from sqlalchemy.dialects import mssql, mysql, postgresql, sqlite
from sqlalchemy.dialects.postgresql import aggregate_order_by

from dualsql.errors import DualResponseError
from dualsql.freeze import freeze
from dualsql.freeze.document import unpack
from dualsql.freeze.row_number import row_number
from tests.freeze.hostile import at, leaves, replaced
from tests.freeze.judge import SIZE, KnownPrints
from tests.freeze.own import ELEMENTS
from tests.freeze.shop import SHAPES, Base, Money, Shouted, customers_, metadata

Node = list[Any]

WIDE = KnownPrints(
    [metadata, Base],
    types={"Money": Money},
    functions=["my_pure", "shop.price", Shouted],
    elements=ELEMENTS,
    allow_text=True,
)
"""As open as a registry can be."""

_DIALECTS = (postgresql.dialect(), sqlite.dialect(), mysql.dialect(), mssql.dialect())
_MORE = {
    "order": select(func.array_agg(aggregate_order_by(customers_.id, customers_.name.desc()))),
    "column": select(func.unnest(customers_.name).scalar_table_valued("x")),
    "row number": select(row_number(next(iter(metadata.tables.values())), "rowid")),
}
ALIKE = {
    "elements": "list",
    "order list": "list",
    "index": "binary",
    "named grouping": "from grouping",
    "dict bundle": "bundle",
    "scalar values": "values",
    "load class": "load",
    "load all": "load",
}
"""Kinds of which no document has one here, and others that have the same fields."""

LEAVES = frozenset(
    {"collation", "false", "label name", "mapped source", "mapper", "null", "row", "table", "true", "type"}
)
"""Kinds that name no other node."""


def _bodies() -> Iterator[dict[str, Any]]:
    for statement in [*SHAPES.values(), *_MORE.values()]:
        for dialect in _DIALECTS:
            with suppress(DualResponseError):
                yield unpack(freeze(statement, WIDE, dialect=dialect), SIZE)
                break


class Frame(NamedTuple):
    """A node of a valid document, and the place in it where it names an earlier one.

    Attributes:
        before: the nodes that it needs.
        place: the path to the number of the node that is replaced by another.
    """

    tag: str
    field: str
    before: list[Node]
    node: Node
    place: tuple[Any, ...]

    def around(self, number: int, shift: int) -> Node:
        """The node with another one in that place; the others that it names are `shift` further."""
        return _shifted(replaced(self.node, self.place, number), shift, self.place)


def _numbers(node: Node, below: int) -> Iterator[tuple[Any, ...]]:
    """Paths to what may be the number of an earlier node."""
    for path in leaves(node):
        value = at(node, path)
        if type(value) is int and 0 <= value < below and path[0] == 1:
            yield path


def _shifted(node: Node, shift: int, place: tuple[Any, ...]) -> Node:
    actual = node
    for path in list(_numbers(node, 10**9)):
        # Whether it is the number of a node or another one is not known: where it is not, it mostly still fits.
        if path != place and not _is_plain(path):
            actual = replaced(actual, path, at(node, path) + shift)
    return actual


def _is_plain(path: tuple[Any, ...]) -> bool:
    return any(key in _PLAIN for key in path[1:])


_PLAIN = frozenset({"value", "type", "rows", "precedence", "sampling", "limit_value", "operator"})


def frames() -> dict[tuple[str, str], Frame]:
    """One for each kind of node and each of its fields that names another node."""
    found: dict[tuple[str, str], Frame] = {}
    for body in _bodies():
        nodes = body["nodes"]
        for index, node in enumerate(nodes):
            for path in _numbers(node, index):
                if _is_plain(path):
                    continue
                key = node[0], str(path[1])
                known = found.get(key)
                if known is None or len(known.before) > index:
                    found[key] = Frame(node[0], str(path[1]), nodes[:index], node, path)
    for tag, other in ALIKE.items():
        for (known_tag, field), frame in list(found.items()):
            if known_tag == other:
                found.setdefault((tag, field), frame._replace(tag=tag, node=[tag, frame.node[1]]))
    return found


def nested(outer: Frame, inner: Frame, depth: int) -> Iterator[list[Node]]:
    """The two in each other, to that depth, as a value of a SELECT, as what it reads, and as the statement itself."""
    nodes: list[Node] = list(inner.before)
    shift = len(nodes)
    nodes += [_shifted(node, shift, ()) for node in outer.before]
    last = at(inner.node, inner.place)
    for _ in range(depth):
        nodes.append(inner.around(last, 0))
        nodes.append(outer.around(len(nodes) - 1, shift))
        last = len(nodes) - 1
    yield nodes
    yield [*nodes, ["select", {"columns": [last]}]]
    yield [*nodes, ["subquery", {"name": "s", "of": last}], ["select", {"columns": [last + 1]}]]
    yield [*nodes, ["select", {"columns": [1], "froms": [last]}]]
    yield [*nodes, ["select", {"columns": [1], "where": [last]}]]
