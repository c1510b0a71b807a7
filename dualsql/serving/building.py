"""A server over the tables that a database has; the rule: what was not chosen does not exist for it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

from sqlalchemy import MetaData

from dualsql.execute import Database, Reflected, Selection, open_source, reach, reflect
from dualsql.freeze import Registry
from dualsql.server import DualResponseServer
from dualsql.settings import Settings
from dualsql_client.keywords import checked_keywords

_SOURCE = "default"


class Built(NamedTuple):
    """A server that was started, and the tables it serves."""

    server: DualResponseServer
    reflected: Reflected


@checked_keywords(DualResponseServer)
async def build_server(
    database: Database,
    selection: Selection,
    *,
    base_url: str,
    read_only_role: str | None = None,
    settings: Settings | None = None,
    **options: Any,
) -> Built:
    """A `DualResponseServer` over the chosen tables of `database`, started: it has proved that it cannot write.

    Tables are read once. What is created or altered later is served after a restart.

    Args:
        base_url: as for `DualResponseServer`.
        read_only_role: the role that every session takes; PostgreSQL only.
        settings: as for `DualResponseServer`.
        options: other arguments of `DualResponseServer`.

    Raises:
        ConfigurationError: the database cannot be reached or be kept from writing, or has not what was chosen.
        QueryExecutionError, DatabaseBusyError, QueryTimeoutError: the database failed.
    """
    given = settings or Settings()
    if read_only_role is not None:
        given = replace(given, read_only_roles={**given.read_only_roles, _SOURCE: read_only_role})
    found = await _reflected(database, selection, given)
    server = DualResponseServer(database, base_url=base_url, tables=found.metadata, settings=given, **options)
    try:
        await server.start()
    except BaseException:
        await server.shutdown()
        raise
    return Built(server, found)


async def _reflected(database: Database, selection: Selection, settings: Settings) -> Reflected:
    source = open_source(_SOURCE, database, Registry(MetaData()), settings)
    try:
        await reach(source, timeout=settings.query_timeout)
        return await reflect(source, selection)
    finally:
        await source.close()
