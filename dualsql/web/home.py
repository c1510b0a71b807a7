"""The home page of `dualsql serve`: what it serves, how hosts connect, a box for SQL; and signing in with its token."""

from __future__ import annotations

import hmac
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from dualsql.catalogue.addresses import Address
from dualsql.catalogue.catalogue import CatalogueView
from dualsql.catalogue.definitions import query_definition, table_definition
from dualsql.catalogue.feature import Tables
from dualsql.errors import BadParameterError, DualResponseError, InvalidSQLError
from dualsql.http.parameters import json_object, preferred_media_type, read_json_body
from dualsql.http.problems import JSONAnswer, Problems, kind_of, make_private, while_connected
from dualsql.identity import Authenticate
from dualsql.resource import Principal
from dualsql.sql.feature import SQL
from dualsql.sql.titles import title_of
from dualsql.web.assets import HOME
from dualsql.web.feature import Pages
from dualsql.web.forms import read_form, render_form
from dualsql.web.references import row_labels
from dualsql.web.routes import HTML, as_page
from dualsql.web.tables import rows_of_table, sql_of, table_counts
from dualsql.web.words import time_left, total_in_words

if TYPE_CHECKING:
    from dualsql.server import ResultServer

SIGN_IN = "sign-in"
"""The path of the form, beside the collection of resources."""

_MOST_TABLES = 200
"""Tables that are listed with their columns."""
_MOST_COLUMNS = 4_000
"""Columns of all tables that are listed with theirs; each takes 15 to 30 µs."""
_MOST_NAMES = 2_000
_RECENT = 10
_MOST_KEYS = 50
"""Foreign keys whose names one request looks up."""
_SESSION_SECONDS = 12 * 3600


