"""Lists the resources of one principal."""

from __future__ import annotations

import logging
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence
from dataclasses import dataclass

from dualsql.errors import BadParameterError, ResourceNotFoundError, TamperedError, UnauthenticatedError
from dualsql.freeze import Seal
from dualsql.resource import LONGEST_LISTING, Principal, Resource, within
from dualsql.results.access import AccessControl, require_signature
from dualsql.store.protocol import ListingPosition
from dualsql.store.rows import in_utc, is_storable_id
from dualsql_client import conversions

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Listing:
    """Some of a principal's resources, newest first, and the cursor of the next ones (None at the end).

    Attributes:
        unreadable: how many of the principal's rows between them cannot be read; the server's log names them.
    """

    resources: Sequence[Resource]
    next_cursor: str | None
    unreadable: int = 0


async def list_resources(
    access: AccessControl, principal: Principal | None, *, limit: int | None, cursor: str | None
) -> Listing:
    """The principal's own live resources.

    Raises:
        UnauthenticatedError: the caller is anonymous.
        BadParameterError: the limit is out of range, or the cursor was not made by this server.
    """
    limit = LONGEST_LISTING if limit is None else within("limit", limit, 1, LONGEST_LISTING)
    if principal is None:
        if access.authenticate is None:  # nobody can ever have any
            raise ResourceNotFoundError(
                "There is no list of results: this server does not know its callers.",
                hint="Open a result at the link in its tool result.",
                developer_hint="DualResponseServer(authenticate=...) tells who calls.",
            )
        raise UnauthenticatedError("Listing resources requires a principal.")
    after = None if cursor is None else _read_cursor(cursor)
    page = await access.store.find(principal, now=access.clock.now(), limit=limit, after=after)
    now, authorize = access.clock.now(), access.authorize
    ours = [resource for resource in page.resources if _is_ours(access.seal, resource)]
    shown = [
        resource.seen_at(now)
        for resource in ours
        if authorize is None or await authorize(principal, resource, "read")
    ]
    if page.unreadable:
        named = ", ".join(each[:6] for each in page.unreadable)
        logger.error("Rows of a listing cannot be read: %s.", named)
    await access.note("list", principal, rows=len(shown))
    return Listing(
        shown,
        None if page.next is None else _write_cursor(page.next),
        len(page.unreadable) + len(page.resources) - len(ours),
    )


def _is_ours(seal: Seal, resource: Resource) -> bool:
    """Whether its signature is valid; if not, the log names it."""
    try:
        require_signature(seal, resource)
    except TamperedError:
        return False
    return True


def _write_cursor(last: ListingPosition) -> str:
    return urlsafe_b64encode(f"{last.created_at.isoformat()} {last.id}".encode()).decode()


def _read_cursor(cursor: str) -> ListingPosition:
    try:
        if len(cursor) > conversions.LONGEST:
            raise ValueError
        instant, _, resource_id = urlsafe_b64decode(cursor.encode("ascii")).decode().partition(" ")
        created_at = in_utc(conversions.instant(instant))
        is_ours = is_storable_id(resource_id)
    except (ValueError, OverflowError):
        is_ours = False
    if not is_ours:
        raise BadParameterError("The cursor is not from this server.", hint="Start without a cursor.")
    return ListingPosition(created_at, resource_id)
