"""What a person can do with a dual response at the command line; the rule: parse here, work elsewhere, end every error
in one line.

`dualsql-client` and `dualsql` have these commands, the same functions.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Coroutine
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import typer

from dualsql_client.asked import StreamOptions
from dualsql_client.cli.fetching import Fetched, fetch
from dualsql_client.cli.sources import read_source
from dualsql_client.errors import DualResponseClientError, MissingExtraError
from dualsql_client.plain import printable
from dualsql_client.wire import SortKey

T = TypeVar("T")

TOKEN_VARIABLE = "DUALSQL_TOKEN"  # noqa: S105 - the name of the variable
INTERRUPTED = 130
"""What a shell says of a program that Ctrl-C ended."""

app = typer.Typer(
    help="The application's half of the dual response pattern.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)

FileFormat = Literal["ndjson", "csv", "arrow", "parquet"]

From = Annotated[
    str,
    typer.Argument(
        metavar="URL|FILE", help="A resource's address, or a file with a tool result; - is stdin."
    ),
]
BaseUrl = Annotated[
    str | None, typer.Option(envvar="DUALSQL_BASE_URL", help="Where a file's result is fetched from.")
]
TokenEnv = Annotated[
    str | None, typer.Option(help=f"The variable that holds a bearer token, if not {TOKEN_VARIABLE}.")
]


@app.command("fetch")
def fetch_command(
    source: From,
    *,
    output: Annotated[Path, typer.Option("--output", "-o", help="The file; its suffix names the format.")],
    file_format: Annotated[
        FileFormat | None, typer.Option("--format", help="The format, where no suffix names it.")
    ] = None,
    columns: Annotated[str | None, typer.Option(help="Names of columns, joined by commas.")] = None,
    sort: Annotated[str | None, typer.Option(help="Such as -earnings,name: the first decides first.")] = None,
    limit: Annotated[int | None, typer.Option(min=0, help="The most rows.")] = None,
    base_url: BaseUrl = None,
    token_env: TokenEnv = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No bar.")] = False,
) -> None:
    """Save every row as Parquet, CSV, NDJSON or Arrow; a connection that breaks is gone on with.

    Prints rows, bytes, seconds and the file's SHA-256. What stood at the output is replaced once the file is whole.
    """

    async def run() -> Fetched:
        named = read_source(source, base_url)
        form = file_format or (None if output.suffix else named.format)
        async with named.opened(_token(token_env)) as parsed:
            bar = not quiet and sys.stderr.isatty()
            return await fetch(parsed, output, form, bar=bar, options=_options(columns, sort, limit))

    _print(_run(run()))


@app.command("view")
def view_command(source: From, *, base_url: BaseUrl = None, token_env: TokenEnv = None) -> None:
    """Look at the rows in the terminal: page, sort, search, save, pin."""

    async def run() -> None:
        try:
            from dualsql_client.view.app import Viewer
        except ModuleNotFoundError as error:
            raise MissingExtraError(
                f"This needs {error.name}, which is not installed.", hint='pip install "dualsql-client[view]"'
            ) from error
        async with read_source(source, base_url).opened(_token(token_env)) as parsed:
            # Asked before the screen is taken, so that what is refused is said in the terminal.
            metadata = await parsed.wait_until_ready()
            async with parsed.kept_alive():
                await Viewer(parsed, metadata).run_async()

    _run(run())


def _run(work: Coroutine[Any, Any, T]) -> T:
    try:
        return asyncio.run(work)
    except (DualResponseClientError, ValueError) as error:
        # A server's words, and a terminal's escape sequences are words too.
        typer.echo(f"dualsql: {printable(str(error), 2_000)}", err=True)
        raise typer.Exit(1) from error
    except OSError as error:
        typer.echo(f"dualsql: {error.filename or 'The file'}: {error.strerror}", err=True)
        raise typer.Exit(1) from error
    except (KeyboardInterrupt, asyncio.CancelledError):
        typer.echo("Stopped.", err=True)
        raise typer.Exit(INTERRUPTED) from None


def _print(fetched: Fetched) -> None:
    rows = "unknown (pyarrow would count them)" if fetched.rows is None else f"{fetched.rows:,}"
    typer.echo(f"rows     {rows}")
    typer.echo(f"bytes    {fetched.bytes:,}")
    typer.echo(f"seconds  {fetched.seconds:.2f}")
    typer.echo(f"sha256   {fetched.sha256}  {fetched.path}")


def _token(variable: str | None) -> str | None:
    token = os.environ.get(variable or TOKEN_VARIABLE, "").strip()
    if variable and not token:
        raise ValueError(f"The variable {variable} is not set.")
    if not token.isascii() or not token.isprintable():
        raise ValueError("The token holds what no header can.")
    return token or None


def _options(columns: str | None, sort: str | None, limit: int | None) -> StreamOptions:
    options = StreamOptions()
    if columns is not None:
        options["columns"] = [name.strip() for name in columns.split(",")]
    if sort is not None:
        options["sort"] = [sort_key(written.strip()) for written in sort.split(",")]
    if limit is not None:
        options["limit"] = limit
    return options


def sort_key(written: str) -> SortKey:
    """`-name` is descending."""
    return {"field": written.removeprefix("-"), "order": "desc" if written.startswith("-") else "asc"}
