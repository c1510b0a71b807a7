"""The tables that dualsql keeps in a database; `dualsql.store.rows` converts resources to their rows.

`metadata` contains only dualsql's tables, so an application can add it to its own Alembic set-up (docs/migrations.md).
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from sqlalchemy import (
    BigInteger,
    Column,
    DateTime,
    Dialect,
    Double,
    Index,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
)
from sqlalchemy.types import TypeDecorator

from dualsql.settings import TABLE_PREFIX
from dualsql.store.rows import MAXIMUM_ID_LENGTH, in_utc

VERSION_TABLE = "dualsql_alembic_version"
"""The table with the revision, separate from the application's own `alembic_version`."""


def include_name(name: str | None, type_: str, parent_names: object) -> bool:  # noqa: ARG001 - Alembic's signature
    """For an application's `context.configure(include_name=include_name)`: everything but the tables of dualsql.

    Without it, `alembic revision --autogenerate` proposes to drop them and their version table.
    """
    return type_ != "table" or not (name or "").startswith(TABLE_PREFIX)


def include_object(
    object_: object,  # noqa: ARG001 - Alembic's signature
    name: str | None,
    type_: str,
    reflected: object,  # noqa: ARG001
    compare_to: object,  # noqa: ARG001
) -> bool:
    """The same for `context.configure(include_object=include_object)`, which reads all tables first."""
    return include_name(name, type_, None)


class UTCTimestamp(TypeDecorator[datetime]):
    """An aware instant, read back in UTC, also where the database drops the zone (SQLite)."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        return None if value is None else in_utc(value)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        return value.replace(tzinfo=UTC) if value is not None and value.tzinfo is None else value


class Seconds(TypeDecorator[timedelta]):
    """A duration as a number of seconds: exact to the microsecond for 285 years."""

    impl = Double
    cache_ok = True

    def process_bind_param(self, value: timedelta | None, dialect: Dialect) -> float | None:
        return None if value is None else value.total_seconds()

    def process_result_value(self, value: float | None, dialect: Dialect) -> timedelta | None:
        return None if value is None else timedelta(seconds=value)


metadata = MetaData()

# columns, sample and metadata hold JSON as text: a JSON type would pass through the serializer of an engine
# that may be the application's, and PostgreSQL's jsonb would reorder the keys of a row.
resources = Table(
    "dualsql_resources",
    metadata,
    Column("id", String(MAXIMUM_ID_LENGTH), primary_key=True),
    Column("name", Text, nullable=False),
    Column("source", Text, nullable=False),
    Column("document", LargeBinary, nullable=False),
    Column("signature", LargeBinary, nullable=False),
    Column("columns", Text, nullable=False),
    Column("total_count", BigInteger),
    # NULL in rows of a release that counted exactly or not at all.
    Column("total_count_kind", String(16)),
    Column("created_at", UTCTimestamp, nullable=False),
    Column("expires_at", UTCTimestamp),
    Column("lifetime_seconds", Seconds, nullable=False, key="lifetime"),
    Column("owner", Text),
    Column("tenant", Text),
    Column("sample", Text),
    Column("metadata", Text, nullable=False),
    Column("size_bytes", BigInteger, nullable=False, server_default="0", key="size"),
    Column("access_count", BigInteger, nullable=False),
    Column("last_accessed_at", UTCTimestamp),
    # NULL in rows of a release whose resources were all ready.
    Column("status", String(16)),
    Column("pending_until", UTCTimestamp),
    Column("failure", Text),
    Column("kept", Text),
    Column("pinned_by", String(64)),
    Index("ix_dualsql_resources_expires_at", "expires_at"),
    Index("ix_dualsql_resources_pending_until", "pending_until"),
    Index("ix_dualsql_resources_pinned_by", "pinned_by"),
    # For the listing of one principal, newest first, and for its quota.
    Index("ix_dualsql_resources_owner", "owner", "tenant", "created_at", "id"),
)

links = Table(
    "dualsql_links",
    metadata,
    Column("id", String(MAXIMUM_ID_LENGTH), primary_key=True),
    Column("resource_id", String(MAXIMUM_ID_LENGTH), nullable=False),
    Column("expires_at", UTCTimestamp, nullable=False),
    Index("ix_dualsql_links_resource_id", "resource_id"),
    Index("ix_dualsql_links_expires_at", "expires_at"),
)
