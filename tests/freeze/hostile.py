"""Forged documents: valid ones taken apart, changed anywhere, and put together again. A seed says all."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

from dualsql.errors import DualResponseError
from dualsql.freeze import freeze
from dualsql.freeze.codec import KINDS, rare_kinds
from dualsql.freeze.document import pack, unpack
from tests.freeze.dialects import DIALECTS
from tests.freeze.judge import MARKERS, OPEN, SIZE, VAULT
from tests.freeze.shop import SHAPES

MARKER = MARKERS[0]
NUMBERS: list[Any] = [0, 1, -1, 7, 2**31, 2**63 - 1, -(2**63), 10**6, 1.5, -0.0, 1e308, True, False]
NAMES: list[Any] = [
    *("id", "customers", "sales.orders", "orders", "Person", "name", VAULT, "x", "*"),
    *("pg_sleep", "pg_read_file", "load_extension", "sqlite_version", "query_to_xml"),
    *("or_", "and_", "comma_op", "desc_op", "in_op", "from_", "collate", "is_"),
    *("__class__", "__init__", "_sa_registry", "PickleType", "NullType", "Numeric", "JSON.JSONPathType"),
]
SHAPED: list[Any] = [
    *([], {}, [0], [[0]], {"x": 0}, ["=", 0], ["=", 5], ["own", "Money"]),
    *(["anon", 0, "x"], ["anon", 0, "%(x)999999999s"], ["anon", MARKER], ["anon", 0, MARKER]),
    *(
        ["quoted", MARKER, False],
        ["quoted", "a", True],
        ["quoted", "current_user", False],
        ["short", "x" * 90, None],
    ),
    *(["String", {"length": 10**15}], ["String", {"collation": MARKER}], ["Numeric", {"precision": MARKER}]),
    *(["Enum", [[MARKER], MARKER, None, True]], ["Interval", {"fields": MARKER}]),
    *(["op", MARKER, 0, [False] * 3, None, "BASE"], ["op", "||", 15, [False] * 3, None, "BASE"]),
    *(["op", "IN", 0, [True] * 3, None, "BASE"], ["op", "=", -20, [True, False, True], None, "BASE"]),
    *(
        ["datetime", "x"],
        ["int", "9" * 10_000],
        ["decimal", "NaN"],
        ["decimal", "1e999999999"],
        ["float", "1e999"],
    ),
    *(["list", [MARKER, ["bytes", "AAAA"]]], ["range", [MARKER, 1, "[)", False]], ["enum", ["os", "system"]]),
    *(["table", [["id", "Integer"]]], ["tuple", ["Integer", "String"]], {"node": 0}),
]
ALL_KINDS = {**KINDS, **rare_kinds()}
WORDS: list[Any] = [None, *NUMBERS, *NAMES, *SHAPED, *MARKERS]
FIELDS = sorted(
    {field for kind in ALL_KINDS.values() for field in kind.by_name} | {"group", "of", "entity", "text"}
)
TAGS = sorted(ALL_KINDS)


def documents() -> list[tuple[str, bytes]]:
    """A document of every shape that can be written without text."""
    found = []
    for name, statement in SHAPES.items():
        for dialect in DIALECTS.values():
            try:
                found.append((name, freeze(statement, OPEN, dialect=dialect)))
                break
            except DualResponseError:
                continue
    return found


def forged(body: Any) -> bytes:
    """The document of a body; its fingerprint is what the server expects."""
    return pack({**body, "print": "known"}, 50 * SIZE)


# --- places in a document ---------------------------------------------------------------------------------------


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Paths to everything that is not a container, and to every container."""
    if path:
        yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from leaves(item, (*path, key))


def at(value: Any, path: tuple[Any, ...]) -> Any:
    """What stands at `path`."""
    for key in path:
        value = value[key]
    return value


