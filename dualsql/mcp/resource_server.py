"""Resources of ours on a server of either SDK, beside its own."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol

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

from dualsql.errors import (
    BadParameterError,
    ConfigurationError,
    DualResponseError,
    ForbiddenError,
    LimitExceededError,
    ResourceExpiredError,
    ResourceNotFoundError,
    UnauthenticatedError,
)
from dualsql.mcp.calls import problem_of
from dualsql.mcp.tool import registrar_of
from dualsql.resource import Principal, service

if TYPE_CHECKING:
    from dualsql.server import DualResponseServer

FindPrincipal = Callable[[], Principal | None]
"""Who sent the request that is being answered."""

Handler = Callable[[Any, Any], Awaitable[Any]]

_MOST_COMPLETIONS = 100
"""The protocol's own bound."""

# What another URI, or another caller, would make good. A client takes -32602 for a resource that is not there.
_OF_CALLERS = (
    BadParameterError,
    ForbiddenError,
    LimitExceededError,
    ResourceExpiredError,
    ResourceNotFoundError,
    UnauthenticatedError,
)


class ResourceProvider(Protocol):
    """Resources of one kind.

    Attributes:
        name: marks cursors of lists that go on here.
        templates: of the URIs that can be read.
    """

    name: str
    templates: Sequence[ResourceTemplate]

    def owns(self, uri: str) -> bool:
        """Whether a URI is one of this kind, be anything there or not."""
        ...

    async def read(self, uri: str, principal: Principal | None) -> ReadResourceResult:
        """What is there. Raises DualResponseError where nothing is, for this principal."""
        ...

    async def list(
        self, principal: Principal | None, cursor: str | None
    ) -> tuple[Sequence[Resource], str | None]:
        """Some of the resources that the principal sees, and where to go on."""
        ...

    async def complete(
        self, name: str, value: str, given: Mapping[str, str], principal: Principal | None
    ) -> Sequence[str]:
        """Values for a variable of the templates that begin with `value`, the others being as `given`."""
        ...


def low_level(server: Any) -> Server[Any]:
    """The low-level server below one of either SDK.

    Raises:
        ConfigurationError: `server` is of no SDK that is known and installed.
    """
    registrar_of(server)  # tells what is wrong with any other
    # Neither SDK has a public name for it; handlers can be added to it by its public methods.
    found = getattr(server, "_lowlevel_server", None) or getattr(server, "_mcp_server", None)
    if not isinstance(found, Server):
        raise ConfigurationError("The MCP SDK of this server is another than dualsql was written for.")
    return found


def principal_finder(server: Any, principal: Callable[[Any], Principal]) -> FindPrincipal:
    """Tells whom the access token stands for that the SDK of `server` has verified for a request."""
    is_fast = any(ancestor.__module__.partition(".")[0] == "fastmcp" for ancestor in type(server).__mro__)
    module = "fastmcp.server.dependencies" if is_fast else "mcp.server.auth.middleware.auth_context"
    find_token = import_module(module).get_access_token

    def find() -> Principal | None:
        token = find_token()
        return None if token is None else principal(token)

    return find


