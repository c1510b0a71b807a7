"""Resources for the store's tests. Every instant is counted from NOW, none from a clock."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from dualsql.resource import Resource, new_resource_id

NOW = datetime(2026, 11, 21, 12, 0, 0, 123456, tzinfo=UTC)
MOMENT = timedelta(microseconds=1)
"""The shortest time a database can tell."""


def minutes(number: float) -> datetime:
    """The instant so many minutes after NOW."""
    return NOW + timedelta(minutes=number)


def resource(**changes: Any) -> Resource:
    """A resource of NOW that expires in 15 minutes, except for `changes`."""
    fields: dict[str, Any] = {
        "id": new_resource_id(),
        "name": "Institution Search Results",
        "source": "default",
        "document": b"\x00\xffdocument",
        "signature": bytes(range(32)),
        "columns": [
            {"name": "unitid", "type": "number", "encoding": "integer"},
            {"name": "tags", "type": "string", "encoding": "array", "items": "text"},
        ],
        "total_count": 847,
        "total_count_kind": "exact",
        "created_at": NOW,
        "expires_at": minutes(15),
        "lifetime": timedelta(minutes=15),
    }
    return Resource(**(fields | changes))
