"""What one principal may see of the tables themselves; the rule: what could not be queried is not seen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Sight:
    """Names of tables in the registry.

    Attributes:
        tables: those that the rules let the principal query ...
        filtered: ... and of them, those whose rows depend on who asks.
        masked: keys of the columns whose values are hidden, by table.
    """

    tables: frozenset[str] = frozenset()
    filtered: frozenset[str] = frozenset()
    masked: Mapping[str, frozenset[str]] = field(default_factory=dict)
