"""What the user of a MariaDB database may do, by its grants."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Table
from sqlalchemy.ext.asyncio import AsyncConnection

from dualsql.databases.rights import UserRights


class MariaDBRights(UserRights):
    """For asyncmy, aiomysql, and PyMySQL in a thread."""

    async def connection_limit(self, connection: AsyncConnection) -> int | None:
        limits: Any = (await connection.exec_driver_sql(_CONNECTION_LIMITS)).one()
        most, of_user = int(limits[0]), int(limits[1])
        return min(most, of_user or most)

    async def writable_tables(self, connection: AsyncConnection, tables: Sequence[Table]) -> Sequence[str]:
        """See `UserRights.writable_tables`. The information schema shows a user no right that comes from a role."""
        grants = (await connection.exec_driver_sql("SHOW GRANTS")).scalars().all()
        own = (await connection.exec_driver_sql("SELECT DATABASE()")).scalar_one()
        return [
            table.fullname
            for table in tables
            if any(_may_write(grant, table.schema or own, table.name) for grant in grants)
        ]


_CONNECTION_LIMITS = "SELECT @@max_connections, @@max_user_connections"
_GRANT = re.compile(
    r"GRANT (?P<rights>.+?) ON (?P<schema>\*|`(?:[^`]|``)*`)\.(?P<table>\*|`(?:[^`]|``)*`) TO ", re.DOTALL
)
_WRITES = frozenset({"ALL PRIVILEGES", "INSERT", "UPDATE", "DELETE", "DROP", "ALTER"})


def _may_write(grant: str, schema: str, table: str) -> bool:
    """Whether a line of SHOW GRANTS allows to change the table, or one of its columns."""
    match = _GRANT.match(grant)
    if match is None or _WRITES.isdisjoint(re.sub(r" ?\([^)]*\)", "", match["rights"]).split(", ")):
        return False
    # Only the grant of a whole schema has wildcards.
    return _names(match["schema"], schema, is_pattern=match["table"] == "*") and _names(match["table"], table)


def _names(quoted: str, name: str, *, is_pattern: bool = False) -> bool:
    if quoted == "*":
        return True
    plain = quoted[1:-1].replace("``", "`")
    if not is_pattern:
        return plain == name
    parts = re.findall(r"\\.|.", plain, re.DOTALL)
    pattern = "".join({"%": ".*", "_": "."}.get(part, re.escape(part[-1])) for part in parts)
    return re.fullmatch(pattern, name, re.DOTALL) is not None
