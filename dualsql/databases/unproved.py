"""Databases without read-only sessions, which `Settings.unproved_read_only` allows."""

from __future__ import annotations

from collections.abc import Collection

from dualsql.errors import ConfigurationError
from dualsql.freeze import Registry
from dualsql.settings import Settings


def require_allowed(name: str, kind: str, registry: Registry, settings: Settings) -> None:
    """Raise ConfigurationError unless a database without read-only sessions is allowed and only SELECTs can be sent."""
    allowed = settings.unproved_read_only
    if not (allowed if isinstance(allowed, bool) else name in allowed):
        raise ConfigurationError(
            f"dualsql knows no read-only sessions of {kind}: nothing proves that the database {name!r} is only read.",
            hint="Use a database user that may only read.",
            developer_hint="Use a database user that may only read, and set unproved_read_only=True, or to the names "
            "of such sources.",
            details={"setting": "unproved_read_only"},
        )
    if registry.allow_text:
        raise ConfigurationError(
            f"allow_text is not supported: no read-only sessions of {kind} are known, and a text may write.",
            hint="Write the statements with select().",
        )


def require_source_names(settings: Settings, names: Collection[str]) -> None:
    """Raise ConfigurationError if it is not clear which database has no read-only sessions."""
    unproved = settings.unproved_read_only
    hint = f"Name the databases that have no read-only sessions, of: {', '.join(sorted(names))}."
    if unproved is True and len(names) > 1:
        raise ConfigurationError("unproved_read_only=True is for a server with one database.", hint=hint)
    unknown = [] if isinstance(unproved, bool) else sorted(set(unproved).difference(names))
    if unknown:
        raise ConfigurationError(f"unproved_read_only: there is no source {unknown[0]!r}.", hint=hint)


def unproved_notice(name: str, kind: str) -> str:
    """The warning about a database of this name and kind whose sessions cannot be proved read-only."""
    return (
        f"No read-only sessions of {kind} are known: nothing proves that the database "
        f"{name!r} is only read (unproved_read_only). Its user must have no right to write."
    )
