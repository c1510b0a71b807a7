"""A decorator that makes a function a tool of an MCP server; the rule: the server tells which SDK is met."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import partial
from importlib import import_module
from typing import Any, TypedDict, TypeVar, Unpack, cast, get_args

from dualsql.errors import ConfigurationError
from dualsql.formats.samples import TextFormat
from dualsql.identity import principal_of_token
from dualsql.mcp.calls import Responder, Tool
from dualsql.mcp.wording import describe, titled
from dualsql.parameters import checked_count
from dualsql.resource import Principal
from dualsql.response import Links, ResultsFormat
from dualsql.totals import Count

Function = TypeVar("Function", bound=Callable[..., Any])
"""A function, sync or async, that returns a Select, an `Answer` or a DualResponse."""

_REGISTRARS = {("mcp", "MCPServer"): "official", ("fastmcp", "FastMCP"): "fast"}
"""Which module knows the servers of a class, by the class's package and name."""

_EXTRAS = 'pip install "dualsql[mcp]" for mcp.server.MCPServer, "dualsql[fastmcp]" for fastmcp.FastMCP'


class ToolOptions(TypedDict, total=False):
    """What `DualResponseServer.tool` may be told.

    `name`, `title` and `description` are the tool's, from the function unless given. `sample_size`, `expiration`,
    `count` and `source` hold for every result whose `Answer` does not say otherwise. `links`, `text_format` and
    `results_format` are how results are written ("auto", "markdown", "rows"). `principal` tells whom a verified access
    token stands for, `principal_of_token` unless given; it must agree with `authenticate`. `registration` has
    further keywords of the SDK's own: icons, meta, or with fastmcp tags, timeout and auth.
    """

    name: str
    title: str
    description: str
    sample_size: int
    expiration: timedelta
    count: Count
    source: str
    links: Links
    text_format: TextFormat
    results_format: ResultsFormat
    principal: Callable[[Any], Principal]
    registration: Mapping[str, Any]


def tool(dual: Responder, server: Any, **options: Unpack[ToolOptions]) -> Callable[[Function], Function]:
    """A decorator that registers a function as a tool of `server`, and returns it unchanged.

    Raises:
        ConfigurationError: `server` is of no SDK that is known and installed; the function is no tool.
        BadParameterError: an option is out of bounds.
    """
    return partial(_register, registrar_of(server), dual, server, options)


def _register(
    register: Callable[[Any, Tool], None],
    dual: Responder,
    server: Any,
    options: ToolOptions,
    function: Function,
) -> Function:
    register(server, make_tool(dual, function, **options))
    return function


def registrar_of(server: Any) -> Callable[[Any, Tool], None]:
    """The function that registers tools on servers of this kind.

    Raises:
        ConfigurationError: `server` is of no SDK that is known and installed.
    """
    for ancestor in type(server).__mro__:
        module = _REGISTRARS.get((ancestor.__module__.partition(".")[0], ancestor.__name__))
        if module is not None:
            break
    else:
        raise ConfigurationError(
            f"A {type(server).__name__} is no MCP server that is known here.", hint=_EXTRAS
        )
    try:
        found = import_module(f"dualsql.mcp.{module}")
    except ImportError as error:
        raise ConfigurationError(
            "The MCP SDK of this server is too old, or not whole.", hint=_EXTRAS
        ) from error
    return cast("Callable[[Any, Tool], None]", found.register)


def make_tool(
    dual: Responder,
    function: Callable[..., Any],
    *,
    name: str | None = None,
    title: str | None = None,
    description: str | None = None,
    sample_size: int | None = None,
    expiration: timedelta | None = None,
    count: Count = "auto",
    source: str | None = None,
    links: Links = "auto",
    text_format: TextFormat = "markdown",
    results_format: ResultsFormat = "rows",
    principal: Callable[[Any], Principal] = principal_of_token,
    registration: Mapping[str, Any] | None = None,
) -> Tool:
    """What an SDK needs to know of `function` as a tool; the options are those of `ToolOptions`."""
    named = name or str(getattr(function, "__name__", "<lambda>"))
    if named == "<lambda>":
        raise ConfigurationError("A tool has a name.", hint='dual.tool(server, name="search_schools")')
    for option, value, known in (
        ("links", links, Links),
        ("text_format", text_format, TextFormat),
        ("results_format", results_format, ResultsFormat),
    ):
        if value not in get_args(known):
            raise ConfigurationError(f"{option} is one of {', '.join(get_args(known))}.")
    checked_count(count, dual.settings)
    return Tool(
        dual=dual,
        function=function,
        name=named,
        title=title,
        description=describe(
            function, dual.settings, description=description, sample_size=sample_size, expiration=expiration
        ),
        answer={
            "name": title or titled(named),
            "sample_size": sample_size,
            "expiration": expiration,
            "count": count,
            "source": source,
        },
        links=links,
        text_format=text_format,
        results_format=results_format,
        principal=principal,
        registration=registration or {},
    )
