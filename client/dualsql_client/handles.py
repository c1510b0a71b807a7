"""Resource URIs in what a model reads; the rule: one that could be anything else is none.

The last resort, where an SDK has kept the text of a tool result and nothing else. A URI counts when it is the only
one of its text, was not cut, names a result and ends in an id that a machine has made.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import pairwise

from dualsql_client.address import is_handle

MAXIMUM_CHARACTERS = 4 * 1024 * 1024

# What follows must not be able to belong to it: an id that was cut short is another id.
_IN_TEXT = re.compile(
    r"(?<![\w+./:-])[a-z][a-z0-9+.-]{1,31}://(?:[a-z0-9][\w.-]{0,63}/){0,8}[\w-]{1,128}"
    r"(?![\w/%?#&=@:~+\\-]|\.[\w.]|…|\[)",
    re.ASCII | re.IGNORECASE,
)
_NAMES_A_RESULT = re.compile(r"(?:resource|result|dataset|dualsql|row)s?", re.IGNORECASE)
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{32,64}", re.IGNORECASE)
_WORD = re.compile(r"[A-Za-z]?[a-z]{3,}")
_ANNOUNCED = "gets every row from "
"""What `dualsql` writes before the URI."""

_LEAST_CHANGES = 0.36
"""Changes between small letters, capitals, digits and signs, per character: 0.64 on average where an id is drawn, with
0.3 % below this; about 0.3 where words are joined."""


def uris_in(texts: Iterable[str]) -> list[str]:
    """The URIs of results in these texts, each once; a text with several has none."""
    found: dict[str, None] = {}
    left = MAXIMUM_CHARACTERS
    for text in texts:
        left -= len(text)
        if left < 0:
            break
        uris = {
            match.group(): text[: match.start()].endswith(_ANNOUNCED) for match in _IN_TEXT.finditer(text)
        }
        handles = [
            uri for uri, is_announced in uris.items() if is_handle(uri) and (is_announced or _is_made(uri))
        ]
        if len(handles) == 1:
            found[handles[0]] = None
    return list(found)


def _is_made(uri: str) -> bool:
    scheme, _, path = uri.partition("://")
    *places, identifier = path.split("/")
    if not any(_NAMES_A_RESULT.fullmatch(word) for word in (*re.split(r"[+.-]", scheme), *places)):
        return False
    return bool(_UUID.fullmatch(identifier)) or _is_drawn(identifier)


def _is_drawn(identifier: str) -> bool:
    """Whether its characters look drawn by lot, and not written by a person."""
    kinds = ["a" if c.islower() else "A" if c.isupper() else "0" if c.isdigit() else "-" for c in identifier]
    changes = sum(one != other for one, other in pairwise(kinds))
    words = sum(bool(_WORD.fullmatch(piece)) for piece in re.split(r"[-_]", identifier))
    return {"a", "A"} <= set(kinds) and changes >= _LEAST_CHANGES * (len(kinds) - 1) and words < 2
