"""The commands fetch and view."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar, cast, get_args
from urllib.parse import parse_qs, urlsplit

import typer
from typer.core import TyperGroup

from dualsql_client.addresses import resource_id
from dualsql_client.cli.fetching import Fetched, fetch
from dualsql_client.client import DualResponseClient
from dualsql_client.errors import DualResponseClientError, MissingExtraError, NotConfiguredError, ParseError
from dualsql_client.formats import FileFormat
from dualsql_client.parsed import ParsedDualResponse
from dualsql_client.preview import printable
from dualsql_client.query import StreamOptions
from dualsql_client.streaming import KEEPS_PARTS, PartialFile, note_of

MAXIMUM_FILE_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResultSource:
    """A result to fetch.

    Attributes:
        base_url: of the server's resources.
        tool_result: JSON with one dual response.
        link: the token of a signed link; None without one.
        format: from the query of a URL; None without one.
    """

    base_url: str
    tool_result: object
    link: str | None = None
    format: FileFormat | None = None

    @asynccontextmanager
    async def open(self, token: str | None) -> AsyncIterator[ParsedDualResponse]:
        """The dual response; its connections are closed at the end of the block.

        Args:
            token: a bearer token, sent to `base_url` only.

        Raises:
            ParseError: there is no dual response, or several.
            NotConfiguredError: `base_url` is no http or https address.
        """
        headers = {"authorization": f"Bearer {token}"} if token else {}
        import httpx

        # Each request needs the link, also those that resume a stream.
        async with httpx.AsyncClient(params={"link": self.link} if self.link else None) as http:
            yield _only(DualResponseClient(self.base_url, http, headers), self.tool_result)


def read_source(argument: str, base_url: str | None) -> ToolResultSource:
    """The result of a command: the URL of a resource, with or without `/rows`, or a file with a tool result.

    Args:
        argument: of the command; `-` is the standard input.
        base_url: for a file.

    Raises:
        ParseError: the argument is no URL of a resource and no readable file with a tool result.
        NotConfiguredError: a file was given without a base URL.
    """
    if argument.lower().startswith(("http://", "https://")):
        return _source_at(argument)
    tool_result = _read_json(argument)
    if base_url is None:
        raise _base_url_error(_only(DualResponseClient(), tool_result))
    return ToolResultSource(base_url=base_url, tool_result=tool_result)


def _source_at(url: str) -> ToolResultSource:
    parts = urlsplit(url)
    path = parts.path.rstrip("/").removesuffix("/rows")
    above, _, identifier = path.rpartition("/")
    uri = f"resource://{identifier}"
    if resource_id(uri) is None:
        raise ParseError(
            "The URL is not the URL of a resource.", hint="A resource's URL ends in its id or in /rows."
        )
    query = parse_qs(parts.query)
    form = query.get("format", [""])[0]
    return ToolResultSource(
        base_url=f"{parts.scheme}://{parts.netloc}{above}",
        tool_result={
            "results": [], "resource": {"uri": uri, "name": ""}, "metadata": {"total_count": None}
        },
        link=query.get("link", [None])[0],
        format=cast(FileFormat, form) if form in get_args(FileFormat) else None,
    )  # fmt: skip


def _read_json(path: str) -> object:
    try:
        if path == "-":
            content = sys.stdin.buffer.read(MAXIMUM_FILE_BYTES + 1)
        else:
            with Path(path).open("rb") as file:
                content = file.read(MAXIMUM_FILE_BYTES + 1)
        if len(content) > MAXIMUM_FILE_BYTES:
            raise ParseError(f"The tool result is larger than {MAXIMUM_FILE_BYTES:,} bytes.")
        return json.loads(content)
    except OSError as error:
        hint = "Give the URL of a resource, or a file with a tool result."
        if (identifier := resource_id(path)) is not None:
            hint = (
                "Give its URL: the base URL of the server and the id, such as "
                f"https://api.example.com/resources/{identifier}"
            )
        raise ParseError(f"{path} cannot be read: {error.strerror}.", hint=hint) from error
    except (ValueError, RecursionError) as error:
        raise ParseError(
            f"{path} is not JSON.", hint="Give the URL of a resource, or a file with a tool result."
        ) from error


def _only(client: DualResponseClient, tool_result: object) -> ParsedDualResponse:
    responses = client.find(tool_result)
    if len(responses) > 1:
        uris = ", ".join(printable(parsed.resource_uri, 80) for parsed in responses[:10])
        raise ParseError(
            f"The tool result contains {len(responses)} dual responses: {uris}.",
            hint="Give the URL of one of them.",
        )
    return client.parse(tool_result, strict=True)


def _base_url_error(parsed: ParsedDualResponse) -> NotConfiguredError:
    # The client does not use the URL, but the person may recognize it.
    url = printable(parsed.resource_url or "", 300)
    where = f" This one contains {url}." if url else ""
    return NotConfiguredError(
        f"--base-url is required for a file: a URL in a tool result is not trusted.{where}",
        hint="Give the URL of your server: --base-url https://api.example.com/resources",
    )


T = TypeVar("T")

TOKEN_VARIABLE = "DUALSQL_TOKEN"  # noqa: S105 - the name of the variable
INTERRUPTED = 130
"""The exit status of a program that Ctrl-C has ended, as in shells."""

_REFUSALS = {
    "int_parsing": "{input!r} is not a whole number.",
    "float_parsing": "{input!r} is not a number.",
    "greater_than_equal": "{input} is less than {ge}.",
    "less_than_equal": "{input} is more than {le}.",
    "value_error": "{error}",
}
"""What a person reads of a value that is no parameter, by the type of pydantic's error."""


