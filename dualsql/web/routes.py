"""The routes of the pages: a result, a listing, a signed link, the reference, and the files that they load."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Collection, Iterator, Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from dualsql.charts.chart import METADATA_KEY, read_chart
from dualsql.charts.feature import Charts
from dualsql.errors import BadParameterError
from dualsql.formats.table import FORMATS
from dualsql.http.parameters import (
    PAGE_QUERY,
    parse_listing,
    parse_page,
    query_values,
    refuse_query,
    resource_id_of,
    split_query,
)
from dualsql.http.problems import (
    Endpoint,
    method_route,
    problem_response,
    request_name,
    while_connected,
)
from dualsql.http.router import FeatureRoutes, open_result, query_of
from dualsql.links import LINK_COOKIE, SentLink, SignedLinks
from dualsql.openapi.feature import OpenAPI
from dualsql.openapi.operations import ANY, BODY, DOCUMENT_METHODS, READS, Operation, shared_parameters
from dualsql.profiles.feature import Profiles
from dualsql.profiles.http import parse_profile, profile_parameters
from dualsql.query.parse import id_in
from dualsql.resource import LINEAGE, Principal, Resource
from dualsql.results.pages import PageRequest, ResultPage
from dualsql.settings import ALL_ACTIONS, Settings
from dualsql.web.assets import ASSETS, PAGE_HEADERS, answer_asset, has_home, render, require_templates
from dualsql.web.forms import FIELD, read_form, render_form
from dualsql.web.references import references
from dualsql.web.settings import PageSettings
from dualsql.web.tables import sql_of
from dualsql.web.words import (
    api_reference,
    cells,
    is_number,
    profile_rows,
    refusals,
    time_left,
    total_in_words,
)
from dualsql_client.wire import Column, Profile, SortKey

if TYPE_CHECKING:
    from dualsql.server import ResultServer

VIEW = "/{resource_id}/view"
PROFILE = "/{resource_id}/view/profile"
REFERENCE = "/openapi.html"
VIEW_METHODS = ("GET", "HEAD", "OPTIONS", "POST")
PROFILE_VIEW_METHODS = ("GET", "HEAD", "OPTIONS")
HTML = "text/html"
ROWS = 50
"""Rows of a page without JavaScript."""
MOST_CELLS = 5_000
"""Cells of such a page. A cell takes 20 to 90 µs."""

_MOST_GRID_CELLS = 20_000
"""Cells of a page that the grid reads, which has at most 200 rows."""
_PENDING_SECONDS = 5


def page_routes(server: ResultServer, page_settings: PageSettings) -> FeatureRoutes:
    """The pages of results and listings.

    Raises:
        ConfigurationError: the extra `web` is not installed.
    """
    require_templates()
    pages = WebPages(server, page_settings)
    result, listing = as_page(pages.result), as_page(pages.listing)
    return FeatureRoutes(
        routes=[
            Route(ASSETS, answer_asset, methods=["GET", "HEAD"]),
            method_route(VIEW, {"GET": result, "POST": as_page(pages.open_link)}, VIEW_METHODS),
            method_route(PROFILE, {"GET": as_page(pages.profile)}, PROFILE_VIEW_METHODS),
        ],
        documents=[method_route(REFERENCE, {"GET": as_page(pages.reference)}, DOCUMENT_METHODS)],
        representations={HTML: result},
        listing_representations={HTML: listing},
        reads_link_cookie=True,
    )


def page_operations(settings: Settings, *, has_links: bool) -> list[Operation]:
    """The pages, as OpenAPI describes them."""
    shared = shared_parameters(settings)
    link = ("link",) if has_links else ()
    token = {"type": "string", "description": "Of the form in the page that the link shows."}
    form = {
        "type": "object",
        "properties": {"link": shared["link"].value, FIELD: token},
        "required": ["link", FIELD],
    }
    return [
        Operation(
            method="GET",
            path=REFERENCE,
            name="viewOpenAPI",
            summary="The OpenAPI document as a page for a browser.",
            methods=DOCUMENT_METHODS,
            answers={HTML: {"type": "string"}},
            headers=tuple(PAGE_HEADERS),
            errors=ANY,
        ),
        Operation(
            method="GET",
            path="/{id}/view",
            name="viewResult",
            summary="A page for a browser.",
            methods=VIEW_METHODS,
            query={name: shared[name] for name in (*PAGE_QUERY, *link)},
            answers={HTML: {"type": "string"}},
            headers=(*PAGE_HEADERS, "Refresh", "Set-Cookie"),
            errors=READS,
        ),
        Operation(
            method="GET",
            path="/{id}/view/profile",
            name="viewProfile",
            summary="Its profile for a browser.",
            methods=PROFILE_VIEW_METHODS,
            query=profile_parameters(settings),
            answers={HTML: {"type": "string"}},
            headers=tuple(PAGE_HEADERS),
            errors=READS,
        ),
        Operation(
            method="POST",
            path="/{id}/view",
            name="openLink",
            summary="Exchange a signed link for a cookie of this result.",
            methods=VIEW_METHODS,
            form=form,
            status=303,
            headers=("Location", "Set-Cookie"),
            errors=(*READS, *BODY),
        ),
    ]


class WebPages:
    """One method per page."""

    def __init__(self, server: ResultServer, settings: PageSettings) -> None:
        self.server = server
        self._settings = settings
        self._reference: Mapping[str, Any] | None = None

    async def result(self, request: Request) -> Response:
        """GET of a result: its first rows, or those that the query string asks for.

        A signed link in the address shows no rows: chats and mails fetch a link to preview it, which would use a
        single-use link up. The page has a button that opens it.
        """
        query = query_of(self.server, request)
        has_links = SignedLinks in self.server.features
        link = self.server.features.get(SignedLinks).sent.of(request) if has_links else None
        if link is not None and link.is_in_address:
            values = {"link": link.token, "id": resource_id_of(request)}
            return render_form(self.server, request, "open.html", values)
        principal, resource, is_own = await open_result(self.server, request, takes=False)
        link = None if is_own else link
        page_request = _page_request(query, self.server.settings)
        page_request = page_request._replace(
            limit=_rows_of(resource, page_request.size(self.server.settings))
        )
        if resource.status != "ready":
            headers = {"Refresh": str(_PENDING_SECONDS)} if resource.status == "pending" else {}
            values = self._tool_values(resource, principal, link)
            return render("waiting.html", request, values, headers=headers)
        if request.method == "HEAD":  # HEAD runs no query
            parts = self.server.parts
            await parts.ready()
            checked = page_request.checked(parts.settings)
            parts.pages.query(await parts.views.target(resource, principal, checked.sort), checked)
            return Response(media_type=HTML)
        reading = self.server.unchecked.read_page(resource, principal, page_request)
        page = await while_connected(request.receive, reading)
        values = self._tool_values(resource, principal, link)
        if link is None:
            values |= await self._question_values(request, resource, principal)
        # Other callers are answered meanwhile.
        return await asyncio.to_thread(self._render_rows, request, page, page_request, values)

    def _render_rows(
        self, request: Request, page: ResultPage, page_request: PageRequest, values: Mapping[str, Any]
    ) -> Response:
        return render("result.html", request, {**values, **self._row_values(page, page_request)})

    async def profile(self, request: Request) -> Response:
        """GET of a result's profile: as over REST, not by a signed link."""
        profiles = self.server.features.get(Profiles).service
        kind, columns = parse_profile(request.scope["query_string"], default="full")
        principal = await self.server.access.identify(request)
        resource = await self.server.open_resource(resource_id_of(request), principal, "read")
        if request.method == "HEAD":
            await profiles.check(resource, principal=principal, kind=kind, columns=columns)
            return Response(media_type=HTML)

        async def profiling() -> Profile:
            profile = await profiles.profile(resource, principal=principal, kind=kind, columns=columns)
            if profile["covers"]["rows"] is not None:
                return profile
            return await profiles.profile(
                resource, principal=principal, columns=columns
            )  # in time, of a sample

        profile = await while_connected(request.receive, profiling())
        values = {
            "resource": resource,
            "profile": profile,
            "rows": profile_rows(profile),
            "is_known": principal is not None,
        }
        return render("profile.html", request, values)

    async def open_link(self, request: Request) -> Response:
        """POST of a signed link: exchange it for a cookie of this result's path, and show the clean address."""
        form = await read_form(request, self.server)
        resource_id = resource_id_of(request)
        links = self.server.features.get(SignedLinks).service
        exchanged = await links.exchange(resource_id, form.get("link", ""))
        # 303: the browser goes there by GET, and a reload does not post the link again (RFC 9110, 15.4.4).
        response = RedirectResponse(f"../{resource_id}/view", 303)
        response.set_cookie(
            LINK_COOKIE,
            exchanged.token,
            max_age=int((exchanged.expires_at - self.server.parts.clock.now()).total_seconds()),
            path=None,  # a browser takes that of the form: this result's, whatever a proxy puts before it
            # Over http, browsers drop a cookie that is Secure.
            secure=self.server.base_url.startswith("https:"),
            httponly=True,
            samesite="strict",
        )
        return response

    async def listing(self, request: Request) -> Response:
        """GET of the collection: the caller's own results, newest first."""
        limit, cursor = parse_listing(request.scope["query_string"])
        principal = await self.server.access.identify(request)
        own_results = await self.server.list_resources(principal, limit=limit, cursor=cursor)
        entries = [
            {
                "id": each.id,
                "name": each.name,
                "status": "pinned" if each.is_pinned else each.status,
                "total": total_in_words(each.total_count, each.total_count_kind),
                "created_at": each.created_at,
                "time_left": time_left(each.expires_at, self.server.parts.clock.now()),
            }
            for each in own_results.resources
        ]
        following = (
            None if own_results.next_cursor is None else f"?{urlencode({'cursor': own_results.next_cursor})}"
        )
        values = {"entries": entries, "following": following, "unreadable": own_results.unreadable}
        return render("listing.html", request, values)

    async def reference(self, request: Request) -> Response:
        """GET of the OpenAPI document as a page. It holds no data, so it needs no credential."""
        refuse_query(request.scope["query_string"])
        if request.method == "HEAD":
            return Response(media_type=HTML)
        if self._reference is None:
            self._reference = await asyncio.to_thread(
                lambda: api_reference(self.server.features.get(OpenAPI).document())
            )
        return await asyncio.to_thread(render, "reference.html", request, self._reference)

    def _row_values(self, page: ResultPage, page_request: PageRequest) -> dict[str, Any]:
        """The table, and what is beside it."""
        sort = sort_words(page_request.sort)
        size = _rows_of(page, ROWS)
        end = page.offset + len(page.rows)
        return {
            "total": total_in_words(page.total_count, page.total_count_kind),
            "time_left": time_left(page.expires_at, self.server.parts.clock.now()),
            "as_of": page.as_of,
            "columns": [_header(column, page_request.sort) for column in page.columns],
            "rows": cells(page.columns, page.rows),
            "first": page.offset + 1,
            "last": end,
            "is_partial": page.order == "partial",
            "previous": _turn(page.previous_cursor, page.has_previous, max(0, page.offset - size), sort),
            "following": _turn(page.next_cursor, page.has_next, end, sort),
            "sort": sort,
        }

    def _tool_values(
        self, resource: Resource, principal: Principal | None, link: SentLink | None
    ) -> dict[str, Any]:
        """What the reader may do with the result."""
        allowed = self.server.settings.anonymous_actions if resource.owner is None else ALL_ACTIONS
        may_pin, may_delete = "pin" in allowed, "delete" in allowed
        formats = frozenset(FORMATS)
        if link is not None:
            formats = self.server.features.get(SignedLinks).service.formats(link.token)
        return {
            "resource": resource,
            "downloads": [*_downloads(formats)],
            "is_link": link is not None,
            "is_known": principal is not None and link is None,
            "limit": min(
                self.server.settings.maximum_page_size,
                max(10, _MOST_GRID_CELLS // max(1, len(resource.columns))),
            ),
            "may_chart": link is None and _can_draw() and Charts in self.server.features,
            "may_pin": link is None and may_pin,
            "may_delete": link is None and may_delete,
            "refusals": "" if link else refusals(may_pin=may_pin, may_delete=may_delete),
            "chart": None,
            "lineage": None,
            "parent": None,
            "sql": None,
            "source": "",
            "references": {},
            "can_edit": False,
        }

    async def _question_values(
        self, request: Request, resource: Resource, principal: Principal | None
    ) -> dict[str, Any]:
        """Which question the result answers, and its picture; a signed link is for rows alone."""
        lineage, parent, is_home = resource.metadata.get(LINEAGE), None, has_home(request)
        if lineage is not None:
            parent = await self.server.get_resource(id_in(lineage["parent"]), principal)
        return {
            "chart": _chart(resource),
            "lineage": lineage,
            "parent": parent,
            "sql": self._sql_of(resource),
            "source": self._source_in_words(resource),
            "references": references(self.server, resource, principal) if is_home else {},
            "can_edit": is_home and self._settings.pages_show_sql and self._settings.pages_show_values,
        }

    def _sql_of(self, resource: Resource) -> str | None:
        if not self._settings.pages_show_sql:
            return None
        return sql_of(self.server, resource, has_values=self._settings.pages_show_values)

    def _source_in_words(self, resource: Resource) -> str:
        source = self.server.parts.sources[resource.source]
        kind = source.capabilities.name
        return kind if len(self.server.parts.sources) == 1 else f"{source.name} ({kind})"


class Download(NamedTuple):
    """A file that a page offers.

    Attributes:
        parameters: those of the stream.
        is_typed: whether its columns have types, which not every value fits.
    """

    title: str
    parameters: Mapping[str, str]
    is_typed: bool = False


_APACHE = "vnd.apache."
"""Arrow and Parquet have types of their own; the other formats write any value."""


def _downloads(names: Collection[str]) -> Iterator[Download]:
    """The formats for people: FORMATS begins with those for programs, and people get the opposite order."""
    opposite = [*reversed(FORMATS.values())]
    for format_ in sorted(opposite, key=lambda format_: not format_.is_for_spreadsheets):
        if format_.name not in names:
            continue
        parameters = {"format": format_.name}
        if format_.excel_title:
            yield Download(format_.excel_title, {**parameters, "excel": "true"})
        yield Download(
            format_.title,
            {**parameters, "guard_formulas": "true"} if format_.guards_formulas else parameters,
            is_typed=_APACHE in format_.media_type,
        )


def _page_request(query: bytes, settings: Settings) -> PageRequest:
    """The rows of a page: as over REST, or from `row` on, which counts from 1.

    Raises:
        BadParameterError: see `query_values`, `parse_page`; or `row` is no such number.
    """
    values = split_query(query)
    row = values.pop("row", "").replace(",", "").strip()
    page_request = parse_page(query_values(values, PAGE_QUERY, "rows"))
    if row:
        if not (row.isascii() and row.isdecimal() and 0 < len(row) <= 12 and int(row) > 0):
            raise BadParameterError(
                "row must be a whole number from 1.", hint="The first row is 1.", details={"name": "row"}
            )
        page_request = page_request._replace(offset=int(row) - 1, cursor=None)
    if page_request.limit is not None:
        return page_request
    return page_request._replace(limit=min(ROWS, settings.maximum_page_size))


def _rows_of(result: Resource | ResultPage, limit: int) -> int:
    """Rows of its page: at most `limit`, and fewer of a wide result. The others are on the next pages."""
    return min(limit, max(1, MOST_CELLS // max(1, len(result.columns))))


def _can_draw() -> bool:
    return find_spec("vl_convert") is not None


def _chart(resource: Resource) -> Mapping[str, Any] | None:
    """The content of the chart, and whether the server draws it; None for a result that is no chart."""
    specification = resource.metadata.get(METADATA_KEY)
    if specification is None:
        return None
    return {"words": read_chart(specification).words, "is_drawn": _can_draw()}


def sort_words(sort: Any) -> str:
    """The sort as a query string has it."""
    return ",".join(f"{'-' if key.get('order') == 'desc' else ''}{key['field']}" for key in sort)


def _header(column: Column, sort: Any) -> Mapping[str, Any]:
    """A column with what a click on its header asks for: ascending, then descending, then the result's own order."""
    name = column["name"]
    key: SortKey | None = next((key for key in sort if key["field"] == name), None)
    order = None if key is None else key.get("order", "asc")
    following = {None: name, "asc": f"-{name}", "desc": ""}[order]
    is_sortable = "," not in name and not name.startswith("-")  # in a query string
    return {
        "name": name,
        "type": column["type"],
        "is_number": is_number(column),
        "order": {None: None, "asc": "ascending", "desc": "descending"}[order],
        "sort": f"?{urlencode({'sort': following}) if following else ''}" if is_sortable else None,
    }


def _turn(cursor: str | None, has_more: bool, offset: int, sort: str) -> str | None:  # noqa: FBT001
    """The query string of a neighbouring page: by cursor where there is one."""
    if not has_more:
        return None
    where: dict[str, str | int] = {"offset": offset} if cursor is None else {"cursor": cursor}
    return f"?{urlencode(where | ({'sort': sort} if sort else {}))}"


def as_page(page: Endpoint, root: str | None = None) -> Endpoint:
    """The endpoint, whose errors are pages, too.

    Args:
        root: the path from the page to the collection; see `render`.
    """

    async def answer(request: Request) -> Response:
        try:
            return await page(request)
        except Exception as error:  # noqa: BLE001 - the outermost edge: what is not ours becomes a fixed text
            response = problem_response(error, request_name(request))
        if response.status_code < 400:  # an application's `authenticate` redirects to its login
            return response
        fields = {
            name: value
            for name, value in response.headers.items()
            if name not in {"content-type", "content-length"}
        }
        problem = json.loads(bytes(response.body))
        return render(
            "problem.html",
            request,
            {"problem": problem, "status": response.status_code},
            root=root,
            status=response.status_code,
            headers=fields,
        )

    return answer
