"""A resource: a stored Select with a name and a lifetime; the rule: it is data, it holds no connection.

Lifecycle: pending -> ready or failed -> expired -> deleted; a pinned resource never expires. Most are born ready.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, Self

from dualsql.errors import DualResponseError, QueryInterruptedError, ResourceFailedError, ResourcePendingError
from dualsql_client.wire import Column, Row, ToolProblem, TotalCountKind

Status = Literal["pending", "ready", "failed"]
"""Whether the query of a resource still runs, has run, or could not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """Who asks. `id` names the person or service, `tenant` the customer they belong to.

    Both are compared character by character. Raises ValueError for what could be taken for nobody.
    """

    id: str
    tenant: str | None = None

    def __post_init__(self) -> None:
        _check_name(self.id)
        if self.tenant is not None:
            _check_name(self.tenant)


# Both stand in an index, whose entries PostgreSQL bounds at 2,704 bytes.
_LONGEST_NAME = 1_000


def _check_name(name: object) -> None:
    # An id of None, out of a token without a subject, would make resources that belong to everybody.
    if not isinstance(name, str) or not name or "\x00" in name:
        raise ValueError("a principal's id and tenant are texts with at least one character and no NUL")
    if len(name.encode()) > _LONGEST_NAME:
        raise ValueError(f"a principal's id or tenant is longer than {_LONGEST_NAME} bytes")


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """One stored result.

    Attributes:
        document: the frozen Select (see `dualsql.freeze`), bytes.
        signature: MAC over document, id, owner, tenant, source and created_at.
        owner, tenant: the principal it is bound to; None for anyone who holds the link.
        total_count, total_count_kind: rows of the result, and what the number is worth.
        lifetime: how long it lives after its creation, or after an access when sliding.
        expires_at: None once pinned. All instants are aware and UTC.
        sample: rows kept at rest, only with `keep_sample`.
        pending_until: while pending, when whoever runs the query is given up, unless it says again that it is there.
        failure: of a failed one, what it failed with.
    """

    id: str
    name: str
    source: str
    document: bytes
    signature: bytes
    columns: Sequence[Column]
    total_count: int | None
    total_count_kind: TotalCountKind
    created_at: datetime
    expires_at: datetime | None
    lifetime: timedelta
    owner: str | None = None
    tenant: str | None = None
    sample: Sequence[Row] | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    access_count: int = 0
    last_accessed_at: datetime | None = None
    status: Status = "ready"
    pending_until: datetime | None = None
    failure: ToolProblem | None = None

    def is_expired(self, now: datetime) -> bool:
        """Whether its lifetime was over at `now`."""
        return self.expires_at is not None and self.expires_at <= now

    @property
    def is_pinned(self) -> bool:
        """Whether it lives until it is deleted."""
        return self.expires_at is None

    def seen_at(self, now: datetime) -> Self:
        """The resource at `now`: a pending one has failed once nothing is heard of its query any more."""
        if self.status != "pending" or (self.pending_until is not None and now < self.pending_until):
            return self
        return replace(self, status="failed", failure=INTERRUPTED)

    def require_ready(self) -> None:
        """Raises ResourcePendingError or ResourceFailedError for a resource without rows."""
        if self.status == "pending":
            raise ResourcePendingError("The query of this resource still runs.")
        if self.status == "failed":
            failure = self.failure or INTERRUPTED
            raise ResourceFailedError(
                f"The query of this resource failed: {failure['message']}",
                hint=failure["hint"],
                details={"error": dict(failure)},
            )


def problem_of(error: DualResponseError) -> ToolProblem:
    """An error as it is kept with the resource whose query failed."""
    message, hint = error.told
    return ToolProblem(code=error.code, message=message, hint=hint, details=dict(error.details))


INTERRUPTED = problem_of(QueryInterruptedError("The server that ran the query stopped."))
"""What a resource fails with whose query nobody runs any more."""


def new_resource_id() -> str:
    """A fresh identifier: 160 random bits, safe in a URL (MCP asks for at least UUIDv4's 122)."""
    return secrets.token_urlsafe(20)


def new_resource(
    *,
    name: str,
    source: str,
    document: bytes,
    columns: Sequence[Column],
    total_count: int | None,
    total_count_kind: TotalCountKind,
    lifetime: timedelta,
    principal: Principal | None,
    metadata: Mapping[str, Any],
) -> Resource:
    """A resource that begins to live now, not signed yet."""
    now = datetime.now(UTC)
    return Resource(
        id=new_resource_id(),
        name=name,
        source=source,
        document=document,
        signature=b"",
        columns=columns,
        total_count=total_count,
        total_count_kind=total_count_kind,
        created_at=now,
        expires_at=now + lifetime,
        lifetime=lifetime,
        owner=principal.id if principal else None,
        tenant=principal.tenant if principal else None,
        metadata=metadata,
    )
