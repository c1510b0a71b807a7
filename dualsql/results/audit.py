"""Records every action and its principal, without row values and secrets.

The sink gets an event before the action takes effect or its rows are sent. If the sink fails, the request fails. So
there can be an event for an action that failed afterwards, but no action without an event. Loaded where a server has
a sink.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from inspect import isawaitable
from typing import Literal, TypedDict

from dualsql.errors import StorageError
from dualsql.log import log_failure
from dualsql.resource import Principal

_log = logging.getLogger(__name__)

AuditAction = Literal[
    "create",
    "describe",  # what the resource is, without its rows
    "read",  # rows
    "profile",  # statistics of its columns
    "stream",  # before rows are sent; a "read" with their number follows at the end
    "pin",
    "unpin",
    "refresh",  # the rows of a kept result are read again
    "delete",
    "cancel",  # the query of a pending one
    "list",
    "evict",  # deleted to make room for the principal's next one
    "link",  # a signed link was made
    "follow",  # ... and used
    "revoke",  # ... and ended
    "refuse",
]
"""What was done, or refused: to a resource, or to a link that reads one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEvent:
    """One action.

    Attributes:
        principal: None for an anonymous caller, and for the server's own code.
        resource_id: the resource; for a refusal, the requested id. The id gives access to a resource without a
            principal, so treat the audit as secret.
        source: the database of its rows, if known.
        rows: how many rows, or resources of a listing, were sent.
        is_complete: of a stream: all requested rows were sent.
        code, reason: of a refusal: the error's code, and the reason that its caller does not see ("unknown",
            "denied", ...). A foreign id is "unknown" here too: a check would take time that the caller could measure.
        link_id: the name of a signed link; it gives no access.
        request_id: the id of the HTTP request or tool call, as the log and the answer's X-Request-Id have it.
    """

    action: AuditAction
    principal: Principal | None
    resource_id: str | None = None
    source: str | None = None
    rows: int | None = None
    is_complete: bool | None = None
    code: str | None = None
    reason: str | None = None
    link_id: str | None = None
    request_id: str | None = None
    at: datetime = field(default_factory=lambda: datetime.now(UTC))


class AuditDetails(TypedDict, total=False):
    """What only some events have."""

    is_complete: bool
    code: str | None
    reason: str
    link_id: str | None


Audit = Callable[[AuditEvent], Awaitable[None] | None]
"""Receives every event. The events of one request are in order."""


async def pass_on(event: AuditEvent, audit: Audit) -> None:
    """Give an event to the sink; raises StorageError, which is logged, if the sink fails."""
    try:
        pending = audit(event)
        if isawaitable(pending):
            await pending
    except Exception as error:
        failure = StorageError("The request could not be recorded.")
        failure.__cause__ = error
        log_failure(_log, failure, f"the audit sink, on {event.action}")
        raise failure from error
