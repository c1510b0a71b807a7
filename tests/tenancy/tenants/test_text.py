"""The same statements as SQL text, read back: a tenant's answer is the same, whoever wrote the statement and how."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from dualsql.errors import DualResponseError
from dualsql.formats import json
from dualsql.sql import read_select
from tests.tenancy.tenants.answers import answer, truth
from tests.tenancy.tenants.databases import principal_of
from tests.tenancy.tenants.shapes import A_THIRD, PORTABLE, POSTGRESQL_ONLY
from tests.tenancy.tenants.sites import ON_POSTGRESQL, ON_SQLITE, REGISTRY, Site
from tests.tenancy.tenants.test_oracle import one_of_them

REFUSED = frozenset(
    {
        "TABLESAMPLE",
        "TABLESAMPLE joined with its table",
        "FOR UPDATE",
        "FOR UPDATE OF",
        "FETCH WITH TIES in a subquery",
        "one name in three schemas, joined",  # without aliases
        "whole row of a table",
        "whole row of an alias",
        "whole rows counted",
    }
)
"""What a text may not ask for, although a Select may."""

TYPED_BY_THE_SELECT = frozenset(
    {"ORM: hybrid in SELECT", "Q8 market share", "Q14 promotion effect", "Q17 small quantity revenue"}
)
"""The text does not say that a number is a boolean, or that SQLite's floating point is meant to be a decimal."""

# A function's arguments say nothing of the relations they come from once it stands in FROM.
pytestmark = pytest.mark.filterwarnings("ignore:SELECT statement has a cartesian product")


async def check(site: Site, name: str, statement: Any) -> None:
    """A tenant is answered to the text what its own database answers to the statement."""
    tenant = one_of_them(name)
    read = read_select(text_of(site, statement), REGISTRY, dialect_of(site).name)
    expected = await truth(site.own[tenant], statement)
    actual = await answer(site.narrowed, read, principal_of(tenant))
    assert actual.total == len(expected)
    assert Counter(map(_values, actual.rows)) == Counter(map(_values, expected))


def dialect_of(site: Site) -> Any:
    return site.shared.dialect


def text_of(site: Site, statement: Any) -> str:
    """The statement with its values in it."""
    compiled = statement.compile(dialect=dialect_of(site), compile_kwargs={"literal_binds": True})
    return str(compiled).replace("%%", "%") if site.shared.dialect.name == "postgresql" else str(compiled)


def _values(line: bytes) -> tuple[Any, ...]:
    """The values of a row: a text gives columns without a name other names."""
    return tuple(repr(value) for value in json.loads(line).values())


@pytest.mark.quick(2)
@ON_SQLITE
@pytest.mark.parametrize("name", sorted(set(A_THIRD) - TYPED_BY_THE_SELECT))
async def test_a_text_is_answered_from_the_tenants_own_rows(site: Site, name: str) -> None:
    await check(site, name, PORTABLE[name])


@pytest.mark.long
@pytest.mark.parametrize("name", sorted(set(PORTABLE) - TYPED_BY_THE_SELECT))
async def test_every_text_is_answered_from_the_tenants_own_rows(site: Site, name: str) -> None:
    await check(site, name, PORTABLE[name])


@pytest.mark.long
@ON_POSTGRESQL
@pytest.mark.parametrize("name", sorted(set(POSTGRESQL_ONLY) - REFUSED))
async def test_texts_for_postgresql_alone(site: Site, name: str) -> None:
    await check(site, name, POSTGRESQL_ONLY[name])


@pytest.mark.long
@ON_POSTGRESQL
@pytest.mark.parametrize("name", sorted(REFUSED))
async def test_what_a_text_may_not_ask_for(site: Site, name: str) -> None:
    with pytest.raises(DualResponseError):
        read_select(text_of(site, POSTGRESQL_ONLY[name]), REGISTRY, "postgresql")
