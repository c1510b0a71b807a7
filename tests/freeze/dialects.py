"""The dialects that statements are compiled on; none of them needs a driver."""

from __future__ import annotations

from sqlalchemy.dialects import mssql, mysql, oracle, postgresql, sqlite
from sqlalchemy.dialects.mysql import mariadb
from sqlalchemy.dialects.postgresql import asyncpg, psycopg
from sqlalchemy.engine import Dialect

DIALECTS: dict[str, Dialect] = {
    "postgresql": postgresql.dialect(),
    "asyncpg": asyncpg.dialect(),
    "sqlite": sqlite.dialect(),
    "mysql": mysql.dialect(),
    "mssql": mssql.dialect(),
    "oracle": oracle.dialect(),
    "psycopg": psycopg.dialect(),
    "mariadb": mariadb.MariaDBDialect(),
}
