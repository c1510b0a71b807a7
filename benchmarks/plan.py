"""What is measured, and how long it takes. Nothing here imports what measures."""

from __future__ import annotations

from collections.abc import Mapping

ROUNDS = 5

MINUTES: Mapping[str, int] = {
    "start": 1,
    "create": 2,
    "stream": 6,
    "page": 4,
    "ask": 1,
    "kept": 2,
    "memory": 4,
    "narrow": 3,
    "adapter": 1,
    "flows": 1,
    "profile": 2,
    "scale": 4,
    "scaling": 2,
    "points": 2,
    "store_load": 2,
    "browser": 2,
    "crowd": 11,
}
"""The parts, and about how many minutes each takes on two idle cores."""

ON_REQUEST = frozenset({"crowd"})
"""Parts that are measured if they are named."""


def chosen(names: list[str] | None) -> list[str]:
    """The parts to measure, in order, each once."""
    wanted = set(names or MINUTES.keys() - ON_REQUEST)
    return [name for name in MINUTES if name in wanted]
