"""A function that returns plain data is a tool, too: its annotation is the schema, text and structure each say it."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any, NotRequired

import pytest
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from dualsql import BadParameterError, ConfigurationError, DualResponseServer
from dualsql.mcp import plain_tool
from tests.mcp.conftest import Host, text_of


class Column(TypedDict):
    name: str
    comment: NotRequired[str]


class Table(TypedDict):
    table: str
    columns: list[Column]


class Tree(BaseModel):
    name: str
    weight: Decimal = Decimal("1.50")
    branches: list[Tree] = Field(default_factory=list, alias="subTrees")


@dataclass
class Point:
    x: int
    y: float


def described(table: str) -> Table:
    """What a table has."""
    return {"table": table, "columns": [{"name": "id"}, {"name": "na|me", "comment": "`x`"}]}


async def tree() -> Tree:
    return Tree(name="a", subTrees=[Tree(name="b")])


def point() -> Point:
    return Point(1, float("nan"))


def anything() -> dict[str, Any]:
    return {"a": [1, {"b": None}]}


RETURNED = {
    "described": {"table": "t", "columns": [{"name": "id"}, {"name": "na|me", "comment": "`x`"}]},
    "tree": {
        "name": "a",
        "weight": "1.50",
        "subTrees": [{"name": "b", "weight": "1.50", "subTrees": []}],
    },
    "anything": {"a": [1, {"b": None}]},
}


async def test_what_is_returned_is_the_structure(dual: DualResponseServer, host: Host) -> None:
    server = host.server()
    for function in (described, tree, anything):
        plain_tool(dual, server)(function)
    async with host.connected(server) as connection:
        tools = await connection.tools()
        for name, expected in RETURNED.items():
            arguments = {"table": "t"} if name == "described" else {}
            result = await connection.call(name, **arguments)
            assert result.structured_content == expected
            assert not result.is_error
    assert tools["described"].description == "What a table has."
    schema = tools["described"].output_schema
    assert schema is not None
    assert schema["anyOf"][0] == {"required": ["table", "columns"]}
    assert tools["described"].annotations is not None
    assert tools["described"].annotations.read_only_hint


async def test_the_text_alone_says_it_too(dual: DualResponseServer, host: Host) -> None:
    server = host.server()
    plain_tool(dual, server)(described)
    async with host.connected(server) as connection:
        text = text_of(await connection.call("described", table="customers"))
    assert "customers" in text
    assert "comment" in text


async def test_the_text_keeps_to_its_budget_and_says_what_it_lacks(
    dual: DualResponseServer, host: Host
) -> None:
    def many() -> dict[str, list[str]]:
        return {"names": [f"name {number}" for number in range(5_000)]}

    server = host.server()
    plain_tool(dual, server)(many)
    async with host.connected(server) as connection:
        result = await connection.call("many")
    assert len(text_of(result)) <= dual.settings.text_budget
    assert "of 5,000 lines" in text_of(result)


async def test_errors_have_the_shape_of_every_other_tool(dual: DualResponseServer, host: Host) -> None:
    def fails(kind: str) -> Table:
        if kind == "ours":
            raise BadParameterError("No such kind.", hint="Try another.")
        actual: dict[str, Table] = {"wrong": {"table": 1}}  # type: ignore[typeddict-item]
        return actual["wrong" if kind == "wrong" else "secret"]

    server = host.server()
    plain_tool(dual, server)(fails)
    async with host.connected(server) as connection:
        ours, wrong, foreign = [
            (await connection.call("fails", kind=kind)) for kind in ("ours", "wrong", "foreign")
        ]
    assert ours.structured_content is not None
    assert ours.structured_content["error"]["code"] == "BAD_PARAMETER"
    for result in (wrong, foreign):
        assert result.is_error
        assert "The tool failed." in text_of(result)
        assert "secret" not in text_of(result)


async def test_what_has_no_number_is_null(dual: DualResponseServer, host: Host) -> None:
    def loose() -> dict[str, Any]:
        return {"point": point()}

    server = host.server()
    plain_tool(dual, server)(loose)
    async with host.connected(server) as connection:
        result = await connection.call("loose")
    assert result.structured_content == {"point": {"x": 1, "y": None}}


def test_what_is_no_object_is_refused_when_it_is_made(dual: DualResponseServer, host: Host) -> None:
    class WithError(BaseModel):
        error: str

    def listed() -> list[str]:
        return []

    def opaque() -> object:
        return object()

    def erring() -> WithError:
        return WithError(error="")

    def unannotated():  # type: ignore[no-untyped-def]
        return {}

    erring.__annotations__["return"] = WithError
    for function in (listed, opaque, erring, unannotated):
        with pytest.raises(ConfigurationError):
            plain_tool(dual, host.server())(function)
