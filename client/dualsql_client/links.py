"""Links to results in texts, known by the checksums of their ids in any encoding that keeps letters and digits."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from html import unescape
from typing import Literal
from urllib.parse import unquote

from dualsql_client.addresses import ids_in, is_web, resource_id

UrlPart = Literal["resource", "origin"]
HasAddress = Callable[[str, UrlPart], bool]
"""Whether a URL is that of a resource at a configured address, or at the origin of one."""

_MAXIMUM_LINKS = 1_000
"""Links of one text; the last ones."""
_BEFORE = 400
"""Characters before an id that say what it is."""
_ESCAPED_SLASH = re.compile(r"\\+(?:u00|x)2f", re.IGNORECASE)
_ESCAPED_BREAK = re.compile(r"(?:\\+r)?\\+n")

_URI = re.compile(
    r"([a-z][a-z0-9+.-]{0,31})://(?:[a-z0-9\[][\w.:@~\]-]{0,99}/){0,8}\Z", re.ASCII | re.IGNORECASE
)
_URL = re.compile(r"https?://[^\s\"'<>`\\]*\Z", re.IGNORECASE)
_SENTENCE = re.compile(
    r"(?P<paragraph>(?:\A|\n[ \t\r]*\n)\s*)?"
    r"(?:(?:The|Once the query has run, the) application gets every row from|Rows for the application:)"
    r"\s+[<(\[`*_]{0,4}\Z"
)
_IN_RESOURCE = re.compile(
    r"\bresource\b(?:\W+\w{1,14}){0,6}?\W+ur[il]\b(?:\W+\w{1,14}){0,3}?\W*\Z", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Link:
    """A link to a result.

    Attributes:
        uri: made of the id, if the text has no URI.
        url: its address at a configured origin, if the text has one.
    """

    id: str
    uri: str | None
    url: str | None
    is_announced: bool = False
    begins_paragraph: bool = False
    is_in_resource: bool = False


def links_in(text: str, has: HasAddress) -> tuple[list[Link], bool]:
    """The links of a text, one for each result, and whether the text names them by the sentence of `dualsql`.

    Such sentences are paragraphs: then only those count. Where the paragraphs are lost, the last sentence counts. In a
    structure that is not read as one, such as a truncated one, the links of its `resource` count.
    """
    places = deque(ids_in(text), maxlen=_MAXIMUM_LINKS)
    read = [_link(text, start, identifier, has) for start, identifier in places]
    links = [link for link in read if link is not None]
    announced = [link for link in links if link.is_announced]
    chosen = (
        [link for link in announced if link.begins_paragraph]
        or announced[-1:]
        or [link for link in links if link.is_in_resource]
        or links
    )
    identifiers = dict.fromkeys(link.id for link in chosen)
    return [_joined([link for link in links if link.id == each]) for each in identifiers], bool(announced)


def _joined(links: list[Link]) -> Link:
    """One link of all that a text says about one result."""
    uri = next((link.uri for link in links if link.uri), f"resource://{links[0].id}")
    url = next((link.url for link in links if link.url), None)
    return Link(links[0].id, uri, url)


def _link(text: str, start: int, identifier: str, has: HasAddress) -> Link | None:
    """The link at a position; None for a URL at another origin."""
    before = _decoded(text[max(start - _BEFORE, 0) : start])
    if start > _BEFORE:
        before = f"…{before}"  # it is not the start of the text
    uri, url = _URI.search(before), _URL.search(before)
    written = f"{uri.group()}{identifier}" if uri and not is_web(uri.group()) else None
    address = f"{url.group()}{identifier}" if url and written is None else None
    if address is not None and not has(address, "origin"):
        return None
    found = uri if written else url
    said = before[: found.start()] if found else before
    sentence = _SENTENCE.search(said)
    return Link(
        id=identifier,
        uri=written if written and resource_id(written) == identifier else None,
        url=address,
        is_announced=sentence is not None,
        begins_paragraph=sentence is not None and sentence["paragraph"] is not None,
        is_in_resource=_IN_RESOURCE.search(said) is not None,
    )


def _decoded(text: str) -> str:
    """Without percent-encoding, character references and backslashes, each up to two deep."""
    for _ in range(2):
        text = unescape(unquote(text))
    return _ESCAPED_BREAK.sub("\n", _ESCAPED_SLASH.sub("/", text)).replace("\\", "")
