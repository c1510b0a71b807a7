"""What the user of a PostgreSQL database may do, from its catalogue."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import ARRAY, Connection, Table, Text, func, literal, select, text
from sqlalchemy.ext.asyncio import AsyncConnection

from dualsql.databases.driver import driver_of
from dualsql.databases.rights import UserRights

# -1 is no limit, in roles and databases. The reserved ones are for superusers (PostgreSQL 16 has a second kind).
_CONNECTION_LIMIT = """
SELECT least(
    current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int
        - coalesce(current_setting('reserved_connections', true)::int, 0),
    nullif(d.datconnlimit, -1), nullif(r.rolconnlimit, -1)
)
FROM pg_database d, pg_roles r WHERE d.datname = current_database() AND r.rolname = session_user
"""


_HAS_POLICIES = "SELECT EXISTS (SELECT 1 FROM pg_class WHERE relrowsecurity AND row_security_active(oid))"

_WRITES = "INSERT, UPDATE, DELETE, TRUNCATE"


class PostgreSQLRights(UserRights):
    """For asyncpg, psycopg and any other driver."""

    has_roles = True

    def may_assume(self, role: str, connection: Connection) -> bool:
        return bool(connection.scalar(select(func.pg_has_role(role, "MEMBER"))))

    async def connection_limit(self, connection: AsyncConnection) -> int | None:
        limit: int | None = (await connection.execute(text(_CONNECTION_LIMIT))).scalar_one_or_none()
        return limit

    async def is_pooled(self, connection: AsyncConnection) -> bool:
        """See `UserRights.is_pooled`. A pooler invents the number of a process for its client."""
        driver = driver_of(connection)
        if not hasattr(driver, "get_server_pid"):  # not asyncpg
            return False
        return bool(await connection.scalar(select(func.pg_backend_pid())) != driver.get_server_pid())

    async def writable_tables(self, connection: AsyncConnection, tables: Sequence[Table]) -> Sequence[str]:
        quote = connection.dialect.identifier_preparer.format_table
        listed = func.unnest(literal(list(map(quote, tables)), ARRAY(Text))).table_valued("name")
        may_write = func.has_table_privilege(listed.c.name, _WRITES)
        return (await connection.execute(select(listed.c.name).where(may_write))).scalars().all()

    async def tables_without_policies(
        self, connection: AsyncConnection, tables: Sequence[Any]
    ) -> Sequence[Any]:
        quote = connection.dialect.identifier_preparer.format_table
        active = [func.row_security_active(quote(table)).label(f"t{n}") for n, table in enumerate(tables)]
        row = (await connection.execute(select(*active))).one()
        return [table for table, is_active in zip(tables, row, strict=True) if not is_active]

    async def has_policies(self, connection: AsyncConnection) -> bool:
        """See `UserRights.has_policies`. Of all tables: a view or a function may read others than a statement names."""
        return bool((await connection.execute(text(_HAS_POLICIES))).scalar())
