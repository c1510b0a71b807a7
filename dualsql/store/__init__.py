"""Keeps resources until they expire. No SQL of a caller runs here."""

from __future__ import annotations

from dualsql.store.memory import MemoryStore
from dualsql.store.migrations import downgrade, migrations_path, upgrade
from dualsql.store.protocol import (
    Access,
    LinkRecord,
    ListingPosition,
    Requester,
    ResourceChanges,
    ResourceState,
    ResourceStore,
    Usage,
)
from dualsql.store.sql import SQLResourceStore

__all__ = [
    "Access",
    "LinkRecord",
    "ListingPosition",
    "MemoryStore",
    "Requester",
    "ResourceChanges",
    "ResourceState",
    "ResourceStore",
    "SQLResourceStore",
    "Usage",
    "downgrade",
    "migrations_path",
    "upgrade",
]
