"""Databases to compare: one with every tenant's rows, and for each tenant one that holds nothing else.

What stands in a tenant's own database is decided here from the rows, and by no query.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from sqlalchemy import Table, insert
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from dualsql import Principal
from tests.tenancy.tenants.office import IN_SCHEMAS, create_schema
from tests.tenancy.tenants.office_rows import NOBODY, PEOPLE, Office, calendar_rows
from tests.tenancy.tenants.tpch_rows import TENANTS, Generator, Rows, Tenant, shared_rows

CUSTOMERS = 30
"""Of the largest tenant."""

Change = Callable[[Table, dict[str, Any]], dict[str, Any]]
"""What becomes of a row before it is stored."""


def principal_of(tenant: Tenant) -> Principal:
    """Somebody of the tenant."""
    return Principal(id=f"somebody of {tenant.name}", tenant=str(tenant.id))


def rows_of(tenant: Tenant, customers: int = CUSTOMERS, people: int = PEOPLE) -> dict[Table, Rows]:
    """All rows of one tenant, for the largest one's number of customers and people."""
    tpch = {} if tenant is NOBODY else Generator(tenant, customers).rows()
    return {**tpch, **Office(tenant, people).rows()}


def marked(table: Table, row: dict[str, Any], tenant: Tenant) -> dict[str, Any]:
    """The row with the tenant's canary in all of its text, but for what decides about a row's class."""
    return {
        key: f"{value}{tenant.canary}" if isinstance(value, str) and key != "kind" else value
        for key, value in row.items()
    }


async def fill(
    engine: AsyncEngine,
    tenants: Iterable[Tenant],
    *,
    is_marked: bool = False,
    change: Change | None = None,
    customers: int = CUSTOMERS,
    people: int = PEOPLE,
) -> None:
    """Create every table and view, and put the rows of `tenants` and the shared ones into them."""
    async with engine.begin() as connection:
        await connection.run_sync(create_schema)
        if engine.dialect.name == "postgresql":
            # Rows may point to what is not there: another tenant's.
            await connection.exec_driver_sql("SET LOCAL session_replication_role = replica")
        await _insert(connection, {**shared_rows(), **calendar_rows()}, lambda _, row: row)
        for tenant in tenants:
            await _insert(
                connection, rows_of(tenant, customers, people), _change(tenant, change, is_marked=is_marked)
            )


def _change(tenant: Tenant, change: Change | None, *, is_marked: bool) -> Change:
    def changed(table: Table, row: dict[str, Any]) -> dict[str, Any]:
        row = marked(table, row, tenant) if is_marked else row
        return row if change is None else change(table, row)

    return changed


async def _insert(connection: AsyncConnection, rows: dict[Table, Rows], change: Change) -> None:
    for table, lines in rows.items():
        if lines and (connection.dialect.name == "postgresql" or table not in IN_SCHEMAS):
            await connection.execute(insert(table), [change(table, line) for line in lines])


EVERYBODY = (*TENANTS, NOBODY)
"""Who has rows in the shared database; NOBODY's belong to no tenant."""
