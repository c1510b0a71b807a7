"""The feature Changes: listeners are notified when a resource is pinned, expires, is deleted or becomes ready.

It detects changes by this process immediately, and changes by others within `watch_interval`."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from dualsql.errors import LimitExceededError
from dualsql.extension import Extension, Parts
from dualsql.feature import Feature
from dualsql.log import Outage
from dualsql.resource import Clock, Resource, Status
from dualsql.settings import SettingsGroup, setting, takes
from dualsql.store.protocol import ResourceState, ResourceStore

if TYPE_CHECKING:
    from dualsql.server import ResultServer

logger = logging.getLogger(__name__)

ChangeListener = Callable[[], Awaitable[None]]
"""Called when the resource that it is subscribed to has changed."""

_SHORTEST_PAUSE = 0.05
"""Seconds. Resources that expire within this time are checked together."""

_LISTENER_TIMEOUT = 10.0
"""Seconds that one listener may take."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeSettings(SettingsGroup):
    """The arguments of `Changes`."""

    watch_interval: timedelta = setting(
        timedelta(seconds=5),
        "How often the store is asked for changes that other processes made to resources with subscribers.",
        positive=True,
    )
    maximum_watched: int = setting(1_000, "Resources that clients may subscribe to at once.")


class ChangeNotifier(Extension):
    """Watches the subscribed resources of a store, and does nothing while there are none."""

    def __init__(self, store: ResourceStore, clock: Clock, settings: ChangeSettings) -> None:
        self._store = store
        self._clock = clock
        self._interval = settings.watch_interval.total_seconds()
        self._maximum = settings.maximum_watched
        self._listeners: dict[str, dict[object, ChangeListener]] = {}
        self._states: dict[str, ResourceState] = {}
        self._notifying: set[asyncio.Task[None]] = set()
        self._task: asyncio.Task[None] | None = None
        self._wake = asyncio.Event()

    def subscribe(self, resource: Resource, listener: ChangeListener) -> Callable[[], None]:
        """Report every change of `resource`, until it is deleted or the returned function is called.

        Raises:
            LimitExceededError: there are as many subscriptions as the settings allow.
        """
        if resource.id not in self._listeners and len(self._listeners) >= self._maximum:
            raise LimitExceededError(
                "No more resources can be subscribed to now.", hint="Read the resource again instead."
            )
        key = object()
        self._listeners.setdefault(resource.id, {})[key] = listener
        self._states.setdefault(resource.id, ResourceState(resource.status, resource.expires_at))
        self._start()

        def unsubscribe() -> None:
            listeners = self._listeners.get(resource.id, {})
            listeners.pop(key, None)
            if not listeners:
                self._forget(resource.id)

        return unsubscribe

    def changed(self, resource_id: str) -> None:
        """Look for changes now, because this process has changed something."""
        self._wake.set()

    forget = changed

    def notify(self, resource_id: str) -> None:
        """Report a change that this process has made, and that `ResourceStore.standings` does not show."""
        if resource_id in self._listeners:
            self._notify(resource_id)

    def renew(self) -> None:
        """Forget the event loop of the last run and its listeners."""
        self._listeners.clear()
        self._states.clear()
        self._notifying.clear()
        self._task, self._wake = None, asyncio.Event()

    async def close(self) -> None:
        """End all subscriptions."""
        tasks = [*self._notifying, *([self._task] if self._task else [])]
        self._listeners.clear()
        self._states.clear()
        self._task = None
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _start(self) -> None:
        if self._task is None or self._task.done():
            self._wake = asyncio.Event()
            self._task = asyncio.create_task(self._run())
        self._wake.set()  # a change may have come between the reading of the resource and now

    def _forget(self, resource_id: str) -> None:
        self._listeners.pop(resource_id, None)
        self._states.pop(resource_id, None)

    async def _run(self) -> None:
        outage = Outage("Watching resources")
        while self._listeners:
            await self._pause()
            self._wake.clear()
            subscribed = list(self._listeners)
            try:
                states = await self._store.standings(subscribed)
            # A custom store may raise anything, and later changes have to be noticed.
            except Exception as error:  # noqa: BLE001
                outage.failed(error)
                await asyncio.sleep(self._interval)
            else:
                outage.succeeded()
                self._compare(subscribed, states)

    async def _pause(self) -> None:
        """Wait for the next event: a change by this process, an expiry, or the end of the interval."""
        now = self._clock.now()
        remaining = [(at - now).total_seconds() for _, at in self._states.values() if at is not None]
        due = max(min([self._interval, *remaining]), _SHORTEST_PAUSE)
        try:
            await asyncio.wait_for(self._wake.wait(), due)
        except TimeoutError:
            return
        # One query finds all changes of this time.
        await asyncio.sleep(_SHORTEST_PAUSE)

    def _compare(self, subscribed: Sequence[str], states: Mapping[str, ResourceState]) -> None:
        now = self._clock.now()
        for resource_id in subscribed:
            # Unsubscribed while the store was read.
            if resource_id not in self._listeners:
                continue
            before, after = self._states[resource_id], states.get(resource_id)
            is_over = after is None or (after.expires_at is not None and after.expires_at <= now)
            if is_over or _visible(before) != _visible(after):
                self._notify(resource_id)
            if after is None or is_over:
                self._forget(resource_id)
            else:
                self._states[resource_id] = after

    def _notify(self, resource_id: str) -> None:
        for listener in self._listeners[resource_id].values():
            task = asyncio.create_task(_call(listener))
            self._notifying.add(task)
            task.add_done_callback(self._notifying.discard)


def _visible(state: ResourceState | None) -> tuple[Status, bool] | None:
    """The part of a state that listeners are notified of: not a longer lifetime."""
    return None if state is None else (state.status, state.expires_at is None)


async def _call(listener: ChangeListener) -> None:
    try:
        async with asyncio.timeout(_LISTENER_TIMEOUT):
            await listener()
    except Exception:
        logger.debug("A listener could not be notified of a change.", exc_info=True)


class Changes(Feature):
    """Subscriptions to results, for MCP clients and other listeners. Its arguments are `ChangeSettings`.

    Attributes:
        notifier: takes subscriptions.
    """

    settings_group = ChangeSettings

    @takes(ChangeSettings)
    def __init__(self, settings: ChangeSettings) -> None:
        self.settings = settings

    def attach(self, server: ResultServer, parts: Parts) -> None:
        self.notifier = ChangeNotifier(parts.store, parts.clock, self.settings)
        server.features.add(self.notifier)
