"""Serves resources on an MCP server of either SDK, beside the server's own.

The resource registries of the SDKs hold one list for all callers, without pages. So the handlers of the low-level
server, which both SDKs have, are wrapped: a provider answers for its URIs, and the wrapped handler for all others.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol

from dualsql.errors import (
    BadParameterError,
    DualResponseError,
    ForbiddenError,
    LimitExceededError,
    ResourceExpiredError,
    ResourceNotFoundError,
    UnauthenticatedError,
)
from dualsql.log import REQUEST
from dualsql.mcp.calls import PrincipalOf, problem_for
from dualsql.mcp.decorators import registrar_of
from dualsql.mcp.listing import Handler, low_level
from dualsql.mcp.negotiation import ids_of
from dualsql.openapi.service import EXTENSION, service
from dualsql.packages import extra
from dualsql.request_log import LoggedRequest, logged_request
from dualsql.resource import Principal

with extra("mcp"):
    from mcp.server.lowlevel import Server
    from mcp.shared.exceptions import MCPError
    from mcp_types import (
        INTERNAL_ERROR,
        INVALID_PARAMS,
        CompleteRequestParams,
        CompleteResult,
        Completion,
        ListResourcesResult,
        ListResourceTemplatesResult,
        PaginatedRequestParams,
        ReadResourceRequestParams,
        ReadResourceResult,
        Resource,
        ResourceTemplate,
        ResourceTemplateReference,
    )

if TYPE_CHECKING:
    from dualsql.server import ResultServer

CurrentPrincipal = Callable[[], Principal | None]
"""Returns the principal of the current request."""

_MAXIMUM_COMPLETIONS = 100  # the limit of MCP

_NO_RESOURCE = (INVALID_PARAMS, -32002)
"""Codes of a resource that does not exist: of this protocol, and of the older one."""

# Errors that depend on the URI or the caller. Clients treat -32602 as a resource that does not exist.
_CALLER_ERRORS = (
    BadParameterError,
    ForbiddenError,
    LimitExceededError,
    ResourceExpiredError,
    ResourceNotFoundError,
    UnauthenticatedError,
)


class ResourceProvider(Protocol):
    """Resources of one kind: catalogue entries, or stored results.

    Attributes:
        name: prefix of the cursors of its lists.
        templates: URI templates of the resources that it can read.
        start: what the URIs of its kind begin with.
    """

    name: str
    start: str
    templates: Sequence[ResourceTemplate]

    def owns(self, uri: str) -> bool:
        """Whether a URI has the form of this kind, whether or not the resource exists."""
        ...

    async def read(self, uri: str, principal: Principal | None) -> ReadResourceResult:
        """The contents of a resource.

        Raises:
            DualResponseError: the principal sees no such resource.
        """
        ...

    async def list(
        self, principal: Principal | None, cursor: str | None
    ) -> tuple[Sequence[Resource], str | None]:
        """A page of the resources that the principal sees, and the cursor of the next one."""
        ...

    async def complete(
        self, name: str, value: str, arguments: Mapping[str, str], principal: Principal | None
    ) -> Sequence[str]:
        """Values for the template variable `name` that match `value`, if the other variables have these `arguments`."""
        ...


def low_level_server(server: Any) -> Server[Any]:
    """The low-level server that a server of either SDK is built on.

    Raises:
        ConfigurationError: `server` is not of a supported and installed SDK.
    """
    registrar_of(server)  # raises for any other object
    below: Server[Any] = low_level(server)
    return below


def current_principal(server: Any, principal: PrincipalOf) -> CurrentPrincipal:
    """A function that gives the principal of the access token that the SDK of `server` verified for a request."""
    is_fast = any(ancestor.__module__.partition(".")[0] == "fastmcp" for ancestor in type(server).__mro__)
    module = "fastmcp.server.dependencies" if is_fast else "mcp.server.auth.middleware.auth_context"
    get_token = import_module(module).get_access_token

    def current() -> Principal | None:
        token = get_token()
        return None if token is None else principal(token)

    return current


@dataclass(frozen=True, slots=True)
class ChainedProvider:
    """Handlers that ask a provider first, and pass other requests on to `next_handler`."""

    provider: ResourceProvider
    current_principal: CurrentPrincipal
    next_handler: Handler | None = None

    async def read(self, context: Any, params: ReadResourceRequestParams) -> Any:
        """resources/read"""
        uri = str(params.uri)
        if not self.provider.owns(uri):
            try:
                return await self._pass_on("resources/read", context, params)
            except MCPError as error:
                # The server may have its own resources under such URIs, but not this one.
                is_bare = error.code in _NO_RESOURCE and "code" not in (error.data or {})
                if not is_bare or not uri.startswith(self.provider.start):
                    raise
        with self._log_request(context, "resources/read"):
            return await with_mcp_errors(lambda: self.provider.read(uri, self.current_principal()), uri=uri)

    async def list(self, context: Any, params: PaginatedRequestParams) -> Any:
        """resources/list: the server's own resources, then those of the provider in pages."""
        prefix = f"{self.provider.name}."
        cursor = params.cursor
        if cursor is not None and cursor.startswith(prefix):
            return await self._page(context, cursor.removeprefix(prefix), [])
        own = await self._pass_on("resources/list", context, params)
        return own if own.next_cursor is not None else await self._page(context, None, own.resources)

    async def list_templates(self, context: Any, params: PaginatedRequestParams) -> Any:
        """resources/templates/list: those of the provider follow the server's own. All callers see the same ones."""
        own = await self._pass_on("resources/templates/list", context, params)
        if own.next_cursor is not None:
            return own
        templates = [*own.resource_templates, *self.provider.templates]
        return ListResourceTemplatesResult(resource_templates=templates)

    async def complete(self, context: Any, params: CompleteRequestParams) -> Any:
        """completion/complete"""
        templates = {template.uri_template for template in self.provider.templates}
        if not isinstance(params.ref, ResourceTemplateReference) or params.ref.uri not in templates:
            if self.next_handler is None:
                return CompleteResult(completion=Completion(values=[]))
            return await self.next_handler(context, params)
        arguments = (params.context.arguments if params.context else None) or {}
        completions = await with_mcp_errors(
            lambda: self.provider.complete(
                params.argument.name, params.argument.value, arguments, self.current_principal()
            )
        )
        values = list(completions[:_MAXIMUM_COMPLETIONS])
        completion = Completion(
            values=values, total=len(completions), has_more=len(completions) > len(values)
        )
        return CompleteResult(completion=completion)

    def _log_request(self, context: Any, method: str) -> AbstractContextManager[LoggedRequest]:
        """The block answers one request. Its record is its own: a session's context is that of its first request."""
        request = context.request
        headers, client = (None, None) if request is None else (request.headers, request.client)
        ids = ids_of(headers, context.meta, client)
        record = LoggedRequest(
            id=ids.id, trace_id=ids.trace_id, address=ids.address, method=method, route=self.provider.name
        )
        return logged_request(record)

    async def _page(
        self, context: Any, cursor: str | None, before: Sequence[Resource]
    ) -> ListResourcesResult:
        with self._log_request(context, "resources/list"):
            page, following = await with_mcp_errors(
                lambda: self.provider.list(self.current_principal(), cursor)
            )
        return ListResourcesResult(
            resources=[*before, *page],
            next_cursor=None if following is None else f"{self.provider.name}.{following}",
            # Set explicitly, because with a server-wide hint a cache could show the list of one caller to another.
            ttl_ms=0,
            cache_scope="private",
        )

    async def _pass_on(self, method: str, context: Any, params: Any) -> Any:
        if self.next_handler is None:
            raise MCPError(INVALID_PARAMS, f"Nothing answers {method} here.")
        return await self.next_handler(context, params)


