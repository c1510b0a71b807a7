"""What the routes need of a server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol

from starlette.requests import Request

from dualsql.charts import VegaLite
from dualsql.charts.render import PictureFormat
from dualsql.query import ResultQuery
from dualsql.resource import Count, Principal, Resource
from dualsql.response import DualResponse, Picture
from dualsql.results.access import Listing
from dualsql.results.links import Links
from dualsql.results.streams import ResultStream, StreamRequest
from dualsql.settings import Action, Settings
from dualsql_client.wire import Page, Profile, ResourceDescription, SortKey


class Rows(Protocol):
    """One page that was read."""

    def to_wire(self) -> Page:
        """The page in the wire's shape; values of its rows are Python's, not yet JSON's."""
        ...


class Answerer(Protocol):
    """Answers questions about results."""

    async def page(
        self,
        resource: Resource,
        inquiry: ResultQuery,
        *,
        principal: Principal | None = None,
        offset: int = 0,
        limit: int | None = None,
        cursor: str | None = None,
        integer_strings: bool = False,
    ) -> Rows:
        """Rows of the answer."""
        ...

    def stream(
        self,
        resource: Resource,
        inquiry: ResultQuery,
        request: StreamRequest,
        *,
        principal: Principal | None = None,
    ) -> ResultStream:
        """The answer as a stream; its query has not run yet."""
        ...


class Draughtsman(Protocol):
    """Who draws charts."""

    async def draw(self, resource: Resource, *, principal: Principal | None = None) -> VegaLite:
        """The chart that the resource is, as Vega-Lite."""
        ...

    async def picture(
        self, resource: Resource, kind: PictureFormat, *, principal: Principal | None = None
    ) -> Picture:
        """The same as an image."""
        ...


class Resources(Protocol):
    """A server as its routes see it."""

    @property
    def settings(self) -> Settings: ...

    @property
    def base_url(self) -> str: ...

    @property
    def links(self) -> Links: ...

    @property
    def charts(self) -> Draughtsman: ...

    @property
    def inquiries(self) -> Answerer: ...

    async def identify(self, request: Request) -> Principal | None:
        """Who sent the request; None for an anonymous caller. Raises what `authenticate` raises."""
        ...

    async def open_resource(self, resource_id: str, principal: Principal | None, action: Action) -> Resource:
        """The live resource, once it is certain that `principal` may do `action` with it."""
        ...

    async def list_resources(
        self, principal: Principal | None, *, limit: int | None = None, cursor: str | None = None
    ) -> Listing:
        """The principal's own resources, newest first."""
        ...

    async def create_response(
        self,
        *,
        name: str,
        principal: Principal | None = None,
        parent: Resource | str | None = None,
        refinement: Mapping[str, Any] | None = None,
    ) -> DualResponse:
        """A new result, made of a parent."""
        ...

    async def fetch_page(
        self,
        resource: Resource,
        *,
        offset: int = 0,
        limit: int | None = None,
        sort: Sequence[SortKey] = (),
        principal: Principal | None = None,
        integer_strings: bool = False,
        cursor: str | None = None,
    ) -> Rows:
        """Rows of the result, after the bounds of the settings were checked."""
        ...

    async def stream_rows(
        self, resource: Resource, request: StreamRequest, *, principal: Principal | None = None
    ) -> ResultStream:
        """The result as a stream; its query has not run yet."""
        ...

    async def profile_resource(
        self,
        resource: Resource,
        *,
        principal: Principal | None = None,
        kind: str = "sample",
        columns: Sequence[str] | None = None,
    ) -> Profile:
        """What the columns of the result are like."""
        ...

    async def pin_resource(self, resource_id: str, *, principal: Principal | None = None) -> bool:
        """Remove the expiry; False when there is nothing left to pin."""
        ...

    async def unpin_resource(
        self, resource_id: str, *, principal: Principal | None = None
    ) -> datetime | None:
        """Give a pinned resource an expiry; the one it has from now on, None when it is gone."""
        ...

    async def delete_resource(self, resource_id: str, *, principal: Principal | None = None) -> bool:
        """Delete; False when it was gone already."""
        ...

    async def describe_resource(
        self, resource: Resource, *, principal: Principal | None = None, count: Count = "none"
    ) -> ResourceDescription:
        """What GET answers about a resource."""
        ...

    def metadata_of(self, resource: Resource) -> ResourceDescription:
        """What may be said about a resource without reading its rows."""
        ...
