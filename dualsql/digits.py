"""JSON documents of a database, read with every digit of their numbers.

A Python float has 17 digits, and a number of a document any number: 0.1234567890123456789, 1.50. A number whose text
is not that of the float is a `Digits`: a float to whoever computes with it, its own text where it is written.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

_LONGEST_WHOLE = 4_000
"""Digits of a whole number that Python reads without being asked to: its limit is 4,300."""


class Digits(float):
    """A number of a document.

    Attributes:
        text: as the database has it, and as JSON may have it.
    """

    __slots__ = ("text",)
    text: str

    def __new__(cls, text: str) -> Digits:
        """Of the text of a number."""
        found = super().__new__(cls, text)
        found.text = text
        return found


def read_document(text: str | bytes) -> Any:
    """The value of a JSON document."""
    # Raises a TypeError, as json.loads does, for a number: a document of SQLite may be one.
    text = text if isinstance(text, str) else str(text, "utf-8")
    try:
        return _QUICK.decode(text)
    except json.JSONDecodeError:
        raise
    except ValueError:  # Python's, of a whole number of many digits
        return _THOROUGH.decode(text)


def _fraction(text: str) -> float:
    found = float(text)
    return found if repr(found) == text else Digits(text)


def _whole(text: str) -> float:
    return int(text) if len(text) <= _LONGEST_WHOLE else Digits(text)


_QUICK = json.JSONDecoder(parse_float=_fraction)
_THOROUGH = json.JSONDecoder(parse_float=_fraction, parse_int=_whole)


def reads_for_an_application(dialect: Any) -> bool:
    """Whether the application gave its engine a reader of documents of its own."""
    return getattr(dialect, "_json_deserializer", None) not in {None, read_document}


def reads_floats(dialect: Any) -> bool:
    """Whether the driver reads documents, and nobody told it how: with json.loads."""
    return dialect.supports_native_json_deserialization and dialect._json_deserializer is None  # noqa: SLF001


def has_float(document: Any) -> bool:
    """Whether there is a float anywhere in a document."""
    inside = [document]
    while inside:
        found = inside.pop()
        if isinstance(found, float):
            return True
        if isinstance(found, dict | list):
            inside.extend(found.values() if isinstance(found, dict) else found)
    return False


@contextmanager
def reading_documents(driver: Any, dialect: Any) -> Iterator[None]:
    """In the block, a connection of psycopg or psycopg2 reads documents so, unless the application said how."""
    if reads_for_an_application(dialect):
        yield
    elif hasattr(driver, "adapters"):
        yield from _reading_with_psycopg(driver.adapters)
    elif hasattr(driver, "string_types"):
        yield from _reading_with_psycopg2(driver)
    else:
        yield


def _reading_with_psycopg(adapters: Any) -> Iterator[None]:
    loaders = {oid: adapters.get_loader(oid, 0) for oid in _OIDS}  # 0: as text, which SQLAlchemy asks for
    own = {oid: one for oid, one in loaders.items() if getattr(one, "_loads", None) is json.loads}
    for oid, loader in own.items():
        adapters.register_loader(oid, _exact(loader))
    try:
        yield
    finally:
        for oid, loader in own.items():
            adapters.register_loader(oid, loader)


@cache
def _exact(loader: Any) -> Any:
    # As psycopg.types.json.set_json_loads makes one.
    return type(loader.__name__, (loader,), {"_loads": read_document})


def _reading_with_psycopg2(connection: Any) -> Iterator[None]:
    from psycopg2 import extensions  # type: ignore[import-untyped]

    made = []
    for oid, lists, kind in ((114, 199, extensions.JSON), (3802, 3807, extensions.JSONB)):
        if oid not in connection.string_types and extensions.string_types.get(oid) is kind:
            document = extensions.new_type((oid,), "DOCUMENT", _read)
            listed = extensions.new_array_type((lists,), "DOCUMENTS", document)
            made += [(oid, document), (lists, listed)]
    for _, one in made:
        extensions.register_type(one, connection)
    try:
        yield
    finally:
        for oid, _ in made:
            connection.string_types.pop(oid, None)


def _read(text: str | None, _: Any) -> Any:
    return None if text is None else read_document(text)


_OIDS = (114, 3802)
"""PostgreSQL's numbers of json and jsonb."""


def with_all_digits(dialect: Any) -> None:
    """Have a copy of an engine's dialect read documents so, where SQLAlchemy and not the driver reads them."""
    reads = hasattr(dialect, "_json_deserializer") and not dialect.supports_native_json_deserialization
    if reads and not reads_for_an_application(dialect):
        dialect._json_deserializer = read_document  # noqa: SLF001
