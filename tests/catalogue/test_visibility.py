"""Who sees which tables. What could not be queried is not there."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import Table

from dualsql import ForbiddenError, Principal
from dualsql.catalogue import Address
from dualsql.tenancy import Hook, HookContext, RowSecurity, Shared, TenantFilter
from tests.catalogue.library import (
    ANA,
    BOB,
    POSTGRESQL,
    RULES,
    SQLITE,
    authors,
    books,
    catalogue,
    names_of,
    wages,
)

EVERYTHING = ["authors", "best sellers", "books", "notes", "wages"]


def test_without_rules_everything_is_seen_by_everybody() -> None:
    assert names_of(catalogue(), None) == EVERYTHING


def test_a_table_whose_rule_denies_a_principal_is_not_there() -> None:
    listing = catalogue(RULES)
    assert names_of(listing, ANA) == EVERYTHING
    assert names_of(listing, BOB) == ["authors", "best sellers", "books", "notes"]
    assert not listing.view_for(BOB).has(Address(source="main", kind="schema", schema="staff"))


@pytest.mark.parametrize("who", [None, Principal(id="nobody")])
def test_who_could_query_nothing_sees_nothing(who: Principal | None) -> None:
    """With a tenant's rule, every statement of theirs is refused."""
    seen = catalogue(RULES).view_for(who)
    assert not seen.tables
    assert [entry.uri for entry in seen.entries] == ["catalog://main/catalog"]


def test_a_function_that_refuses_a_table_hides_it() -> None:
    def refuse(statement: Any, context: HookContext) -> Any:
        if wages in statement.get_final_froms() and context.principal != ANA:
            raise ForbiddenError("No wages.")
        return statement

    listing = catalogue([refuse, Shared(*_all())])
    assert "wages" in names_of(listing, ANA)
    assert "wages" not in names_of(listing, BOB)


def test_a_function_that_fails_on_a_table_hides_it() -> None:
    def fail(statement: Any, context: HookContext) -> Any:
        return statement.where(statement.selected_columns["tenant"] == "acme")

    assert names_of(catalogue([fail, Shared(*_all())]), ANA) == ["authors"]


def test_a_function_may_hide_a_table_of_one_source() -> None:
    def refuse(statement: Any, context: HookContext) -> Any:
        if context.source == "house":
            raise ForbiddenError("Not there.")
        return statement

    listing = catalogue([refuse, Shared(*_all())], sources={"files": SQLITE, "house": POSTGRESQL})
    assert {at.source for at in listing.view_for(ANA).tables} == {"files"}


def test_rows_left_to_postgresql_are_said_to_be_filtered() -> None:
    rules: list[Hook] = [
        RowSecurity(setting="app.tenant", value=lambda who: who.tenant, tables=[books]),
        Shared(*_all(books)),
    ]
    listing = catalogue(rules)
    assert listing.view_for(ANA).visible["main"].filtered == {"books"}
    assert not listing.view_for(None).tables


def test_an_operator_hides_more() -> None:
    def visible(who: Principal | None, table: Table) -> bool:
        return who == ANA or table is not authors

    listing = catalogue(visible=visible)
    assert "authors" in names_of(listing, ANA)
    assert "authors" not in names_of(listing, BOB)
    assert "authors" not in names_of(listing, None)


def test_an_operator_cannot_show_what_a_rule_denies() -> None:
    assert "wages" not in names_of(catalogue(RULES, visible=lambda *_: True), BOB)


def test_a_word_that_is_not_true_hides() -> None:
    assert names_of(catalogue(visible=lambda *_: "yes"), ANA) == []  # type: ignore[arg-type]


def test_an_operator_s_word_that_fails_shows_nothing() -> None:
    def visible(*_: Any) -> bool:
        raise KeyError("no such role")

    with pytest.raises(KeyError):
        catalogue(visible=visible).view_for(ANA)


def test_what_is_seen_is_asked_anew_at_every_look() -> None:
    hidden: set[Any] = set()
    listing = catalogue(visible=lambda _, table: table not in hidden)
    assert "books" in names_of(listing, ANA)
    hidden.add(books)
    assert "books" not in names_of(listing, ANA)


def test_a_filter_of_a_tenant_hides_no_table() -> None:
    rule = TenantFilter(column="tenant", value=lambda who: who.tenant)
    listing = catalogue([rule, Shared(*_all(authors))])
    assert names_of(listing, BOB) == EVERYTHING
    assert listing.view_for(BOB).visible["main"].filtered == {"authors"}


def _all(*but: Any) -> list[Any]:
    return [table for table in books.metadata.tables.values() if table not in but]
