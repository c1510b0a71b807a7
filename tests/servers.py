"""Servers of tests, whose options are those of the server and of its features together; and their databases."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

from sqlalchemy import MetaData, Table, create_engine, insert, make_url

from dualsql import Feature, Settings
from dualsql.feature_list import default_features
from dualsql.features import DualResponseServer, ServerOptions

_SYNCHRONOUS = {"sqlite+aiosqlite": "sqlite", "postgresql+asyncpg": "postgresql+psycopg"}
OF_SERVERS = {each.name for each in fields(ServerOptions)}


def create_server(databases: Any, **options: Any) -> DualResponseServer:
    """A server; an option that belongs to a feature is given to that one."""
    return DualResponseServer(databases, **with_features(options))


def with_features(options: dict[str, Any]) -> dict[str, Any]:
    """The options of a server, with the features that the others belong to.

    `pages` adds pages, `signed_links` links, `rate_limits` rates. The names of settings are unique over all features.
    """
    rest = dict(options)
    if given := _taken(rest, [each.name for each in fields(Settings)]):
        rest["settings"] = replace(rest.get("settings", Settings()), **given)
    # The kernel's tests cannot import features.
    own = [] if rest.keys() <= OF_SERVERS else _features_of(rest)
    return {"features": default_features(*own), **rest} if own else rest


def _features_of(options: dict[str, Any]) -> list[Feature]:
    """The features that these options ask for; such options are taken out."""
    from dualsql import Health, Kept, Pages, Profiles, Queries, Rates, SignedLinks, Tables
    from dualsql.changes import Changes

    own: list[Feature] = [
        kind(**given)
        for kind in (Kept, Queries, Profiles, Health, Changes)
        if (given := _taken(options, [each.name for each in fields(kind.settings_group)]))
    ]
    if "saved_queries" in options:
        own.append(Tables(options.pop("saved_queries")))
    link_settings = _taken(options, [each.name for each in fields(SignedLinks.settings_group)])
    if options.pop("signed_links", False):
        own.append(SignedLinks(**link_settings))
    if limits := options.pop("rate_limits", None):
        own.append(Rates(principal=limits.principal, address=limits.address))
    page_settings = _taken(options, [each.name for each in fields(Pages.settings_group)])
    if options.pop("pages", False):
        own.append(Pages(**page_settings))
    return own


def _taken(options: dict[str, Any], names: list[str]) -> dict[str, Any]:
    return {name: options.pop(name) for name in names if name in options}


def fill_tables(url: str, metadata: MetaData, rows: Mapping[Table, Sequence[Mapping[str, Any]]]) -> None:
    """Make the tables in an empty database, and write their rows."""
    parsed = make_url(url)
    engine = create_engine(parsed.set(drivername=_SYNCHRONOUS.get(parsed.drivername, parsed.drivername)))
    with engine.begin() as connection:
        metadata.create_all(connection)
        for table, values in rows.items():
            connection.execute(insert(table), list(values))
    engine.dispose()
