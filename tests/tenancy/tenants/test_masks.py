"""A masked value is gone: each answer is that of a database which never held it.

Where a comparison could tell anything of a hidden value (a filter, an order, a group, a join), it would differ from
that of the tenant's own database, in which the masked columns hold what the mask shows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from sqlalchemy import String, Table, and_, case, func, select, union

from dualsql import Mask, Principal
from dualsql.freeze.document import Statement
from dualsql.tenancy import Hook
from tests.tenancy.tenants.answers import answer, truth
from tests.tenancy.tenants.databases import principal_of
from tests.tenancy.tenants.office import Document, Person, urgent_orders, visits
from tests.tenancy.tenants.rules import HOOKS
from tests.tenancy.tenants.shapes import PORTABLE
from tests.tenancy.tenants.sites import Site, opened_site
from tests.tenancy.tenants.tpch import customer, orders, supplier
from tests.tenancy.tenants.tpch_rows import TENANTS

pytestmark = pytest.mark.quick(50, "sqlite")

C, O, S = customer.c, orders.c, supplier.c  # noqa: E741 - as TPC-H's specification writes them
TENANT = TENANTS[1]
AUDITOR = Principal(id="auditor", tenant=str(TENANT.id))
ROUGH = 10_000_000


def _rough(amount: Any) -> Any:
    return amount - amount % ROUGH


def _initial(text: Any) -> Any:
    return func.substr(text, 1, 3, type_=String())


def _is_auditor(principal: Principal) -> bool:
    return principal.id == AUDITOR.id


MASKS: tuple[Hook, ...] = (
    Mask(C.c_phone, "redact", unless=_is_auditor),
    Mask(C.c_acctbal, lambda column: column * 0, unless=_is_auditor),
    Mask(S.s_comment, "redact", unless=_is_auditor),
    Mask(O.o_totalprice, _rough, unless=_is_auditor),
    # A view is a table of its own to the rules.
    Mask(urgent_orders.c.o_totalprice, _rough, unless=_is_auditor),
    Mask(Person.salary, unless=_is_auditor),
    Mask(Document.title, _initial, unless=_is_auditor),
    Mask(visits.c.note, "null", unless=_is_auditor),
)


def physically_masked(table: Table, row: dict[str, Any]) -> dict[str, Any]:
    """What the tables would hold if the masks were the truth."""
    changes: dict[str, Callable[[Any], Any]] = {
        "c_phone": lambda _: "***",
        "c_acctbal": lambda _: 0,
        "s_comment": lambda _: "***",
        "o_totalprice": lambda value: value - value % ROUGH,
        "salary": lambda _: None,
        "title": lambda value: value[:3],
        "note": lambda _: None,
    }
    return {key: changes[key](value) if key in changes else value for key, value in row.items()}


MASKED = ("c_phone", "c_acctbal", "s_comment", "o_totalprice", "salary", "title", "note")
TOUCHED = {
    name: found
    for name, found, sql in ((name, each, str(each)) for name, each in PORTABLE.items())
    if any(word in sql for word in MASKED)
}

_code = func.substr(C.c_phone, 1, 2)
_first, _second = customer.alias("first"), customer.alias("second")
_ranked = select(C.c_name, func.rank().over(order_by=C.c_phone).label("place")).subquery("ranked")

PROBES: dict[str, Statement] = {
    "filtered": select(C.c_custkey).where(C.c_phone.like("13-%")),
    "bisected": select(C.c_custkey).where(C.c_phone > "16", C.c_phone <= "30"),
    "what is shown, asked for": select(C.c_custkey).where(C.c_phone == "***"),
    "ordered": select(C.c_custkey).order_by(C.c_phone, C.c_custkey),
    "ordered by an expression": select(C.c_custkey).order_by(func.substr(C.c_phone, 4), C.c_custkey),
    "limited": select(C.c_custkey).order_by(C.c_acctbal.desc(), C.c_custkey).limit(3),
    "grouped": select(_code, func.count()).group_by(_code),
    "having": select(C.c_nationkey).group_by(C.c_nationkey).having(func.max(C.c_acctbal) > 500_000),
    "aggregated": select(func.min(C.c_phone), func.max(C.c_acctbal), func.count(C.c_phone.distinct())),
    "joined by": select(_first.c.c_custkey, _second.c.c_custkey).where(
        and_(_first.c.c_phone == _second.c.c_phone, _first.c.c_custkey < _second.c.c_custkey)
    ),
    "in a CASE": select(C.c_custkey, case((C.c_acctbal > 0, "rich"), else_="poor")),
    "ranked by": select(_ranked.c.c_name, _ranked.c.place),
    "in a correlated subquery": select(
        C.c_custkey,
        select(func.count()).where(O.o_totalprice > 20_000_000, O.o_custkey == C.c_custkey).scalar_subquery(),
    ),
    "in a set operation": union(select(C.c_phone), select(S.s_phone)),
    "of an aliased class": select(Person.name).where(Person.salary >= 100),
    "null or not": select(Person.id).where(Person.salary.is_not(None)),
    "its length": select(func.length(C.c_phone), func.length(Document.title)).where(
        Document.pages == C.c_custkey
    ),
}


@pytest.fixture(scope="module")
async def masked(anyio_backend: str, new_url: Callable[[], str]) -> AsyncIterator[Site]:
    """A server with masks beside a tenant's own database that holds what they show."""
    hooks = (*HOOKS, *MASKS)
    async with opened_site(new_url, hooks, tenants=[TENANT], change=physically_masked) as site:
        yield site


async def check(masked: Site, statement: Statement) -> None:
    expected = await truth(masked.own[TENANT], statement)
    actual = await answer(masked.narrowed, statement, principal_of(TENANT))
    assert Counter(actual.rows) == Counter(expected)
    assert actual == await answer(masked.plain[TENANT], statement, None)


@pytest.mark.quick(1, "sqlite")
@pytest.mark.parametrize("name", PROBES)
async def test_nothing_can_be_learned_of_a_masked_value(masked: Site, name: str) -> None:
    await check(masked, PROBES[name])


@pytest.mark.long
@pytest.mark.parametrize("name", TOUCHED)
async def test_every_statement_sees_what_a_mask_shows(masked: Site, name: str) -> None:
    await check(masked, TOUCHED[name])


@pytest.mark.quick(1, "sqlite")
@pytest.mark.parametrize("name", ["filtered", "ordered", "aggregated", "limited", "its length"])
async def test_one_document_shows_each_principal_its_own_columns(masked: Site, site: Site, name: str) -> None:
    """By turns, so that a compiled statement of the one would serve the other."""
    statement = PROBES[name]
    masked_rows = Counter(await truth(masked.own[TENANT], statement))
    whole_rows = Counter(await truth(site.own[TENANT], statement))
    for _ in range(2):
        for principal, expected in ((principal_of(TENANT), masked_rows), (AUDITOR, whole_rows)):
            assert Counter((await answer(masked.narrowed, statement, principal)).rows) == expected
