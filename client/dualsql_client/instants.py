"""Points in time as a server writes them; the rule: every datetime the client hands out is aware."""

from __future__ import annotations

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from dualsql_client import conversions


def read_instant(written: object) -> datetime | None:
    """An ISO 8601 string or a datetime as an aware datetime; None for anything else.

    One without an offset is UTC, as the server keeps them.
    """
    if isinstance(written, str):
        try:
            written = conversions.instant(written)
        except ValueError:
            return None
    return _aware(written) if isinstance(written, datetime) else None


def read_http_date(written: str | None) -> datetime | None:
    """A date as HTTP writes it (RFC 9110, 5.6.7), aware; None for anything else."""
    if not written or len(written) > conversions.LONGEST:
        return None
    try:
        return _aware(parsedate_to_datetime(written))
    except (ValueError, TypeError, OverflowError):  # an offset of many digits is an OverflowError
        return None


def _aware(moment: datetime) -> datetime | None:
    """None for one that has no UTC: the first and the last hours of the calendar, with an offset."""
    if moment.tzinfo is None:
        return moment.replace(tzinfo=UTC)
    try:
        moment.astimezone(UTC)
    except OverflowError:
        return None
    return moment
