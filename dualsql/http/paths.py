"""The id in a path; the rule: what cannot be an id goes the way of an unknown one."""

from __future__ import annotations

import re

from starlette.requests import Request

_PLAUSIBLE = re.compile(r"[A-Za-z0-9_.~-]{1,64}", re.ASCII)
# No resource has this id, yet the store is asked for it.
_NO_RESOURCE = "-" * 27


def resource_id_of(request: Request) -> str:
    """The id of the resource that a request is addressed to."""
    resource_id: str = request.path_params["resource_id"]
    return resource_id if _PLAUSIBLE.fullmatch(resource_id) else _NO_RESOURCE
