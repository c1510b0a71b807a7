"""Keeps resources until they expire. No SQL of a caller runs here."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from dualsql.store.keyed import KeyValueStore
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
from dualsql.store.sql import SQLResourceStore

if TYPE_CHECKING:
    from dualsql.store.migrations import downgrade, migrations_path, upgrade

# Imported on first use: Alembic is a third of what importing dualsql costs, and a server needs none of it.
_OF_MIGRATIONS = frozenset({"downgrade", "migrations_path", "upgrade"})

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
    if name not in _OF_MIGRATIONS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("dualsql.store.migrations"), name)
