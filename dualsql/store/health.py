"""Whether a store can be reached, for readiness checks."""

from __future__ import annotations

from datetime import UTC, datetime

from dualsql.errors import StorageError
from dualsql.log import Outage
from dualsql.store.protocol import MIGRATE_HINT, LinkRecord, ResourceStore


class StoreHealth:
    """Whether a store can be read and has the tables of this release, for readiness checks."""

    def __init__(self, store: ResourceStore) -> None:
        self._store = store
        self._outage = Outage("The health check of the store")

    async def state(self) -> str:
        """One of "ok", "not migrated" and "unreachable"."""
        try:
            await self._store.get(_UNUSED_ID)
            await self._store.has_link(
                LinkRecord(id=_UNUSED_ID, resource_id=_UNUSED_ID, expires_at=datetime.now(UTC))
            )
        except StorageError as error:
            self._outage.failed(error)
            return "not migrated" if error.hint == MIGRATE_HINT else "unreachable"
        self._outage.succeeded()
        return "ok"


_UNUSED_ID = "health"
"""The id of no resource and no link: their ids are longer."""
