"""Decide who may do what with a resource; the rule: a stranger learns no more than that nothing is there."""

from __future__ import annotations

from datetime import datetime, timedelta

from dualsql.errors import ForbiddenError, ResourceExpiredError, ResourceNotFoundError
from dualsql.resource import Principal, Resource
from dualsql.settings import Action, Settings


def require_access(
    resource: Resource | None, caller: Principal | None, action: Action, *, now: datetime, settings: Settings
) -> Resource:
    """The resource, if it lives and `caller` may do `action` with it.

    Raises:
        ResourceNotFoundError: unknown, long expired, or bound to someone else: one answer for all three.
        ResourceExpiredError: it expired a short while ago, and the caller might have read it.
        ForbiddenError: the bearer of a link may read this resource, and not do this with it.
    """
    if resource is None or not _may_read(resource, caller, settings):
        raise not_found()
    if resource.is_expired(now):
        raise _expired(resource, now, settings.gone_retention)
    if resource.owner is None and action not in settings.anonymous_actions:
        raise ForbiddenError(
            f"This resource may not be {_PAST[action]} by whoever holds its link.",
            hint="The operator decides this with anonymous_actions.",
        )
    return resource


def not_found() -> ResourceNotFoundError:
    """The one answer for all that a caller cannot see."""
    return ResourceNotFoundError("There is no such resource.")


_PAST: dict[Action, str] = {"read": "read", "pin": "pinned", "delete": "deleted"}


def _may_read(resource: Resource, caller: Principal | None, settings: Settings) -> bool:
    if resource.owner is None:
        return "read" in settings.anonymous_actions
    return caller is not None and (caller.id, caller.tenant) == (resource.owner, resource.tenant)


def _expired(resource: Resource, now: datetime, retention: timedelta) -> Exception:
    assert resource.expires_at is not None
    if now - resource.expires_at > retention:
        return not_found()
    return ResourceExpiredError("The resource has expired.", details={"id": resource.id})
