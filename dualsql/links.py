"""The feature SignedLinks: URLs that let a person read one resource for a limited time."""

from __future__ import annotations

import binascii
import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import TYPE_CHECKING, NamedTuple

import orjson
from starlette.requests import Request

from dualsql.errors import (
    BadParameterError,
    DualResponseError,
    ResourceNotFoundError,
)
from dualsql.extension import Parts
from dualsql.feature import Feature
from dualsql.formats.table import FORMATS
from dualsql.freeze import Seal
from dualsql.log import REQUEST
from dualsql.resource import Addresses, Principal, Resource
from dualsql.results.access import AccessControl, not_found
from dualsql.settings import SettingsGroup, require_duration, setting, takes
from dualsql.store.protocol import LinkRecord, ResourceStore

if TYPE_CHECKING:
    from dualsql.server import ResultServer


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkSettings(SettingsGroup):
    """The arguments of `SignedLinks`."""

    maximum_link_lifetime: timedelta = setting(
        timedelta(days=7), "The longest lifetime of a signed link.", positive=True
    )


MAXIMUM_LENGTH = 4096
_LABEL = "dualsql.link/1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """The content of a signed link.

    Attributes:
        link: its id, its resource and its expiry, as the store keeps them.
        principal: the principal in whose name it reads.
        formats: the allowed formats of the rows.
        is_single_use: it is valid for one answer.
    """

    link: LinkRecord
    principal: Principal | None
    formats: frozenset[str]
    is_single_use: bool

    def is_good_for(self, resource_id: str, format_name: str, now: datetime) -> bool:
        """Whether the link allows reading this resource in this format at this time."""
        return (
            self.link.resource_id == resource_id
            and format_name in self.formats
            and now < self.link.expires_at
        )


def _opened_id(link_id: str) -> str:
    """The id of the token that a single-use link is exchanged for: a caller who revokes the link can name it."""
    return _encode(sha256(f"opened {link_id}".encode()).digest()[:20])


def checked_formats(formats: Iterable[str]) -> frozenset[str]:
    """Raises BadParameterError for a format that is not served."""
    allowed = frozenset(formats)
    if not allowed or not allowed <= FORMATS.keys():
        raise BadParameterError(
            f"formats must be one or more of: {', '.join(sorted(FORMATS))}.",
            hint="Leave formats out for pages and a stream of JSON.",
        )
    return allowed


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
    # Anyone may send a token: its length is bounded before it is decoded.
    if len(token) > MAXIMUM_LENGTH or not token.isascii():
        return None
    body, _, mac = token.partition(".")
    try:
        payload, signature = _decode(body), _decode(mac)
    except (binascii.Error, ValueError):
        return None
    return _grant(orjson.loads(payload)) if seal.verify(signature, _LABEL, payload) else None


def _grant(content: dict[str, object]) -> Grant:
    who, end = content["principal"], content["expires"]
    assert isinstance(end, float)
    return Grant(
        link=LinkRecord(
            id=str(content["link"]),
            resource_id=str(content["resource"]),
            expires_at=datetime.fromtimestamp(end, UTC),
        ),
        principal=Principal(id=who[0], tenant=who[1]) if isinstance(who, list) else None,
        formats=frozenset(content["formats"]),  # type: ignore[call-overload]  # signed by us, so it is a list
        is_single_use=content["once"] is True,
    )


def _encode(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()


def _decode(text: str) -> bytes:
    return urlsafe_b64decode(text + "=" * (-len(text) % 4))


_PARAMETER = "link="
_IN_QUERY = _PARAMETER.encode()

LINK_COOKIE = "dualsql_link"
"""Of the path of one result: the signed link that a page was opened with."""


class ExchangedLink(NamedTuple):
    """A token that reads one resource, and when it ends."""

    token: str
    expires_at: datetime


@dataclass(frozen=True, slots=True)
class Links:
    """Creates, opens and revokes signed links. They are for people: never show one to a model."""

    access: AccessControl
    store: ResourceStore
    seal: Seal
    settings: LinkSettings
    addresses: Addresses

    async def create(
        self,
        resource_id: str,
        principal: Principal | None,
        *,
        formats: Iterable[str] = ("json",),
        expires_in: timedelta = timedelta(minutes=15),
        single_use: bool = False,
    ) -> str:
        """Create a URL at which anyone can read the resource as `principal` does.

        Without "json" among the formats, it is the URL of the stream in the first of them, for a browser.

        Args:
            formats: the allowed formats of the rows; "json" also allows pages.
            single_use: the link is valid for one page or stream.

        Raises:
            ResourceNotFoundError, ResourceExpiredError: `principal` may not read the resource.
            BadParameterError: an argument is out of bounds.
        """
        require_duration("expires_in", expires_in, is_positive=True, failure=BadParameterError)
        if expires_in > self.settings.maximum_link_lifetime:
            raise BadParameterError(
                "The lifetime of the link is not allowed.",
                hint=f"It must be at most {self.settings.maximum_link_lifetime}.",
            )
        allowed = checked_formats(formats)
        resource = await self.access.open(resource_id, principal, "read")
        link = LinkRecord(
            id=secrets.token_urlsafe(20),  # 160 random bits
            resource_id=resource.id,
            expires_at=self.access.clock.now() + expires_in,
        )
        grant = Grant(link=link, principal=principal, formats=allowed, is_single_use=single_use)
        await self.access.note("link", principal, resource=resource, link_id=link.id)
        await self.store.save_link(link)
        token = f"{_PARAMETER}{write_token(grant, self.seal)}"
        url = self.addresses.url(resource_id)
        return f"{url}?{token}" if "json" in allowed else f"{url}/rows?format={min(allowed)}&{token}"

    async def open(
        self, resource_id: str, token: str, *, format_name: str = "json", takes: bool = True
    ) -> tuple[Principal | None, Resource]:
        """Open a link: the principal in whose name it reads, and the resource.

        Args:
            format_name: the requested format.
            takes: rows will be read, which uses up a single-use link.

        Raises:
            ResourceNotFoundError: the link is not valid for this request. The answer does not say why.
            ResourceExpiredError: the link is valid, and the resource has expired.
        """
        grant, resource = await self._grant_and_resource(resource_id, token, format_name)
        # A pending result shows no rows yet, which would use up the link.
        await self._use(grant, resource, takes=takes and resource.status == "ready")
        record = REQUEST.get()
        if record is not None:
            record.link_id = grant.link.id
        return grant.principal, resource

    async def _grant_and_resource(
        self, resource_id: str, token: str, format_name: str
    ) -> tuple[Grant, Resource]:
        grant = read_token(token, self.seal)
        if grant is None or not grant.is_good_for(resource_id, format_name, self.access.clock.now()):
            await self.access.load(resource_id, self.access.viewer(None))  # takes as long as an unknown id
            raise await self._refusal(resource_id, grant, "not a link")
        return grant, await self.access.open(resource_id, grant.principal, "read")

    async def _use(self, grant: Grant, resource: Resource, *, takes: bool) -> None:
        if not await self.store.has_link(grant.link, take=takes and grant.is_single_use):
            raise await self._refusal(resource.id, grant, "link ended")
        await self.access.note("follow", grant.principal, resource=resource, link_id=grant.link.id)

    async def exchange(self, resource_id: str, token: str) -> ExchangedLink:
        """Use a link once, for a token that reads until the link would have ended.

        A link that may be used again is its own token. A single-use one ends, and cannot be exchanged again.

        Raises:
            ResourceNotFoundError, ResourceExpiredError: see `open`.
        """
        grant, resource = await self._grant_and_resource(resource_id, token, "json")
        await self._use(
            grant, resource, takes=True
        )  # also of a pending result, whose rows the token will read
        if grant.is_single_use:
            link = grant.link._replace(id=_opened_id(grant.link.id))
            await self.store.save_link(link)
            grant = replace(grant, link=link, is_single_use=False)
        return ExchangedLink(write_token(grant, self.seal), grant.link.expires_at)

    def formats(self, token: str) -> frozenset[str]:
        """The formats of rows that a link allows; none for a text that is no link."""
        grant = read_token(token, self.seal)
        return frozenset() if grant is None else grant.formats

    async def revoke(self, link: str) -> bool:
        """Revoke a link, given as the URL that `create` returned, and the token that it was exchanged for.

        False if both had ended, or it was not made here.
        """
        grant = read_token(link.rpartition(_PARAMETER)[2], self.seal)
        if grant is None:
            return False
        await self.access.note(
            "revoke", grant.principal, resource_id=grant.link.resource_id, link_id=grant.link.id
        )
        ids = (grant.link.id, _opened_id(grant.link.id))
        # A list: the second is deleted, too, whatever the first deletion finds.
        return sum([await self.store.delete_links(link_id=link_id) for link_id in ids]) > 0

    async def revoke_all(self, resource_id: str, principal: Principal | None) -> int:
        """Revoke all links of a resource that `principal` may read. Returns their number.

        Raises:
            ResourceNotFoundError, ResourceExpiredError: `principal` may not read the resource.
        """
        await self.access.open(resource_id, principal, "read")
        await self.access.note("revoke", principal, resource_id=resource_id)
        return await self.store.delete_links(resource_id=resource_id)

    async def _refusal(self, resource_id: str, grant: Grant | None, reason: str) -> DualResponseError:
        error = not_found()
        await self.access.note(
            "refuse",
            grant.principal if grant else None,
            resource_id=resource_id,
            code=error.code,
            reason=reason,
            link_id=grant.link.id if grant else None,
        )
        return error


class SentLink(NamedTuple):
    """A signed link, and whether it stands in the address of the request rather than in a cookie."""

    token: str
    is_in_address: bool


class SentLinks:
    """The links of requests; a `LinkOpener`.

    Attributes:
        reads_cookie: a browser may send the link that a page was opened with in a cookie.
    """

    def __init__(self, links: Links) -> None:
        self._links = links
        self.reads_cookie = False

    def query_of(self, request: Request) -> bytes:
        return _split(request.scope["query_string"])[1]

    def of(self, request: Request) -> SentLink | None:
        """The link of a request, from its address or from the cookie of a page."""
        token, _ = _split(request.scope["query_string"])
        if token is not None:
            return SentLink(token, is_in_address=True)
        has_cookies = self.reads_cookie and b"cookie" in dict(request.scope["headers"])
        token = request.cookies.get(LINK_COOKIE) if has_cookies else None
        return None if token is None else SentLink(token, is_in_address=False)

    async def open(
        self, request: Request, resource_id: str, *, format_name: str, takes: bool
    ) -> tuple[Principal | None, Resource] | None:
        """See `LinkOpener`.

        A browser keeps the cookie of a link that was revoked. It does not take away the caller's own right.
        """
        link = self.of(request)
        if link is None:
            return None
        try:
            return await self._links.open(resource_id, link.token, format_name=format_name, takes=takes)
        except ResourceNotFoundError:
            if link.is_in_address:
                raise
            return None


def _split(query_string: bytes) -> tuple[str | None, bytes]:
    """The signed link of a query string, and the rest of the query string. No message repeats either.

    Raises:
        BadParameterError: the query string has two links.
    """
    if _IN_QUERY not in query_string:
        return None, query_string
    parts = query_string.split(b"&")
    links = [part for part in parts if part.startswith(_IN_QUERY)]
    if not links:
        return None, query_string
    if len(links) > 1:
        raise BadParameterError("A query parameter appears twice.", hint="Give each parameter once.")
    rest = b"&".join(part for part in parts if part is not links[0])
    return links[0].removeprefix(_IN_QUERY).decode("latin-1"), rest


class SignedLinks(Feature):
    """Links that open a result without signing in; see docs/identity.md. Its arguments are `LinkSettings`.

    Attributes:
        service: creates and revokes links.
        sent: the links of requests.
    """

    settings_group = LinkSettings

    @takes(LinkSettings)
    def __init__(self, settings: LinkSettings) -> None:
        self.settings = settings

    def attach(self, server: ResultServer, parts: Parts) -> None:
        self.service = Links(parts.access, parts.store, parts.seal, self.settings, parts.addresses)
        self.sent = parts.access.links = SentLinks(self.service)
