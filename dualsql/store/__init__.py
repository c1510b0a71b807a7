"""Keeps resources until they expire. No SQL of a caller runs here."""

from __future__ import annotations

from dualsql.store.memory import MemoryStore
from dualsql.store.migrations import downgrade, migrations_path, upgrade
from dualsql.store.protocol import Requester, ResourceChanges, ResourceStore
from dualsql.store.sql import SQLResourceStore

__all__ = [
    "MemoryStore",
    "Requester",
    "ResourceChanges",
    "ResourceStore",
    "SQLResourceStore",
    "downgrade",
    "migrations_path",
    "upgrade",
]
