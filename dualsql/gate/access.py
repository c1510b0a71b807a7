"""Decide who may do what with a resource; the rule: a stranger learns no more than that nothing is there.

The order is the promise: bound to the principal, then `authorize`, then alive, then the deed itself. Whoever fails
the first two, or comes long after the end, gets the answer of an unknown id.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Literal, NamedTuple

from dualsql.errors import DualResponseError, ForbiddenError, ResourceExpiredError, ResourceNotFoundError
from dualsql.resource import Principal, Resource
from dualsql.settings import Action, Settings

Authorize = Callable[[Principal | None, Resource, Action], Awaitable[bool]]
"""Asked after the resource is found to be the principal's own: it can deny, and never grant."""

Reason = Literal["unknown", "foreign", "denied", "gone", "expired", "not anonymously"]
"""A store that looks for a viewer finds nothing foreign and nothing long gone: it is all unknown then."""


class Refusal(NamedTuple):
    """What the caller is told, and what only the audit may know."""

    error: DualResponseError
    reason: Reason


async def decide(
    resource: Resource | None,
    principal: Principal | None,
    action: Action,
    *,
    now: datetime,
    settings: Settings,
    authorize: Authorize | None = None,
) -> Refusal | None:
    """Why `principal` may not do `action` with the resource, if it may not.

    A principal that may not even read gets RESOURCE_NOT_FOUND for every action; one that may read, and not pin or
    delete, gets FORBIDDEN: it knows already that the resource is there.
    """
    if resource is None:
        return Refusal(not_found(), "unknown")
    if not _is_bound_to(resource, principal, settings):
        return Refusal(not_found(), "foreign")
    if authorize is not None and not await authorize(principal, resource, "read"):
        return Refusal(not_found(), "denied")
    if resource.is_expired(now):
        return _over(resource, now, settings)
    if resource.owner is None and action not in settings.anonymous_actions:
        return Refusal(_not_anonymously(action), "not anonymously")
    if action != "read" and authorize is not None and not await authorize(principal, resource, action):
        return Refusal(ForbiddenError(f"This resource may not be {_PAST[action]} by you."), "denied")
    return None


def not_found() -> ResourceNotFoundError:
    """The one answer for all that a caller cannot see."""
    return ResourceNotFoundError("There is no such resource.")


_PAST: dict[Action, str] = {"read": "read", "pin": "pinned", "delete": "deleted"}


def _is_bound_to(resource: Resource, principal: Principal | None, settings: Settings) -> bool:
    if resource.owner is None:
        return "read" in settings.anonymous_actions
    return principal is not None and (principal.id, principal.tenant) == (resource.owner, resource.tenant)


def _over(resource: Resource, now: datetime, settings: Settings) -> Refusal:
    assert resource.expires_at is not None
    if now - resource.expires_at > settings.gone_retention:
        return Refusal(not_found(), "gone")
    return Refusal(ResourceExpiredError("The resource has expired.", details={"id": resource.id}), "expired")


def _not_anonymously(action: Action) -> ForbiddenError:
    return ForbiddenError(
        f"This resource may not be {_PAST[action]} by whoever holds its link.",
        hint="Bind results to a principal; or the operator allows it with anonymous_actions.",
    )