class TokenSession:
    """`authenticate=` for a server with one token: as a bearer token from programs, as a cookie from browsers.

    A browser without either is redirected to the form before any id is read. The cookie holds no token: it holds its
    end, and a MAC under the token.

    Args:
        authenticate: what reads the bearer token.
        token: the token.
        principal: of the token.
        base_url: of the resources; its port is in the cookie's name, since browsers send a host's cookies to all ports.
    """

    def __init__(
        self, authenticate: Authenticate, token: str, principal: Principal, *, base_url: str
    ) -> None:
        self._authenticate = authenticate
        self._token = token
        self._principal = principal
        parts = urlsplit(base_url)
        self.path = parts.path.rpartition("/")[0] + "/"
        self.is_secure = parts.scheme == "https"
        self.cookie = f"dualsql_session_{parts.port or parts.scheme}"

    async def __call__(self, request: Request) -> Principal | None:
        # A program that sends a credential gets 401, and is never redirected to a form.
        if "authorization" not in request.headers:
            if self._is_good(request.cookies.get(self.cookie, "")):
                return self._principal
            if request.method == "GET" and _prefers_html(request):
                raise HTTPException(303, headers={"Location": f"{self.path}{SIGN_IN}"})
        return await self._authenticate(request)

    def start(self, token: str) -> str | None:
        """The value of the cookie for a caller with the token; None for another token."""
        # As bytes: compare_digest() refuses texts outside of ASCII.
        if not hmac.compare_digest(token.encode(), self._token.encode()):
            return None
        end = str(int(time.time()) + _SESSION_SECONDS)
        return f"{end}.{self._mac(end)}"

    def _is_good(self, cookie: str) -> bool:
        end, _, mac = cookie.partition(".")
        # int() would also take digits of other scripts and underscores.
        if not (end.isascii() and end.isdecimal() and len(end) <= 12):
            return False
        return hmac.compare_digest(mac.encode(), self._mac(end).encode()) and int(end) > time.time()

    def _mac(self, end: str) -> str:
        return hmac.new(self._token.encode(), f"dualsql.session/1 {end}".encode(), sha256).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Home:
    """The pages beside the collection of resources.

    Attributes:
        title: the name that hosts have for the server.
        snippets: titles and texts for hosts' configurations.
        session: how browsers sign in; None where `authenticate` of the application decides.
    """

    server: ResultServer
    title: str
    snippets: Sequence[tuple[str, str]]
    session: TokenSession | None = None

    def routes(self) -> list[BaseRoute]:
        """Home, its box for SQL, and the form to sign in."""
        path = urlsplit(self.server.base_url).path.rpartition("/")[0] + "/"
        private = [Middleware(Problems, [make_private])]
        pages = {
            "": (self.show, "GET"),
            "counts": (self.counts, "GET"),
            "labels": (self.labels, "POST"),
            "ask": (self.ask, "POST"),
        }
        if self.session is not None:
            pages |= {SIGN_IN: (self.show_form, "GET"), f"{SIGN_IN}/": (self.sign_in, "POST")}
        return [
            Route(
                f"{path}{name}",
                as_page(page, self._root),
                methods=[method],
                name=None if name else HOME,
                middleware=private,
            )
            for name, (page, method) in pages.items()
        ]

    @property
    def _root(self) -> str:
        """The path from home to the collection."""
        return f"./{urlsplit(self.server.base_url).path.rpartition('/')[2]}/"

    async def show(self, request: Request) -> Response:
        """What is served, the caller's recent results, and a box for SQL: empty, or with that of the result `from`."""
        principal = await self.server.access.identify(request)
        form: Mapping[str, str] = {}
        settings = self.server.features.get(Pages).settings
        if "from" in request.query_params and settings.pages_show_sql and settings.pages_show_values:
            result = await self.server.open_resource(request.query_params["from"], principal, "read")
            sql = sql_of(self.server, result, has_values=True)
            form = {"sql": sql, "source": result.source}
        return await self._page(request, principal, form)

    async def counts(self, request: Request) -> Response:
        """How many rows the first tables have, in words by their URIs: those that could be counted in time."""
        principal = await self.server.access.identify(request)
        self.server.access.admit("ask", principal)
        counting = table_counts(self.server, principal)
        return JSONAnswer(await while_connected(request.receive, counting))

    async def labels(self, request: Request) -> Response:
        """The names of the rows that keys refer to. A POST: addresses, and so the values of keys, stand in logs."""
        principal = await self.server.access.identify(request)
        self.server.access.admit("ask", principal)
        keys = json_object(await read_json_body(request, self.server.settings)).get("keys")
        if not isinstance(keys, list) or len(keys) > _MOST_KEYS:
            raise BadParameterError(f"`keys` is no list of at most {_MOST_KEYS} keys.")
        return JSONAnswer(await while_connected(request.receive, row_labels(self.server, principal, keys)))

    async def ask(self, request: Request) -> Response:
        """Run a SQL text or a saved query as the caller, under the rules that a model's text is under."""
        principal = await self.server.access.identify(request)
        form = await read_form(request, self.server, principal=principal)
        try:
            url = await while_connected(request.receive, self._ask(form, principal))
        except DualResponseError as error:
            # A caller can mend what the form says, and not a fault of the server.
            if kind_of(error).status >= 500:
                raise
            message, hint = error.for_caller
            problem = f"{message} {hint}".strip()
            return await self._page(request, principal, form, problem=problem, status=kind_of(error).status)
        # 303 makes the browser GET it: to reload the page asks nothing again.
        return RedirectResponse(url, 303)

    async def _ask(self, form: Mapping[str, str], principal: Principal | None) -> str:
        texts = self.server.features.get(SQL)
        name, sql = form.get("query", ""), form.get("sql", "").strip()
        if "table" in form:
            query = await rows_of_table(
                self.server, principal, form["table"], form.get("column", ""), form.get("value", "")
            )
        elif name:
            parameters = {
                key.removeprefix("p."): value for key, value in form.items() if key.startswith("p.") and value
            }
            query = texts.service.saved_queries.resolve(name, parameters=parameters, principal=principal)
        elif sql:
            query = await texts.service.read(sql, source=form.get("source") or None, principal=principal)
        else:
            raise InvalidSQLError("There is no SQL.", hint="Write one SELECT.")
        response = await self.server.create_response(
            query.select,
            name=name or title_of(query.select),
            principal=principal,
            source=query.source,
            is_text=query.saved is None,
        )
        return f"{self._root}{response.resource_id}"

    async def show_form(self, request: Request) -> Response:
        """The form to sign in."""
        values = {"title": self.title, "is_wrong": False}
        return render_form(self.server, request, "sign_in.html", values, root=self._root)

    async def sign_in(self, request: Request) -> Response:
        """Exchange the token for a cookie."""
        assert self.session is not None
        form = await read_form(request, self.server)
        value = self.session.start(form.get("token", "").strip())
        if value is None:
            values = {"title": self.title, "is_wrong": True}
            return render_form(
                self.server, request, "sign_in.html", values, root=f".{self._root}", status=401
            )
        response = RedirectResponse("../", 303)
        response.set_cookie(
            self.session.cookie,
            value,
            max_age=_SESSION_SECONDS,
            path=self.session.path,
            secure=self.session.is_secure,
            httponly=True,
            samesite="strict",
        )
        return response

    async def _page(
        self,
        request: Request,
        principal: Principal | None,
        form: Mapping[str, str],
        *,
        problem: str = "",
        status: int = 200,
    ) -> Response:
        view = self.server.features.get(Tables).catalogue().view_for(principal)
        addresses = sorted(view.tables, key=lambda address: view.tables[address].name.lower())
        tables = _definitions(view, addresses)
        others = [
            {
                "name": ".".join(filter(None, (view.tables[address].schema, view.tables[address].name))),
                "uri": view.catalogue.addressing.write(address),
            }
            for address in addresses[len(tables) : _MOST_NAMES]
        ]
        values = {
            "title": self.title,
            "tables": tables,
            "others": others,
            "table_count": len(view.tables),
            "queries": [query_definition(view, address) for address in view.queries],
            "sources": list(self.server.features.get(SQL).service.databases),
            "snippets": self.snippets,
            "results": await self._recent(principal),
            "form": form,
            "problem": problem,
        }
        return render_form(
            self.server, request, "home.html", values, principal=principal, root=self._root, status=status
        )

    async def _recent(self, principal: Principal | None) -> list[Mapping[str, Any]]:
        """The caller's newest results; an anonymous caller has none to list."""
        if principal is None:
            return []
        listing = await self.server.list_resources(principal, limit=_RECENT)
        return [
            {
                "id": each.id,
                "name": each.name,
                "total": total_in_words(each.total_count, each.total_count_kind),
                "time_left": time_left(each.expires_at, self.server.parts.clock.now()),
            }
            for each in listing.resources
        ]


def _definitions(view: CatalogueView, addresses: Sequence[Address]) -> list[Mapping[str, Any]]:
    """The first tables with their columns and URIs, as many as a page may have."""
    tables: list[Mapping[str, Any]] = []
    left = _MOST_COLUMNS
    for address in addresses[:_MOST_TABLES]:
        table = table_definition(view, address)
        left -= len(table["columns"])
        if left < 0:
            break
        tables.append({**table, "uri": view.catalogue.addressing.write(address)})
    return tables


def _prefers_html(request: Request) -> bool:
    offered = ["application/json", HTML]
    return preferred_media_type(request.headers.getlist("accept"), offered) == HTML
