"""What runs with a server: the parts that its features build on, and what a server calls in them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar, cast

from dualsql.databases import Source
from dualsql.errors import ConfigurationError
from dualsql.events import GaugeReading
from dualsql.freeze import Registry, Seal
from dualsql.resource import Addresses, Clock
from dualsql.results.access import AccessControl
from dualsql.results.create import Creator
from dualsql.results.jobs import Jobs
from dualsql.results.links import Links
from dualsql.results.pages import ResultPages
from dualsql.results.progress import RunRecords
from dualsql.results.streams import Streams
from dualsql.results.view import Views
from dualsql.settings import Settings
from dualsql.store.notifier import ChangeNotifier
from dualsql.store.protocol import ResourceStore
from dualsql.tenancy import Policy

E = TypeVar("E", bound="Extension")


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """The parts of a server that features build on."""

    settings: Settings
    addresses: Addresses
    registry: Registry
    policy: Policy
    sources: dict[str, Source]
    store: ResourceStore
    seal: Seal
    clock: Clock
    access: AccessControl
    links: Links
    records: RunRecords
    views: Views
    pages: ResultPages
    streams: Streams
    jobs: Jobs
    creator: Creator
    notifier: ChangeNotifier


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

    async def sweep(self) -> None:
        """Delete what no result needs any more; called at each `Settings.cleanup_interval`."""

    def readings(self) -> Iterator[GaugeReading]:
        """What is in use now."""
        return iter(())


class Extensions:
    """The extensions of one server by their class, in their order."""

    def __init__(self) -> None:
        self._by_class: dict[type[Extension], Extension] = {}

    def add(self, extension: Extension) -> None:
        """Add an extension.

        Raises:
            ConfigurationError: there is one of this class.
        """
        if type(extension) in self._by_class:
            raise ConfigurationError(f"The feature {type(extension).__name__} is given twice.")
        self._by_class[type(extension)] = extension

    def __iter__(self) -> Iterator[Extension]:
        return iter(self._by_class.values())

    def __contains__(self, kind: type[Extension]) -> bool:
        return kind in self._by_class

    def get(self, kind: type[E]) -> E:
        """The extension of this class.

        Raises:
            ConfigurationError: the server does not have it.
        """
        extension = self._by_class.get(kind)
        if extension is None:
            raise ConfigurationError(
                f"This server has no feature {kind.__name__}.",
                hint=f"Add it: DualResponseServer(features=[..., {kind.__name__}(...)]).",
            )
        return cast(E, extension)
