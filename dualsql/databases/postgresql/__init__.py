"""PostgreSQL: opening it, read-only mode, time limit, reading rows."""

from __future__ import annotations

from sqlalchemy import URL

from dualsql.columns.exact import read_document
from dualsql.databases.backends import Backend
from dualsql.databases.postgresql.capabilities import CAPABILITIES
from dualsql.databases.postgresql.guard import PostgreSQLGuard
from dualsql.databases.postgresql.streams import EXACT_FETCH, choose_stream

__all__ = ["BACKEND", "PostgreSQLGuard"]


def _as_asyncpg_wants(url: URL) -> URL:
    """libpq's `sslmode=` becomes asyncpg's `ssl=`, which takes the same words."""
    sslmode = url.query.get("sslmode")
    if sslmode is None:
        return url
    return url.difference_update_query(["sslmode"]).update_query_dict({"ssl": sslmode})


_NAMED = {"application_name": "dualsql-reader"}

BACKEND = Backend(
    capabilities=CAPABILITIES,
    guard=PostgreSQLGuard(),
    driver="asyncpg",
    package="asyncpg",
    # Hosting services write postgres://, which SQLAlchemy does not know.
    spellings={"postgres": "postgresql"},
    # After a restart of the database, the pool has dead connections; this detects them before use.
    engine_options={"pool_pre_ping": True, "json_deserializer": read_document},
    adapt_url=_as_asyncpg_wants,
    connect_arguments={
        "asyncpg": {"server_settings": _NAMED},
        "psycopg": _NAMED,
        "psycopg2": _NAMED,
    },
    stream_backends={"asyncpg": choose_stream},
    exact_fetches={"asyncpg": EXACT_FETCH},
)
