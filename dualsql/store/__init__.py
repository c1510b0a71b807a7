"""Keeps resources until they expire. No SQL of a caller runs here."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from dualsql.store.memory import MemoryStore
from dualsql.store.protocol import (
    Access,
    KeptChange,
    LinkRecord,
    ListingPosition,
    Requester,
    ResourceChanges,
    ResourcePage,
    ResourceState,
    ResourceStore,
    Usage,
)

if TYPE_CHECKING:
    from dualsql.store.keyed import KeyValueStore
    from dualsql.store.migrations import downgrade, migrations_path, upgrade
    from dualsql.store.sql import SQLResourceStore

# Imported on first use: a server needs one store, and none needs Alembic, a third of what importing dualsql costs.
_MODULES = {
    "KeyValueStore": "dualsql.store.keyed",
    "SQLResourceStore": "dualsql.store.sql",
    "downgrade": "dualsql.store.migrations",
    "migrations_path": "dualsql.store.migrations",
    "upgrade": "dualsql.store.migrations",
}

__all__ = [
    "Access",
    "KeptChange",
    "KeyValueStore",
    "LinkRecord",
    "ListingPosition",
    "MemoryStore",
    "Requester",
    "ResourceChanges",
    "ResourcePage",
    "ResourceState",
    "ResourceStore",
    "SQLResourceStore",
    "Usage",
    "downgrade",
    "migrations_path",
    "upgrade",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)