@dataclass(frozen=True, slots=True)
class ChainedProvider:
    """A shelf before the handlers that were there."""

    shelf: ResourceProvider
    who: FindPrincipal
    inner: Handler | None = None

    async def read(self, context: Any, params: ReadResourceRequestParams) -> Any:
        """resources/read"""
        uri = str(params.uri)
        if not self.shelf.owns(uri):
            return await self._pass_on("resources/read", context, params)
        return await answered(lambda: self.shelf.read(uri, self.who()), uri=uri)

    async def list(self, context: Any, params: PaginatedRequestParams) -> Any:
        """resources/list: the server's own first, then ours, in pages."""
        mark = f"{self.shelf.name}."
        cursor = params.cursor
        if cursor is not None and cursor.startswith(mark):
            return await self._page(cursor.removeprefix(mark), [])
        own = await self._pass_on("resources/list", context, params)
        return own if own.next_cursor is not None else await self._page(None, own.resources)

    async def list_templates(self, context: Any, params: PaginatedRequestParams) -> Any:
        """resources/templates/list: ours are the same for everybody, and few."""
        own = await self._pass_on("resources/templates/list", context, params)
        if own.next_cursor is not None:
            return own
        templates = [*own.resource_templates, *self.shelf.templates]
        return ListResourceTemplatesResult(resource_templates=templates)

    async def complete(self, context: Any, params: CompleteRequestParams) -> Any:
        """completion/complete"""
        known = {template.uri_template for template in self.shelf.templates}
        if not isinstance(params.ref, ResourceTemplateReference) or params.ref.uri not in known:
            if self.inner is None:
                return CompleteResult(completion=Completion(values=[]))
            return await self.inner(context, params)
        given = (params.context.arguments if params.context else None) or {}
        found = await answered(
            lambda: self.shelf.complete(params.argument.name, params.argument.value, given, self.who())
        )
        values = list(found[:_MOST_COMPLETIONS])
        completion = Completion(values=values, total=len(found), has_more=len(found) > len(values))
        return CompleteResult(completion=completion)

    async def _page(self, cursor: str | None, before: Sequence[Resource]) -> ListResourcesResult:
        found, following = await answered(lambda: self.shelf.list(self.who(), cursor))
        return ListResourcesResult(
            resources=[*before, *found],
            next_cursor=None if following is None else f"{self.shelf.name}.{following}",
            # Said aloud, or a hint for the whole server would let caches show one caller's list to another.
            ttl_ms=0,
            cache_scope="private",
        )

    async def _pass_on(self, method: str, context: Any, params: Any) -> Any:
        if self.inner is None:
            raise MCPError(INVALID_PARAMS, f"Nothing answers {method} here.")
        return await self.inner(context, params)


def register_provider(server: Any, shelf: ResourceProvider, principal: Callable[[Any], Principal]) -> None:
    """Serve the resources of `shelf` on `server`.

    Raises:
        ConfigurationError: `server` is of no SDK that is known and installed.
    """
    below = low_level(server)
    wrapped = ChainedProvider(shelf, principal_finder(server, principal))
    for method, params, handle in (
        ("resources/read", ReadResourceRequestParams, ChainedProvider.read),
        ("resources/list", PaginatedRequestParams, ChainedProvider.list),
        ("resources/templates/list", PaginatedRequestParams, ChainedProvider.list_templates),
        ("completion/complete", CompleteRequestParams, ChainedProvider.complete),
    ):
        inner = below.get_request_handler(method)
        bound = replace(wrapped, inner=None if inner is None else inner.handler)
        below.add_request_handler(method, params, handle.__get__(bound))


async def answered(work: Callable[[], Awaitable[Any]], *, uri: str | None = None) -> Any:
    """What `work` gives; what it raises, as the protocol tells it, without a word of what is not ours."""
    try:
        return await work()
    except MCPError:
        raise
    except Exception as error:
        # The outermost edge: an SDK would show what is not ours, or say less than we can.
        is_ours = isinstance(error, DualResponseError)
        problem = problem_of(error, uri or "completion")
        message = problem["message"] if is_ours else "The request failed."
        data = {**({} if uri is None else {"uri": uri}), "code": problem["code"], "hint": problem["hint"]}
        raise MCPError(
            INVALID_PARAMS if isinstance(error, _OF_CALLERS) else INTERNAL_ERROR,
            f"{message} {problem['hint']}".rstrip(),
            {**problem["details"], **data},
        ) from error


def bad_uri(uri: str, instead: Sequence[str] = ()) -> BadParameterError:
    """The one answer for all that a caller cannot see; `instead` has URIs that may be meant, and are seen."""
    guess = f"Did you mean {' or '.join(instead)}?" if instead else "resources/list says what there is."
    return BadParameterError(
        f"There is nothing at {uri[:200]!r}.", hint=guess, details={"suggestions": list(instead)}
    )


EXTENSION = "io.dualsql/resource-link-service"
"""The key of the entry in `capabilities.extensions`, which clients see since protocol 2026-07-28."""


def announce(dual: DualResponseServer, server: Any) -> None:
    """Put the service among the capabilities of `server`."""
    low_level(server).extensions[EXTENSION] = service(dual.base_url, dual.settings)
