"""The default list of features. No other module names all of them. Loaded by a server that is not given a list."""

from __future__ import annotations

from dataclasses import fields

from dualsql.feature import Feature
from dualsql.settings import Settings, settings_in


def default_features(*own: Feature) -> list[Feature]:
    """The features that a server has unless it is given others.

    Args:
        own: features to add. One takes the place of the default one of its class, which has no arguments:
            `default_features(Kept("/var/lib/dualsql"), Pages(), SignedLinks())`.
    """
    from dualsql.catalogue.feature import Tables
    from dualsql.changes import Changes
    from dualsql.charts.feature import Charts
    from dualsql.dual_mode import DualMode
    from dualsql.health import Health
    from dualsql.kept.feature import Kept
    from dualsql.openapi.feature import OpenAPI
    from dualsql.pending.feature import Pending
    from dualsql.profiles.feature import Profiles
    from dualsql.query.feature import Queries
    from dualsql.request_log import Log
    from dualsql.samples import Samples
    from dualsql.sql.feature import SQL
    from dualsql.telemetry import Telemetry

    kinds: tuple[type[Feature], ...] = (
        *(Telemetry, Log, Health, Pending, Samples, Changes),
        *(Kept, Tables, SQL, Queries, Profiles, Charts, OpenAPI, DualMode),
    )
    replaced = [kind for kind in kinds if any(isinstance(feature, kind) for feature in own)]
    return [*(kind() for kind in kinds if kind not in replaced), *own]


def owner_of(keyword: str) -> str | None:
    """Where an argument belongs that a server does not take."""
    from dualsql.links import SignedLinks
    from dualsql.rates import Rates
    from dualsql.web.feature import Pages

    settings = [each.name for each in settings_in(Settings)]
    # sample_size is default_sample_size here: a tool has the short name.
    if setting := next((name for name in (keyword, f"default_{keyword}") if name in settings), None):
        return f"It is a setting: settings=Settings({setting}=...)."
    for feature in default_features(Pages(), SignedLinks(), Rates()):
        name, group = type(feature).__name__, feature.settings_group
        if group is not None and keyword in {each.name for each in fields(group)}:
            return f"It is an argument of a feature: features=default_features({name}({keyword}=...))."
        if keyword.replace("_", "").lower() == name.lower():
            return f"It is a feature: features=default_features({name}(...))."
    return None