def replaced(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    """A copy of `value` with `new` at `path`."""
    key, *rest = path
    copied = value.copy()
    copied[key] = replaced(value[key], tuple(rest), new) if rest else new
    return copied


# --- one change -------------------------------------------------------------------------------------------------


def _another_value(body: Any, rng: random.Random) -> Any:
    return replaced(body, rng.choice(list(leaves(body))), rng.choice(WORDS))


def _another_of_its_kind(body: Any, rng: random.Random) -> Any:
    """A number for a number, a bool for a bool, a word for a word: what passes the first checks."""
    path = rng.choice(list(leaves(body)))
    value = at(body, path)
    if isinstance(value, bool):
        new: Any = not value
    elif isinstance(value, int):
        new = rng.choice([value - 1, value + 1, rng.randrange(len(body["nodes"])), *NUMBERS])
    elif isinstance(value, str):
        new = rng.choice([*TAGS, *NAMES, *MARKERS, value + MARKER, value[:-1], value.upper()])
    else:
        new = rng.choice(SHAPED)
    return replaced(body, path, new)


def _moved(body: Any, rng: random.Random) -> Any:
    """Some other part of the document, in this place."""
    paths = list(leaves(body))
    return replaced(body, rng.choice(paths), at(body, rng.choice(paths)))


def _reference(body: Any, rng: random.Random) -> Any:
    """A reference to another node: numbers inside a node's fields are nearly all references."""
    nodes = body["nodes"]
    number = rng.randrange(len(nodes))
    places = [path for path in leaves(nodes[number][1]) if type(at(nodes[number][1], path)) is int]
    if not places:
        return _moved(body, rng)
    return replaced(body, ("nodes", number, 1, *rng.choice(places)), rng.randrange(max(number, 1)))


def _field(body: Any, rng: random.Random) -> Any:
    """A field more or a field less."""
    number = rng.randrange(len(body["nodes"]))
    fields = dict(body["nodes"][number][1])
    if fields and rng.random() < 0.4:
        del fields[rng.choice(list(fields))]
    else:
        fields[rng.choice(FIELDS)] = rng.choice([*WORDS, *range(number + 1), [rng.randrange(number + 1)]])
    return replaced(body, ("nodes", number, 1), fields)


def _node(body: Any, rng: random.Random) -> Any:
    """Two nodes swapped, one doubled, one gone, or one of another kind."""
    nodes = list(body["nodes"])
    one, other = rng.randrange(len(nodes)), rng.randrange(len(nodes))
    action = rng.randrange(4)
    if action == 0:
        nodes[one], nodes[other] = nodes[other], nodes[one]
    elif action == 1:
        nodes.insert(one, nodes[other])
    elif action == 2 and len(nodes) > 1:
        del nodes[one]
    else:
        nodes[one] = [rng.choice(TAGS), nodes[one][1]]
    return {**body, "nodes": nodes}


def _lineage(body: Any, rng: random.Random) -> Any:
    size = len(body["nodes"])
    group = [rng.randrange(size) for _ in range(rng.choice((2, 2, 3)))]
    return {**body, "clones": [*body["clones"], group]}


def _spliced(body: Any, rng: random.Random) -> Any:
    """The head of one document and the tail of another, whose references now meet strangers."""
    other = rng.choice(list(BODIES.values()))["nodes"]
    nodes = body["nodes"]
    return {**body, "nodes": nodes[: rng.randrange(1, len(nodes) + 1)] + other[rng.randrange(len(other)) :]}


_CHANGES: list[Callable[[Any, random.Random], Any]] = [
    *(_another_value, _another_of_its_kind, _another_of_its_kind, _moved),
    *(_reference, _reference, _reference, _field, _node, _lineage, _spliced),
]


def mutate(body: Any, rng: random.Random) -> Any:
    """`body` with one to three changes, most often one: what is changed much is refused early."""
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        try:
            body = rng.choice(_CHANGES)(body, rng)
        except (KeyError, TypeError, IndexError, AttributeError, ValueError):
            return body  # an earlier change has left no document to change
    return body


def mutate_bytes(document: bytes, rng: random.Random) -> bytes:
    """`document` with bits flipped, bytes cut out, doubled or set anew."""
    changed = bytearray(document)
    for _ in range(rng.choice((1, 1, 2, 4))):
        if not changed:
            break
        place = rng.randrange(len(changed))
        action = rng.randrange(4)
        if action == 0:
            changed[place] ^= 1 << rng.randrange(8)
        elif action == 1:
            changed[place] = rng.randrange(256)
        elif action == 2 and len(changed) > 2:
            del changed[place : place + rng.randrange(1, 4)]
        else:
            changed[place:place] = changed[place : place + rng.randrange(1, 9)]
    return bytes(changed)


BODIES = {name: unpack(document, SIZE) for name, document in documents()}
