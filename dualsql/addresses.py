"""A resource's two names, a URI for the model and a URL for the application; the rule: no URI is http."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Self
from urllib.parse import urlsplit

from dualsql.errors import ConfigurationError
from dualsql_client.address import resource_id

_SCHEME = re.compile(r"[a-z][a-z0-9+.-]{0,31}", re.ASCII)
# Some hosts fetch a link with such a scheme by themselves and paste what they get into the prompt.
_FETCHABLE = frozenset({"http", "https", "ftp", "file", "data", "ws", "wss"})


@dataclass(frozen=True, slots=True)
class Addresses:
    """Makes the two names of every resource of one server."""

    base_url: str
    uri_scheme: str

    @classmethod
    def of(cls, base_url: str, uri_scheme: str) -> Self:
        """Check and normalise.

        Raises:
            ConfigurationError: not an absolute http(s) URL, or a scheme that hosts would follow.
        """
        parts = urlsplit(base_url)
        if parts.scheme not in {"http", "https"} or not parts.hostname or parts.query or parts.fragment:
            raise ConfigurationError(
                f"base_url {base_url!r} is not an address.",
                hint="Give one such as https://api.example.com/resources.",
            )
        return cls(base_url.rstrip("/"), checked_scheme(uri_scheme))

    def uri(self, resource_id: str) -> str:
        """What the model may pass on."""
        return f"{self.uri_scheme}://{resource_id}"

    def url(self, resource_id: str) -> str:
        """Where the application fetches."""
        return f"{self.base_url}/{resource_id}"


def checked_scheme(scheme: str) -> str:
    """A scheme for URIs of our own.

    Raises:
        ConfigurationError: it is none, or one that hosts would follow.
    """
    if not _SCHEME.fullmatch(scheme) or scheme in _FETCHABLE:
        raise ConfigurationError(
            f"The URI scheme {scheme!r} cannot be used.", hint="Take a word of your own, such as 'resource'."
        )
    return scheme


def id_in(uri: str) -> str:
    """The id of a resource, of its URI as a result printed it, or the id itself."""
    wanted = uri.strip()
    return resource_id(wanted) or wanted
