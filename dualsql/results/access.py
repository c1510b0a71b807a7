"""The access check: load a resource, verify its signature, check the caller's rights, write the audit."""

from __future__ import annotations

import asyncio
import logging
import secrets as randomness
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from inspect import isawaitable
from typing import Literal, NamedTuple, Protocol, get_args

from starlette.exceptions import HTTPException
from starlette.requests import Request

from dualsql.databases.slots import CALLER, caller_of, network_of
from dualsql.errors import (
    BadParameterError,
    ConfigurationError,
    DualResponseError,
    ForbiddenError,
    ResourceExpiredError,
    ResourceNotFoundError,
    TamperedError,
    UnauthenticatedError,
)
from dualsql.events import EVENTS, CallerRefused, ResultStored
from dualsql.freeze import Seal
from dualsql.log import REQUEST
from dualsql.resource import Clock, Principal, Resource, calls_in, parent_of
from dualsql.results.audit import Audit, AuditAction, AuditEvent, report
from dualsql.results.quotas import evict, find_surplus, require_pin
from dualsql.settings import Action, LimitedAction, Settings
from dualsql.store import MemoryStore
from dualsql.store.housekeeping import AccessLog
from dualsql.store.protocol import ListingPosition, Requester, ResourceChanges, ResourceStore
from dualsql.store.rows import MAXIMUM_ID_LENGTH, in_utc, is_storable_id, size_of

Authenticate = Callable[[Request], Awaitable[Principal | None]]
"""Returns the principal of an HTTP request; None for an anonymous caller.

Raises UnauthenticatedError, or Starlette's HTTPException(401), for a wrong credential.
"""

Authorize = Callable[[Principal | None, Resource, Action], Awaitable[bool]]
"""Called after the check that the resource belongs to the principal: it can only deny."""


class LinkOpener(Protocol):
    """Opens results by links that requests carry."""

    def query_of(self, request: Request) -> bytes:
        """The query string of a request, without a link."""

    async def open(
        self, request: Request, resource_id: str, *, wanted: str, takes: bool
    ) -> tuple[Principal | None, Resource] | None:
        """In whose name the link of a request reads, and the resource; None if the caller's own right decides.

        Args:
            wanted: the requested format.
            takes: rows will be read.
        """


class RateCaller(NamedTuple):
    """Whose requests are counted together.

    Attributes:
        principal: in whose name the caller reads.
        address: of the caller; None for a call without one.
        link_id: of the signed link that it reads by: a caller of its own, who uses up nothing of the principal's.
    """

    principal: Principal | None
    address: str | None = None
    link_id: str | None = None


Reason = Literal["unknown", "foreign", "denied", "gone", "expired", "not anonymously"]
"""With a viewer, the store finds no resource of others and none that expired long ago: all count as unknown."""


class AccessRefusal(NamedTuple):
    """A refusal: the error that the caller gets, and the reason that only the audit gets."""

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
) -> AccessRefusal | None:
    """The refusal if `principal` may not do `action` with the resource; None if it may.

    A principal without the right to read gets RESOURCE_NOT_FOUND for every action. A principal that may read but not
    pin or delete gets FORBIDDEN: it knows already that the resource exists.
    """
    if resource is None:
        return AccessRefusal(not_found(), "unknown")
    if not _is_bound_to(resource, principal, settings):
        return AccessRefusal(not_found(), "foreign")
    if authorize is not None and not await authorize(principal, resource, "read"):
        return AccessRefusal(not_found(), "denied")
    # After the rights: a stranger must not learn that there was a result.
    if resource.is_expired(now):
        return _over(resource, now, settings)
    if resource.owner is None and action not in settings.anonymous_actions:
        return AccessRefusal(_not_anonymously(action, settings), "not anonymously")
    if action != "read" and authorize is not None and not await authorize(principal, resource, action):
        return AccessRefusal(ForbiddenError(f"You may not {action} this resource."), "denied")
    return None


def not_found() -> ResourceNotFoundError:
    """The one answer for every resource that a caller may not see."""
    return ResourceNotFoundError("There is no such resource.")


def _is_bound_to(resource: Resource, principal: Principal | None, settings: Settings) -> bool:
    if resource.owner is None:
        return "read" in settings.anonymous_actions
    return principal is not None and (principal.id, principal.tenant) == (resource.owner, resource.tenant)


