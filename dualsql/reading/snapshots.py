"""Whether rows are the same as they were; the rule: it is the operator who knows that data stands still.

The tag covers all that decides what the bytes of a stream are: the SQL that would run, the values bound in it, and
the form that its rows are written in.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from hashlib import sha256

from dualsql.columns import ResultColumn
from dualsql.errors import ConfigurationError
from dualsql.formats.writer import Options
from dualsql.reading.view import View
from dualsql.settings import SnapshotTags
from dualsql.statement import AnySelect


def require_sources(tags: SnapshotTags, known: Collection[str]) -> None:
    """Raises ConfigurationError for a tag of a source that is not there."""
    unknown = sorted(set(tags) - set(known))
    if unknown:
        raise ConfigurationError(
            f"There is no source {unknown[0]!r} to have a snapshot tag.", hint=f"Sources: {', '.join(known)}."
        )


def snapshot_of(tags: SnapshotTags, source: str) -> str | None:
    """What the operator calls the present state of a source's data; None where it moves.

    Raises:
        ConfigurationError: the operator's function returned something else.
    """
    tag = tags.get(source)
    found = tag() if callable(tag) else tag
    if found is not None and not isinstance(found, str):
        raise ConfigurationError(f"The snapshot tag of {source!r} is a {type(found).__name__}.")
    return found


def etag_of(
    view: View,
    snapshot: str,
    select: AnySelect,
    columns: Sequence[ResultColumn],
    *,
    written: str,
    options: Options,
) -> str:
    """A weak ETag (RFC 9110, section 8.8.1): whoever sees other rows, or sees them otherwise, has another one.

    Args:
        select: what of the view is streamed.
    """
    compiled = select.compile(dialect=view.narrowing.dialect(view.source.engine.dialect))
    values = compiled.construct_params(dict(view.narrowing.values))
    told = (
        snapshot,
        view.source.name,
        str(compiled),
        sorted(values.items()),
        list(view.narrowing.settings),
        [column.describe() for column in columns],
        written,
        options,
    )
    return f'W/"{sha256(repr(told).encode("utf-8", "backslashreplace")).hexdigest()[:32]}"'