class Commands(TyperGroup):
    """Commands whose refusals of a value are in plain words; Typer has those of pydantic."""

    def invoke(self, ctx: typer.Context) -> Any:  # type: ignore[override]
        try:
            return super().invoke(ctx)
        except typer.BadParameter as error:
            errors: list[Any] = getattr(error.__cause__, "errors", list)()
            if errors and (words := _REFUSALS.get(errors[0]["type"])):
                error.message = words.format(input=errors[0]["input"], **errors[0].get("ctx", {}))
            raise


app = typer.Typer(
    cls=Commands,
    help="Read the rows of dual responses: save them to a file, or look at them in the terminal.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)

From = Annotated[
    str,
    typer.Argument(
        metavar="URL|FILE", help="URL of a resource, or a file with a tool result; - for standard input."
    ),
]
BaseUrl = Annotated[
    str | None,
    typer.Option(envvar="DUALSQL_BASE_URL", help="URL of the server's REST resources; required for a file."),
]
TokenEnv = Annotated[
    str | None, typer.Option(help=f"Environment variable with a bearer token; {TOKEN_VARIABLE} by default.")
]


@app.command("fetch")
def fetch_command(
    source: From,
    *,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="File to write; its suffix gives the format.")
    ],
    file_format: Annotated[
        FileFormat | None, typer.Option("--format", help="Format, if the suffix does not give it.")
    ] = None,
    columns: Annotated[str | None, typer.Option(help="Columns to fetch, separated by commas.")] = None,
    sort: Annotated[
        str | None, typer.Option(help="Sort keys, such as -earnings,name; - means descending.")
    ] = None,
    limit: Annotated[int | None, typer.Option(min=0, help="Maximum number of rows.")] = None,
    base_url: BaseUrl = None,
    token_env: TokenEnv = None,
    is_continued: Annotated[
        bool,
        typer.Option(
            "--continue",
            help="Go on with what an earlier run of this command left. Not Parquet, Excel, databases.",
        ),
    ] = False,
    guard_formulas: Annotated[
        bool,
        typer.Option("--guard-formulas", help="CSV: put ' before cells that a spreadsheet would run."),
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress bar.")] = False,
) -> None:
    """Save every row as Parquet, CSV, NDJSON, Arrow, Excel, DuckDB or SQLite.

    A broken download resumes where it stopped. Prints rows, bytes, seconds and the file's SHA-256. An existing file is
    replaced when the new one is complete; a database is not: it may have other tables.
    """
    partial: PartialFile = "continue" if is_continued else "keep" if KEEPS_PARTS else "discard"
    if is_continued and not note_of(output).exists():
        typer.echo(
            "There is nothing to continue: it starts again. (Parquet, Excel and databases always do.)",
            err=True,
        )

    async def run() -> Fetched:
        result = read_source(source, base_url)
        form = file_format or (None if output.suffix else result.format)
        async with result.open(_token(token_env)) as parsed:
            bar = not quiet and sys.stderr.isatty()
            options = _options(columns, sort, limit)
            return await fetch(
                parsed, output, form, bar=bar, options=options, partial=partial, guard_formulas=guard_formulas
            )

    _print(_run(run(), keeps=lambda: note_of(output).exists()))


