"""A misspelt keyword argument is refused by every public function, and help() shows what there is."""

from __future__ import annotations

import asyncio
import importlib
import inspect
import pkgutil
import re
from collections.abc import Callable, Iterator
from dataclasses import MISSING, fields
from types import FunctionType, ModuleType
from typing import Any, get_type_hints

import pytest
from sqlalchemy import MetaData, select
from starlette.requests import Request

import dualsql
import dualsql_client
from dualsql import (
    BadParameterError,
    ConfigurationError,
    DualResponseServer,
    Kept,
    KeptSettings,
    Principal,
    Shared,
)
from dualsql.envelope import wrap_dual_mode, wrap_tool_response
from dualsql.mcp import Answer
from dualsql.mcp.decorators import make_tool, tool
from dualsql.mcp.options import ResultKeywords
from dualsql.results.create import CreateOptions
from dualsql_client import DualResponseClient
from tests.client.hosting import structured
from tests.schools import Base, School


def packages() -> Iterator[ModuleType]:
    """The two packages, and every package below them that says what it exports."""
    for root in (dualsql, dualsql_client):
        yield root
        for found in pkgutil.walk_packages(root.__path__, f"{root.__name__}."):
            if found.ispkg and hasattr(module := importlib.import_module(found.name), "__all__"):
                yield module


def public_functions() -> dict[str, Callable[..., Any]]:
    """Every exported function, and every public method of an exported class, by its name."""
    found: dict[str, Callable[..., Any]] = {}
    for module in packages():
        for exported in (getattr(module, name) for name in module.__all__):
            if inspect.isclass(exported) and exported.__module__.startswith("dualsql"):
                members = [each for kind in exported.__mro__[:-1] for each in vars(kind).values()]
                own = [each for each in members if isinstance(each, FunctionType)]
                found |= {
                    each.__qualname__: each
                    for each in own
                    if each.__name__ == "__init__" or not each.__name__.startswith("_")
                }
            elif isinstance(exported, FunctionType):
                found[exported.__qualname__] = exported
    return found


def takes_anything(function: Callable[..., Any]) -> bool:
    """Whether it is written with `**options`."""
    written: Any = inspect.unwrap(function)
    is_ours = written.__module__.startswith("dualsql")
    return is_ours and bool(written.__code__.co_flags & inspect.CO_VARKEYWORDS)


OF_OTHERS = {"ToolClient.call", "ToolClient.result", "DatabaseTests.serve", "DualResponseServer.tool"}
"""They pass on the arguments of a tool or of a server, which refuses those it does not have."""
OPEN = {
    name: function
    for name, function in public_functions().items()
    if takes_anything(function) and name not in OF_OTHERS
}
REAL = {
    name: public_functions()[name]
    for name in (
        "DualResponseServer.__init__",
        "ResultServer.create_response",
        "Profiles.profile",
    )
}


def call(function: Callable[..., Any], **keywords: Any) -> None:
    """Call it, to its end."""
    returned = function(**keywords)
    if inspect.isawaitable(returned):

        async def awaited() -> None:
            await returned

        asyncio.run(awaited())


def test_the_walk_finds_them() -> None:
    assert {
        "tool", "plain_tool", "add_execute_query",
        "add_result_tools", "add_query", "build_server", "build_mcp", "ParsedDualResponse.save", "QueryMethods.query",
        "SyncParsedDualResponse.fetch_all", "SyncParsedDualResponse.refine",
    } <= OPEN.keys()  # fmt: skip


@pytest.mark.parametrize("function", (OPEN | REAL).values(), ids=(OPEN | REAL).keys())
def test_a_misspelt_keyword_is_refused(function: Callable[..., Any]) -> None:
    signature = inspect.signature(function)
    kinds = {each.kind for each in signature.parameters.values()}
    assert inspect.Parameter.VAR_KEYWORD not in kinds, "help() shows what it takes"
    options = [
        name
        for name, each in signature.parameters.items()
        if each.kind is inspect.Parameter.KEYWORD_ONLY and len(name) > 3
    ]
    for name in options:
        misspelt = name[:1] + name[2:]
        with pytest.raises(TypeError, match=rf"has no argument '{misspelt}'\. Did you mean '"):
            call(function, **{misspelt: None})
    with pytest.raises(TypeError, match=r"has no argument 'zzzzz'\. It has: \w+"):
        call(function, zzzzz=None)


async def test_the_message_names_what_was_called() -> None:
    async with DualResponseClient("http://127.0.0.1/r") as client:
        parsed: Any = client.parse_structured(structured())
        with pytest.raises(TypeError, match=r"^ParsedDualResponse\.query\(\) has no argument 'limits'"):
            await parsed.query(limits=1)
    answer: Any = Answer
    with pytest.raises(TypeError, match=r"^Answer\(\) has no argument 'nome'"):
        answer(select(School), nome="Schools")


@pytest.mark.parametrize(
    ("given", "lacking"),
    [
        ({}, "databases, base_url, tables"),
        ({"tables": Base}, "databases, base_url"),
        ({"databases": "sqlite://", "tables": Base}, "base_url"),
        ({"databases": "sqlite://", "base_url": "http://127.0.0.1/r"}, "tables"),
    ],
)
def test_the_arguments_that_a_server_lacks_are_all_named(given: dict[str, Any], lacking: str) -> None:
    with pytest.raises(TypeError) as refusal:
        DualResponseServer(**given)
    example = f"{lacking.replace(',', '=...,')}=..."
    assert (
        str(refusal.value) == f"DualResponseServer() requires {lacking}: DualResponseServer(..., {example})"
    )


