"""The access check: load a resource, verify its signature, check the caller's rights, write the audit."""

from __future__ import annotations

import asyncio
import logging
import secrets as randomness
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import lru_cache
from inspect import isawaitable
from operator import attrgetter
from typing import TYPE_CHECKING, Literal, Protocol, Unpack, get_args

from starlette.exceptions import HTTPException
from starlette.requests import Request

from dualsql.databases.slots import CALLER, caller_of
from dualsql.errors import (
    ConfigurationError,
    DualResponseError,
    ForbiddenError,
    ResourceExpiredError,
    ResourceNotFoundError,
    TamperedError,
)
from dualsql.events import EVENTS, CallerRefused, ResultStored
from dualsql.freeze import Seal
from dualsql.log import REQUEST
from dualsql.resource import Clock, Principal, Resource, calls_in
from dualsql.settings import Action, LimitedAction, Settings
from dualsql.store import MemoryStore
from dualsql.store.housekeeping import AccessLog
from dualsql.store.protocol import Requester, ResourceChanges, ResourceStore
from dualsql.store.rows import MAXIMUM_ID_LENGTH, size_of

if TYPE_CHECKING:
    from dualsql.results.audit import Audit, AuditAction, AuditDetails

Authenticate = Callable[[Request], Awaitable[Principal | None]]
"""Returns the principal of an HTTP request; None for an anonymous caller.

Raises UnauthenticatedError, or Starlette's HTTPException(401), for a wrong credential.
"""

Authorize = Callable[[Principal | None, Resource, Action], Awaitable[bool]]
"""Called after the check that the resource belongs to the principal: it can only deny."""


RequireRate = Callable[[LimitedAction, Principal | None, str | None, str | None], None]
"""Counts what a principal does, by its address and its link if these are known; raises RateLimitedError."""


class LinkOpener(Protocol):
    """Opens results by links that requests carry."""

    def query_of(self, request: Request) -> bytes:
        """The query string of a request, without a link."""

    async def open(
        self, request: Request, resource_id: str, *, format_name: str, takes: bool
    ) -> tuple[Principal | None, Resource] | None:
        """In whose name the link of a request reads, and the resource; None if the caller's own right decides.

        Rows will be read in that format if `takes` is true.
        """


Reason = Literal["unknown", "foreign", "denied", "gone", "expired", "not anonymously"]
"""With a viewer, the store finds no resource of others and none that expired long ago: all count as unknown."""


def not_found() -> ResourceNotFoundError:
    """The one answer for every resource that a caller may not see."""
    return ResourceNotFoundError("There is no such resource.")


logger = logging.getLogger(__name__)


def seal_for(store: ResourceStore, secrets: Sequence[str]) -> Seal:
    """The seal made of `secrets`, which a store that outlives the process requires; else a random one."""
    if secrets:
        return Seal(secrets)
    if isinstance(store, MemoryStore):
        return Seal([randomness.token_urlsafe(32)])
    raise ConfigurationError(
        f"{type(store).__name__} requires secrets=[...]: stored resources are signed.",
        hint='Create one with: python -c "import secrets; print(secrets.token_urlsafe(32))"',
    )


def sign(seal: Seal, resource: Resource) -> Resource:
    """The resource with its signature. The signature does not cover what updates change, such as expiry and counts."""
    return replace(resource, signature=seal.sign(*_signed_parts(resource)))


def require_signature(seal: Seal, resource: Resource) -> None:
    """Log and raise TamperedError if the row was changed, swapped or written by anyone else."""
    if not seal.verify(resource.signature, *_signed_parts(resource)):
        # Not the whole id: it would give readers of the log access to the rows.
        logger.error(
            "The stored resource %s... does not carry a valid signature: it was changed, or another secret signed it. "
            "All servers on one store need the same secrets. To rotate: first secrets=[old, new] on every server, then "
            "secrets=[new, old]; remove the old one after maximum_lifetime.",
            resource.id[:6],
        )
        raise TamperedError("The signature of the stored resource is not valid.")


_SIGNED = attrgetter("document", "id", "owner", "tenant", "source")


def _signed_parts(resource: Resource) -> tuple[str | bytes | None, ...]:
    return (*_SIGNED(resource), _isoformat(resource.created_at))


_isoformat = lru_cache(256)(lambda instant: instant.astimezone(UTC).isoformat())  # equal instants share it


