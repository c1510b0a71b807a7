"""Requests over REST, taken down with all that an answer says; what a connection adds to it is left out."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import httpx
import pyarrow as pa
from openpyxl import load_workbook
from pyarrow import parquet

from tests.exchanges.recording import Exchanges

_OF_THE_CONNECTION = frozenset(
    {"date", "server", "content-length", "transfer-encoding", "connection", "keep-alive", "x-request-id"}
)
# Every answer has them: they are recorded as one.
_PRIVATE = {
    "cache-control": "no-store",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}


@dataclass(frozen=True)
class Rest:
    """A client whose exchanges are taken down."""

    http: httpx.AsyncClient
    exchanges: Exchanges

    async def ask(self, method: str, path: str, *, told: str = "", **sent: Any) -> httpx.Response:
        """Send a request; take it and its answer down, told in other words where it holds a forged value."""
        response = await self.http.request(method, path, **sent)
        if told:
            self.exchanges.add(f"{method} {told}", answer_of(response))
            return response
        shown = {name: value for name, value in sent.items() if name in {"json", "headers"}}
        if "content" in sent:
            shown["content"] = repr(sent["content"])[:80]
        asked = f"{method} {path}{' ' + json.dumps(shown) if shown else ''}"
        self.exchanges.add(asked, answer_of(response))
        return response

    async def all(self, path: str, lines: str, **sent: Any) -> None:
        """Ask one request after the other; a line has a method, what follows `path`, and the JSON of a body.

        {id} stands for nothing: what is asked is always below `path`.
        """
        for line in lines.strip().splitlines():
            method, _, rest = line.strip().partition(" ")
            below, _, body = rest.partition(" ")
            below = "" if below == "-" else below
            content = {"json": json.loads(body)} if body else {}
            await self.ask(method, f"{path}{below}", **content, **sent)


def answer_of(response: httpx.Response) -> dict[str, Any]:
    """Status, headers and body, the body as what it holds."""
    headers = {name: value for name, value in response.headers.items() if name not in _OF_THE_CONNECTION}
    if headers.items() >= _PRIVATE.items():
        headers = {name: value for name, value in headers.items() if name not in _PRIVATE} | {
            "private": "yes"
        }
    return {"status": response.status_code, "headers": headers, "body": body_of(response)}


def body_of(response: httpx.Response) -> Any:
    """A body by its media type: JSON as JSON, tables as schema and rows, pictures by their first bytes."""
    media_type, content = response.headers.get("content-type", "").partition(";")[0], response.content
    if not content:
        return None
    if media_type == "application/json" or media_type.endswith("+json"):
        return json.loads(content)
    if media_type == "application/vnd.apache.arrow.stream":
        return table_of(pa.ipc.open_stream(content).read_all())
    if media_type == "application/vnd.apache.parquet":
        return table_of(parquet.read_table(io.BytesIO(content)))
    if media_type.endswith("spreadsheetml.sheet"):
        return [[str(cell) for cell in row] for row in load_workbook(io.BytesIO(content))["Rows"].values]
    if media_type.startswith("image/"):
        return {"begins": content[:8].hex()}
    if response.headers.get("content-encoding") == "zstd":  # which httpx leaves as it is
        return {"begins": content[:4].hex()}
    return content.decode()


def table_of(table: pa.Table) -> Mapping[str, Any]:
    """A table as its schema, the metadata of its fields included, and its rows."""
    fields = [
        {
            "name": field.name,
            "type": str(field.type),
            "metadata": {k.decode(): v.decode() for k, v in (field.metadata or {}).items()},
        }
        for field in table.schema
    ]
    return {"fields": fields, "rows": table.to_pylist()}


def error_of(error: Any) -> dict[str, Any]:
    """An error of the library as what it says."""
    return {
        "type": type(error).__name__,
        "code": getattr(error, "code", None),
        "message": getattr(error, "message", str(error)),
        "hint": getattr(error, "hint", None),
        "details": getattr(error, "details", None),
    }
