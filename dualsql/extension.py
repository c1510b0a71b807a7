"""What runs with a server: the parts that its features build on, and what a server calls in them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from dualsql.databases.source import Database, open_sources
from dualsql.errors import ConfigurationError
from dualsql.events import EVENTS, BackgroundFailed, GaugeReading
from dualsql.freeze import Registry
from dualsql.log import log_unforeseen
from dualsql.resource import Addresses, Clock
from dualsql.results.access import AccessControl, Authenticate, Authorize, seal_for
from dualsql.results.create import Creator, missing_feature
from dualsql.results.pages import Cursors, ResultPages
from dualsql.results.streams import Streams
from dualsql.results.view import Views
from dualsql.settings import Settings
from dualsql.store.housekeeping import AccessLog
from dualsql.store.protocol import ResourceStore
from dualsql.tenancy import Hook, Policy

if TYPE_CHECKING:
    from dualsql.results.audit import Audit

E = TypeVar("E", bound="Extension")

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class KernelOptions:
    """The arguments of a server besides its features."""

    databases: Database | Mapping[str, Database] = field(kw_only=False)
    base_url: str
    tables: Any
    store: ResourceStore | None = None
    secrets: Sequence[str] = ()
    hooks: Sequence[Hook] = ()
    authenticate: Authenticate | None = None
    authorize: Authorize | None = None
    audit: Audit | None = None
    settings: Settings | None = None

    def __post_init__(self) -> None:
        """Refuse what would otherwise fail at the first request."""
        for name in ("authenticate", "authorize", "audit"):
            if not callable(getattr(self, name) or bool):
                raise ConfigurationError(
                    f"{name} must be a function.", hint="docs/identity.md has an example of each."
                )
        if self.settings is not None and not isinstance(self.settings, Settings):
            raise ConfigurationError(
                "settings must be a Settings.",
                hint="Write settings=Settings(query_timeout=timedelta(seconds=3)).",
            )


class Parts:
    """The parts of a server, which its features build on.

    Attributes:
        ready: starts the server on first use; every request awaits it. A server that was shut down is not started, nor
            one whose databases failed a proof.
    """

    def __init__(
        self, options: KernelOptions, store: ResourceStore, ready: Callable[[], Awaitable[None]]
    ) -> None:
        self.ready = ready
        self.settings = settings = options.settings or Settings()
        self.store = store
        if type(store).__module__ not in {"dualsql.store.memory", "dualsql.store.sql"}:
            from dualsql.store.guard import checked_store

            # Ours raise StorageError by themselves. A subclass of them may not.
            self.store = checked_store(store)
        self.seal = seal_for(store, options.secrets)
        self.clock = Clock(self.store)
        self.addresses = Addresses.of(options.base_url, settings.uri_scheme)
        self.access = AccessControl(
            self.store, self.seal, settings, AccessLog(self.store), self.clock,
            authenticate=options.authenticate, authorize=options.authorize, audit=options.audit,
        )  # fmt: skip
        self.registry = _registry(options.tables, settings)
        self.policy = Policy(self.registry, options.hooks)
        self.sources = open_sources(options.databases, self.registry, settings)
        self.views = Views(self.sources, self.policy, settings)
        self.pages = ResultPages(Cursors(self.seal), self.access)
        self.streams = Streams(self.seal, settings, self.access)
        self.creator = Creator(
            self.sources, self.views, self.access, settings=settings, addresses=self.addresses
        )


def _registry(tables: Any, settings: Settings) -> Registry:
    if not isinstance(tables, Registry):
        return Registry(tables, allow_text=settings.allow_text)
    if settings.allow_text and not tables.allow_text:
        raise ConfigurationError(
            "allow_text has no effect on a Registry that was created before.",
            hint="Create it with Registry(..., allow_text=True).",
        )
    return tables


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
            raise missing_feature(kind.__name__)
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

        still_running: list[int] = []

        async def drain(each: Extension) -> None:
            with _logged(each, "drain"):
                still_running.append(await each.drain(timeout))

        await asyncio.gather(*map(drain, self._all))
        return sum(still_running)


@contextmanager
def _logged(extension: Extension, what: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:  # noqa: BLE001 - see above
        log_unforeseen(logger, error, "The feature %s failed to %s", type(extension).__name__, what)
        EVENTS.report(BackgroundFailed("Sweeping" if what == "sweep" else what))
