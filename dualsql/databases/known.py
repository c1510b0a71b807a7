"""Which databases there are, and the errors for one that cannot be opened. No error shows a URL with a password."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from importlib.metadata import entry_points
from pathlib import PurePath

from sqlalchemy import URL

from dualsql.databases.added import ENTRY_POINTS
from dualsql.databases.backends import Backend, backend_named
from dualsql.databases.table import OWN
from dualsql.errors import ConfigurationError


def known_backends() -> Iterator[tuple[str, Backend]]:
    """All databases that can be loaded, by SQLAlchemy's name and by the names that URLs have."""
    for name in dict.fromkeys([*OWN, *(entry.name for entry in entry_points(group=ENTRY_POINTS))]):
        # A database that cannot be loaded is reported when it is opened.
        with suppress(ConfigurationError):
            backend = backend_named(name)
            if backend is not None:
                yield name, backend


def kind_of_file(suffix: str) -> str | None:
    """What SQLAlchemy calls the databases that are files with this suffix."""
    return next((name for name, backend in known_backends() if suffix.lower() in backend.file_suffixes), None)


def unknown_database(name: str) -> ConfigurationError:
    """The error for a kind of database that dualsql does not know how to keep read-only."""
    *others, last = dict.fromkeys(backend.capabilities.name for _, backend in known_backends())
    return ConfigurationError(
        f"dualsql cannot keep the database {name[:40]!r} read-only.",
        hint=f"Supported databases: {', '.join(others)} and {last}.",
    )


def without_async_driver(name: str) -> ConfigurationError:
    """The error for a database whose URL needs an async driver, where none is known."""
    known = [key for key, backend in known_backends() if backend.driver and key not in backend.spellings]
    return ConfigurationError(
        f"dualsql knows no async driver for the database {name[:40]!r}.",
        hint=f"Use one of {', '.join(sorted(known))}.",
    )


def malformed(given: str | URL) -> ConfigurationError:
    """The error for what is no URL, with how to write one; for the name of a file, that file's."""
    text = str(given)
    kind = kind_of_file(PurePath(text).suffix) if _FILE.fullmatch(text) else None
    hint = "Write it as driver://user:password@host:port/database."
    if kind is not None:
        hint = f"Write the file's URL: {kind}:///{text[:200]}"
    return ConfigurationError("The database URL is malformed.", hint=hint)


# The name of a file alone has no password to hide.
_FILE = re.compile(r"[\w./\\ -]+", re.ASCII)


def file_with_host(url: URL) -> ConfigurationError:
    """The error for sqlite://shop.db: two slashes are followed by a host."""
    path = f"{url.host}/{url.database or ''}".rstrip("/")[:200]
    kind = url.get_backend_name()
    return ConfigurationError(
        f"The database URL names a host, and a {kind} database is a file.",
        hint=f"Write three slashes before the path: {kind}:///{path}",
    )
