"""Where resources are kept between a tool's answer and the application's last page; the rule: it runs no caller's SQL."""

from __future__ import annotations

from dualsql.store.memory import MemoryStore
from dualsql.store.migrations import downgrade, migrations_path, upgrade
from dualsql.store.protocol import ResourceChanges, ResourceStore
from dualsql.store.sql import SQLResourceStore

__all__ = [
    "MemoryStore",
    "ResourceChanges",
    "ResourceStore",
    "SQLResourceStore",
    "downgrade",
    "migrations_path",
    "upgrade",
]
