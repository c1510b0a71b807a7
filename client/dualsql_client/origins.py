"""The configured servers. A tool result can name one of them, and cannot add one."""

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
        if url is not None and (transport := self.at(uri, url)) is not None:
            return transport
        if self.default is None and url is None and len(self._transports) == 1:
            return self._transports[0]
        return self.default

    def has_origin(self, url: str) -> bool:
        """Whether `url`, any text, is at the origin of one of them. Without any, no origin is excluded."""
        if not self._transports:
            return True
        # Readers differ about the host behind `\@`, and the address of a result names no user.
        is_ours = any(is_same_origin(each.base_url, url) for each in self._transports)
        return is_ours and "@" not in urlsplit(url).netloc

    def has_resource(self, url: str) -> bool:
        """Whether `url`, any text, is the address of a resource at one of them."""
        uri = uri_of_url(url)
        return uri is not None and self.at(uri, url) is not None

    def at(self, uri: str, url: str) -> Transport | None:
        """The configured transport whose resource with this URI is at this address."""
        return next(
            (each for each in self._transports if is_same_address(each.url_of(uri), url)),
            None,
        )


def is_same_origin(ours: str, theirs: str) -> bool:
    """Whether `theirs`, any text, is at the origin of `ours`."""
    try:
        return origin_of(urlsplit(ours)) == origin_of(urlsplit(theirs))
    except ValueError:
        return False


def is_same_address(ours: str, theirs: str) -> bool:
    """Whether `theirs`, any text, is the address `ours`."""
    if not is_same_origin(ours, theirs):
        return False
    one, other = urlsplit(ours), urlsplit(theirs)
    return one.path == other.path and other.netloc.count("@") == 0 and not (other.query or other.fragment)


def describe_host(url: str) -> str:
    """The host of an address for an error message, and whether the address is private or link-local."""
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
