"""What a database allows its user, whatever the session: writing, roles, row-level security, number of connections."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, ClassVar

from sqlalchemy import Connection, Table
from sqlalchemy.ext.asyncio import AsyncConnection

from dualsql.databases.session import in_session
from dualsql.databases.source import Source
from dualsql.errors import ConfigurationError, DualResponseError

logger = logging.getLogger(__name__)


class UserRights:
    """Asks a database that has users about the session's user.

    Attributes:
        has_roles: a session can take a role.
    """

    has_roles: ClassVar[bool] = False

    def may_assume(self, role: str, connection: Connection) -> bool:
        """Whether the connection's user may take the role; called if there are roles."""
        raise NotImplementedError

    async def connection_limit(self, connection: AsyncConnection) -> int | None:
        """How many connections the user may open; None for no limit, or where it is not known."""
        return None

    async def writable_tables(self, connection: AsyncConnection, tables: Sequence[Table]) -> Sequence[str]:
        """The tables that the user could change."""
        raise NotImplementedError

    async def tables_without_policies(
        self, connection: AsyncConnection, tables: Sequence[Any]
    ) -> Sequence[Any] | None:
        """The tables that no policy restricts for the user; None without row-level security."""
        return None

    async def has_policies(self, connection: AsyncConnection) -> bool:
        """Whether policies restrict the user on any table."""
        return False

    async def is_pooled(self, connection: AsyncConnection) -> bool:
        """Whether a pooler is seen between the driver and the database."""
        return False


async def prove_row_security(source: Source, tables: Sequence[Any]) -> None:
    """Check that the database's policies apply to this user on all `tables`.

    Raises:
        ConfigurationError: the database or a table has no policies, or they do not apply to the user.
        QueryExecutionError, DatabaseBusyError, QueryTimeoutError: the check could not be done.
    """
    rights = source.backend.rights

    async def bypassed(connection: AsyncConnection) -> Sequence[Any] | None:
        return None if rights is None else await rights.tables_without_policies(connection, tables)

    names = await in_session(source, None, bypassed)
    if names is None:
        raise ConfigurationError(f"The database {source.name!r} has no row-level security.")
    if names:
        listed = ", ".join(map(str, names))
        raise ConfigurationError(
            f"Row-level security does not apply to the user of {source.name!r} on: {listed}."[:1000],
            hint="ENABLE ROW LEVEL SECURITY on each table, and use a user that neither owns them nor has BYPASSRLS.",
        )


async def prove_role(source: Source) -> None:
    """Check that the role of `source` could not change a table even without read-only sessions.

    Raises:
        ConfigurationError: it could change a table.
        QueryExecutionError, DatabaseBusyError, QueryTimeoutError: the check could not be done; the role may not exist.
    """
    rights = source.backend.rights
    assert rights is not None, "open_source accepts no role without rights"
    tables = [table for table in source.registry.tables.values() if isinstance(table, Table)]
    names = await in_session(source, None, lambda connection: rights.writable_tables(connection, tables))
    if names:
        raise ConfigurationError(
            f"The role {source.role!r} can change: {', '.join(names)}."[:1000],
            hint="Use a role that has only SELECT and is not a superuser.",
        )


async def connection_limit(source: Source) -> int | None:
    """How many connections the database allows this user; None where it has no limit or does not tell."""
    rights = source.backend.rights
    if rights is None:
        return None
    try:
        return await in_session(source, None, rights.connection_limit)
    except DualResponseError as error:
        logger.debug("the limit of connections of %r could not be read", source.name, exc_info=error)
        return None
