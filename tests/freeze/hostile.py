"""Forged documents: valid ones taken apart, changed anywhere, and put together again."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import orjson
from sqlalchemy.engine import Dialect

from dualsql.errors import DualResponseError
from dualsql.freeze import freeze, thaw
from dualsql.freeze.document import pack, unpack
from tests.freeze.dialects import DIALECTS
from tests.freeze.shop import SHAPES, STRICT

SIZE = STRICT.maximum_size
MARKER = "zq'\"`]);--zq"
WORDS: list[Any] = [
    *(None, True, False, 0, 1, -1, 2**31, 2**63, 10**6, 1.5, "", "a", MARKER, [], {}, [0], [[0]], {"x": 0}),
    *(
        "id",
        "customers",
        "sales.orders",
        "orders",
        "Person",
        "name",
        "op",
        "anon",
        ["anon", 0, "%(x)999999999s"],
    ),
    *(["=", 0], ["own", "Money"], "PickleType", ["String", {"length": 10**15}]),
    ["Enum", [[MARKER], MARKER, None, True]],
    *(
        ["op", MARKER, 0, [False, False, False], None, "BASE"],
        ["op", "||", 15, [False, False, False], None, "BASE"],
    ),
    *(
        "pg_sleep",
        "pg_read_file",
        "or_",
        "and_",
        "comma_op",
        "desc_op",
        "__class__",
        "__init__",
        "_sa_registry",
    ),
    *(
        ["quoted", MARKER, False],
        ["quoted", "a", True],
        ["datetime", "x"],
        ["int", "9" * 10_000],
        ["decimal", "NaN"],
    ),
]
TAGS = sorted(
    {"select", "text", "text select", "column", "table", "function", "bind", "binary", "note", "mapper"}
)


def documents() -> list[tuple[str, bytes]]:
    """A document of every shape that the strict registry accepts."""
    found = []
    for name, statement in SHAPES.items():
        for dialect in DIALECTS.values():
            try:
                found.append((name, freeze(statement, STRICT, dialect=dialect)))
                break
            except DualResponseError:
                continue
    return found


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Paths to everything that is not a container, and to every container."""
    if path:
        yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from leaves(item, (*path, key))


def replaced(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    """A copy of `value` with `new` at `path`."""
    key, *rest = path
    copied = value.copy()
    copied[key] = replaced(value[key], tuple(rest), new) if rest else new
    return copied


def mutate(body: Any, rng: random.Random) -> Any:
    """`body` with one to three changes: a value, a swap, a deletion, a copy of another part, a new field."""
    for _ in range(rng.choice((1, 1, 2, 3))):
        paths = list(leaves(body))
        path = rng.choice(paths)
        found = _at(body, path)
        kind = rng.randrange(6)
        if kind == 0:
            new: Any = rng.choice(WORDS)
        elif kind == 1:
            new = _at(body, rng.choice(paths))
        elif kind == 2 and isinstance(found, int):
            new = found + rng.choice((-1, 1, 7))
        elif kind == 3 and isinstance(found, dict):
            new = {
                **found,
                rng.choice(["orm", "of", "group", "operator", "text", "type", "name", "x"]): rng.choice(
                    WORDS
                ),
            }
        elif kind == 4 and isinstance(found, list) and found:
            new = [item for i, item in enumerate(found) if i != rng.randrange(len(found))]
        elif isinstance(found, str):
            new = rng.choice([*TAGS, MARKER, found + MARKER])
        else:
            new = rng.choice(WORDS)
        body = replaced(body, path, new)
    return body


def _at(value: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        value = value[key]
    return value


def forged(body: Any, *, seal_anew: bool) -> bytes:
    """A document of a body; with `seal_anew`, its fingerprint is what the server would expect."""
    return pack(body, 50 * SIZE) if not seal_anew else pack({**body, "print": _print(body)}, 50 * SIZE)


def _print(body: Any) -> str:
    from dualsql.freeze.decode import Decoder

    decoder = Decoder(STRICT)
    copied = orjson.loads(orjson.dumps(body))  # decoding takes a body apart
    decoder.decode(copied["nodes"], copied["clones"])
    return STRICT.fingerprint(decoder.named)


def compile_everywhere(document: bytes) -> dict[str, str]:
    """The SQL of a document on every dialect that can render it; thawing itself may only fail in our own way."""
    statement = thaw(document, STRICT)
    rendered = {}
    for name, dialect in DIALECTS.items():
        sql = _rendered(statement, dialect)
        if sql is not None:
            rendered[name] = sql
    return rendered


def _rendered(statement: Any, dialect: Dialect) -> str | None:
    try:
        return str(statement.compile(dialect=dialect))
    except Exception:  # noqa: BLE001 - what cannot be compiled does no harm; SQLAlchemy says so in many ways
        return None


def attempt(body: Any) -> dict[str, str] | None:
    """What a forged body becomes: SQL by dialect, or None when it is refused."""
    try:
        document = forged(body, seal_anew=True)
    except Exception:  # noqa: BLE001 - decoding already failed: `thaw` must say so itself, in one way
        try:
            document = forged(body, seal_anew=False)
        except DualResponseError:
            return None  # not even JSON
    try:
        return compile_everywhere(document)
    except DualResponseError:
        return None


BODIES = {name: unpack(document, SIZE) for name, document in documents()}
