"""The options of `dualsql serve`: each flag is written once, as a field with its type, its default and its help."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import MISSING, dataclass, field, fields
from difflib import get_close_matches
from enum import StrEnum
from functools import wraps
from inspect import Parameter, Signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar, get_type_hints

import typer

from dualsql.errors import ConfigurationError, DualResponseError
from dualsql.kept.settings import KeptSettings
from dualsql.settings import ResultsFormat, TextFormat

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


PANELS: Mapping[str, Collection[str]] = {
    "What is served": {
        "database", "schema", "tables", "everything", "read_only_role", "unproved_read_only", "notes",
        "encoding", "no_file_cache",
    },
    "Where": {"host", "port", "base_url", "stdio", "rest_url", "opens_browser", "name"},
    "Who may call": {
        "token", "authenticate", "cors_origins", "allowed_hosts", "trusted_proxies", "rate_limits",
        "address_rate_limits",
    },
    "What a model sees": {
        "wait", "sample_size", "count_budget", "results_format", "text_format", "pages_in_text",
    },
    "Where results are stored": {"store", "secret_file", "keep", "keep_cache", "keep_cache_bytes"},
    "Operation": {"workers", "admin_port", "admin_host", "metrics", "log"},
}  # fmt: skip
"""The groups of options in `--help`, by the names of their fields."""

Options = TypeVar("Options", bound="DataclassInstance")


def takes_options(options: type[Options]) -> Callable[[Callable[[Options], None]], Callable[..., None]]:
    """A decorator that makes a Typer command of the function, with a flag for each field of the dataclass `options`.

    A flag's variable is DUALSQL_ and the name of the field, unless its `typer.Option` names another.
    """
    hints = get_type_hints(options, include_extras=True)
    for each in fields(options):
        (option,) = hints[each.name].__metadata__
        option.envvar = option.envvar or f"DUALSQL_{each.name.upper()}"
        option.rich_help_panel = next((panel for panel, names in PANELS.items() if each.name in names), None)
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


def hint_with_flag(error: DualResponseError) -> str:
    """The hint of an error at a command line: with the flag in place of the setting."""
    setting = error.details.get("setting")
    if setting is None:
        return error.developer_hint or error.hint
    return f"{error.hint} Then add --{setting.replace('_', '-')}."


_NO_FLAGS = frozenset({"DUALSQL_SECRET"})
"""Variables without an option: all local processes can read a command line."""

_OF_TESTS = re.compile("DUALSQL_(TEST|FUZZ|TWINS|BENCH)_")


def unknown_variables(options: Collection[str]) -> list[str]:
    """The variables that look like dualsql's and are read by nothing, each with the most similar one."""
    names = sorted(_NO_FLAGS.union(options))
    unknown = [
        name
        for name in os.environ
        if name.startswith("DUALSQL_") and name not in names and not _OF_TESTS.match(name)
    ]
    similar = {name: get_close_matches(name, names, n=1, cutoff=0.8) for name in sorted(unknown)}
    return [f"{name} (did you mean {close[0]}?)" if close else name for name, close in similar.items()]


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

    files: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="FILE|FOLDER",
            help="Files to serve instead of a database: CSV, JSON, Parquet, Excel, SQLite, DuckDB; or folders.",
            show_default=False,
        ),
    ] = None
    encoding: Annotated[
        str | None,
        typer.Option(
            help="Encoding of text files that are not UTF-8, such as cp1252; by default it is recognised."
        ),
    ] = None
    no_file_cache: Annotated[
        bool,
        typer.Option(
            "--no-file-cache", help="Read large files anew at each start, and keep no copy of them."
        ),
    ] = False
    database: Annotated[
        str,
        typer.Option(envvar="DUALSQL_DATABASE_URL", help="URL of the database to serve.", show_default=False),
    ] = field(default="", repr=False)
    schema: Annotated[str | None, typer.Option(help="Serve all tables and views of this schema.")] = None
    tables: Annotated[
        str | None, typer.Option(help="Serve these tables, such as orders,sales.customers.")
    ] = None
    everything: Annotated[
        bool, typer.Option("--all", envvar="DUALSQL_ALL", help="Serve every table and view.")
    ] = False
    read_only_role: Annotated[
        str | None, typer.Option(help="Role that every database session takes (PostgreSQL).")
    ] = None
    unproved_read_only: Annotated[
        bool,
        typer.Option(
            "--unproved-read-only",
            help="Serve a database that has no read-only sessions; its user must have no right to write.",
        ),
    ] = False
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1"
    port: Annotated[
        int | None,
        typer.Option(
            help=f"Port to listen on: {DEFAULT_PORT} by default, with --stdio any free port; 0 for any free port.",
            min=0,
            max=65535,
        ),
    ] = None
    workers: Annotated[
        int,
        typer.Option(
            help="Processes that serve the port together, with --store. SIGHUP replaces them in turn.", min=1
        ),
    ] = 1
    admin_port: Annotated[
        int | None,
        typer.Option(
            help="Port for /live and /ready, which no other port answers; 0 for any free port.",
            min=0,
            max=65535,
        ),
    ] = None
    admin_host: Annotated[str, typer.Option(help="Address to listen on with --admin-port.")] = "127.0.0.1"
    metrics: Annotated[
        bool,
        typer.Option(
            "--metrics",
            help="Answer /metrics for Prometheus on the admin port (pip install 'dualsql\\[prometheus]').",
        ),
    ] = False
    log: Annotated[
        RequestLogForm,
        typer.Option(
            help="Log a line for each request to standard error, as text or JSON. Warnings are logged in any case."
        ),
    ] = RequestLogForm.OFF
    base_url: Annotated[
        str | None, typer.Option(help="URL at which callers reach the server, if it is behind a proxy.")
    ] = None
    stdio: Annotated[
        bool, typer.Option("--stdio", help="Serve MCP over standard input and output. REST stays on HTTP.")
    ] = False
    rest_url: Annotated[
        str | None,
        typer.Option(
            help="With --stdio and --store: no REST here; links are of the server at this URL, with the same store."
        ),
    ] = None
    token: Annotated[
        str | None,
        typer.Option(
            help="Bearer token that callers must send. Prefer the variable: other users can see a command line."
        ),
    ] = field(default=None, repr=False)
    authenticate: Annotated[
        str | None, typer.Option(help="Async function that identifies the caller, as module:function.")
    ] = None
    store: Annotated[
        str | None,
        typer.Option(
            help="URL of a database that stores results, or memory: the default, but with --stdio a file of the user."
        ),
    ] = field(default=None, repr=False)
    keep: Annotated[
        str | None,
        typer.Option(
            metavar="FOLDER|URL",
            help="Keep the rows of slow queries, so that their pages do not run them again: in a folder "
            "(pip install 'dualsql\\[kept]'), or in an object store such as s3://bucket/prefix "
            "(and 'dualsql\\[storage]').",
        ),
    ] = field(default=None, repr=False)
    keep_cache: Annotated[
        str, typer.Option(metavar="FOLDER", help="Where copies of objects are read, with --keep URL.")
    ] = ""
    keep_cache_bytes: Annotated[
        int, typer.Option(help="Bytes that these copies may take together.", min=1)
    ] = KeptSettings().keep_cache_bytes
    secret_file: Annotated[
        Path | None,
        typer.Option(
            envvar="DUALSQL_SECRET_FILE",
            help="File of the secrets that sign stored results, one a line; SIGHUP reads it again.",
        ),
    ] = None
    wait: Annotated[
        float | None, typer.Option(help="Seconds after which a slow query becomes a pending result.", min=0)
    ] = None
    sample_size: Annotated[
        int | None,
        typer.Option(
            help="Rows that a model sees of a result too large to show whole; 15 by default.", min=0
        ),
    ] = None
    count_budget: Annotated[
        float | None,
        typer.Option(
            help="Seconds to count the rows of a result before the total is an estimate; 0.2 by default.",
            min=0.001,
        ),
    ] = None
    results_format: Annotated[
        ResultsFormat, typer.Option(help="How the structure of an answer holds rows.")
    ] = "rows"
    text_format: Annotated[TextFormat, typer.Option(help="How the text of an answer shows rows.")] = (
        "markdown"
    )
    notes: Annotated[
        Path | None,
        typer.Option(
            help="File of notes for the model about tables and terms: part of the instructions, and found by search."
        ),
    ] = None
    pages_in_text: Annotated[
        bool,
        typer.Option(
            "--pages-in-text/--no-pages-in-text",
            help="The text of each answer names the page of the result and a CSV file, for the person who reads it.",
        ),
    ] = True
    cors_origins: Annotated[
        str | None,
        typer.Option(
            help="Origins whose pages may call the server, such as https://app.example.com,https://example.com."
        ),
    ] = None
    allowed_hosts: Annotated[
        str | None,
        typer.Option(
            help="Host names that callers may use besides that of the base URL, separated by commas."
        ),
    ] = None
    rate_limits: Annotated[
        str | None,
        typer.Option(
            help="How often a minute one caller may create results, ask for rows and open streams, and after a slash "
            "how often at once: create=60,ask=600/50,stream=30."
        ),
    ] = None
    address_rate_limits: Annotated[
        str | None,
        typer.Option(help="The same for one IP address, whoever it says it is: ask=3000."),
    ] = None
    trusted_proxies: Annotated[
        str | None,
        typer.Option(
            help="Addresses of proxies whose X-Forwarded-For says where a request comes from, such as "
            "127.0.0.1,10.0.0.0/8. Without it, none is believed."
        ),
    ] = None
    opens_browser: Annotated[
        bool,
        typer.Option("--open", envvar="DUALSQL_OPEN", help="Open the pages of the server in a browser."),
    ] = False
    name: Annotated[str, typer.Option(help="Name of the server in the configuration of hosts.")] = "dualsql"

    @property
    def store_url(self) -> str | None:
        """The database that keeps results; None for memory, or over stdio without --store for a file of the user."""
        return None if self.store == "memory" else self.store

    @property
    def extra(self) -> str:
        """The extras of dualsql that the command needs."""
        return "serve,files" if self.files else "serve"


@dataclass(frozen=True, slots=True, kw_only=True)
class DoctorOptions(ServeOptions):
    """Flags of `dualsql doctor`: those of `dualsql serve`, and the form of the answer."""

    as_json: Annotated[
        bool, typer.Option("--json", envvar="DUALSQL_DOCTOR_JSON", help="Print one JSON object.")
    ] = False


def secrets(options: ServeOptions) -> tuple[str, ...]:
    """The secrets that sign stored results, of the file or of the variable.

    There is no flag for the secrets themselves, because all local processes can read a command line.

    Raises:
        ConfigurationError: the file cannot be read.
    """
    text = os.environ.get("DUALSQL_SECRET", "")
    if options.secret_file is not None:
        try:
            text = options.secret_file.read_text(encoding="utf-8")
        except (OSError, ValueError) as error:
            raise ConfigurationError(
                f"--secret-file: {str(options.secret_file)[:200]!r} cannot be read.",
                hint="Give a file with one secret a line; the first one signs.",
            ) from error
    return tuple(filter(None, (part.strip() for line in text.splitlines() for part in line.split(","))))
