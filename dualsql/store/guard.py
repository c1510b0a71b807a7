"""Checks that a store of an application has all methods, and raises the failures of its backend as StorageError."""

from __future__ import annotations

from functools import wraps
from inspect import isclass, isfunction
from typing import Any, cast

from dualsql.errors import ConfigurationError, DualResponseError, StorageError, refuse_mistaken
from dualsql.events import store_operation
from dualsql.store.protocol import ResourceStore


def required_methods() -> list[str]:
    """The names of the methods that a store has."""
    return [
        name for name, value in vars(ResourceStore).items() if isfunction(value) and not name.startswith("_")
    ]


def checked_store(store: ResourceStore) -> ResourceStore:
    """The store. Errors of its backend are raised as StorageError.

    A store of a cache or a service raises the errors of that library: they are failures of the backend. Errors of
    Python itself are faults in the store's code and are raised unchanged, except OSError.

    Raises:
        ConfigurationError: it is a class, or it has not all methods of a ResourceStore.
    """
    kind = type(store).__name__
    if isclass(store):
        raise ConfigurationError(
            f"store= takes an object, and {store.__name__} is a class.", hint=f"store={store.__name__}(...)"
        )
    refuse_mistaken("store", store)
    missing = [name for name in required_methods() if not callable(getattr(store, name, None))]
    if missing:
        raise ConfigurationError(
            f"{kind} is no ResourceStore: it has no {', '.join(missing)}.",
            hint="dualsql.ResourceStore describes each method; a subclass of dualsql.MemoryStore has them all.",
            details={"lacking": missing},
        )
    return cast(ResourceStore, _Guarded(store))


class _Guarded:
    """Calls the methods of a store, and raises StorageError for the failures of its backend."""

    def __init__(self, store: ResourceStore) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._store, name)

        @wraps(method)
        async def call(*args: Any, **options: Any) -> Any:
            try:
                with store_operation(name):
                    return await method(*args, **options)
            except DualResponseError:
                raise
            except Exception as error:
                if type(error).__module__ == "builtins" and not isinstance(error, OSError):
                    raise
                raise StorageError("The resource store failed.") from error

        return call
