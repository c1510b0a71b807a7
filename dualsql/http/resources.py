"""What the routes need of a server; the rule: HTTP asks for actions and never for a store or a database."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from starlette.requests import Request

from dualsql.resource import Principal, Resource
from dualsql.settings import Action, Settings
from dualsql_client.wire import Page, ResourceMetadata, SortKey

Authenticate = Callable[[Request], Awaitable[Principal | None]]
"""Who sent the request; None for an anonymous holder of the link. May raise HTTPException(401)."""


class Rows(Protocol):
    """One page that was read."""

    def to_wire(self) -> Page:
        """The page in the wire's shape; values of its rows are Python's, not yet JSON's."""
        ...


class Resources(Protocol):
    """A server as its routes see it."""

    @property
    def settings(self) -> Settings: ...

    @property
    def base_url(self) -> str: ...

    @property
    def authenticate(self) -> Authenticate | None: ...

    async def open_resource(self, resource_id: str, caller: Principal | None, action: Action) -> Resource:
        """The live resource, once it is certain that `caller` may do `action` with it."""
        ...

    async def fetch_page(
        self,
        resource: Resource,
        *,
        offset: int = 0,
        limit: int | None = None,
        sort: Sequence[SortKey] = (),
        caller: Principal | None = None,
        integer_strings: bool = False,
    ) -> Rows:
        """Rows of the result, after the bounds of the settings were checked."""
        ...

    async def pin_resource(self, resource_id: str) -> bool:
        """Remove the expiry; False when there is nothing left to pin."""
        ...

    async def delete_resource(self, resource_id: str) -> bool:
        """Delete; False when it was gone already."""
        ...

    def metadata_of(self, resource: Resource) -> ResourceMetadata:
        """What may be said about a resource without reading its rows."""
        ...
