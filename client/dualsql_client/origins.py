"""The configured servers. A tool result can choose one of them, and cannot add one."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from dualsql_client.addresses import origin_of, uri_of_url
from dualsql_client.transport import Auth, Transport


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """The address of one server's resources, with the headers and credentials for that server only.

    Attributes:
        base_url: such as https://api.example.com/resources; it may be a private address.
        headers: sent with every request.
        auth: see DualResponseClient.
    """

    base_url: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    auth: Auth | None = field(default=None, repr=False)


class Origins:
    """The configured addresses.

    Args:
        default: the one for results that name no configured address, or None.
        transports: all of them.
    """

    def __init__(self, default: Transport | None, transports: Sequence[Transport]) -> None:
        self.default = default
        self._transports = transports

    def __len__(self) -> int:
        return len(self._transports)

    def choose(self, uri: str, url: str | None) -> Transport | None:
        """The configured transport for a result; None if its address is not configured.

        Args:
            url: the address according to the tool result.
        """
        if url is not None and (named := self.named(uri, url)) is not None:
            return named
        if self.default is None and url is None and len(self._transports) == 1:
            return self._transports[0]
        return self.default

    def has(self, url: str) -> bool:
        """Whether `url`, which may hold anything, is the address of a resource at one of them."""
        uri = uri_of_url(url)
        return uri is not None and self.named(uri, url) is not None

    def named(self, uri: str, url: str) -> Transport | None:
        """The configured transport whose resource with this URI is at this address."""
        named = (transport for transport in self._transports if is_same_place(transport.url_of(uri), url))
        return next(named, None)


def is_same_place(ours: str, theirs: str) -> bool:
    """Whether `theirs`, which may hold anything, is the address `ours`."""
    try:
        one, other = urlsplit(ours), urlsplit(theirs)
        same = origin_of(one) == origin_of(other)
    except ValueError:
        return False
    return (
        same
        and one.path == other.path
        and other.netloc.count("@") == 0
        and not (other.query or other.fragment)
    )


def described(url: str) -> str:
    """The host of an address as an error may name it, and what kind of address that is."""
    try:
        host = urlsplit(url).hostname or ""
    except ValueError:
        host = ""
    if not host or not host.isascii() or not host.isprintable():
        return "an address that cannot be read"
    kind = _kind(host)
    return f"{host[:100]!r}, {kind}" if kind else repr(host[:100])


def _kind(host: str) -> str:
    if host == "localhost" or host.endswith((".localhost", ".local", ".internal")):
        return "a private address"
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return ""
    if address.is_link_local:
        return "a link-local address"
    return "a private address" if address.is_private or address.is_loopback or address.is_multicast else ""
