"""Tell clients that a result was pinned, has expired or is gone; the rule: only who may read it hears of it.

Protocol 2026-07-28 opens a stream with `subscriptions/listen`; older clients send `resources/subscribe` for each URI,
and are told on the connection, which a stateless server over HTTP does not keep.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any

from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ResourceUpdated, SubscriptionBus
from mcp_types import (
    EmptyResult,
    SubscribeRequestParams,
    SubscriptionsListenRequestParams,
    UnsubscribeRequestParams,
)

from dualsql.errors import DualResponseError, LimitExceededError
from dualsql.mcp.resources_serving import answered, bad_uri, low_level
from dualsql.resource import Resource
from dualsql.watching import Watch

MOST_URIS = 100
"""Results that one stream, or one older connection, follows."""

Unfollow = Callable[[], None]
Find = Callable[[str], Awaitable[Resource]]
"""The result of a URI, for the caller of the present request; raises DualResponseError where there is none."""

_LISTEN = "subscriptions/listen"
_KEPT = "dualsql.subscriptions"


class Subscriptions:
    """Subscriptions to results, on one server.

    Args:
        owns: whether a URI is that of a result.
    """

    def __init__(self, watch: Watch, owns: Callable[[str], bool], find: Find) -> None:
        self._watch = watch
        self._owns = owns
        self._find = find
        self._bus: SubscriptionBus = InMemorySubscriptionBus()
        self._inner: Callable[[Any, Any], Awaitable[Any]] = ListenHandler(self._bus)
        self._streams: dict[str, int] = {}  # how many listen to a URI
        self._unfollow: dict[str, Unfollow] = {}

    def put_up(self, server: Any) -> None:
        """Answer what clients of either era send to subscribe."""
        below = low_level(server)
        bus, handler = getattr(server, "_subscriptions", None), below.get_request_handler(_LISTEN)
        if bus is not None and handler is not None:
            # The official SDK's own, on which a server publishes its other events. It has no public name.
            self._bus, self._inner = bus, handler.handler
        if handler is not None or bus is None:  # or its operator wants no streams
            below.add_request_handler(_LISTEN, SubscriptionsListenRequestParams, self.listen)
        below.add_request_handler("resources/subscribe", SubscribeRequestParams, self.subscribe)
        below.add_request_handler("resources/unsubscribe", UnsubscribeRequestParams, self.unsubscribe)

    async def listen(self, context: Any, params: SubscriptionsListenRequestParams) -> Any:
        """Serve a stream, and follow its results while it is open; what the caller may not read is left out."""
        asked = list(dict.fromkeys(params.notifications.resource_subscriptions or ()))
        found = await answered(lambda: self._readable([uri for uri in asked if self._owns(uri)]))
        uris = [uri for uri in asked if uri in found or not self._owns(uri)]
        honoured = params.notifications.model_copy(update={"resource_subscriptions": uris or None})
        with ExitStack() as following:
            for uri, resource in found.items():
                await answered(partial(self._join, uri, resource))
                following.callback(self._leave, uri)
            return await self._inner(context, params.model_copy(update={"notifications": honoured}))

    async def subscribe(self, context: Any, params: SubscribeRequestParams) -> EmptyResult:
        """Older clients: tell this connection of changes of one result."""
        uri = str(params.uri)
        await answered(partial(self._keep, context.session, uri), uri=uri)
        return EmptyResult()

    async def unsubscribe(self, context: Any, params: UnsubscribeRequestParams) -> EmptyResult:
        """Older clients: say no more of it. Nobody learns whether there was anything."""
        unfollow = _kept(context.session).pop(str(params.uri), None)
        if unfollow is not None:
            unfollow()
        return EmptyResult()

    async def _keep(self, session: Any, uri: str) -> None:
        if not self._owns(uri):
            raise bad_uri(uri)
        resource, kept = await self._find(uri), _kept(session)
        if uri not in kept:
            _check_number(len(kept) + 1)
            kept[uri] = self._watch.follow(resource, partial(session.send_resource_updated, uri))

    async def _readable(self, uris: Sequence[str]) -> dict[str, Resource]:
        _check_number(len(uris))
        found = {}
        for uri in uris:
            try:
                found[uri] = await self._find(uri)
            except DualResponseError:  # unknown, foreign or expired: it never fires, like any other URI
                continue
        return found

    async def _join(self, uri: str, resource: Resource) -> None:
        if uri not in self._streams:
            told = partial(self._bus.publish, ResourceUpdated(uri=uri))
            self._unfollow[uri] = self._watch.follow(resource, told)
        self._streams[uri] = self._streams.get(uri, 0) + 1

    def _leave(self, uri: str) -> None:
        self._streams[uri] -= 1
        if not self._streams[uri]:
            del self._streams[uri]
            self._unfollow.pop(uri)()


def _kept(session: Any) -> dict[str, Unfollow]:
    """What an older connection follows; it ends with the connection."""
    connection = session._connection  # noqa: SLF001 - the SDK has no public name for what outlives a request
    kept: dict[str, Unfollow] | None = connection.state.get(_KEPT)
    if kept is None:
        kept = connection.state[_KEPT] = {}
        connection.exit_stack.callback(_end, kept)
    return kept


def _end(kept: dict[str, Unfollow]) -> None:
    while kept:
        kept.popitem()[1]()


def _check_number(number: int) -> None:
    if number > MOST_URIS:
        raise LimitExceededError(f"At most {MOST_URIS} results can be subscribed to at once.")
