"""The addresses of servers and results, checked. The tool result gives the id; the configuration gives the host."""

from __future__ import annotations

import re
from urllib.parse import SplitResult, urljoin, urlsplit

from dualsql_client.errors import NotConfiguredError, ParseError

SchemeHostPort = tuple[str, str, int]

MAXIMUM_URI_LENGTH = 512

# The id is one path segment that needs no escaping: without dots, slashes, percent signs, queries and fragments it
# cannot change another part of a URL.
_URI = re.compile(
    r"(?P<scheme>[a-z][a-z0-9+.-]*)://(?:[a-z0-9][\w.-]*/)*(?P<id>[\w-]{1,128})", re.ASCII | re.IGNORECASE
)


def resource_id(uri: str) -> str | None:
    """The last segment of `scheme://.../id`, or None when the URI is not of that shape."""
    match = _URI.fullmatch(uri) if len(uri) <= MAXIMUM_URI_LENGTH else None
    return match["id"] if match else None


def uri_of_url(url: str) -> str | None:
    """The URI of the resource whose id is the last segment of a URL; None when that is no id."""
    uri = f"resource://{url.rpartition('/')[2]}"
    return None if resource_id(uri) is None else uri


def is_web(uri: str) -> bool:
    """Whether a URI is an http or https address."""
    return uri.partition("://")[0].lower() in {"http", "https"}


def reference(text: str) -> tuple[str, str | None]:
    """The URI that an id, a URI or a URL stands for, and the URL if it is one.

    Raises:
        ParseError: it is none of them.
    """
    url = text if is_web(text) else None
    if url is not None:
        if {"?", "#"} & set(url):
            raise ParseError(
                "The URL of a result has no query.",
                hint="For a signed link: http=httpx.AsyncClient(params={'link': ...}), or `dualsql fetch URL`.",
            )
        uri = uri_of_url(url)
    else:
        uri = text if "://" in text else f"resource://{text}"
    if uri is None or resource_id(uri) is None:
        raise ParseError(
            "That is not the id of a resource.", hint="Give its id, its URI (resource://...) or its URL."
        )
    return uri, url


def checked_base_url(base_url: str) -> str:
    """`base_url` without its trailing slash.

    Raises:
        NotConfiguredError: it is not a plain http or https address, or carries credentials.
    """
    try:
        parts = urlsplit(base_url)
        origin_of(parts)
    except ValueError:
        raise NotConfiguredError("base_url is not an http or https address.") from None
    if parts.username is not None or parts.password is not None:
        raise NotConfiguredError(
            "base_url holds a user name or password.", hint="Pass credentials in headers=."
        )
    if parts.query or parts.fragment:
        raise NotConfiguredError("base_url ends in a query or fragment; an id has to follow it.")
    return base_url.rstrip("/")


def origin_of(parts: SplitResult) -> SchemeHostPort:
    """Scheme, host and port (RFC 6454).

    Raises:
        ValueError: the address is not http or https, or has no usable host or port.
    """
    defaults = {"http": 80, "https": 443}
    if parts.scheme not in defaults or not parts.hostname:
        raise ValueError("not an http or https address")
    return parts.scheme, parts.hostname, parts.port or defaults[parts.scheme]


def is_this_computer(base_url: str) -> bool:
    """Whether the address is a loopback address."""
    host = urlsplit(base_url).hostname or ""
    return (
        host == "localhost" or (host.replace(".", "").isdigit() and host.startswith("127.")) or host == "::1"
    )


def leaves_origin(url: str, location: str) -> bool:
    """Whether a redirect from `url` to `location` leads to another origin; True for an unreadable location."""
    try:
        return origin_of(urlsplit(urljoin(url, location))) != origin_of(urlsplit(url))
    except ValueError:
        return True
