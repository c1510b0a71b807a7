"""The results that callers name."""

from __future__ import annotations

import re

from dualsql_client.addresses import is_checked, is_web, resource_id, uri_of_url

_WORD = re.compile(r"[0-9A-Za-z]+")


def id_in(text: str) -> str:
    """The id of a resource, from its URI as printed in a result, its URL, the URL of its rows, or the id itself."""
    wanted = text.strip()
    identifiers: set[str] = {word for word in _WORD.findall(wanted) if is_checked(word)}
    if len(identifiers) == 1:
        return identifiers.pop()
    path = wanted.partition("?")[0].removesuffix("/rows")
    # Ids of before have no checksum.
    uri = uri_of_url(path) if is_web(path) else wanted
    return resource_id(uri or wanted) or wanted
