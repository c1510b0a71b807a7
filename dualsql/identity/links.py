"""The right to read one resource, in a URL; the rule: made for a person, for a while, and never for a model.

A link reads as the principal it was made for, so that hooks narrow it to them. Its MAC covers all it says. It lives
as long as its row in the store: revoking it, and using a single-use link, delete that row.
"""

from __future__ import annotations

import binascii
import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

import orjson

from dualsql.errors import BadParameterError
from dualsql.formats import formats
from dualsql.freeze import Seal
from dualsql.resource import Principal
from dualsql.store.protocol import Link

FORMATS = frozenset(formats.FORMATS)
"""What a link can be good for. "json" is pages and the description too."""

MAXIMUM_LENGTH = 4096
_LABEL = "dualsql.link/1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """What a link says.

    Attributes:
        link: its id, the resource and its end, as the store keeps them.
        principal: as whom it reads.
        formats: in which the rows may be had.
        is_single_use: it ends with the first answer.
    """

    link: Link
    principal: Principal | None
    formats: frozenset[str]
    is_single_use: bool

    def is_good_for(self, resource_id: str, wanted: str, now: datetime) -> bool:
        """Whether it says that this resource may be read so, at this time."""
        return self.link.resource_id == resource_id and wanted in self.formats and now < self.link.expires_at


def new_link_id() -> str:
    """160 random bits."""
    return secrets.token_urlsafe(20)


def checked_formats(formats: Iterable[str]) -> frozenset[str]:
    """Raises BadParameterError for a format nobody serves."""
    found = frozenset(formats)
    if not found or not found <= FORMATS:
        raise BadParameterError(
            f"A link is for one or more of: {', '.join(sorted(FORMATS))}.", hint="Leave formats out."
        )
    return found


def write_token(grant: Grant, seal: Seal) -> str:
    """The grant as text for a URL, with its MAC."""
    who = grant.principal
    payload = orjson.dumps(
        {
            "link": grant.link.id,
            "resource": grant.link.resource_id,
            "principal": None if who is None else [who.id, who.tenant],
            "formats": sorted(grant.formats),
            "expires": grant.link.expires_at.timestamp(),
            "once": grant.is_single_use,
        }
    )
    return f"{_encode(payload)}.{_encode(seal.sign(_LABEL, payload))}"


def read_token(token: str, seal: Seal) -> Grant | None:
    """The grant of a token that this server made; None for any other text."""
    if len(token) > MAXIMUM_LENGTH or not token.isascii():
        return None
    body, _, mac = token.partition(".")
    try:
        payload, signature = _decode(body), _decode(mac)
    except (binascii.Error, ValueError):
        return None
    return _grant(orjson.loads(payload)) if seal.verify(signature, _LABEL, payload) else None


def _grant(said: dict[str, object]) -> Grant:
    who, end = said["principal"], said["expires"]
    assert isinstance(end, float)
    return Grant(
        link=Link(
            id=str(said["link"]),
            resource_id=str(said["resource"]),
            expires_at=datetime.fromtimestamp(end, UTC),
        ),
        principal=Principal(id=who[0], tenant=who[1]) if isinstance(who, list) else None,
        formats=frozenset(said["formats"]),  # type: ignore[call-overload]  # signed by us, so it is a list
        is_single_use=said["once"] is True,
    )


def _encode(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()


def _decode(text: str) -> bytes:
    return urlsafe_b64decode(text + "=" * (-len(text) % 4))
