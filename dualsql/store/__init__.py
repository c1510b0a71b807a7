"""Where resources are kept until they expire; the rule: no SQL of a caller runs here."""

from __future__ import annotations

from dualsql.store.memory import MemoryStore
from dualsql.store.migrations import downgrade, migrations_path, upgrade
from dualsql.store.protocol import ResourceChanges, ResourceStore, Viewer
from dualsql.store.sql import SQLResourceStore

__all__ = [
    "MemoryStore",
    "ResourceChanges",
    "ResourceStore",
    "SQLResourceStore",
    "Viewer",
    "downgrade",
    "migrations_path",
    "upgrade",
]
