"""The commands fetch and view. What they need to run is loaded with a run: the commands of dualsql have them too."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer
from typer.core import TyperGroup

from dualsql_client.errors import DualResponseClientError, MissingExtraError
from dualsql_client.formats import FileFormat

if TYPE_CHECKING:
    from dualsql_client.cli.fetching import Fetched
    from dualsql_client.query import StreamOptions
    from dualsql_client.streaming import PartialFile

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
    from dualsql_client.cli.fetching import fetch
    from dualsql_client.cli.sources import read_source
    from dualsql_client.streaming import KEEPS_PARTS, note_of

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
    from dualsql_client.cli.sources import read_source

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
        from dualsql_client.preview import printable

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
    options: StreamOptions = {}
    if columns is not None:
        options["columns"] = [name.strip() for name in columns.split(",")]
    if sort is not None:
        options["sort"] = sort
    if limit is not None:
        options["limit"] = limit
    return options
