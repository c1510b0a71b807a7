"""The options of `dualsql serve`: each flag is written once, as a field with its type, its default and its help."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import MISSING, dataclass, field, fields
from enum import StrEnum
from functools import wraps
from inspect import Parameter, Signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar, get_type_hints

import typer

from dualsql.formats.samples import TextFormat
from dualsql.response import ResultsFormat

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


@contextmanager
def importing() -> Iterator[None]:
    """Disable garbage collection during the imports of the block, and exclude the imported objects from it.

    Imports create hundreds of thousands of objects and no garbage. Collection took a fifth of a server's start.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


Options = TypeVar("Options", bound="DataclassInstance")


def takes(options: type[Options]) -> Callable[[Callable[[Options], None]], Callable[..., None]]:
    """A decorator that makes a Typer command of the function, with a flag for each field of the dataclass `options`."""
    hints = get_type_hints(options, include_extras=True)
    parameters = [
        Parameter(
            each.name,
            Parameter.KEYWORD_ONLY,
            default=Parameter.empty if each.default is MISSING else each.default,
            annotation=hints[each.name],
        )
        for each in fields(options)
    ]

    def decorated(command: Callable[[Options], None]) -> Callable[..., None]:
        @wraps(command)
        def call(**flags: object) -> None:
            command(options(**flags))

        call.__annotations__ = {each.name: each.annotation for each in parameters}
        vars(call)["__signature__"] = Signature(parameters)
        return call

    return decorated


DEFAULT_PORT = 8000
"""Of `dualsql serve` over HTTP."""


class RequestLogForm(StrEnum):
    """How requests are logged."""

    OFF = "off"
    TEXT = "text"
    JSON = "json"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeOptions:
    """Flags of `dualsql serve`. Those that may hold a secret are not in the repr."""

    database: Annotated[
        str, typer.Option(envvar="DUALSQL_DATABASE_URL", help="URL of the database to serve.")
    ] = field(repr=False)
    schema: Annotated[
        str | None, typer.Option(envvar="DUALSQL_SCHEMA", help="Serve all tables and views of this schema.")
    ] = None
    tables: Annotated[
        str | None,
        typer.Option(envvar="DUALSQL_TABLES", help="Serve these tables, such as orders,sales.customers."),
    ] = None
    everything: Annotated[
        bool, typer.Option("--all", envvar="DUALSQL_ALL", help="Serve every table and view.")
    ] = False
    read_only_role: Annotated[
        str | None,
        typer.Option(
            envvar="DUALSQL_READ_ONLY_ROLE", help="Role that every database session takes (PostgreSQL)."
        ),
    ] = None
    host: Annotated[str, typer.Option(envvar="DUALSQL_HOST", help="Address to listen on.")] = "127.0.0.1"
    port: Annotated[
        int | None,
        typer.Option(
            envvar="DUALSQL_PORT",
            help=f"Port to listen on: {DEFAULT_PORT} by default, with --stdio any free port; 0 for any free port.",
            min=0,
            max=65535,
        ),
    ] = None
    admin_port: Annotated[
        int | None,
        typer.Option(
            envvar="DUALSQL_ADMIN_PORT",
            help="Port for /live and /ready, which no other port answers; 0 for any free port.",
            min=0,
            max=65535,
        ),
    ] = None
    admin_host: Annotated[
        str, typer.Option(envvar="DUALSQL_ADMIN_HOST", help="Address to listen on with --admin-port.")
    ] = "127.0.0.1"
    log: Annotated[
        RequestLogForm,
        typer.Option(
            envvar="DUALSQL_LOG",
            help="Log a line for each request to standard error, as text or JSON. Warnings are logged in any case.",
        ),
    ] = RequestLogForm.OFF
    base_url: Annotated[
        str | None,
        typer.Option(
            envvar="DUALSQL_BASE_URL", help="URL at which callers reach the server, if it is behind a proxy."
        ),
    ] = None
    stdio: Annotated[
        bool,
        typer.Option(
            "--stdio",
            envvar="DUALSQL_STDIO",
            help="Serve MCP over standard input and output. REST stays on HTTP.",
        ),
    ] = False
    rest_url: Annotated[
        str | None,
        typer.Option(
            envvar="DUALSQL_REST_URL",
            help="With --stdio and --store: no REST here; links are of the server at this URL, with the same store.",
        ),
    ] = None
    token: Annotated[
        str | None,
        typer.Option(
            envvar="DUALSQL_TOKEN",
            help="Bearer token that callers must send. Prefer the variable: other users can see a command line.",
        ),
    ] = field(default=None, repr=False)
    authenticate: Annotated[
        str | None,
        typer.Option(
            envvar="DUALSQL_AUTHENTICATE",
            help="Async function that identifies the caller, as module:function.",
        ),
    ] = None
    store: Annotated[
        str | None,
        typer.Option(
            envvar="DUALSQL_STORE", help="URL of a database that stores results; in memory without it."
        ),
    ] = field(default=None, repr=False)
    wait: Annotated[
        float | None,
        typer.Option(
            envvar="DUALSQL_WAIT", help="Seconds after which a slow query becomes a pending result.", min=0
        ),
    ] = None
    sample_size: Annotated[
        int | None,
        typer.Option(
            envvar="DUALSQL_SAMPLE_SIZE",
            help="Rows that a model sees of a result too large to show whole; 15 by default.",
            min=0,
        ),
    ] = None
    count_budget: Annotated[
        float | None,
        typer.Option(
            envvar="DUALSQL_COUNT_BUDGET",
            help="Seconds to count the rows of a result before the total is an estimate; 0.2 by default.",
            min=0.001,
        ),
    ] = None
    results_format: Annotated[
        ResultsFormat,
        typer.Option(envvar="DUALSQL_RESULTS_FORMAT", help="How the structure of an answer holds rows."),
    ] = "rows"
    text_format: Annotated[
        TextFormat,
        typer.Option(envvar="DUALSQL_TEXT_FORMAT", help="How the text of an answer shows rows."),
    ] = "markdown"
    notes: Annotated[
        Path | None,
        typer.Option(
            envvar="DUALSQL_NOTES",
            help="File of notes for the model about tables and terms: part of the instructions, and found by search.",
        ),
    ] = None
    pages_in_text: Annotated[
        bool,
        typer.Option(
            "--pages-in-text",
            envvar="DUALSQL_PAGES_IN_TEXT",
            help="The text of each answer names the page of the result, for the person who reads it.",
        ),
    ] = False
    cors_origins: Annotated[
        str | None,
        typer.Option(
            envvar="DUALSQL_CORS_ORIGINS",
            help="Origins whose pages may call the server, such as https://app.example.com,https://example.com.",
        ),
    ] = None
    allowed_hosts: Annotated[
        str | None,
        typer.Option(
            envvar="DUALSQL_ALLOWED_HOSTS",
            help="Host names that callers may use besides that of the base URL, separated by commas.",
        ),
    ] = None
    name: Annotated[
        str, typer.Option(envvar="DUALSQL_NAME", help="Name of the server in the configuration of hosts.")
    ] = "dualsql"


def secrets() -> tuple[str, ...]:
    """The secrets that sign stored results. There is no flag, because all local processes can read a command line."""
    return tuple(filter(None, os.environ.get("DUALSQL_SECRET", "").split(",")))
