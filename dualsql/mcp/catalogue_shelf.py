"""The catalogue as resources; the rule: what a caller may not see is answered like what is not there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta

from mcp_types import ReadResourceResult, Resource, ResourceTemplate, TextResourceContents

from dualsql.catalogue import Address, Catalogue, Entry, Seen, paged
from dualsql.catalogue.addresses import HAVE_CONTENTS, Kind
from dualsql.catalogue.definitions import read
from dualsql.catalogue.finding import nearest
from dualsql.formats import json
from dualsql.mcp.resources_serving import bad_uri
from dualsql.resource import Principal

_MIME_TYPE = "application/json"
_PAGE = 100
_MEANINGS: Mapping[Kind, str] = {
    "catalog": "A database: its schemas, tables, views and saved queries.",
    "schema": "A schema: its tables and views.",
    "table": "A table: its columns with types and comments, its keys.",
    "view": "A view: its columns with types and comments.",
    "query": "A saved query: what it answers, and the parameters it takes.",
}


class CatalogueShelf:
    """See `dualsql.mcp.resources_serving.Shelf`."""

    name = "catalogue"

    def __init__(self, catalogue: Catalogue, ttl: timedelta) -> None:
        self._catalogue = catalogue
        self._ttl = int(ttl.total_seconds() * 1_000)
        self.templates: Sequence[ResourceTemplate] = [
            _template(catalogue, kind, is_contents=is_contents)
            for kind in _MEANINGS
            for is_contents in ([False, True] if kind in HAVE_CONTENTS else [False])
        ]

    def owns(self, uri: str) -> bool:
        return uri.startswith(f"{self._catalogue.addressing.scheme}://")

    async def read(self, uri: str, principal: Principal | None) -> ReadResourceResult:
        address = self._catalogue.addressing.read(uri)
        seen = self._catalogue.seen_by(principal)
        found = None if address is None else read(seen, address)
        if found is None:
            raise bad_uri(uri, [] if address is None else nearest(seen, address))
        text = json.dumps(found).decode()
        contents = TextResourceContents(uri=uri, mime_type=_MIME_TYPE, text=text)
        return ReadResourceResult(contents=[contents], ttl_ms=self._ttl, cache_scope="private")

    async def list(
        self, principal: Principal | None, cursor: str | None
    ) -> tuple[Sequence[Resource], str | None]:
        entries = self._catalogue.seen_by(principal).entries
        page, following = paged(entries, lambda entry: entry.uri, cursor=cursor, limit=_PAGE)
        return [_resource(entry) for entry in page], following

    async def complete(
        self, name: str, value: str, given: Mapping[str, str], principal: Principal | None
    ) -> Sequence[str]:
        candidates = _candidates(self._catalogue.seen_by(principal), name, given)
        beginning = [found for found in candidates if found.lower().startswith(value.lower())]
        containing = [found for found in candidates if value.lower() in found.lower()]
        return list(dict.fromkeys([*sorted(beginning), *sorted(containing)]))


def _template(catalogue: Catalogue, kind: Kind, *, is_contents: bool) -> ResourceTemplate:
    return ResourceTemplate(
        uri_template=catalogue.addressing.template(kind, is_contents=is_contents),
        name=f"{kind}_contents" if is_contents else kind,
        description=f"What is in it, as a list: {_MEANINGS[kind]}" if is_contents else _MEANINGS[kind],
        mime_type=_MIME_TYPE,
    )


def _resource(entry: Entry) -> Resource:
    return Resource(
        uri=entry.uri,
        name=entry.title,
        description=entry.comment or _MEANINGS[entry.address.kind],
        mime_type=_MIME_TYPE,
    )


def _candidates(seen: Seen, name: str, given: Mapping[str, str]) -> set[str]:
    """Values of a template's variable, among what fits the variables that are given already."""
    if name == "source":
        return set(seen.catalogue.sources)
    return {_variable(at, name) for at in [*seen.tables, *seen.queries] if _fits(at, given)} - {""}


def _variable(address: Address, name: str) -> str:
    if name == "schema":
        return address.schema
    return address.name if address.kind == name else ""


def _fits(address: Address, given: Mapping[str, str]) -> bool:
    return given.get("source", address.source) == address.source and (
        address.kind == "query" or given.get("schema", address.schema) == address.schema
    )
