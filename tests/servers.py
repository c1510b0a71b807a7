"""Servers of tests, whose options are those of the server and of its default features together."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

from dualsql import (
    DualResponseServer,
    Feature,
    Health,
    Kept,
    Pages,
    Profiles,
    Queries,
    Rates,
    Settings,
    SignedLinks,
    Tables,
)
from dualsql.changes import Changes
from dualsql.features import default_features


def create_server(databases: Any, **options: Any) -> DualResponseServer:
    """A server; an option that belongs to a default feature is given to that one."""
    return DualResponseServer(databases, **with_features(options))


def with_features(options: dict[str, Any]) -> dict[str, Any]:
    """The options of a server, with the features that the others belong to.

    `pages` adds pages, `signed_links` links, `rate_limits` rates. The names of settings are unique over all features.
    """
    rest = dict(options)
    if given := _taken(rest, [each.name for each in fields(Settings)]):
        rest["settings"] = replace(rest.get("settings", Settings()), **given)
    own: list[Feature] = [
        kind(**given)
        for kind in (Kept, Queries, Profiles, Health, Changes)
        if (given := _taken(rest, [each.name for each in fields(kind.settings_group)]))
    ]
    if "saved_queries" in rest:
        own.append(Tables(rest.pop("saved_queries")))
    page_settings = _taken(rest, [each.name for each in fields(Pages.settings_group)])
    if rest.pop("signed_links", False):
        own.append(SignedLinks())
    if limits := rest.pop("rate_limits", None):
        own.append(Rates(principal=limits.principal, address=limits.address))
    if rest.pop("pages", False):
        own.append(Pages(**page_settings))
    return {"features": default_features(*own), **rest} if own else rest


def _taken(options: dict[str, Any], names: list[str]) -> dict[str, Any]:
    return {name: options.pop(name) for name in names if name in options}