@pytest.mark.parametrize(
    ("given", "keywords", "message"),
    [
        (
            ("sqlite://", Base),
            {},
            r"Only databases .* DualResponseServer\(\) without a name.*: base_url=\.\.\.",
        ),
        (("sqlite://",), {"databases": "sqlite://"}, r"DualResponseServer\(\) got databases twice"),
    ],
)
def test_arguments_that_need_their_name_are_named(
    given: tuple[Any, ...], keywords: dict[str, Any], message: str
) -> None:
    with pytest.raises(TypeError, match=message):
        DualResponseServer(*given, **keywords)


@pytest.mark.parametrize(
    ("given", "message", "hint"),
    [
        ({"tables": None}, "tables cannot be None", "declarative base"),
        ({"hooks": Shared(School)}, "hooks must be a list", "hooks=[...]"),
        ({"hooks": print}, "hooks must be a list", "hooks=[...]"),
        ({"base_url": "http://127.0.0.1/r?x=1"}, "without a query", "https://"),
        ({"authenticate": "token"}, "authenticate must be a function", "docs/identity.md"),
        ({"audit": "log"}, "audit must be a function", "docs/identity.md"),
        ({"settings": {"query_timeout": 3}}, "settings must be a Settings", "settings=Settings("),
        ({"databases": "sqlite://shop.db"}, "names a host", "sqlite:///shop.db"),
    ],
)
def test_a_mistaken_argument_of_a_server_is_named(given: dict[str, Any], message: str, hint: str) -> None:
    usual: dict[str, Any] = {"databases": "sqlite://", "base_url": "http://127.0.0.1/r", "tables": Base}
    with pytest.raises(ConfigurationError, match=message) as refusal:
        DualResponseServer(**usual | given)
    assert hint in (refusal.value.hint or "")


async def test_a_principal_of_another_class_is_refused() -> None:
    async with DualResponseServer("sqlite://", base_url="http://127.0.0.1/r", tables=Base) as dual:
        create: Any = dual.create_response
        with pytest.raises(BadParameterError, match="principal must be a Principal"):
            await create(select(School), name="All", principal="ann")


@pytest.mark.parametrize("is_async", [True, False])
async def test_an_authenticator_of_another_type_is_named(is_async: bool) -> None:
    async def text(request: Request) -> Any:
        return "ann"

    function: Any = text if is_async else lambda request: Principal(id="ann")
    dual = DualResponseServer("sqlite://", base_url="http://127.0.0.1/r", tables=Base, authenticate=function)
    async with dual:
        with pytest.raises(ConfigurationError, match=r"authenticate returned a (str|Principal)") as refusal:
            await dual.access.identify(Request({"type": "http"}))
    assert "async def authenticate" in str(refusal.value.hint)


async def test_a_misspelt_principal_makes_no_resource_that_anyone_reads() -> None:
    async with DualResponseServer("sqlite://", base_url="http://127.0.0.1/r", tables=Base) as dual:
        create: Any = dual.create_response
        with pytest.raises(TypeError, match="Did you mean 'principal'"):
            await create(select(School), name="All", princpal=Principal(id="ann"))


def test_help_shows_every_option_with_its_default() -> None:
    shown = inspect.signature(Kept).parameters
    for field in fields(KeptSettings):
        assert shown[field.name].annotation == field.type
        assert shown[field.name].default == getattr(KeptSettings(), field.name)
    written = inspect.signature(make_tool).parameters
    options = _options(tool)
    assert {name for name, _ in options} == {name for name, _ in _options(make_tool)}
    assert all(written[name].annotation.startswith(str(shown.annotation)) for name, shown in options)
    created = inspect.signature(DualResponseServer.create_response).parameters
    for field in fields(CreateOptions):
        assert str(created[field.name].annotation) == field.type
        assert field.default in (MISSING, created[field.name].default)


def test_the_keywords_of_a_result_have_the_types_of_its_options() -> None:
    hints = get_type_hints(CreateOptions)
    assert get_type_hints(ResultKeywords) == {name: hints[name] for name in get_type_hints(ResultKeywords)}


def _options(function: Callable[..., Any]) -> list[tuple[str, inspect.Parameter]]:
    actual = inspect.signature(function).parameters.items()
    return [(name, each) for name, each in actual if each.kind is inspect.Parameter.KEYWORD_ONLY]


@pytest.mark.parametrize("wrap", [wrap_tool_response, wrap_dual_mode])
def test_a_wrapped_tool_answers_a_misspelt_argument_with_its_name(wrap: Any) -> None:
    def search(state: str, limit: int = 10) -> dict[str, Any]:
        return {"state": state, "limit": limit}

    error = wrap(search)(state="NJ", limt=5)["error"]
    assert (error["code"], error["message"]) == ("BAD_PARAMETER", "Unknown argument 'limt'.")
    assert error["details"]["suggestion"] == "Did you mean 'limit'?"

    def anything(**options: Any) -> dict[str, Any]:
        return options

    assert wrap(anything)(limt=5)["success"] is True


@pytest.mark.parametrize(
    ("keyword", "hint"),
    [
        ("query_timeout", "It is a setting: settings=Settings(query_timeout=...)."),
        ("storage", "features=default_features(Kept(storage=...))"),
        ("pages", "It is a feature: features=default_features(Pages(...))."),
        ("signed_links", "It is a feature: features=default_features(SignedLinks(...))."),
        ("tabels", "Did you mean 'tables'?"),
    ],
)
def test_an_argument_that_belongs_elsewhere_is_told_where(keyword: str, hint: str) -> None:
    options: dict[str, Any] = {"base_url": "http://h/r", "tables": MetaData(), keyword: 1}
    with pytest.raises(TypeError, match=re.escape(hint)):
        DualResponseServer("sqlite://", **options)
