"""What columns of an application's own types show, as plain Python computes it: the oracle of the tests beside it."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from ipaddress import IPv4Address
from typing import Any
from uuid import UUID

from tests.columns.own_types.types import Money


def plain(value: Any) -> Any:
    """The value as JSON shows it."""
    for cls, write in _WRITTEN.items():
        if isinstance(value, cls):
            return write(value)
    return value


def _duration(value: timedelta) -> str:
    minutes, seconds = divmod(value.seconds, 60)
    return f"P{value.days}DT{minutes // 60}H{minutes % 60}M{seconds}S"


_WRITTEN: dict[Any, Callable[[Any], Any]] = {
    Enum: lambda value: value.value,
    Decimal: lambda value: format(value, "f"),
    date: lambda value: value.isoformat(),
    time: lambda value: value.isoformat(),
    timedelta: _duration,
    UUID: str,
    IPv4Address: str,
    bytes: lambda value: b64encode(value).decode(),
    Money: Money.shown,
    list: lambda value: [plain(item) for item in value],
}


def comparable(value: Any) -> Any:
    """The value as it compares with others of its column: instants of one zone are compared in UTC."""
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value.astimezone(UTC)
    if isinstance(value, Enum):
        return value.value
    return json.dumps(value, sort_keys=True) if isinstance(value, dict | list) else value