_LONGEST_TURN = 0.001
"""Seconds that tasks may work before the others run."""


@dataclass(eq=False, repr=False)
class AccessControl:
    """Stores and loads resources, with their checks.

    Attributes:
        clock: the time by which resources expire.
        log: of accesses.
        authenticate, authorize, audit: as they were given to the server.
        links: opens resources by links; None without such a feature.
        require_rate: counts what a caller does; None without such a feature.
    """

    store: ResourceStore
    seal: Seal
    settings: Settings
    log: AccessLog
    clock: Clock
    authenticate: Authenticate | None = None
    authorize: Authorize | None = None
    audit: Audit | None = None
    links: LinkOpener | None = None
    require_rate: RequireRate | None = None
    _passed_at: float = 0.0

    async def identify(self, request: Request) -> Principal | None:
        """The principal that sent the request; None for an anonymous caller.

        Raises:
            UnauthenticatedError: the credential is not valid. Other errors of `authenticate` are passed on.
            ConfigurationError: `authenticate` is no async function that returns a Principal or None.
        """
        if self.authenticate is None:
            return None
        try:
            answer: object = self.authenticate(request)
            principal = await answer if isawaitable(answer) else answer
        except (DualResponseError, HTTPException) as error:
            EVENTS.report(CallerRefused("not authenticated"))
            code = getattr(error, "code", "HTTP_REFUSAL")
            await self.note("refuse", None, code=code, reason="not authenticated")
            raise
        if not isawaitable(answer) or not isinstance(principal, Principal | None):
            raise ConfigurationError(
                f"authenticate returned a {type(principal).__name__}, or is not async.",
                hint="Define it as: async def authenticate(request: Request) -> Principal | None",
            )
        if (record := REQUEST.get()) is not None:
            record.principal = principal
        return principal

    def admit(self, action: LimitedAction, principal: Principal | None) -> None:
        """Count a request of the caller that will run a query, and note whose slots the query takes.

        Raises:
            RateLimitedError: the principal or the link, or the address that the request came from, has sent too many.
        """
        record = REQUEST.get()
        address, link_id = (None, None) if record is None else (record.address, record.link_id)
        if self.require_rate is not None:
            self.require_rate(action, principal, address, link_id)
        CALLER.set(caller_of(principal, address, link_id, is_reading=action == "ask"))

    async def load(self, resource_id: str, viewer: Requester | None = None) -> Resource | None:
        """Load a resource, expired or not; see `ResourceStore.get`. Raises TamperedError for a row of others."""
        await self._let_others_run()
        if (resource := await self.store.get(resource_id, viewer)) is None:
            return None
        require_signature(self.seal, resource)
        return resource if resource.status == "ready" else resource.seen_at(self.clock.now())

    async def _let_others_run(self) -> None:
        """Let the other tasks of the event loop run once, if they could not for some time.

        What is read from memory, or quickly from SQLite, is not waited for: a task that does nothing but read would
        keep all others from running, also those that a thread has answered.
        """
        if (now := time.monotonic()) - self._passed_at > _LONGEST_TURN:
            self._passed_at = now  # one task lets all others run
            await asyncio.sleep(0)
            self._passed_at = time.monotonic()

    def viewer(self, principal: Principal | None) -> Requester:
        """`principal` as a viewer at this time, in whole seconds: what has expired since is refused by `decide`."""
        return Requester(principal, self.clock.now().replace(microsecond=0) - self.settings.gone_retention)

    async def open(self, resource_id: str, principal: Principal | None, action: Action) -> Resource:
        """See `ResultServer.open_resource`."""
        if (record := REQUEST.get()) is not None:
            record.resource_id = resource_id  # for what is logged meanwhile
        resource = await self.load(resource_id, self.viewer(principal))
        refusal = await self.decide(resource, principal, action)
        if refusal is not None:
            error, reason = refusal
            EVENTS.report(CallerRefused(reason))
            shown_id = resource_id[:MAXIMUM_ID_LENGTH]  # whatever was asked for
            await self.note("refuse", principal, resource_id=shown_id, code=error.code, reason=reason)
            raise error
        assert resource is not None  # or it would have been refused
        return resource

    async def decide(
        self, resource: Resource | None, principal: Principal | None, action: Action
    ) -> tuple[DualResponseError, Reason] | None:
        """The error if `principal` may not do `action` with the resource, and its reason, which only the audit gets.

        A principal without the right to read gets RESOURCE_NOT_FOUND for every action. A principal that may read but
        not pin or delete gets FORBIDDEN: it knows already that the resource exists.
        """
        settings, authorize = self.settings, self.authorize
        if resource is None:
            return (not_found(), "unknown")
        owner = (resource.owner, resource.tenant)
        if resource.owner is None:
            is_bound = "read" in settings.anonymous_actions
        else:
            is_bound = principal is not None and (principal.id, principal.tenant) == owner
        if not is_bound:
            return (not_found(), "foreign")
        if authorize is not None and not await authorize(principal, resource, "read"):
            return (not_found(), "denied")
        # After the rights: others must not learn that there was a result.
        if resource.expires_at is not None and resource.expires_at <= (now := self.clock.now()):
            if now - resource.expires_at > settings.gone_retention:
                return (not_found(), "gone")
            expired = ResourceExpiredError("The resource has expired.", details={"id": resource.id})
            expired.tool_calls = calls_in(resource.metadata)
            return (expired, "expired")
        if resource.owner is None and action not in settings.anonymous_actions:
            allowed = [each for each in get_args(Action) if each in settings.anonymous_actions]
            error = ForbiddenError(
                f"Nobody may {action} this resource, which belongs to no principal.",
                hint=f"Allowed: {', '.join(allowed)}. The operator can allow more with anonymous_actions.",
                details={"allowed": allowed},
            )
            return (error, "not anonymously")
        if action != "read" and authorize is not None and not await authorize(principal, resource, action):
            return (ForbiddenError(f"You may not {action} this resource."), "denied")
        return None

    async def note(
        self,
        action: AuditAction,
        principal: Principal | None,
        *,
        resource: Resource | None = None,
        resource_id: str | None = None,
        rows: int | None = None,
        **details: Unpack[AuditDetails],
    ) -> None:
        """Record an action in the audit, and in the log's record of the request.

        Raises:
            StorageError: the audit sink failed.
        """
        resource_id = resource_id if resource is None else resource.id
        if (record := REQUEST.get()) is not None:
            record.principal = principal or record.principal
            record.resource_id = resource_id or record.resource_id
            record.rows = record.rows if rows is None else rows
        if self.audit is not None:
            from dualsql.results.audit import AuditEvent, pass_on

            event = AuditEvent(
                action=action,
                principal=principal,
                resource_id=resource_id,
                source=resource.source if resource else None,
                rows=rows,
                request_id=None if record is None else record.id,
                **details,
            )
            await pass_on(event, self.audit)

    async def note_access(self, resource: Resource) -> datetime | None:
        """Count an access; with sliding expiration, extend the lifetime. Returns when the resource expires."""
        await self._let_others_run()
        now = self.clock.now()
        self.log.note(resource.id, now)
        if resource.expires_at is None or not self.settings.sliding_expiration:
            return resource.expires_at
        latest = resource.created_at + self.settings.maximum_lifetime
        extended = max(resource.expires_at, min(now + resource.lifetime, latest))
        await self.store.update(resource.id, ResourceChanges(extend_to=extended, now=now))
        return extended

    async def keep(self, resource: Resource, principal: Principal | None, *, rows: int) -> None:
        """Sign and store a new resource within its principal's quota.

        Raises:
            LimitExceededError: the quota is full of pinned resources.
            StorageError: the resource could not be stored.
        """
        signed = sign(self.seal, resource)
        quota_is_set = self.settings.quota_resources is not None or self.settings.quota_bytes is not None
        if principal is not None and quota_is_set:
            usage, size = await self.store.usage(principal, now=resource.created_at), size_of(signed)
            if self.exceeds_quota(usage.count + 1, usage.size + size):
                from dualsql.results.quotas import make_room

                await make_room(self, principal, usage, size, now=resource.created_at)
        await self.note("create", principal, resource=signed, rows=rows)
        await self.store.save(signed)
        if EVENTS.listener is not None:
            EVENTS.report(ResultStored(size_of(signed)))

    def exceeds_quota(self, count: int, size: int) -> bool:
        """Whether so many resources, of so many bytes in all, are more than a quota."""
        resources, octets = self.settings.quota_resources, self.settings.quota_bytes
        return (resources is not None and count > resources) or (octets is not None and size > octets)
