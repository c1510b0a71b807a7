"""Names of tables and saved queries as a hierarchy of URIs, and cursors over long lists of them."""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeVar
from urllib.parse import quote, unquote_to_bytes

from dualsql.errors import BadParameterError
from dualsql.resource import checked_scheme

Kind = Literal["catalog", "schema", "table", "view", "query"]

_LONGEST_URI = 4_096


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """The position of a catalogue entry.

    Attributes:
        source: the name of its database.
        schema: of a schema, a table or a view.
        name: of a table, a view or a query.
        is_contents: the address means the list of members, and not the entry itself.
    """

    source: str
    kind: Kind
    schema: str = ""
    name: str = ""
    is_contents: bool = False

    @property
    def called(self) -> str:
        """The name of the entry, without the names of its parents."""
        return self.name or self.schema or self.source

    @property
    def thing(self) -> Address:
        """The address of the entry itself."""
        return replace(self, is_contents=False)

    @property
    def contents(self) -> Address:
        """The address of the list of its members."""
        return replace(self, is_contents=True)

    @property
    def parent(self) -> Address | None:
        """The address of its parent."""
        if self.kind == "catalog":
            return None
        if self.kind in ("schema", "query"):
            return Address(source=self.source, kind="catalog")
        return Address(source=self.source, kind="schema", schema=self.schema)


_SHAPES: Mapping[Kind, Sequence[str]] = {
    "catalog": ("catalog",),
    "schema": ("schema", "{schema}"),
    "table": ("schema", "{schema}", "table", "{table}"),
    "view": ("schema", "{schema}", "view", "{view}"),
    "query": ("query", "{query}"),
}
_CONTENTS = "contents"
HAVE_CONTENTS: frozenset[Kind] = frozenset({"catalog", "schema"})
"""Kinds that have members."""


@dataclass(frozen=True, slots=True)
class Addressing:
    """Writes and reads the URIs of one scheme.

    Raises:
        ConfigurationError: the scheme is not valid, or is one that hosts would open.
    """

    scheme: str

    def __post_init__(self) -> None:
        checked_scheme(self.scheme)

    def template(self, kind: Kind, *, is_contents: bool = False) -> str:
        """The URI template (RFC 6570) of all entries of a kind, or of their members."""
        parts = [*_SHAPES[kind], *([_CONTENTS] if is_contents else [])]
        return "/".join([f"{self.scheme}://{{source}}", *parts])

    def write(self, address: Address) -> str:
        """The URI of an address."""
        names = {address.kind: address.name, "source": address.source, "schema": address.schema}
        template = self.template(address.kind, is_contents=address.is_contents)
        # Slashes are quoted, too: they would divide the name.
        return re.sub(r"\{(\w+)\}", lambda match: quote(names[match[1]], safe=""), template)

    def read(self, uri: str) -> Address | None:
        """The address of a URI, whether anything exists there or not; None if the URI is not of this scheme."""
        start = f"{self.scheme}://"
        if len(uri) > _LONGEST_URI or not uri.startswith(start) or "?" in uri or "#" in uri:
            return None
        try:
            source, *parts = [unquote_to_bytes(part).decode() for part in uri.removeprefix(start).split("/")]
        except UnicodeDecodeError:
            return None
        is_contents = parts[-1:] == [_CONTENTS]
        for kind, shape in _SHAPES.items():
            names = _match(shape, parts)
            # A table may be called contents, too: the whole address is tried first.
            if names is None and is_contents and kind in HAVE_CONTENTS:
                names = _match(shape, parts[:-1])
                if names is not None:
                    return _address(kind, source, names, is_contents=True)
            if names is not None:
                return _address(kind, source, names, is_contents=False)
        return None


def _address(kind: Kind, source: str, names: Mapping[str, str], *, is_contents: bool) -> Address:
    return Address(
        source=source,
        kind=kind,
        schema=names.get("schema", ""),
        name="" if kind == "schema" else names.get(kind, ""),
        is_contents=is_contents,
    )


def _match(shape: Sequence[str], parts: Sequence[str]) -> Mapping[str, str] | None:
    if len(shape) != len(parts):
        return None
    pairs = list(zip(shape, parts, strict=True))
    if any(not word.startswith("{") and word != part for word, part in pairs):
        return None
    return {word[1:-1]: part for word, part in pairs if word.startswith("{")}


Item = TypeVar("Item")

_LONGEST_CURSOR = 8_192


def page_of(
    items: Sequence[Item], position: Callable[[Item], str], *, cursor: str | None, limit: int
) -> tuple[Sequence[Item], str | None]:
    """At most `limit` items after the cursor, and the cursor for what comes after them (None at the end).

    Args:
        position: a text by which `items` are sorted. Items that are added or removed between two pages move no others.

    Raises:
        BadParameterError: the cursor is not from this server.
    """
    start = 0 if cursor is None else bisect_right(items, _read(cursor), key=position)
    page = items[start : start + limit]
    is_last = start + limit >= len(items)
    return page, None if is_last else _write(position(page[-1]))


def _write(position: str) -> str:
    return urlsafe_b64encode(position.encode("utf-8", "surrogatepass")).rstrip(b"=").decode()


def _read(cursor: str) -> str:
    try:
        if len(cursor) > _LONGEST_CURSOR:
            raise ValueError
        position = urlsafe_b64decode(cursor.encode("ascii") + b"==").decode("utf-8", "surrogatepass")
    except ValueError:
        position = ""
    # The decoder skips foreign characters and spare bits: only the spelling that was given out is valid.
    if not position or _write(position) != cursor:
        raise BadParameterError("The cursor is not from this server.", hint="Start without a cursor.")
    return position
