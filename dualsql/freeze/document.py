"""The bytes of a document; the rule: nothing is inflated or parsed before its size and version are known.

2 bytes   b"\\xd5" and the format version
4 bytes   size of the body before compression, big endian
rest      zlib stream of the body: a JSON object
            {"nodes": [[tag, fields], ...], "clones": [[number, ...], ...], "print": fingerprint, "text": bool}
"""

from __future__ import annotations

import zlib
from typing import Any

import orjson

from dualsql.errors import LimitExceededError, NotFreezableError
from dualsql.freeze.refusals import expect, malformed, refuse

MAGIC = 0xD5
VERSION = 1
_HEADER = 6


def pack(body: dict[str, Any], maximum_size: int) -> bytes:
    """The document of a body."""
    return deflate(dump(body, maximum_size))


def dump(body: dict[str, Any], maximum_size: int) -> bytes:
    """A body as JSON, which `deflate` makes a document and `parse` reads back."""
    try:
        plain = orjson.dumps(body)
    except (TypeError, orjson.JSONEncodeError) as error:
        refuse("a text that is not valid Unicode", f"Remove lone surrogates ({type(error).__name__}).")
    if len(plain) > maximum_size:
        raise LimitExceededError(
            f"The statement takes {len(plain)} bytes to store; {maximum_size} are allowed.",
            hint="Bind fewer values (load a long IN list into a table), or raise maximum_document_size.",
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
            hint="Run the query again to store it anew.",
        )
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