@app.command("view")
def view_command(source: From, *, base_url: BaseUrl = None, token_env: TokenEnv = None) -> None:
    """Show the rows in the terminal. Keys: page, sort, search, save, pin."""

    async def run() -> None:
        try:
            from dualsql_client.view.app import Viewer
        except ModuleNotFoundError as error:
            raise MissingExtraError(
                f"This needs {error.name}, which is not installed.", hint='pip install "dualsql-client[view]"'
            ) from error
        async with read_source(source, base_url).open(_token(token_env)) as parsed:
            # Before the viewer takes the screen: an error is printed in the terminal.
            metadata = await parsed.wait_until_ready()
            async with parsed.kept_alive():
                await Viewer(parsed, metadata).run_async()

    _run(run())


_CONTINUE = " The rows so far are kept: run it again with --continue."


def _run(work: Coroutine[Any, Any, T], *, keeps: Callable[[], bool] | None = None) -> T:
    """The result of `work`; an error is printed as one line, with a note if `keeps` reports that rows are kept."""
    try:
        return asyncio.run(work)
    except (DualResponseClientError, ValueError) as error:
        # The server's text may have escape sequences of terminals.
        typer.echo(
            f"dualsql: {printable(str(error), 2_000)}{_CONTINUE if keeps and keeps() else ''}", err=True
        )
        raise typer.Exit(1) from error
    except OSError as error:
        typer.echo(f"dualsql: {error.filename or 'The file'}: {error.strerror}", err=True)
        raise typer.Exit(1) from error
    except (KeyboardInterrupt, asyncio.CancelledError):
        rest = "" if keeps is None else _CONTINUE if keeps() else " No rows are kept: run it again."
        typer.echo(f"Stopped.{rest}", err=True)
        raise typer.Exit(INTERRUPTED) from None


def _print(fetched: Fetched) -> None:
    rows = "unknown (install pyarrow to count them)" if fetched.rows is None else f"{fetched.rows:,}"
    typer.echo(f"rows     {rows}")
    typer.echo(f"bytes    {fetched.bytes:,}")
    typer.echo(f"seconds  {fetched.seconds:.2f}")
    typer.echo(f"sha256   {fetched.sha256}  {fetched.path}")


def _token(variable: str | None) -> str | None:
    token = os.environ.get(variable or TOKEN_VARIABLE, "").strip()
    if variable and not token:
        raise ValueError(f"The variable {variable} is not set.")
    if not token.isascii() or not token.isprintable():
        raise ValueError("The token contains characters that a header cannot contain.")
    return token or None


def _options(columns: str | None, sort: str | None, limit: int | None) -> StreamOptions:
    options = StreamOptions()
    if columns is not None:
        options["columns"] = [name.strip() for name in columns.split(",")]
    if sort is not None:
        options["sort"] = sort
    if limit is not None:
        options["limit"] = limit
    return options
