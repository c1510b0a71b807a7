"""URIs: what is written is read again, and nothing else leads anywhere."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from dualsql import ConfigurationError
from dualsql.catalogue import Address, Addressing
from dualsql.catalogue.definitions import read
from tests.catalogue.library import BOB, RULES, catalogue

ADDRESSING = Addressing("catalog")
NAMES = st.text(st.characters(codec="utf-8"), min_size=1, max_size=20)


@pytest.mark.long
@given(NAMES, NAMES, NAMES, st.sampled_from(["catalog", "schema", "table", "view", "query"]))
def test_every_name_survives(source: str, schema: str, name: str, kind: str) -> None:
    address = Address(
        source=source,
        kind=kind,  # type: ignore[arg-type]
        schema=schema if kind in {"schema", "table", "view"} else "",
        name=name if kind in {"table", "view", "query"} else "",
    )
    uri = ADDRESSING.write(address)
    assert ADDRESSING.read(uri) == address
    assert uri.isascii()
    if kind in {"catalog", "schema"}:
        assert ADDRESSING.read(f"{uri}/contents") == address.contents


@pytest.mark.parametrize(
    ("kind", "template"),
    [
        ("catalog", "catalog://{source}/catalog"),
        ("schema", "catalog://{source}/schema/{schema}"),
        ("table", "catalog://{source}/schema/{schema}/table/{table}"),
        ("view", "catalog://{source}/schema/{schema}/view/{view}"),
        ("query", "catalog://{source}/query/{query}"),
    ],
)
def test_the_hierarchy(kind: str, template: str) -> None:
    assert ADDRESSING.template(kind) == template  # type: ignore[arg-type]


TABLE = "catalog://main/schema/staff/table/wages"


@pytest.mark.parametrize(
    "uri",
    [
        TABLE,
        TABLE.replace("wages", "%77ages"),
        TABLE.replace("wages", "wages/"),
        TABLE.replace("wages", "WAGES"),
        TABLE.replace("schema/staff", "schema/default/../staff"),
        "catalog://main/schema/default/table/../../staff/table/wages",
        "catalog://main/schema/default/table/%2e%2e%2f%2e%2e%2fstaff%2ftable%2fwages",
        "catalog://main/schema/default/table/books%00/../wages",
        "catalog://main/schema/default/table/staff.wages",
        "catalog://main/schema/staff",
        "catalog://main/schema/staff/contents",
        "catalog://main/schema/default/view/books",
        "catalog://other/schema/default/table/books",
        "catalog://other/catalog",
        "catalog:///catalog",
        "catalog://main",
        "catalog://main/",
        "catalog://main/catalog/contents/contents",
        "catalog://main/catalog?x=1",
        "catalog://main/catalog#x",
        "catalog://main/catalog/",
        "catalog://main/%ff/catalog",
        "catalog://main%2fcatalog",
        "catalog://main/schema/default/table/%25%36%32ooks",
        "CATALOG://main/catalog",
        "http://main/catalog",
        "catalog://main/schema/default/table/books" + "/" * 100_000,
        "",
    ],
)
def test_nothing_else_leads_anywhere(uri: str) -> None:
    """For Bob there are no wages; what he may not see and what is not there is all one."""
    listing = catalogue(RULES)
    address = listing.addressing.read(uri)
    assert address is None or read(listing.view_for(BOB), address) is None


@pytest.mark.parametrize("scheme", ["http", "https", "file", "data", "", "a b", "Catalog", "c" * 40])
def test_a_scheme_that_hosts_would_follow_is_refused(scheme: str) -> None:
    with pytest.raises(ConfigurationError):
        Addressing(scheme)
