"""Signed links to resources; the rule: off unless allowed, and what a link may do is less than its maker may."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from dualsql.addresses import Addresses
from dualsql.errors import BadParameterError, ConfigurationError, DualResponseError
from dualsql.freeze import Seal
from dualsql.gate.access import not_found
from dualsql.gate.gate import Gate
from dualsql.identity.links import Grant, checked_formats, new_link_id, read_token, write_token
from dualsql.resource import Principal, Resource
from dualsql.settings import Settings
from dualsql.store.protocol import Link, ResourceStore

_PARAMETER = "link="


@dataclass(frozen=True, slots=True)
class Links:
    """Makes, opens and ends signed links. For people: never show one to a model."""

    gate: Gate
    store: ResourceStore
    seal: Seal
    settings: Settings
    addresses: Addresses

    async def create(
        self,
        resource_id: str,
        principal: Principal | None,
        *,
        formats: Iterable[str] = ("json",),
        expires_in: timedelta = timedelta(minutes=15),
        single_use: bool = False,
    ) -> str:
        """A URL by which anyone reads the resource as `principal` does.

        For formats without "json" it is that of the stream, in the first of them: what a person can click on.

        Args:
            formats: in which the rows may be had; "json" is for pages, too.
            single_use: it ends with the first page, or stream, that is read.

        Raises:
            ConfigurationError: `signed_links` is not set.
            ResourceNotFoundError, ResourceExpiredError: the resource is not the principal's to show.
            BadParameterError: an argument is out of bounds.
        """
        if not self.settings.signed_links:
            raise ConfigurationError(
                "Signed links are off.", hint="DualResponseServer(..., signed_links=True)"
            )
        if not timedelta(0) < expires_in <= self.settings.maximum_link_lifetime:
            raise BadParameterError(
                "The link's lifetime is out of bounds.",
                hint=f"At most {self.settings.maximum_link_lifetime}.",
            )
        allowed = checked_formats(formats)
        resource = await self.gate.open(resource_id, principal, "read")
        link = Link(id=new_link_id(), resource_id=resource.id, expires_at=datetime.now(UTC) + expires_in)
        grant = Grant(link=link, principal=principal, formats=allowed, is_single_use=single_use)
        await self.gate.note("link", principal, resource=resource, link_id=link.id)
        await self.store.save_link(link)
        token = f"{_PARAMETER}{write_token(grant, self.seal)}"
        url = self.addresses.url(resource_id)
        return f"{url}?{token}" if "json" in allowed else f"{url}/rows?format={min(allowed)}&{token}"

    async def open(
        self, resource_id: str, token: str, *, wanted: str = "json", takes: bool = True
    ) -> tuple[Principal | None, Resource]:
        """As whom a link reads, and the resource.

        Args:
            wanted: the format asked for.
            takes: rows are about to be read, which uses a single-use link up.

        Raises:
            ResourceNotFoundError: the link is not good for this, or not any more: one answer for all of it.
            ResourceExpiredError: the link is good, and the resource is not any more.
        """
        grant = read_token(token, self.seal) if self.settings.signed_links else None
        if grant is None or not grant.is_good_for(resource_id, wanted, datetime.now(UTC)):
            await self.gate.load(resource_id, self.gate.viewer(None))  # what an unknown id costs
            raise await self._refusal(resource_id, grant, "not a link")
        resource = await self.gate.open(resource_id, grant.principal, "read")
        is_taken = takes and grant.is_single_use and resource.status == "ready"
        if not await self.store.has_link(grant.link, take=is_taken):
            raise await self._refusal(resource_id, grant, "link ended")
        await self.gate.note("follow", grant.principal, resource=resource, link_id=grant.link.id)
        return grant.principal, resource

    async def revoke(self, link: str) -> bool:
        """End a link, given as `create` returned it. False when it had ended, or is none of ours."""
        grant = read_token(link.rpartition(_PARAMETER)[2], self.seal)
        if grant is None:
            return False
        await self.gate.note(
            "revoke", grant.principal, resource_id=grant.link.resource_id, link_id=grant.link.id
        )
        return await self.store.delete_links(link_id=grant.link.id) == 1

    async def revoke_all(self, resource_id: str, *, principal: Principal | None = None) -> int:
        """End all links of a resource. Returns how many. `principal` is for the audit: no rights are checked."""
        await self.gate.note("revoke", principal, resource_id=resource_id)
        return await self.store.delete_links(resource_id=resource_id)

    async def _refusal(self, resource_id: str, grant: Grant | None, reason: str) -> DualResponseError:
        error = not_found()
        await self.gate.note(
            "refuse",
            grant.principal if grant else None,
            resource_id=resource_id,
            code=error.code,
            reason=reason,
            link_id=grant.link.id if grant else None,
        )
        return error
