"""What an operator does with a running server and asks of it; see docs/operations.md."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass

from dualsql.databases.proof import missing_tables
from dualsql.extension import Parts
from dualsql.store.protocol import ResourceStore

logger = logging.getLogger(__name__)

TOLERATED_SKEW = 2.0
"""Seconds between the clocks of this machine and of the store."""


@dataclass(eq=False, repr=False)
class Maintenance:
    """The maintenance of one server.

    Attributes:
        store: as it was given to the server.
        sweep: deletes the resources that expired longer than `gone_retention` ago, and returns their number.
    """

    parts: Parts
    store: ResourceStore
    sweep: Callable[[], Awaitable[int]]

    def set_secrets(self, secrets: Sequence[str]) -> None:
        """Replace the secrets while requests run: the first one signs from now on, and all of them are accepted.

        In two steps on every server, no link and no cursor is refused: first [old, new], then [new, old].

        Raises:
            ConfigurationError: there is none, or one is too short; the former ones stay.
        """
        if not self.parts.seal.replace(secrets):
            logger.warning(
                "The secret that signed until now was removed: results that it signed cannot be read."
            )

    @property
    def maximum_connections(self) -> int:
        """How many connections this worker opens at most, to all its databases and its store (docs/operations.md)."""
        sources = sum(source.maximum_connections for source in self.parts.sources.values())
        return sources + self._store_connections

    @property
    def _store_connections(self) -> int:
        # ResourceStore does not ask for this attribute: a store of the application may have no connections.
        return int(getattr(self.store, "maximum_connections", 0))

    @property
    def unproved(self) -> Sequence[str]:
        """The names of the databases without read-only sessions; see `Settings.unproved_read_only`."""
        sources = self.parts.sources.items()
        return [name for name, source in sources if not source.backend.has_read_only_sessions]

    async def notices(self) -> AsyncIterator[str]:
        """What an operator should know, in one sentence each; the server asks when it starts."""
        ahead = (await self.parts.clock.synchronize()).total_seconds()
        if abs(ahead) > TOLERATED_SKEW:
            yield (
                f"The clock of this machine is {abs(ahead):,.0f} seconds {'ahead of' if ahead > 0 else 'behind'} the "
                "store's. Results expire by the store's clock. Set both clocks, for example with NTP."
            )
        for source in self.parts.sources.values():
            if not source.backend.has_read_only_sessions:
                from dualsql.databases.unproved import unproved_notice

                yield unproved_notice(source.name, source.capabilities.name)
        sources = self.parts.sources
        missing_in = [await missing_tables(source) for source in sources.values()]
        # One registry serves all databases, so a table that one of them lacks may be in another.
        if missing := sorted(set(missing_in[0]).intersection(*missing_in)):
            yield f"No database has the tables: {', '.join(missing)[:1000]}. Queries of them will fail."
        for name, source in sources.items():
            if source.backend.rights is None:
                continue
            from dualsql.databases.rights import connection_limit

            number = source.maximum_connections
            # The limit is the server's: the store's connections count, too, if it is in a database there.
            if (server := getattr(self.store, "server", None)) is not None:
                from dualsql.databases.reach import server_at

                if server == server_at(source.engine.sync_engine.url):
                    number += self._store_connections
            allowed = await connection_limit(source)
            if allowed is not None and number > allowed:
                yield (
                    f"This worker may open {number} connections to the database {name!r} (and its store, if that is on "
                    f"the same server), which allows this user {allowed}. Lower maximum_concurrent_queries, "
                    "maximum_streams or maximum_pending, or raise max_connections (docs/operations.md)."
                )
