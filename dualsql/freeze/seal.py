"""Signatures over stored rows; the rule: what is signed is unambiguous, and checked in constant time."""

from __future__ import annotations

import hmac
from collections.abc import Iterator, Sequence
from hashlib import sha256

from dualsql.errors import ConfigurationError

_LABEL = b"dualsql.freeze.seal/1"
_MINIMUM_SECRET = 32
_HOW = 'Make one with: python -c "import secrets; print(secrets.token_urlsafe(32))"'


class Seal:
    """HMAC-SHA256 with rotating secrets: the first signs, every one of them verifies.

    Raises:
        ConfigurationError: no secret, or one shorter than 32 bytes.
    """

    def __init__(self, secrets: Sequence[str | bytes]) -> None:
        if isinstance(secrets, (str, bytes)) or not secrets:
            raise ConfigurationError("A seal needs a sequence of at least one secret.", hint=_HOW)
        self._secrets = tuple(s.encode() if isinstance(s, str) else bytes(s) for s in secrets)
        if any(len(secret) < _MINIMUM_SECRET for secret in self._secrets):
            raise ConfigurationError(f"A secret is shorter than {_MINIMUM_SECRET} bytes.", hint=_HOW)

    def __repr__(self) -> str:
        return f"Seal({len(self._secrets)} secrets)"

    def subkeys(self, purpose: bytes) -> tuple[bytes, ...]:
        """32 bytes for each secret, in their order, that tell nothing of it: HKDF-SHA256 (RFC 5869)."""
        # Without a salt, and of a single block.
        return tuple(
            hmac.digest(hmac.digest(bytes(32), secret, sha256), purpose + b"\x01", sha256)
            for secret in self._secrets
        )

    def sign(self, *parts: bytes | str | None) -> bytes:
        """32 bytes that only a holder of the first secret can make for exactly these parts."""
        return _digest(self._secrets[0], parts)

    def verify(self, signature: bytes, *parts: bytes | str | None) -> bool:
        """Whether `signature` was made for exactly these parts with one of the secrets."""
        # Every secret is tried, so that the time does not tell which one signed.
        matches = [hmac.compare_digest(_digest(secret, parts), bytes(signature)) for secret in self._secrets]
        return any(matches)


def _digest(secret: bytes, parts: Sequence[bytes | str | None]) -> bytes:
    return hmac.digest(secret, b"".join(_encoded(parts)), sha256)


def _encoded(parts: Sequence[bytes | str | None]) -> Iterator[bytes]:
    """Tag and length before each part: ("ab", "c") and ("a", "bc"), "x" and b"x", None and "" all differ."""
    yield _LABEL + len(parts).to_bytes(4, "big")
    for part in parts:
        tag, body = (
            (b"n", b"") if part is None else (b"s", part.encode()) if isinstance(part, str) else (b"b", part)
        )
        yield tag + len(body).to_bytes(8, "big") + body
