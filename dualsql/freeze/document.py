"""The bytes of a document, its errors, and its signature.

A document consists of:

    2 bytes   0xD5 and the format version
    4 bytes   size of the body before compression, big endian
    rest      zlib stream of the body, a JSON object:
              {"nodes": [[tag, fields], ...], "clones": [[number, ...], ...], "print": fingerprint, "text": bool}
"""

from __future__ import annotations

import hmac
import zlib
from collections.abc import Sequence
from hashlib import sha256
from typing import Any, NoReturn, TypeVar

import orjson
from sqlalchemy import CompoundSelect, Select, TextualSelect

from dualsql.errors import ConfigurationError, LimitExceededError, NotFreezableError, TamperedError

AnySelect = Select[*tuple[Any, ...]]
"""A Select of any columns: since SQLAlchemy 2.1 `Select[Any]` is a Select of one."""

AnyCompound = CompoundSelect[*tuple[Any, ...]]
"""A set operation of any columns."""

Statement = AnySelect | AnyCompound | TextualSelect
"""A Select, a set operation, or text().columns()."""

MOST_NAMED = 120
"""Characters of a construct in an error: names and values may be long."""

Value = TypeVar("Value")


class MalformedError(Exception):
    """The encoder cannot have written this document. `thaw` raises TamperedError for it.

    Attributes:
        hint: what to write instead, where a statement of the application can be the reason.
    """

    def __init__(self, what: str, hint: str | None = None) -> None:
        super().__init__(what)
        self.hint = hint


def refuse(what: str, hint: str, *, where: str | None = None) -> NoReturn:
    """Raise NotFreezableError for `what`, which cannot be stored. `hint` says what to write instead."""
    what = what[:MOST_NAMED]
    error = NotFreezableError(
        f"The statement cannot be stored: it contains {what}.", hint=hint, details={"construct": what}
    )
    raise error if where is None else located(error, where)


def located(error: NotFreezableError, where: str) -> NotFreezableError:
    """The error with the path to the element, unless it has one."""
    if "where" not in error.details:
        error.details["where"] = where
        error.message = f"{error.message.removesuffix('.')}, in {where}."
    return error


def malformed(what: str, hint: str | None = None) -> NoReturn:
    """Raise MalformedError. `what` reaches the log through the exception chain, never the caller."""
    raise MalformedError(what, hint)


class _ChangedError(NotFreezableError):
    """Tables or classes of a document are missing or have changed. Its reader is told so."""

    caller_words = None


def refuse_changed() -> NoReturn:
    """Raise NotFreezableError: tables or classes of the document are missing or have changed."""
    raise _ChangedError(
        "The stored statement uses tables or columns that have changed since it was stored.",
        hint="Run the query again. If this comes again, tell the operator: two servers of the store define the tables "
        "in different ways.",
        developer_hint="Run the query again. Servers of one store need the same definitions of tables; `dualsql "
        "serve` has those of the database, and does not read what an application has stored with its own.",
    )


def tampered() -> TamperedError:
    """The one error for every malformed document."""
    return TamperedError("The stored document was not written by this server.")


def expect(value: object, kind: type[Value]) -> Value:
    """`value`, if it is exactly of the JSON type `kind` (a bool is not an int here)."""
    if type(value) is not kind:
        malformed(f"{type(value).__name__} where {kind.__name__} is due")
    return value


# Neither JSON nor a zlib stream (RFC 1950, 2.2) begins with this byte.
MAGIC = 0xD5
VERSION = 1
# MAGIC, VERSION, and the length of the JSON in four bytes.
_HEADER = 6


def pack(body: dict[str, Any], maximum_size: int) -> bytes:
    """The document of a body."""
    return deflate(dump(body, maximum_size))


def dump(body: dict[str, Any], maximum_size: int) -> bytes:
    """A body as JSON. `deflate` makes a document of it, and `parse` reads it."""
    try:
        plain = orjson.dumps(body)
    except (TypeError, orjson.JSONEncodeError) as error:
        refuse("a text that is not valid Unicode", f"Remove lone surrogates ({type(error).__name__}).")
    if len(plain) > maximum_size:
        raise LimitExceededError(
            f"The stored form of the statement has {len(plain)} bytes; the maximum is {maximum_size}.",
            hint="Bind fewer values (put a long IN list into a table), or raise maximum_size of the Registry.",
        )
    return plain


def deflate(plain: bytes) -> bytes:
    """The document of a dumped body."""
    return bytes([MAGIC, VERSION]) + len(plain).to_bytes(4, "big") + zlib.compress(plain, 6)