def _over(resource: Resource, now: datetime, settings: Settings) -> AccessRefusal:
    assert resource.expires_at is not None
    if now - resource.expires_at > settings.gone_retention:
        return AccessRefusal(not_found(), "gone")
    error = ResourceExpiredError("The resource has expired.", details={"id": resource.id})
    error.tool_calls = calls_in(resource.metadata)
    return AccessRefusal(error, "expired")


def _not_anonymously(action: Action, settings: Settings) -> ForbiddenError:
    allowed = [each for each in get_args(Action) if each in settings.anonymous_actions]
    return ForbiddenError(
        f"Nobody may {action} this resource, which belongs to no principal.",
        hint=f"Allowed: {', '.join(allowed)}. The operator can allow more with anonymous_actions.",
        details={"allowed": allowed},
    )


logger = logging.getLogger(__name__)


def seal_for(store: ResourceStore, secrets: Sequence[str]) -> Seal:
    """The seal made of `secrets`; a random one for a store that ends with the process.

    Raises:
        ConfigurationError: the store outlives the process and no secret was given.
    """
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


_NOT_OURS = (
    "The stored resource %s... does not carry a valid signature: it was changed, or another secret signed it. All "
    "servers on one store need the same secrets. To rotate: first secrets=[old, new] on every server, then "
    "secrets=[new, old]; remove the old one after maximum_lifetime."
)


def require_signature(seal: Seal, resource: Resource) -> None:
    """Log and raise TamperedError if the row was changed, swapped or written by anyone else."""
    if not seal.verify(resource.signature, *_signed_parts(resource)):
        # Not the whole id: it would give readers of the log access to the rows.
        logger.error(_NOT_OURS, resource.id[:6])
        raise TamperedError("The signature of the stored resource is not valid.")


def _signed_parts(resource: Resource) -> tuple[str | bytes | None, ...]:
    return (
        resource.document,
        resource.id,
        resource.owner,
        resource.tenant,
        resource.source,
        resource.created_at.isoformat(),
    )


@dataclass(frozen=True, slots=True)
class Listing:
    """Some of a principal's resources, newest first, and the cursor of the next ones (None at the end).

    Attributes:
        unreadable: how many of the principal's rows between them cannot be read; the server's log names them.
    """

    resources: Sequence[Resource]
    next_cursor: str | None
    unreadable: int = 0


_LONGEST_TURN = 0.001
"""Seconds that tasks may work before the others run."""


class _Checkpoint:
    """Lets the other tasks of the event loop run.

    What is read from memory, or quickly from SQLite, is not waited for: a task that does nothing but read would keep
    all others from running, also those that a thread has answered.
    """

    def __init__(self) -> None:
        self._passed_at = 0.0

    async def pass_through(self) -> None:
        """Let the others run once, if they could not for some time."""
        if time.monotonic() - self._passed_at > _LONGEST_TURN:
            await asyncio.sleep(0)
            self._passed_at = time.monotonic()


