"""The settings of queries over results."""

from __future__ import annotations

from dataclasses import dataclass

from dualsql.settings import SettingsGroup, setting


@dataclass(frozen=True, slots=True, kw_only=True)
class QuerySettings(SettingsGroup):
    """The arguments of `Queries`."""

    maximum_groups: int = setting(
        100_000, "The most groups of a question about a result whose answer is read by pages.", positive=True
    )
    maximum_refinement_depth: int = setting(
        8, "How many times a result may be refined, counted from the tool's Select."
    )
    maximum_refinements: int = setting(100, "How many refinements of one result this process makes.")
