"""The errors for a database URL that dualsql cannot open. None shows a URL with a password."""

from __future__ import annotations

import re
from pathlib import PurePath

from sqlalchemy import URL

from dualsql.databases.plugins import kind_of_file, loadable_backends
from dualsql.errors import ConfigurationError


def unknown_database(name: str) -> ConfigurationError:
    """The error for a kind of database that dualsql does not know how to keep read-only."""
    *others, last = dict.fromkeys(backend.capabilities.name for _, backend in loadable_backends())
    return ConfigurationError(
        f"dualsql cannot keep the database {name[:40]!r} read-only.",
        hint=f"Supported databases: {', '.join(others)} and {last}.",
    )


def without_async_driver(name: str) -> ConfigurationError:
    """The error for a database whose URL needs an async driver, where none is known."""
    names = [key for key, backend in loadable_backends() if backend.driver and key not in backend.spellings]
    return ConfigurationError(
        f"dualsql knows no async driver for the database {name[:40]!r}.",
        hint=f"Use one of {', '.join(sorted(names))}.",
    )


def malformed_url(url: str | URL) -> ConfigurationError:
    """The error for what is no URL, with how to write one; for the name of a file, that file's."""
    text = str(url)
    kind = kind_of_file(PurePath(text).suffix) if _FILE.fullmatch(text) else None
    hint = "Write it as driver://user:password@host:port/database."
    if "::" in text:
        hint += " An IPv6 host is in brackets: [::1]."
    if kind is not None:
        hint = f"Write the file's URL: {kind}:///{text[:200]}"
    return ConfigurationError("The database URL is malformed.", hint=hint)


# The name of a file alone has no password to hide.
_FILE = re.compile(r"[\w./\\ -]+", re.ASCII)


def wrong_host(url: URL) -> ConfigurationError:
    """The error for a password that ends within the host, and for sqlite://shop.db: after two slashes is a host."""
    if "@" in str(url.host):
        return ConfigurationError(
            "The database URL has more than one @ before its host.",
            hint="In a user or a password, write @ as %40, and % as %25.",
        )
    path = f"{url.host}/{url.database or ''}".rstrip("/")[:200]
    kind = url.get_backend_name()
    return ConfigurationError(
        f"The database URL names a host, and a {kind} database is a file.",
        hint=f"Write three slashes before the path: {kind}:///{path}",
    )
