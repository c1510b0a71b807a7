"""What is measured, and how long it takes. Nothing here imports what measures."""

from __future__ import annotations

from collections.abc import Mapping

ROUNDS = 5

MINUTES: Mapping[str, int] = {
    "start": 1,
    "create": 2,
    "stream": 8,
    "page": 6,
    "ask": 2,
    "kept": 2,
    "memory": 7,
    "narrow": 10,
    "adapter": 1,
    "flows": 2,
    "profile": 4,
    "scale": 8,
    "scaling": 5,
    "store_load": 3,
    "browser": 3,
}
"""The parts, and about how many minutes each takes on two idle cores."""

APART = frozenset({"narrow", "scaling", "store_load", "browser"})
"""Measured only if they are named."""


def chosen(names: list[str] | None) -> list[str]:
    """The parts to measure, in order, each once."""
    wanted = set(names or MINUTES.keys() - APART)
    return [name for name in MINUTES if name in wanted]
