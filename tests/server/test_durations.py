"""A number where a public function takes a length of time is refused in words that can be copied."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from mcp.server import MCPServer
from sqlalchemy import select

import dualsql
from dualsql import DualResponseServer, Kept, SettingsGroup, SignedLinks
from dualsql.errors import BadParameterError, ConfigurationError
from dualsql.feature_list import default_features
from dualsql.links import Links
from dualsql.mcp import add_catalogue, add_execute_query, add_query, add_resources, add_result_tools, tool
from dualsql.mcp.dual_responses import DualResponses
from dualsql.mcp.tasks import Tasks
from dualsql.serve import build_mcp
from tests.schools import Base, School
from tests.server.test_keywords import public_functions

NOT_CALLED = {
    # The server calls these, and a store makes a Resource.
    *("Extension.drain", "Resource.__init__"),
    # `create_response` checks what these hold.
    *("Answer.__init__", "CreateOptions.__init__"),
    # The client refuses it in words of its own.
    "Retry.__init__",
}


def durations(functions: dict[str, Callable[..., Any]]) -> set[tuple[str, str]]:
    """The arguments that are a length of time: of a function's name, and their own."""
    return {
        (name, each.name)
        for name, function in functions.items()
        for each in inspect.signature(function).parameters.values()
        if "timedelta" in str(each.annotation) and "float" not in str(each.annotation)
    }


FUNCTIONS = public_functions() | {"Links.create": Links.create, "Tasks.__init__": Tasks.__init__}
DURATIONS = sorted((name, each) for name, each in durations(FUNCTIONS) if name not in NOT_CALLED)
GROUPS = [
    kind
    for kind in (getattr(dualsql, name) for name in dualsql.__all__)
    if isinstance(kind, type) and issubclass(kind, SettingsGroup) and kind is not SettingsGroup
]


@pytest.fixture
async def dual(tmp_path: Path) -> AsyncIterator[DualResponseServer]:
    features = default_features(SignedLinks(), Kept(tmp_path / "kept"))
    async with DualResponseServer(
        "sqlite+aiosqlite://", base_url="http://127.0.0.1/r", tables=Base, features=features
    ) as server:
        yield server


def some(_: int) -> Any:
    return select(School)


async def call(dual: DualResponseServer, name: str, options: dict[str, Any]) -> None:
    """Call the function of this name with these options, and what else it needs."""
    tools: dict[str, Callable[..., Any]] = {
        "add_catalogue": add_catalogue,
        "add_execute_query": add_execute_query,
        "add_query": add_query,
        "add_resources": add_resources,
        "add_result_tools": add_result_tools,
        "tool": lambda dual, server, **keywords: tool(dual, server, **keywords)(some),
        "DualResponseServer.tool": lambda dual, server, **keywords: dual.tool(server, **keywords)(some),
    }
    needed: dict[str, dict[str, Any]] = {
        "ObjectResultStorage": {"store": "s3://none", "cache": "/nonexistent"},
        "SQLResourceStore": {"database": "sqlite:////nonexistent"},
        "DualResponses": {"dual": dual},
        "Tasks": {"dual": dual},
    }
    owner, _, method = name.partition(".")
    if method == "__init__":
        kind = {"DualResponses": DualResponses, "Tasks": Tasks}.get(owner) or getattr(dualsql, owner)
        kind(**needed.get(owner, {}), **options)
    elif name in tools:
        tools[name](dual, MCPServer("x"), **options)
    elif name == "build_mcp":
        build_mcp(dual, **options)
    elif name == "ResultServer.create_response":
        await dual.create_response(select(School), name="x", **options)
    elif name == "ResultServer.drain":
        await dual.drain(**options)
    elif name == "Kept.refresh":
        await dual.features.get(Kept).refresh("x", None, **options)
    else:
        assert name == "Links.create"
        await dual.links.create("x", None, **options)


@pytest.mark.quick(12)
@pytest.mark.parametrize(("name", "keyword"), DURATIONS)
async def test_a_number_is_no_duration(dual: DualResponseServer, name: str, keyword: str) -> None:
    for value in (3600, 0.5, True, "1h"):
        with pytest.raises((BadParameterError, ConfigurationError)) as refusal:
            await call(dual, name, {keyword: value})
        text = f"{refusal.value} {getattr(refusal.value, 'hint', '')}"
        assert f"{keyword} must be a timedelta" in text, text
        assert "timedelta(" in text, text
        if value == 3600:
            assert f"Write {keyword}=timedelta(seconds=3600)." in text, text
    with pytest.raises((BadParameterError, ConfigurationError)):
        await call(dual, name, {keyword: timedelta(seconds=-1)})


def test_the_walk_finds_them() -> None:
    assert len(DURATIONS) > 40
    assert {name for name, _ in durations(FUNCTIONS)} >= NOT_CALLED


@pytest.mark.parametrize("group", GROUPS)
def test_a_misspelt_setting_is_named(group: Any) -> None:
    for name in inspect.signature(group).parameters:
        misspelt = name[:1] + name[2:]
        with pytest.raises(
            TypeError, match=rf"^{group.__name__}\(\) has no argument '{misspelt}'\. Did you mean '"
        ):
            group(**{misspelt: None})
    with pytest.raises(TypeError, match=rf"Name the arguments of {group.__name__}\(\)"):
        group(1, 2)
