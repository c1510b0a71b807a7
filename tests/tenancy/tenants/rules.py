"""How an operator would declare the tables of these tests. One declaration, used by every test."""

from __future__ import annotations

from sqlalchemy import ColumnElement, exists, select

from dualsql import Principal, RowFilter, Shared, TenantFilter
from dualsql.tenancy import Hook
from tests.tenancy.tenants.office import Contractor, Document, Person, document_tags
from tests.tenancy.tenants.tpch import Nation, region

contractors = Contractor.__table__


def tenant_of(principal: Principal) -> int | None:
    """The value of every `tenant_id`."""
    return None if principal.tenant is None else int(principal.tenant)


def _own_contractors(principal: Principal) -> ColumnElement[bool]:
    return contractors.c.id.in_(select(Person.id).where(Person.tenant_id == tenant_of(principal)))


def _own_pairs(principal: Principal) -> ColumnElement[bool]:
    return exists().where(
        Document.id == document_tags.c.document_id, Document.tenant_id == tenant_of(principal)
    )


SHARED = Shared(Nation, region, "calendar")
ROWS = (RowFilter(Contractor, _own_contractors), RowFilter(document_tags, _own_pairs))
HOOKS: tuple[Hook, ...] = (TenantFilter(column="tenant_id", value=tenant_of), *ROWS, SHARED)
