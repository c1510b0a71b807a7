"""The dialects that statements are compiled on; none of them needs a driver."""

from __future__ import annotations

from sqlalchemy.dialects import mssql, mysql, oracle, postgresql, sqlite
from sqlalchemy.dialects.postgresql import asyncpg
from sqlalchemy.engine import Dialect

DIALECTS: dict[str, Dialect] = {
    "postgresql": postgresql.dialect(),
    "asyncpg": asyncpg.dialect(),
    "sqlite": sqlite.dialect(),
    "mysql": mysql.dialect(),
    "mssql": mssql.dialect(),
    "oracle": oracle.dialect(),
}
