"""Saved queries: their parameters are what their statements bind, typed, and nothing else goes in."""

from __future__ import annotations

from datetime import date
from typing import Annotated, Any, Literal

import pytest
from pydantic import Field
from sqlalchemy import Integer, Table, bindparam, column, func, select, table

from dualsql import BadParameterError, ConfigurationError, SavedQuery
from tests.mcp.conftest import MakeDual
from tests.schools import School


def largest(**options: Any) -> SavedQuery:
    statement = (
        select(School.id, School.name)
        .where(School.state == bindparam("state"), School.id > bindparam("above", 0), School.id != 7)
        .order_by(School.id)
        .limit(bindparam("top", type_=Integer))
    )
    return SavedQuery("largest", statement, **options)


def test_parameters_are_what_the_statement_binds() -> None:
    schema = largest(description="The first schools of a state.").schema
    assert {name: each["type"] for name, each in schema["properties"].items()} == {
        "state": "string",
        "above": "integer",
        "top": "integer",
    }
    assert schema["required"] == ["state", "top"]
    assert schema["additionalProperties"] is False


def test_types_may_be_said() -> None:
    query = largest(
        parameters={
            "state": Literal["NJ", "NY"],
            "top": Annotated[int, Field(ge=1, le=9, description="How many")],
        }
    )
    assert query.schema["properties"]["state"]["enum"] == ["NJ", "NY"]
    assert query.schema["properties"]["top"]["description"] == "How many"
    for wrong in ({"state": "XX", "top": 1}, {"state": "NJ", "top": 10}):
        with pytest.raises(BadParameterError) as refusal:
            query.with_values(wrong)
        assert refusal.value.details["schema"]


def test_values_are_bound_as_what_they_are() -> None:
    bound = largest().with_values({"state": "NJ' OR 1=1 --", "top": 3})
    compiled = bound.compile()
    assert compiled.params["state"] == "NJ' OR 1=1 --"
    assert compiled.params["above"] == 0
    assert "OR 1=1" not in str(compiled)


def test_a_list_is_a_parameter_too() -> None:
    states: Any = bindparam("states", expanding=True)
    query = SavedQuery("some", select(School.id).where(School.state.in_(states)))
    assert query.schema["properties"]["states"]["type"] == "array"
    assert query.with_values({"states": ["NJ", "NY"]}).compile().params["states"] == ["NJ", "NY"]
    with pytest.raises(BadParameterError):
        query.with_values({"states": "NJ"})


def test_a_text_is_read_as_a_date_where_one_is_wanted() -> None:
    query = SavedQuery(
        "since",
        select(School.id).where(func.date(School.name) == bindparam("day", type_=None)),
        parameters={"day": date},
    )
    assert query.with_values({"day": "2025-01-31"}).compile().params["day"] == date(2025, 1, 31)


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"state": "NJ"},
        {"state": "NJ", "top": "3"},
        {"state": "NJ", "top": True},
        {"state": "NJ", "top": 1.5},
        {"state": ["NJ"], "top": 3},
        {"state": None, "top": 3},
        {"state": "NJ", "top": 3, "param_1": 5},
        {"state": "NJ", "top": 3, "id_1": 5},
        {"state": "x" * 100_000, "top": 3},
        {"state": "NJ", "top": float("nan")},
    ],
    ids=repr,
)
def test_what_does_not_fit_is_refused(values: dict[str, Any]) -> None:
    with pytest.raises(BadParameterError) as refusal:
        largest().with_values(values)
    assert refusal.value.hint


def test_a_misspelt_parameter_comes_with_a_guess() -> None:
    with pytest.raises(BadParameterError) as refusal:
        largest().with_values({"stat": "NJ", "top": 3})
    assert refusal.value.details["suggestions"] == ["state"]


def test_its_tables_are_known() -> None:
    query = SavedQuery("a", select(School).where(School.id.in_(select(School.id))))
    [found] = query.tables
    assert isinstance(found, Table)
    assert found is School.__table__


@pytest.mark.parametrize("name", ["", "1st", "a b", "a/b", "../x", "x" * 65, "naïve", 7])
def test_a_name_is_one_that_a_uri_can_have(name: Any) -> None:
    with pytest.raises(ConfigurationError):
        SavedQuery(name, select(School))


def test_what_cannot_be_served_is_refused_at_the_start(make_dual: MakeDual) -> None:
    query = SavedQuery("all", select(School))
    foreign = SavedQuery("foreign", select(table("secrets", column("a"))))
    assert list(make_dual(saved_queries=[query]).sql.saved_queries) == ["all"]
    for queries in (
        [query, SavedQuery("all", select(School.id))],
        [foreign],
        [select(School)],
        [SavedQuery("elsewhere", select(School), source="other")],
    ):
        with pytest.raises(ConfigurationError):
            make_dual(saved_queries=queries)
    with pytest.raises(ConfigurationError, match="no parameter"):
        largest(parameters={"sate": str})
    with pytest.raises(ConfigurationError, match="has no type"):
        SavedQuery("odd", select(func.foo(bindparam("x"))))
