"""The settings of profiles."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from dualsql.settings import SettingsGroup, setting


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileSettings(SettingsGroup):
    """The arguments of `Profiles`."""

    profile_budget: timedelta = setting(
        timedelta(seconds=10),
        "Time limit of a profile. Statistics that are not known by then are left out, and the profile says so.",
        positive=True,
    )
    profile_sample: int = setting(10_000, 'Rows that profile="sample" reads.', positive=True)
    maximum_profile_columns: int = setting(
        100, "Columns of one profile. It says how many were left out.", positive=True
    )
