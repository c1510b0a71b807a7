"""Points in time as a server writes them; the rule: every datetime the client hands out is aware."""

from __future__ import annotations

from datetime import UTC, datetime


def read_instant(written: object) -> datetime | None:
    """An ISO 8601 string or a datetime as an aware datetime; None for anything else.

    One without an offset is UTC, as the server keeps them.
    """
    if isinstance(written, str):
        try:
            written = datetime.fromisoformat(written)
        except ValueError:
            return None
    if not isinstance(written, datetime):
        return None
    return written if written.tzinfo else written.replace(tzinfo=UTC)
