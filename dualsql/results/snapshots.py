"""Entity tags of streams over data of which the operator says when they change: `Settings.snapshot_tags`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from hashlib import sha256
from typing import TYPE_CHECKING

from dualsql.errors import ConfigurationError

if TYPE_CHECKING:
    from dualsql.results.streams import StreamRun


def require_sources(tags: Iterable[str], sources: Iterable[str]) -> None:
    """Check the names of the databases of `Settings.snapshot_tags`; raises ConfigurationError."""
    unknown = sorted(set(tags) - set(sources))
    if unknown:
        raise ConfigurationError(
            f"snapshot_tags names the unknown source {unknown[0]!r}.",
            hint=f"Use one of: {', '.join(sources)}.",
        )


def etag_of(stream: StreamRun, tag: str | Callable[[], str | None] | None) -> str | None:
    """A weak ETag (RFC 9110, section 8.8.1); None if the data may change.

    Callers who see other rows or other values get another one: it covers everything that decides the bytes, which are
    the SQL, its bound values, the settings that the database's own policies read, and the format.

    Args:
        tag: of the present state of the data.

    Raises:
        ConfigurationError: the operator's function returned something else.
    """
    view = stream.target.view
    snapshot = tag() if callable(tag) else tag
    if snapshot is None:
        return None
    if not isinstance(snapshot, str):
        raise ConfigurationError(
            f"The snapshot tag of {view.source.name!r} must be a string or None, and is a {type(snapshot).__name__}."
        )
    compiled = stream.select().compile(dialect=view.rules.dialect(view.source.engine.dialect))
    values = compiled.construct_params(dict(view.rules.values))
    parts = (
        snapshot,
        view.source.name,
        str(compiled),
        sorted(values.items()),
        list(view.rules.settings),
        [column.describe() for column in stream.columns],
        stream.request.format,
        stream.request.options,
        *([view.run] if view.run else ()),
    )
    return f'W/"{sha256(repr(parts).encode("utf-8", "backslashreplace")).hexdigest()[:32]}"'
