"""Cursors of pages, sealed for one resource, order and principal."""

from __future__ import annotations

import hmac
import json
from base64 import urlsafe_b64decode
from binascii import Error as NotBase64, b2a_base64
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha512
from typing import Any
from uuid import UUID

import orjson
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESSIV

from dualsql.errors import BadCursorError, NotFreezableError
from dualsql.freeze import Seal
from dualsql.freeze.values import Values
from dualsql.plan import KeysetPosition
from dualsql.resource import Principal

MAXIMUM_LENGTH = 16 * 1024
"""Characters of a cursor."""

_PURPOSE = b"dualsql.cursors/1"
_VERSION = b"\x01"
_VALUES = Values({})


@dataclass(frozen=True, slots=True)
class Cursor:
    """A keyset position, and what the page that gave the cursor knew about it.

    Attributes:
        row: the number of rows before the position.
        has_rows_behind: there were rows on the other side of it.
    """

    place: KeysetPosition
    row: int
    has_rows_behind: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class CursorScope:
    """What a cursor is valid for.

    Attributes:
        order: a fingerprint of the sort keys.
    """

    resource_id: str
    order: bytes
    principal: Principal | None

    @property
    def parts(self) -> tuple[str | None, str | None, str | None]:
        """The resource, and the id and the tenant of its reader."""
        who = self.principal
        return (self.resource_id, None if who is None else who.id, None if who is None else who.tenant)


class Cursors:
    """Writes cursors with the first secret of a seal, and reads them with any of its secrets."""

    def __init__(self, seal: Seal) -> None:
        self._seal = seal

    def write(self, cursor: Cursor | None, scope: CursorScope) -> str | None:
        """The cursor as text. None for no cursor, for one that is too long, and for values without an exact text."""
        if cursor is None:
            return None
        try:
            payload = _packed(cursor)
        except NotFreezableError:
            return None
        cipher = _cipher(self._seal.subkeys(_PURPOSE)[0], scope.order, scope.parts)
        text = _encoded(_VERSION + cipher.encrypt(payload, [_VERSION]))
        return text if len(text) <= MAXIMUM_LENGTH else None

    def read(self, text: str, scope: CursorScope) -> Cursor:
        """Read a cursor that `write` made for the same scope.

        Raises:
            BadCursorError: any other text.
        """
        sealed = _decoded(text)
        if sealed[:1] != _VERSION:
            raise BadCursorError
        for key in self._seal.subkeys(_PURPOSE):
            try:
                return _unpacked(_cipher(key, scope.order, scope.parts).decrypt(sealed[1:], [_VERSION]))
            except InvalidTag:
                continue
        raise BadCursorError


@lru_cache(1_000)
def _cipher(subkey: bytes, order: bytes, parts: tuple[str | None, ...]) -> AESSIV:
    """The cipher of a scope, with a key of 64 bytes. Each part has its length before it: no two scopes are equal."""
    fields = [order, *(b"" if part is None else b"=" + part.encode() for part in parts)]
    key = hmac.digest(subkey, b"".join(len(part).to_bytes(8, "big") + part for part in fields), sha512)
    return AESSIV(key)


def _packed(cursor: Cursor) -> bytes:
    place = cursor.place
    values = [_VALUES.write(_plain(value)) for value in place.values]
    document = [
        cursor.row, cursor.has_rows_behind, place.is_backward, place.equal_before, place.equal_after, values
    ]  # fmt: skip
    try:
        return orjson.dumps(document)
    except TypeError:
        # PostgreSQL and SQLite may hold text that is not valid Unicode. It comes back unchanged.
        return _JSON.encode(document).encode("utf-8", "surrogatepass")


_JSON = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


def _unpacked(payload: bytes) -> Cursor:
    row, has_rows_behind, is_backward, equal_before, equal_after, values = json.loads(
        payload.decode("utf-8", "surrogatepass")
    )
    read = tuple(_VALUES.read(value) for value in values)
    place = KeysetPosition(
        values=read, is_backward=is_backward, equal_before=equal_before, equal_after=equal_after
    )
    return Cursor(place, row, has_rows_behind)


def _plain(value: Any) -> Any:
    """The value in a standard class: asyncpg has a UUID class of its own."""
    return UUID(int=value.int) if isinstance(value, UUID) else value


_URL_SAFE = bytes.maketrans(b"+/", b"-_")


def _encoded(sealed: bytes) -> str:
    return b2a_base64(sealed, newline=False).translate(_URL_SAFE).rstrip(b"=").decode()


def _decoded(text: str) -> bytes:
    if len(text) > MAXIMUM_LENGTH or not text.isascii():
        raise BadCursorError
    try:
        sealed = urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except (NotBase64, ValueError):
        raise BadCursorError from None
    if _encoded(sealed) != text:  # Python skips characters outside the alphabet
        raise BadCursorError
    return sealed