def register_provider(server: Any, provider: ResourceProvider, principal: PrincipalOf) -> None:
    """Serve the resources of `provider` on `server`.

    Raises:
        ConfigurationError: `server` is not of a supported and installed SDK.
    """
    below = low_level_server(server)
    chained = ChainedProvider(provider, current_principal(server, principal))
    for method, params, handle in (
        ("resources/read", ReadResourceRequestParams, ChainedProvider.read),
        ("resources/list", PaginatedRequestParams, ChainedProvider.list),
        ("resources/templates/list", PaginatedRequestParams, ChainedProvider.list_templates),
        ("completion/complete", CompleteRequestParams, ChainedProvider.complete),
    ):
        handler = below.get_request_handler(method)
        bound = replace(chained, next_handler=None if handler is None else handler.handler)
        below.add_request_handler(method, params, handle.__get__(bound))


async def with_mcp_errors(work: Callable[[], Awaitable[Any]], *, uri: str | None = None) -> Any:
    """The result of `work`. Its exceptions become MCPErrors, without the text of foreign exceptions.

    Args:
        uri: what is read, for the error's data.
    """
    try:
        return await work()
    except MCPError:
        raise
    except Exception as error:
        # The outermost edge: an SDK would show the text of any exception, and omit the hint of dualsql's errors.
        # The log has no URI: who knows the id of a result may read it.
        problem = problem_for(error, "resources" if uri is not None else "completion")
        record = REQUEST.get()
        if record is not None:
            record.code = problem["code"]
        message = problem["message"] if isinstance(error, DualResponseError) else "The request failed."
        data = {**({} if uri is None else {"uri": uri}), "code": problem["code"], "hint": problem["hint"]}
        raise MCPError(
            INVALID_PARAMS if isinstance(error, _CALLER_ERRORS) else INTERNAL_ERROR,
            f"{message} {problem['hint']}".rstrip(),
            {**problem["details"], **data},
        ) from error


def unknown_uri(uri: str, suggestions: Sequence[str] = ()) -> ResourceNotFoundError:
    """The error for a resource that does not exist or that the caller may not see.

    Args:
        suggestions: similar URIs that the caller may see.
    """
    hint = (
        f"Did you mean {' or '.join(suggestions)}?" if suggestions else "resources/list says what there is."
    )
    return ResourceNotFoundError(
        f"There is nothing at {uri[:200]!r}.", hint=hint, details={"suggestions": list(suggestions)}
    )


def announce_resources(dual: ResultServer, server: Any) -> None:
    """Add the entry of the REST service to the capabilities of `server`."""
    low_level_server(server).extensions[EXTENSION] = service_entry(dual)


def service_entry(dual: ResultServer) -> dict[str, Any]:
    """The entry: the URL of the REST service, what it has of the standard, its defaults."""
    return dict(service(dual.base_url, dual.settings, is_authenticated=dual.access.authenticate is not None))
