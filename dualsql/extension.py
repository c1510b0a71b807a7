"""What runs with a server: the parts that its features build on, and what a server calls in them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar

from dualsql.databases.source import Source
from dualsql.errors import ConfigurationError
from dualsql.events import EVENTS, BackgroundFailed, GaugeReading
from dualsql.freeze import Registry, Seal
from dualsql.log import log_unforeseen
from dualsql.resource import Addresses, Clock
from dualsql.results.access import AccessControl
from dualsql.results.create import Creator
from dualsql.results.pages import ResultPages
from dualsql.results.streams import Streams
from dualsql.results.view import Views
from dualsql.settings import Settings
from dualsql.store.protocol import ResourceStore
from dualsql.tenancy import Policy

E = TypeVar("E", bound="Extension")

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """The parts of a server that features build on.

    Attributes:
        ready: starts the server on first use; every request awaits it. A server that was shut down is not started, nor
            one whose databases failed a proof.
    """

    ready: Callable[[], Awaitable[None]]
    settings: Settings
    addresses: Addresses
    registry: Registry
    policy: Policy
    sources: dict[str, Source]
    store: ResourceStore
    seal: Seal
    clock: Clock
    access: AccessControl
    views: Views
    pages: ResultPages
    streams: Streams
    creator: Creator


class Extension:
    """What starts, works and ends with a server. A subclass overrides what it needs."""

    async def start(self) -> None:
        """Begin to work, in the running event loop: once in a run, when the store is open."""

    async def drain(self, timeout: timedelta) -> int:
        """Let what runs end within `timeout`. Returns how much still runs."""
        return 0

    async def close(self) -> None:
        """End all work, while the store is open."""

    async def release(self) -> None:
        """Close what requests read, when the store is closed."""

    def renew(self) -> None:
        """Replace what belongs to the event loop of the last run."""

    def abandon(self) -> None:
        """Drop connections whose event loop has ended without a shutdown."""

    def forget(self, resource_id: str) -> None:
        """End the work for a result that was deleted."""

    def changed(self, resource_id: str) -> None:
        """Notice that a result was pinned or unpinned."""

    async def sweep(self) -> None:
        """Delete what no result needs any more; called at each `Settings.cleanup_interval`."""

    def readings(self) -> Iterator[GaugeReading]:
        """What is in use now."""
        yield from ()


class Extensions:
    """The extensions of one server, in their order. A class stands for its subclasses, too."""

    def __init__(self) -> None:
        self._all: list[Extension] = []

    def add(self, extension: Extension) -> None:
        """Add an extension; raises ConfigurationError if there is one of this class, of a subclass or of a base."""
        for other in self._all:
            if isinstance(other, type(extension)) or isinstance(extension, type(other)):
                names = " and ".join(dict.fromkeys(type(each).__name__ for each in (other, extension)))
                raise ConfigurationError(f"One feature is given twice: {names}.", hint="Leave one out.")
        self._all.append(extension)

    def __iter__(self) -> Iterator[Extension]:
        return iter(self._all)

    def __contains__(self, kind: type[Extension]) -> bool:
        return any(isinstance(each, kind) for each in self._all)

    def get(self, kind: type[E]) -> E:
        """The extension of this class, or of a subclass; raises ConfigurationError unless there is one."""
        matches = [each for each in self._all if isinstance(each, kind)]
        if len(matches) > 1:
            names = ", ".join(type(each).__name__ for each in matches)
            raise ConfigurationError(f"Several features are a {kind.__name__}: {names}.", hint="Name one.")
        if not matches:
            raise ConfigurationError(
                f"This server has no feature {kind.__name__}.",
                hint=f"Add it to the features of the server: features=default_features({kind.__name__}(...)).",
            )
        return matches[0]

    # A failure of one is logged, and the others are called all the same: those of other packages may raise anything.

    def forget(self, resource_id: str) -> None:
        """Call `forget` of each one."""
        for each in self._all:
            with _logged(each, "forget a result"):
                each.forget(resource_id)

    def changed(self, resource_id: str) -> None:
        """Call `changed` of each one."""
        for each in self._all:
            with _logged(each, "notice a change"):
                each.changed(resource_id)

    async def sweep(self) -> None:
        """Call `sweep` of each one."""
        for each in self._all:
            with _logged(each, "sweep"):
                await each.sweep()

    async def drain(self, timeout: timedelta) -> int:
        """Call `drain` of all at once. Returns how much still runs."""

        left: list[int] = []

        async def drain(each: Extension) -> None:
            with _logged(each, "drain"):
                left.append(await each.drain(timeout))

        await asyncio.gather(*map(drain, self._all))
        return sum(left)


@contextmanager
def _logged(extension: Extension, what: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:  # noqa: BLE001 - see above
        log_unforeseen(logger, error, "The feature %s failed to %s", type(extension).__name__, what)
        EVENTS.report(BackgroundFailed("Sweeping" if what == "sweep" else what))
