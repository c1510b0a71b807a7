"""Databases of other packages, by their entry points. An error in their code names it, and is no error of a query.

The name of an entry point is SQLAlchemy's name of the dialect (`dialect.name`); its object is a `Backend`.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Iterator
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    asynccontextmanager,
    contextmanager,
    nullcontext,
    suppress,
)
from dataclasses import replace
from functools import partial
from importlib.metadata import EntryPoint, entry_points
from inspect import isawaitable
from typing import Any

from dualsql.databases.backends import OWN, Backend, backend_named
from dualsql.errors import ConfigurationError

ENTRY_POINTS = "dualsql.databases"
"""The group of entry points of databases: dualsql's own, and those that other packages add."""

logger = logging.getLogger(__name__)

# What faulty code raises. Drivers, SQLAlchemy and the network have errors of their own, which say what failed.
_OF_CODE = (ValueError, TypeError, ArithmeticError, LookupError, AttributeError, AssertionError, RuntimeError)


def load_backend(name: str, bare: str) -> Backend | None:
    """The database of another package.

    Without one of this name, or of the part before its dot: what holds on any dialect; None if SQLAlchemy has none.

    Raises:
        ConfigurationError: the entry point of that name cannot be loaded, or is not a Backend.
    """
    entry = next((each for each in entry_points(group=ENTRY_POINTS) if each.name in (name, bare)), None)
    if entry is None:
        from dualsql.databases.other import backend_for

        return backend_for(bare)
    return _backend_at(entry)


def _backend_at(entry: EntryPoint) -> Backend:
    try:
        backend = entry.load()
    except Exception as error:
        raise ConfigurationError(
            f"The database {entry.name[:40]!r} cannot be loaded: the package that provides it failed.",
            hint=f"Its entry point is {entry.value[:80]!r}, in the group {ENTRY_POINTS}.",
        ) from error
    if not isinstance(backend, Backend):
        raise ConfigurationError(
            f"The entry point {entry.value[:80]!r} is not a database.",
            hint="It must be a dualsql.databases.backends.Backend.",
        )
    guard: Any = NamedGuard(backend.guard)
    rights: Any = None if backend.rights is None else NamedGuard(backend.rights)
    return replace(backend, guard=guard, rights=rights)


def loadable_backends() -> Iterator[tuple[str, Backend]]:
    """All databases that can be loaded, dualsql's own too, by SQLAlchemy's name and by the names that URLs have."""
    for name in _names():
        # A database that cannot be loaded is reported when it is opened.
        with suppress(ConfigurationError):
            backend = backend_named(name)
            if backend is not None:
                yield name, backend


def _names() -> Iterator[str]:
    """Those of dualsql first: entry points are read, from a file of each installed package, only for others."""
    yield from OWN
    yield from dict.fromkeys(
        entry.name for entry in entry_points(group=ENTRY_POINTS) if entry.name not in OWN
    )


def kind_of_file(suffix: str) -> str | None:
    """SQLAlchemy's name of the databases that are files with this suffix."""
    return next((name for name, each in loadable_backends() if suffix.lower() in each.file_suffixes), None)


class NamedGuard:
    """A `Guard`, or `UserRights`, whose faults are ConfigurationErrors that name it."""

    def __init__(self, guard: Any) -> None:
        self._guard = guard

    def __getattr__(self, name: str) -> Any:
        member = getattr(self._guard, name)
        return partial(self._call, name, member) if callable(member) else member

    def _call(self, name: str, method: Any, *arguments: Any, **keywords: Any) -> Any:
        with self._naming(name):
            answer = method(*arguments, **keywords)
        if isinstance(answer, nullcontext):  # a block of both kinds, which cannot fail
            return answer
        if isinstance(answer, AbstractAsyncContextManager):
            return self._session(name, answer)
        if isinstance(answer, AbstractContextManager):
            return self._block(name, answer)
        return self._await(name, answer) if isawaitable(answer) else answer

    async def _await(self, name: str, answer: Awaitable[Any]) -> Any:
        with self._naming(name):
            return await answer

    @asynccontextmanager
    async def _session(self, name: str, block: AbstractAsyncContextManager[Any]) -> AsyncIterator[Any]:
        with self._naming(name):
            value = await block.__aenter__()
        try:
            yield value
        except BaseException as error:
            with self._naming(name, raised=error):
                if not await block.__aexit__(type(error), error, error.__traceback__):
                    raise
        else:
            with self._naming(name):
                await block.__aexit__(None, None, None)

    @contextmanager
    def _block(self, name: str, block: AbstractContextManager[Any]) -> Iterator[Any]:
        with self._naming(name):
            value = block.__enter__()
        try:
            yield value
        except BaseException as error:
            with self._naming(name, raised=error):
                if not block.__exit__(type(error), error, error.__traceback__):
                    raise
        else:
            with self._naming(name):
                block.__exit__(None, None, None)

    @contextmanager
    def _naming(self, name: str, *, raised: BaseException | None = None) -> Iterator[None]:
        """Name the guard in the errors of its method `name`; `raised` is the error of the block inside it, if any."""
        try:
            yield
        except _OF_CODE as error:
            if error is raised:
                raise
            kind = type(self._guard)
            message = f"{kind.__module__}.{kind.__qualname__}.{name} failed with {type(error).__name__}."
            logger.exception(message)
            raise ConfigurationError(
                message,
                hint="Mend the package that adds this database; dualsql.testing has tests for it.",
            ) from error
