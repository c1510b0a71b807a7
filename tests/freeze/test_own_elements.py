"""Elements of an application's own come back as they were; a forged document brings no text of its own into them."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import BindParameter, Select, func, or_, select
from sqlalchemy.dialects import sqlite

from dualsql.errors import ConfigurationError, NotFreezableError, TamperedError
from dualsql.freeze import Registry, freeze, thaw
from dualsql.freeze.document import pack, unpack
from tests.freeze.own import ELEMENTS, Everything, Known, Least, Window, Written
from tests.freeze.shop import customers, customers_

REGISTRY = Registry(customers, elements=ELEMENTS)
SQLITE = sqlite.dialect()
SIZE = 100_000


def _thawed(body: Any) -> str:
    return str(thaw(pack(body, SIZE), REGISTRY).compile(dialect=SQLITE))


def _body(statement: Any) -> Any:
    return unpack(freeze(statement, REGISTRY, dialect=SQLITE), SIZE)


def _own(body: Any, name: str) -> dict[str, Any]:
    actual: dict[str, Any] = next(
        fields for tag, fields in body["nodes"] if tag == "own" and fields["class"] == name
    )
    return actual


def test_a_class_that_is_not_registered_is_refused_with_the_way_out() -> None:
    with pytest.raises(NotFreezableError, match=r"Known.*elements=\[TheClass\]"):
        freeze(select(Known(customers_.id)), Registry(customers))


def test_text_in_an_own_element_is_refused() -> None:
    with pytest.raises(NotFreezableError, match="custom element with sql='1 OR 1=1'"):
        freeze(select(Written("1 OR 1=1")), REGISTRY)


@pytest.mark.parametrize(
    "cls", [Select, BindParameter, type("Mine", (BindParameter,), {"__module__": "mine"})]
)
def test_what_has_rules_of_its_own_cannot_be_registered(cls: Any) -> None:
    with pytest.raises(ConfigurationError, match="cannot be registered"):
        Registry(customers, elements=[cls])


def test_a_flag_comes_back() -> None:
    statement = select(Least(customers_.id, is_strict=True))
    thawed: Any = thaw(freeze(statement, REGISTRY, dialect=SQLITE), REGISTRY)
    assert thawed.selected_columns[0].is_strict is True


@pytest.mark.parametrize("text", ["1; DROP TABLE x", "x", 1.5, ["list", ["x"]], {"x": 1}, 2**63])
def test_no_document_brings_text(text: Any) -> None:
    body = _body(select(Least(customers_.id)))
    _own(body, "Least")["holds"]["is_strict"] = ["plain", text]
    with pytest.raises(TamperedError):
        _thawed(body)


@pytest.mark.parametrize(
    "name",
    [
        *("type", "self_group", "_compiler_dispatch", "__class__", "__dict__", "key", "_propagate_attrs"),
        *("comparator", "a b", "_label", "anon_label", "wrapped_column_expression"),
    ],
)
def test_no_document_sets_what_the_class_itself_has(name: str) -> None:
    body = _body(select(Known(customers_.id)))
    holds = _own(body, "Known")["holds"]
    for form in (["plain", None], ["plain", 1], holds["value"], ["list", [holds["value"][1]]]):
        holds[name] = form
        with pytest.raises(TamperedError):
            _thawed(body)


@pytest.mark.parametrize("form", [["plain", 1], ["one", 0], ["list", [0]], ["tuple", 0], ["one", "x"], "one"])
def test_a_described_attribute_takes_only_what_is_described(form: Any) -> None:
    body = _body(select(Least(customers_.id)))
    _own(body, "Least")["holds"]["values"] = form
    with pytest.raises(TamperedError):
        _thawed(body)


def test_an_own_element_holds_no_table_and_nothing_open_ended() -> None:
    body = _body(select(Known(customers_.id)).order_by(customers_.id.desc()))
    holds = _own(body, "Known")["holds"]
    tags = [tag for tag, _ in body["nodes"]]
    (table,) = [number for number, tag in enumerate(tags) if tag == "table"]
    holds["value"] = ["one", table]
    with pytest.raises(TamperedError):
        _thawed(body)
    with pytest.raises(NotFreezableError):
        freeze(select(Least(customers_.id.desc())), REGISTRY)


def test_a_clause_stands_where_its_class_puts_it() -> None:
    body = _body(select(customers_.id).ext(Window(customers_.id)).ext(Everything()))
    assert "SELECT ALL" in _thawed(body)
    fields = body["nodes"][-1][1]
    fields["before columns"], fields["after criteria"] = fields["after criteria"], fields["before columns"]
    with pytest.raises(TamperedError):
        _thawed(body)
    fields["before columns"] = fields["columns"][0]
    with pytest.raises(TamperedError):
        _thawed(body)


def test_a_narrowing_condition_holds_beside_own_elements() -> None:
    statement: Any = thaw(
        freeze(
            select(customers_.id).where(or_(Known(customers_.id) > 1, Known(customers_.parent_id) > 1)),
            REGISTRY,
        ),
        REGISTRY,
    )
    assert " AND customers.name" in str(statement.where(customers_.name == "x"))
    assert "(coalesce(" in str(statement.where(customers_.name == "x"))


def test_two_elements_differ_by_what_they_hold() -> None:
    keys = [
        thaw(freeze(select(Least(value)), REGISTRY, dialect=SQLITE), REGISTRY)._generate_cache_key()
        for value in (customers_.id, customers_.parent_id, func.abs(customers_.id))
    ]
    assert len({key.key for key in keys if key is not None}) == len(keys)
