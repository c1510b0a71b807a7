"""Stored results as resources; the rule: who may read one is decided as REST decides it, and nothing is listed.

A list would hand every caller the names of what others keep; a URI comes with the answer that made it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta

from mcp_types import ReadResourceResult, ResourceTemplate, TextResourceContents
from mcp_types import Resource as ListedResource

from dualsql.errors import LimitExceededError
from dualsql.formats import json
from dualsql.mcp.resources import Results
from dualsql.parameters import checked_window
from dualsql.resource import Principal, Resource

_MIME_TYPE = "application/json"

# What `dualsql.resource` makes. Other URIs of the scheme are the server's own, if it has any.
_ID = re.compile(r"[A-Za-z0-9_-]{27}", re.ASCII)

MOST_BYTES = 256 * 1024
"""Of what is read: hosts put it before their models."""


class ResultsShelf:
    """See `dualsql.mcp.resources_serving.Shelf`."""

    name = "results"

    def __init__(self, dual: Results, *, page_size: int | None, ttl: timedelta) -> None:
        settings = dual.settings
        self._dual = dual
        self._page_size = checked_window(0, page_size, (), settings)
        self._ttl = ttl
        self._start = f"{settings.uri_scheme}://"
        self.templates: Sequence[ResourceTemplate] = [
            ResourceTemplate(
                uri_template=f"{self._start}{{id}}",
                name="result",
                description="A result that a tool has linked to: columns, total, expiry, and its first rows.",
                mime_type=_MIME_TYPE,
            )
        ]

    def owns(self, uri: str) -> bool:
        return uri.startswith(self._start) and _ID.fullmatch(uri.removeprefix(self._start)) is not None

    async def find(self, uri: str, principal: Principal | None) -> Resource:
        """The result of a URI, if the principal may read it. Raises what `open_resource` raises."""
        return await self._dual.open_resource(uri.removeprefix(self._start), principal, "read")

    async def read(self, uri: str, principal: Principal | None) -> ReadResourceResult:
        resource = await self.find(uri, principal)
        text = await self._text(resource, principal)
        return ReadResourceResult(
            contents=[TextResourceContents(uri=uri, mime_type=_MIME_TYPE, text=text)],
            ttl_ms=self._time_left(resource),
            cache_scope="private",
        )

    async def list(
        self, principal: Principal | None, cursor: str | None
    ) -> tuple[Sequence[ListedResource], str | None]:
        return [], None

    async def complete(
        self, name: str, value: str, given: Mapping[str, str], principal: Principal | None
    ) -> Sequence[str]:
        return []

    async def _text(self, resource: Resource, principal: Principal | None) -> str:
        """Metadata and the first page, of so many rows as there is room for; a query still running has none."""
        metadata = await self._dual.describe_resource(resource, principal=principal)
        about = {**metadata, "url": f"{self._dual.base_url}/{resource.id}"}
        if metadata["status"] in {"pending", "failed"}:
            return json.dumps({"resource": about, "page": None}).decode()
        rows = self._page_size
        while True:
            page = (await self._dual.fetch_page(resource, limit=rows, principal=principal)).to_wire()
            written = json.dumps({"resource": about, "page": page})
            if len(written) <= MOST_BYTES:
                return written.decode()
            if len(page["data"]) <= 1:
                raise LimitExceededError(
                    "The first row is too long to be read here.",
                    hint=f"The application gets it at {about['url']}.",
                )
            rows = max(1, min(len(page["data"]) // 2, rows * MOST_BYTES // (2 * len(written))))

    def _time_left(self, resource: Resource) -> int:
        left = timedelta() if resource.status == "pending" else self._ttl
        if resource.expires_at is not None:
            left = min(left, resource.expires_at - datetime.now(UTC))
        return max(0, int(left.total_seconds() * 1_000))
