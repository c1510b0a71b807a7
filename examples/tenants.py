"""Restrict every table to the caller: state universities see their own state."""

from sqlalchemy import func, select

from dualsql import DualResponse, DualResponseServer, Mask, Principal, RowFilter, Shared, TenantFilter
from dualsql.demo import Base, FieldOfStudy, Institution, Program, demo_database


def of_own_state(principal: Principal):
    return Program.unitid.in_(select(Institution.unitid).where(Institution.state == principal.tenant))


dual = DualResponseServer(
    demo_database(),
    base_url="http://127.0.0.1:8000/resources",
    tables=Base,
    hooks=[
        TenantFilter(column="state", value=lambda principal: principal.tenant),
        RowFilter(Program, of_own_state),
        Mask(Program.debt, "null", unless=lambda principal: principal.id == "auditor"),
        Shared(FieldOfStudy),
    ],
)


async def programs_of(person: Principal) -> DualResponse:
    query = select(func.count(), func.max(Program.debt)).join(Institution)  # says nothing of states
    return await dual.create_response(query, name="Programs", principal=person)
