"""Resource URIs and their URLs. The tool result gives the id; the configuration gives the host."""

from __future__ import annotations

import re
import string
from collections.abc import Iterator
from urllib.parse import SplitResult, urljoin, urlsplit

from dualsql_client.errors import NotConfiguredError, ParseError

MAXIMUM_URI_LENGTH = 512

# The id is one path segment that needs no escaping: without dots, slashes, percent signs, queries and fragments it
# cannot change another part of a URL.
_URI = re.compile(
    r"(?P<scheme>[a-z][a-z0-9+.-]*)://(?:[a-z0-9][\w.-]*/)*(?P<id>[\w-]{1,128})", re.ASCII | re.IGNORECASE
)

ID_ALPHABET = string.digits + string.ascii_letters
"""Without - and _: Markdown escapes the one, and lines are broken at the other."""
ID_RANDOM = 27
"""Characters of an id before its checksum: 160 random bits."""
_ID_CHECKSUM = 6
ID_LENGTH = ID_RANDOM + _ID_CHECKSUM
# The largest prime below 62**6, so that a remainder has six digits of the alphabet.
_PRIME = 56_800_235_581
_DOMAIN = b"dualsql resource id "
_LONGEST_WORD = 96
# An encoding may put letters before an id (%2F, \u002f) or after it. Longer words are encoded bytes.
_WORD = re.compile(rf"(?<![0-9A-Za-z])[0-9A-Za-z]{{{ID_LENGTH},{_LONGEST_WORD}}}(?![0-9A-Za-z])", re.ASCII)

SchemeHostPort = tuple[str, str, int]


def resource_id(uri: str) -> str | None:
    """The last segment of `scheme://.../id`, or None when the URI is not of that shape."""
    match = _match(uri)
    return match["id"] if match else None


def uri_of_url(url: str) -> str | None:
    """The URI of the resource whose id is the last segment of a URL; None when that is no id."""
    uri = f"resource://{url.rpartition('/')[2]}"
    return None if resource_id(uri) is None else uri


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


def with_checksum(characters: str) -> str:
    """An id: `ID_RANDOM` characters of `ID_ALPHABET`, and their checksum."""
    return characters + _checksum(_remainder(characters))


def is_checked(identifier: str) -> bool:
    """Whether it is an id with its checksum, as one of 62**6 random words is (2 in 10**11)."""
    if len(identifier) != ID_LENGTH or not identifier.isascii():
        return False
    remainder = _remainder(identifier[:ID_RANDOM])
    # The first digit alone rejects 61 of 62 words.
    is_possible = identifier[ID_RANDOM] == ID_ALPHABET[remainder % len(ID_ALPHABET)]
    return is_possible and identifier.endswith(_checksum(remainder))


def _remainder(characters: str) -> int:
    return int.from_bytes(_DOMAIN + characters.encode("ascii")) % _PRIME


def _checksum(remainder: int) -> str:
    base = len(ID_ALPHABET)
    return "".join(ID_ALPHABET[remainder // base**place % base] for place in range(_ID_CHECKSUM))


def may_hold_id(text: str) -> bool:
    """Whether a text has a word as long as an id."""
    return _WORD.search(text) is not None


def ids_in(text: str) -> Iterator[tuple[int, str]]:
    """The ids with a checksum in a text, also inside longer words, each with its position."""
    for match in _WORD.finditer(text):
        word = match.group()
        # Of digests, only those in base64 have both cases.
        if word.islower() or word.isupper():
            continue
        start = 0
        while start + ID_LENGTH <= len(word):
            identifier = word[start : start + ID_LENGTH]
            if is_checked(identifier):
                yield match.start() + start, identifier
                start += ID_LENGTH
            else:
                start += 1


def is_web(uri: str) -> bool:
    """Whether a URI is an http or https address."""
    return uri.partition("://")[0].lower() in {"http", "https"}


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


def _match(uri: str) -> re.Match[str] | None:
    return _URI.fullmatch(uri) if len(uri) <= MAXIMUM_URI_LENGTH else None