class AccessControl:
    """Stores and loads resources, with their checks.

    Attributes:
        clock: the time by which resources expire.
        links: opens resources by links; None without such a feature.
        require_rate: counts what a caller does, given as a `RateCaller`; None without such a feature.
    """

    def __init__(
        self,
        store: ResourceStore,
        seal: Seal,
        settings: Settings,
        accesses: AccessLog,
        clock: Clock,
        *,
        authenticate: Authenticate | None = None,
        authorize: Authorize | None = None,
        audit: Audit | None = None,
    ) -> None:
        self._store = store
        self._accesses = accesses
        self.clock = clock
        self._seal = seal
        self._settings = settings
        self._authenticate = authenticate
        self._authorize = authorize
        self._audit = audit
        self.links: LinkOpener | None = None
        self.require_rate: Callable[[LimitedAction, RateCaller], None] | None = None
        self._checkpoint = _Checkpoint()

    @property
    def is_authenticated(self) -> bool:
        """Whether there is an authenticator."""
        return self._authenticate is not None

    async def identify(self, request: Request) -> Principal | None:
        """The principal that sent the request; None for an anonymous caller.

        Raises:
            UnauthenticatedError: the credential is not valid. Other errors of `authenticate` are passed on.
            ConfigurationError: `authenticate` is no async function that returns a Principal or None.
        """
        if self._authenticate is None:
            return None
        try:
            answer: object = self._authenticate(request)
            principal = await answer if isawaitable(answer) else answer
        except (DualResponseError, HTTPException) as error:
            EVENTS.report(CallerRefused("not authenticated"))
            await self.note(
                "refuse", None, code=getattr(error, "code", "HTTP_REFUSAL"), reason="not authenticated"
            )
            raise
        if not isawaitable(answer) or not isinstance(principal, Principal | None):
            raise ConfigurationError(
                f"authenticate returned a {type(principal).__name__}, or is not async.",
                hint="Define it as: async def authenticate(request: Request) -> Principal | None",
            )
        record = REQUEST.get()
        if record is not None:
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
            self.require_rate(action, RateCaller(principal, address, link_id))
        CALLER.set(caller_of(principal, address, link_id, is_reading=action == "ask"))

    async def load(self, resource_id: str, viewer: Requester | None = None) -> Resource | None:
        """Load a resource, expired or not, and check its signature; see `ResourceStore.get`.

        Raises:
            TamperedError: the row was not written by this server.
        """
        await self._checkpoint.pass_through()
        resource = await self._store.get(resource_id, viewer)
        if resource is not None:
            require_signature(self._seal, resource)
        return None if resource is None else resource.seen_at(self.clock.now())

    def viewer(self, principal: Principal | None) -> Requester:
        """`principal` as a viewer at this time."""
        return Requester(principal=principal, since=self.clock.now() - self._settings.gone_retention)

    async def open(self, resource_id: str, principal: Principal | None, action: Action) -> Resource:
        """Load a live resource and check that `principal` may do `action` with it.

        Raises:
            ResourceNotFoundError, ResourceExpiredError, ForbiddenError: see `dualsql.results.access`.
            TamperedError: the stored row was not written by this server.
        """
        record = REQUEST.get()
        if record is not None:
            record.resource_id = resource_id  # for what is logged meanwhile
        resource = await self.load(resource_id, self.viewer(principal))
        refusal = await decide(
            resource,
            principal,
            action,
            now=self.clock.now(),
            settings=self._settings,
            authorize=self._authorize,
        )
        if refusal is not None:
            EVENTS.report(CallerRefused(refusal.reason))
            await self.note(
                "refuse",
                principal,
                resource_id=resource_id[:MAXIMUM_ID_LENGTH],  # whatever was asked for
                code=refusal.error.code,
                reason=refusal.reason,
            )
            raise refusal.error
        assert resource is not None  # or it would have been refused
        return resource

    async def admit_pin(
        self, resource: Resource, principal: Principal | None, address: str | None
    ) -> str | None:
        """Check that a caller may pin one more resource that belongs to nobody.

        Returns whose pin it is: the principal's, else its address's, else that of the link, of which the result is a
        refinement. None for a resource of a principal, whose quota counts it.

        Raises:
            LimitExceededError: its pins fill the quota.
        """
        if resource.owner is not None:
            return None
        if principal is not None:
            caller = ("principal", principal.id, principal.tenant)
        elif address is not None:
            caller = ("address", network_of(address), None)
        else:
            caller = ("link", parent_of(resource) or resource.id, None)
        # A MAC: the store need not know who calls from where.
        pinned_by = self._seal.sign("pinned by", *caller).hex()
        if not resource.is_pinned:
            await require_pin(self._store, pinned_by, size_of(resource), self._settings)
        return pinned_by

    async def pin(
        self, resource_id: str, principal: Principal | None, *, pinned_by: str | None = None
    ) -> bool:
        """Remove the expiry of a resource; False if it does not exist or has expired."""
        await self.note("pin", principal, resource_id=resource_id)
        changes = ResourceChanges(pin=True, pinned_by=pinned_by, now=self.clock.now())
        return await self._store.update(resource_id, changes)

    async def unpin(self, resource_id: str, principal: Principal | None) -> datetime | None:
        """Let a pinned resource expire one lifetime from now; others keep their expiry. None if it does not exist."""
        await self.note("unpin", principal, resource_id=resource_id)
        resource = await self._store.get(resource_id)
        if resource is None:
            return None
        changes = ResourceChanges(unpin_to=self.clock.now() + resource.lifetime)
        await self._store.update(resource_id, changes)
        unpinned = await self._store.get(resource_id)
        return unpinned.expires_at if unpinned else None

    async def note(
        self,
        action: AuditAction,
        principal: Principal | None,
        *,
        resource: Resource | None = None,
        resource_id: str | None = None,
        rows: int | None = None,
        is_complete: bool | None = None,
        code: str | None = None,
        reason: str | None = None,
        link_id: str | None = None,
    ) -> None:
        """Record an action in the audit, and in the log's record of the request.

        Raises:
            StorageError: the audit sink failed.
        """
        known_id = resource.id if resource else resource_id
        record = REQUEST.get()
        if record is not None:
            record.principal = principal or record.principal
            record.resource_id = known_id or record.resource_id
            record.rows = record.rows if rows is None else rows
        if self._audit is None:
            return
        event = AuditEvent(
            action=action,
            principal=principal,
            resource_id=known_id,
            source=resource.source if resource else None,
            rows=rows,
            is_complete=is_complete,
            code=code,
            reason=reason,
            link_id=link_id,
            request_id=None if record is None else record.id,
        )
        await report(self._audit, event)

    async def note_access(self, resource: Resource) -> datetime | None:
        """Count an access; with sliding expiration, extend the lifetime. Returns when the resource expires."""
        await self._checkpoint.pass_through()
        now = self.clock.now()
        self._accesses.note(resource.id, now)
        if resource.expires_at is None or not self._settings.sliding_expiration:
            return resource.expires_at
        latest = resource.created_at + self._settings.maximum_lifetime
        extended = max(resource.expires_at, min(now + resource.lifetime, latest))
        await self._store.update(resource.id, ResourceChanges(extend_to=extended, now=now))
        return extended

    async def keep(self, resource: Resource, principal: Principal | None, *, rows: int) -> None:
        """Sign and store a new resource within its principal's quota.

        Raises:
            LimitExceededError: the quota is full of pinned resources.
            StorageError: the resource could not be stored.
        """
        signed = sign(self._seal, resource)
        if principal is not None:
            await self._make_room(principal, size_of(signed), resource.created_at)
        await self.note("create", principal, resource=signed, rows=rows)
        await self._store.save(signed)
        if EVENTS.listener is not None:
            EVENTS.report(ResultStored(size_of(signed)))

    async def find(self, principal: Principal | None, *, limit: int, cursor: str | None) -> Listing:
        """List the principal's own live resources.

        Raises:
            UnauthenticatedError: the caller is anonymous.
            BadParameterError: the cursor was not made by this server.
        """
        if principal is None:
            if self._authenticate is None:  # nobody can ever have any
                raise ResourceNotFoundError(
                    "There is no list of results: this server does not know its callers.",
                    hint="Open a result at the link in its tool result.",
                    developer_hint="DualResponseServer(authenticate=...) tells who calls.",
                )
            raise UnauthenticatedError("Listing resources requires a principal.")
        after = None if cursor is None else _read_cursor(cursor)
        page = await self._store.find(principal, now=self.clock.now(), limit=limit, after=after)
        now = self.clock.now()
        ours = [resource for resource in page.resources if _is_ours(self._seal, resource)]
        shown = [resource.seen_at(now) for resource in ours if await self._may_be_listed(resource, principal)]
        if page.unreadable:
            named = ", ".join(each[:6] for each in page.unreadable)
            logger.error("Rows of a listing cannot be read: %s.", named)
        await self.note("list", principal, rows=len(shown))
        return Listing(
            shown,
            None if page.next is None else _write_cursor(page.next),
            len(page.unreadable) + len(page.resources) - len(ours),
        )

    async def _may_be_listed(self, resource: Resource, principal: Principal) -> bool:
        """Whether `authorize` allows reading the resource."""
        return self._authorize is None or await self._authorize(principal, resource, "read")

    async def _make_room(self, principal: Principal, size: int, now: datetime) -> None:
        async for batch in find_surplus(self._store, principal, size, now, self._settings):
            for resource_id in batch:
                await self.note("evict", principal, resource_id=resource_id)
            await evict(self._store, batch)


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
        if len(cursor) > 400:
            raise ValueError
        instant, _, resource_id = urlsafe_b64decode(cursor.encode("ascii")).decode().partition(" ")
        created_at = in_utc(datetime.fromisoformat(instant))
        is_ours = is_storable_id(resource_id)
    except (ValueError, OverflowError):
        is_ours = False
    if not is_ours:
        raise BadParameterError("The cursor is not from this server.", hint="Start without a cursor.")
    return ListingPosition(created_at, resource_id)
