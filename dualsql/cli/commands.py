"""The commands of `dualsql`. An error is one line on standard error, and exit code 1."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated

import typer

from dualsql.cli.options import DoctorOptions, ServeOptions, takes
from dualsql.errors import DualResponseError, importing
from dualsql_client.cli.commands import fetch_command, view_command


@dataclass(frozen=True, slots=True, kw_only=True)
class Migrated:
    """The revision before and after a migration; None for a database without dualsql's tables."""

    before: str | None
    after: str | None

    def __str__(self) -> str:
        if self.before == self.after:
            return f"The database is already at {_named(self.after)}."
        return f"Migrated the database from {_named(self.before)} to {_named(self.after)}."


def migrate(database: str, *, down_to: str | None = None) -> Migrated:
    """Bring the database up to date, or down to a revision ("base": remove everything of dualsql).

    Raises:
        StorageError: the database failed or is out of reach.
        ConfigurationError: the URL cannot be used, or the revision is unknown.
    """
    from dualsql.store.migrations import current_revision, downgrade, upgrade

    before = current_revision(database)
    if down_to is None:
        upgrade(database)
    else:
        downgrade(database, down_to)
    return Migrated(before=before, after=current_revision(database))


def _named(revision: str | None) -> str:
    return "no revision" if revision is None else f"revision {revision}"


app = typer.Typer(
    help="Query results for two readers: a sample for the model, every row for the application.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)

# The commands of `dualsql-client`, for those who have installed the server.
app.command("fetch")(fetch_command)
app.command("view")(view_command)


@app.command("migrate")
def migrate_command(
    database: Annotated[str, typer.Option(envvar="DUALSQL_DATABASE_URL", help="URL of the database.")],
    down_to: Annotated[
        str | None, typer.Option(help='Downgrade to this revision; "base" removes the tables.')
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Downgrade without confirmation.")] = False,
) -> None:
    """Create or update the tables that store resources."""
    if down_to is not None and not yes:
        typer.confirm("A downgrade can delete all stored resources. Continue?", abort=True)
    with _errors_in_one_line():
        typer.echo(migrate(database, down_to=down_to))


@app.command("openapi")
def openapi_command(
    base_url: Annotated[
        str, typer.Option(envvar="DUALSQL_BASE_URL", help="Where callers reach the server.")
    ] = "http://127.0.0.1:8000",
) -> None:
    """Print the REST resources of `dualsql serve` as OpenAPI 3.1."""
    with _errors_in_one_line():
        try:
            with importing():
                from dualsql.cli.serve import openapi
        except ModuleNotFoundError as error:
            raise _missing(error.name, "serve") from error
        typer.echo(openapi(base_url.rstrip("/")))


@app.command("demo")
def demo_command(
    serve: Annotated[bool, typer.Option("--serve", help="Keep the server running.")] = False,
    database: Annotated[
        str | None, typer.Option(help="URL of a database to use instead of the built-in SQLite file.")
    ] = None,
    port: Annotated[
        int, typer.Option(help="Port to listen on; 0 for any free port.", min=0, max=65535)
    ] = 8765,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
) -> None:
    """Run a demonstration: a model and an application query 106,145 college programs."""
    with _errors_in_one_line():
        try:
            from rich.console import Console

            from dualsql.demo.run import run
        except ModuleNotFoundError as error:
            raise _missing(error.name, "demo") from error
        asyncio.run(run(Console(), host=host, port=port, database=database, keeps_serving=serve))


@app.command("serve")
@takes(ServeOptions)
def serve_command(options: ServeOptions) -> None:
    """Serve a database read-only to models (MCP) and applications (REST)."""
    with _errors_in_one_line():
        try:
            with importing():
                from dualsql.cli.serve import run
        except ModuleNotFoundError as error:
            raise _missing(error.name, "serve") from error
        asyncio.run(run(options))


@app.command("doctor")
@takes(DoctorOptions)
def doctor_command(options: DoctorOptions) -> None:
    """Check what `dualsql serve` needs, with the same options; exit code 1 if something would not work."""
    with _errors_in_one_line():
        try:
            with importing():
                from dualsql.cli.doctor import examine, is_healthy, report
        except ModuleNotFoundError as error:
            raise _missing(error.name, "serve") from error
        found = asyncio.run(examine(options))
        typer.echo(report(found, as_json=options.as_json))
    if not is_healthy(found):
        raise typer.Exit(1)


def _missing(module: str | None, extra: str) -> SystemExit:
    return SystemExit(f'dualsql: {module} is not installed. Try: pip install "dualsql[{extra}]"')


@contextmanager
def _errors_in_one_line() -> Iterator[None]:
    try:
        yield
    except DualResponseError as error:
        typer.echo(f"dualsql: {error}", err=True)
        raise typer.Exit(1) from error
    except (KeyboardInterrupt, asyncio.CancelledError):
        typer.echo("Stopped.")
