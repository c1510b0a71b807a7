"""Conditional requests (RFC 9110, section 13); the rule: a tag is compared, never understood."""

from __future__ import annotations

import re
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from starlette.datastructures import Headers
from starlette.responses import Response

from dualsql.formats import json
from dualsql_client.wire import ResourceMetadata

_TAG = re.compile(r'(?:W/)?("[\x21\x23-\x7e\x80-\xff]*")')
_COUNTED = ("access_count", "last_accessed_at")


def metadata_etag(metadata: ResourceMetadata) -> str:
    """A weak tag of all that is said of a resource, but how often it was read: asking would change that."""
    said: Mapping[str, Any] = {key: value for key, value in metadata.items() if key not in _COUNTED}
    return f'W/"{sha256(json.dumps(said)).hexdigest()[:32]}"'


def is_known(headers: Headers, etag: str) -> bool:
    """Whether If-None-Match names this tag, as weak tags are compared."""
    given = ",".join(headers.getlist("if-none-match"))
    return given.strip() == "*" or etag.removeprefix("W/") in _TAG.findall(given)


def not_modified(etag: str, *, vary: str | None = None) -> Response:
    """304: the caller has it already."""
    return Response(status_code=304, headers={"ETag": etag} | ({"Vary": vary} if vary else {}))
