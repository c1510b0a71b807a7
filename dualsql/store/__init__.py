"""Keeps resources until they expire. No SQL of a caller runs here."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from dualsql.store.memory import MemoryStore
from dualsql.store.protocol import KeptChange, Requester, ResourceChanges, ResourceStore

if TYPE_CHECKING:
    from dualsql.store.keyed import KeyValueStore
    from dualsql.store.migrations import downgrade, migrations_path, upgrade
    from dualsql.store.sql import SQLResourceStore

__all__ = [
    "KeptChange", "KeyValueStore", "MemoryStore", "Requester", "ResourceChanges", "ResourceStore", "SQLResourceStore",
    "downgrade", "migrations_path", "upgrade",
]  # fmt: skip

# Imported on first use: a server needs one store, and none needs Alembic, a third of what importing dualsql costs.
_MODULES = {"KeyValueStore": "keyed", "SQLResourceStore": "sql"}
_MODULES |= dict.fromkeys(("downgrade", "migrations_path", "upgrade"), "migrations")


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"dualsql.store.{_MODULES[name]}"), name)