def unpack(document: bytes, maximum_size: int) -> dict[str, Any]:
    """The body of a document."""
    if len(document) <= _HEADER or document[0] != MAGIC:
        malformed("no document")
    if document[1] != VERSION:
        raise NotFreezableError(
            f"The stored statement has format version {document[1]}; this server reads version {VERSION}.",
            hint="Run the query again.",
        )
    # The size is checked before and after decompression, because a small zlib stream can hold gigabytes.
    size = int.from_bytes(document[2:_HEADER], "big")
    if size > maximum_size:
        malformed("size")
    inflater = zlib.decompressobj()
    plain = inflater.decompress(document[_HEADER:], size + 1)
    if len(plain) != size or not inflater.eof or inflater.unused_data:
        malformed("size")
    return parse(plain)


def parse(plain: bytes) -> dict[str, Any]:
    """The body of its JSON."""
    return expect(orjson.loads(plain), dict)


_LABEL = b"dualsql.freeze.seal/1"
# RFC 2104, 3: keys shorter than the hash, here 32 bytes, weaken an HMAC.
_MINIMUM_SECRET = 32
_MOST_KNOWN, _LONGEST_KNOWN = 1_000, 8 * 1024
"""Signatures that a seal remembers, and bytes that each was made for."""
_HOW = 'Create one with: python -c "import secrets; print(secrets.token_urlsafe(32))"'


class Seal:
    """HMAC-SHA256 with rotating secrets: the first signs, every one of them verifies.

    Raises:
        ConfigurationError: no secret, or one shorter than 32 bytes.
    """

    def __init__(self, secrets: Sequence[str | bytes]) -> None:
        self._secrets: tuple[bytes, ...] = ()
        self.replace(secrets)

    def replace(self, secrets: Sequence[str | bytes]) -> bool:
        """Use these secrets from now on. Returns whether the one that signed until now still verifies."""
        former, self._secrets = self._secrets[:1], _keys_of(secrets)
        self._keyed = [hmac.new(secret, digestmod=sha256) for secret in self._secrets]
        self._subkeys: dict[bytes, tuple[bytes, ...]] = {}
        self._known: dict[bytes, tuple[bytes | str | None, ...]] = {}
        return not former or former[0] in self._secrets

    def __repr__(self) -> str:
        return f"Seal({len(self._secrets)} secrets)"

    def subkeys(self, purpose: bytes) -> tuple[bytes, ...]:
        """32 bytes for each secret, in their order, by HKDF-SHA256 (RFC 5869). They do not reveal the secret."""
        if purpose not in self._subkeys:
            # RFC 5869 with an empty salt. The key is one block of SHA-256 long, so one round of HMAC expands it.
            self._subkeys[purpose] = tuple(
                hmac.digest(hmac.digest(bytes(32), secret, sha256), purpose + b"\x01", sha256)
                for secret in self._secrets
            )
        return self._subkeys[purpose]

    def sign(self, *parts: bytes | str | None) -> bytes:
        """32 bytes that only a holder of the first secret can make for exactly these parts."""
        return _digest(self._keyed[0], _encoded(parts))

    def verify(self, signature: bytes, *parts: bytes | str | None) -> bool:
        """Whether `signature` was made for exactly these parts with one of the secrets."""
        # Of these secrets: `replace` changes the secrets first, so a verification that still runs adds to the old ones.
        known = self._known
        if known.get(signature) == parts:
            return True
        message = _encoded(parts)
        # All secrets are tried, so that the time does not show which one signed.
        matches = [hmac.compare_digest(_digest(keyed, message), signature) for keyed in self._keyed]
        if any(matches) and len(message) <= _LONGEST_KNOWN:
            if len(known) >= _MOST_KNOWN:
                known.clear()
            known[signature] = parts
        return any(matches)


def _keys_of(secrets: Sequence[str | bytes]) -> tuple[bytes, ...]:
    if isinstance(secrets, (str, bytes)) or not secrets:
        raise ConfigurationError("secrets must be a sequence of one or more secrets.", hint=_HOW)
    keys = tuple(s.encode() if isinstance(s, str) else bytes(s) for s in secrets)
    if any(len(secret) < _MINIMUM_SECRET for secret in keys):
        raise ConfigurationError(f"A secret is shorter than {_MINIMUM_SECRET} bytes.", hint=_HOW)
    return keys


def _digest(keyed: hmac.HMAC, message: bytes) -> bytes:
    mac = keyed.copy()
    mac.update(message)
    return mac.digest()


def _encoded(parts: Sequence[bytes | str | None]) -> bytes:
    """Tag and length before each part: ("ab", "c") and ("a", "bc"), "x" and b"x", None and "" all differ."""
    pieces = [_LABEL, len(parts).to_bytes(4, "big")]
    for part in parts:
        tag, body = (
            (b"n", b"") if part is None else (b"s", part.encode()) if isinstance(part, str) else (b"b", part)
        )
        pieces += tag, len(body).to_bytes(8, "big"), body
    return b"".join(pieces)
