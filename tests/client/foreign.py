"""Results of REST services, links of other MCP servers, and messages of chats, none of which is a dual response.

They have the shape of what the services answer, or of what a chat holds; the values are invented."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.client.cases import filled
from tests.client.hosting import RESOURCE_ID
from tests.client.ordinary import UUID, both

_SCHEMES = (
    "https://api.example.com/resources/",
    "http://127.0.0.1:9/resources/",
    "file:///srv/",
    "s3://results/",
    "git://",
    "repo://octo/cat/",
    "notion://page/",
    "linear://issue/",
    "figma://file/",
    "gdrive:///",
    "slack://channel/",
    "postgres://host/db/",
    "bigquery://p/d/",
    "k8s://ns/pods/",
    "memory://",
    "dualsql://results/",
    "resource://",
    "resource://results/",
    "rows://",
    "dataset://",
    "ui://widget/",
    "docs://",
    "config://",
    "screenshot://",
    "wiki://",
)

LINKS: dict[str, Any] = {
    f"{scheme}{kind}": {
        "content": [
            {"type": "resource_link", "uri": f"{scheme}{name}", "name": "A", "mimeType": "application/json"}
        ]
    }
    for scheme in _SCHEMES
    for kind, name in (("UUID", UUID), ("word", filled("$WORD")))
}
"""Links of other MCP servers."""

_ALMOST = {"results": [{"id": 1}], "metadata": {"total_count": 1, "columns": []}}
_RESOURCES: tuple[Any, ...] = (
    {"uri": "https://api.example.com/resources/1"},
    {"url": "https://api.example.com/resources/1"},
    {"uri": f"https://api.example.com/resources/{RESOURCE_ID}"},
    {"url": f"http://10.0.0.1/resources/{RESOURCE_ID}"},
    {"uri": "docs://guide", "url": "https://docs.example.com/guide"},
    {"uri": f"dualsql://results/{UUID}"},
    {"uri": "file:///srv/a.json"},
    {"id": UUID, "type": "order"},
    {"name": "orders"},
    {},
    [],
    "orders",
    7,
    {"uri": "resource://a/../b"},
    {"uri": "resource://"},
    {"uri": 7},
    {"href": "/resources/1"},
)
ALMOST: dict[str, Any] = {
    f"resource is {json.dumps(resource)[:60]}": both({**_ALMOST, "resource": resource})
    for resource in _RESOURCES
}
"""Results with metadata and a resource, which is not theirs."""

_WRITTEN = json.loads((Path(__file__).parent / "foreign.json").read_text("utf-8").replace("$UUID", UUID))
SERVICES: dict[str, Any] = filled(_WRITTEN["services"])
CHATS: dict[str, Any] = filled(_WRITTEN["chats"])
"""Messages of chats quote a true link, or pass it to a tool."""

RESULTS: dict[str, Any] = {
    **SERVICES,
    **{f"{name}: tool": both(value) for name, value in SERVICES.items() if isinstance(value, dict)},
    **LINKS,
    **ALMOST,
    **CHATS,
}
