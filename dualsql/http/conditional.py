"""Conditional requests: entity tags of metadata, and the answer 304."""

from __future__ import annotations

import re
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from starlette.datastructures import Headers
from starlette.responses import Response

from dualsql.formats import json
from dualsql_client.wire import ResourceDescription

_TAG = re.compile(r'(?:W/)?("[\x21\x23-\x7e\x80-\xff]*")')
_COUNTED = ("access_count", "last_accessed_at")


def metadata_etag(metadata: ResourceDescription) -> str:
    """A weak ETag of a resource's metadata, without its access count, which each request would change."""
    uncounted: Mapping[str, Any] = {key: value for key, value in metadata.items() if key not in _COUNTED}
    return f'W/"{sha256(json.dumps(uncounted)).hexdigest()[:32]}"'


def is_current(headers: Headers, etag: str) -> bool:
    """Whether If-None-Match contains this tag, by weak comparison."""
    tags = ",".join(headers.getlist("if-none-match"))
    return tags.strip() == "*" or etag.removeprefix("W/") in _TAG.findall(tags)


def not_modified(etag: str, *, vary: str | None = None) -> Response:
    """The answer 304: the caller's copy is current."""
    return Response(status_code=304, headers={"ETag": etag} | ({"Vary": vary} if vary else {}))
