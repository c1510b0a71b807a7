"""The commands of `dualsql`. An error is one line on standard error, and exit code 1."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer

from dualsql.cli.connect import (
    Change,
    HostName,
    configuration_file,
    entry_over_http,
    entry_over_stdio,
    missing,
    plan_change,
    snippet,
)
from dualsql.cli.options import DoctorOptions, ServeOptions, takes_options, unknown_variables
from dualsql.cli.process import errors_in_one_line, run_in_loop
from dualsql.databases.file_selection import find_files
from dualsql.errors import ConfigurationError
from dualsql.packages import importing
from dualsql_client.cli.commands import Commands, fetch_command, view_command


@dataclass(frozen=True, slots=True, kw_only=True)
class Migrated:
    """The revision before and after a migration; None for a database without dualsql's tables."""

    before: str | None
    after: str | None

    def __str__(self) -> str:
        if self.before == self.after:
            return f"The database is already at {_revision_name(self.after)}."
        return f"Migrated the database from {_revision_name(self.before)} to {_revision_name(self.after)}."


def migrate(store: str, *, down_to: str | None = None, create: bool = False) -> Migrated:
    """Bring a store up to date, or down to a revision ("base": remove everything of dualsql).

    Args:
        create: make the tables of a database that has none.

    Raises:
        StorageError: the database failed or is out of reach.
        ConfigurationError: the URL cannot be used, the database has no store, or the revision is unknown.
    """
    from dualsql.store.migrations import current_revision, downgrade, upgrade

    before = current_revision(store)
    if before is None and not create:
        raise ConfigurationError(
            "This database has no tables of dualsql.",
            hint="If results are to be stored there, make them: dualsql migrate --create --store URL.",
        )
    if down_to is None:
        upgrade(store)
    else:
        downgrade(store, down_to)
    return Migrated(before=before, after=current_revision(store))


def _revision_name(revision: str | None) -> str:
    return "no revision" if revision is None else f"revision {revision}"


def _print_version(is_requested: bool) -> None:  # noqa: FBT001 - typer calls it
    if is_requested:
        typer.echo(f"dualsql {version('dualsql')}")
        raise typer.Exit


app = typer.Typer(
    cls=Commands,
    help="Query results for two readers: a sample for the model, every row for the application.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


@app.callback()
def main_options(
    context: typer.Context,
    version: Annotated[  # noqa: ARG001 - its callback prints it
        bool,
        typer.Option("--version", help="Print the version.", is_eager=True, callback=_print_version),
    ] = False,
) -> None:
    """Query results for two readers: a sample for the model, every row for the application."""
    commands = getattr(context.command, "commands", {}).values()
    variables = {each.envvar for command in commands for each in command.params if each.envvar}
    if unknown := unknown_variables(variables):
        typer.echo(f"dualsql: Ignored, because no option reads them: {', '.join(unknown)}.", err=True)


# The commands of `dualsql-client`, for those who have installed the server.
app.command("fetch")(fetch_command)
app.command("view")(view_command)


@app.command("migrate")
def migrate_command(
    store: Annotated[
        str, typer.Option(envvar="DUALSQL_STORE", help="URL of the database that keeps the resources.")
    ],
    create: Annotated[bool, typer.Option("--create", help="Make the tables where there are none.")] = False,
    down_to: Annotated[
        str | None, typer.Option(help='Downgrade to this revision; "base" removes the tables.')
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Downgrade without confirmation.")] = False,
) -> None:
    """Create or update the tables that store resources."""
    if down_to is not None and not yes:
        typer.confirm("A downgrade can delete all stored resources. Continue?", abort=True)
    with errors_in_one_line():
        typer.echo(migrate(store, down_to=down_to, create=create))


@app.command("openapi")
def openapi_command(
    base_url: Annotated[
        str, typer.Option(envvar="DUALSQL_BASE_URL", help="Where callers reach the server.")
    ] = "http://127.0.0.1:8000",
) -> None:
    """Print the REST resources of `dualsql serve` as OpenAPI 3.1."""
    with errors_in_one_line():
        with _importing("serve"):
            from dualsql.cli.serve import openapi
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
    with errors_in_one_line():
        with _importing("demo"):
            from rich.console import Console

            from dualsql.demo.run import run
        asyncio.run(run(Console(), host=host, port=port, database=database, keeps_serving=serve))


@app.command("serve")
@takes_options(ServeOptions)
def serve_command(options: ServeOptions) -> None:
    """Serve a database, or files, read-only to models (MCP) and applications (REST)."""
    with errors_in_one_line():
        with _importing(options.extra):
            if options.stdio:
                from dualsql.cli.stdio import run
            else:
                from dualsql.cli.serve import run
        run_in_loop(run(options))


@app.command("doctor")
@takes_options(DoctorOptions)
def doctor_command(options: DoctorOptions) -> None:
    """Check what `dualsql serve` needs, with the same options; exit code 1 if something would not work."""
    with errors_in_one_line():
        with _importing(options.extra):
            from dualsql.cli.doctor import examine, is_healthy, write_report
        findings = asyncio.run(examine(options))
        typer.echo(write_report(findings, as_json=options.as_json))
        if is_healthy(findings):
            return
    raise typer.Exit(1)


@app.command("conformance")
def conformance_command(
    url: Annotated[str | None, typer.Argument(help="URL of the MCP endpoint of a server.")] = None,
    *,
    client: Annotated[
        str | None, typer.Option(help="Command of a client, which reads a task from its input.")
    ] = None,
    tool: Annotated[
        str | None, typer.Option(help="Tool that makes a result; by default the documented one.")
    ] = None,
    arguments: Annotated[str, typer.Option(help="Its arguments, as JSON.")] = "{}",
    base_url: Annotated[
        str | None, typer.Option(help="URL of the results; by default the origin of the endpoint.")
    ] = None,
    part: Annotated[
        list[str] | None, typer.Option(help="Check this part alone; several times for several.")
    ] = None,
    token: Annotated[
        str | None,
        typer.Option(envvar="DUALSQL_TOKEN", help="Bearer token of the caller.", show_default=False),
    ] = None,
    stranger_token: Annotated[
        str | None, typer.Option(help="Bearer token of another caller.", show_default=False)
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print each sentence as JSON.")] = False,
) -> None:
    """Check a server or a client against the standard (docs/standard); exit code 1 if a MUST fails."""
    with errors_in_one_line():
        with _importing("serve"):
            from dualsql.conformance.command import ConformanceError, check_conformance
            from dualsql.serve.sockets import stop_on_signals

        async def run() -> tuple[str, bool]:
            stop_on_signals()
            return await check_conformance(
                url,
                client,
                tool=tool,
                arguments=arguments,
                base_url=base_url,
                parts=part or (),
                tokens={"owner": token, "stranger": stranger_token},
                as_json=as_json,
            )

        try:
            text, is_conforming = asyncio.run(run())
        except ConformanceError as error:
            raise ConfigurationError(str(error)) from error
        typer.echo(text)
        if is_conforming:
            return
    raise typer.Exit(1)


@app.command("connect")
def connect_command(
    host: Annotated[HostName, typer.Argument(help="The host whose configuration is written.")],
    files: Annotated[
        list[Path] | None,
        typer.Argument(metavar="FILE|FOLDER", help="Files that the host's server serves."),
    ] = None,
    *,
    url: Annotated[str | None, typer.Option(help="URL of an MCP endpoint that runs already.")] = None,
    database: Annotated[
        str | None,
        typer.Option(
            help="URL of the database to serve. It is written into the file as it is.", show_default=False
        ),
    ] = None,
    schema: Annotated[str | None, typer.Option(help="Serve all tables of this schema.")] = None,
    tables: Annotated[str | None, typer.Option(help="Serve these tables, separated by commas.")] = None,
    name: Annotated[str, typer.Option(help="Name of the server in the configuration.")] = "dualsql",
    user: Annotated[
        bool, typer.Option("--user", help="Write the user's file instead of that of this folder.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the entry and write nothing.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Write without confirmation.")] = False,
) -> None:
    """Write a server into the configuration of a host, with a copy of the old file."""
    with errors_in_one_line():
        if [bool(files), url is not None, database is not None].count(True) != 1:
            raise ConfigurationError("Give files, --url or --database, one of them.")
        path = configuration_file(host, is_users=user)
        if url is not None:
            entry = entry_over_http(host, url)
        else:
            which = ["--schema", schema] if schema else ["--tables", tables] if tables else ["--all"]
            arguments = [str(path) for path in find_files(files).paths] if files else which
            variables = {"DUALSQL_DATABASE_URL": database} if database is not None else {}
            entry = entry_over_stdio(host, ["serve", "--stdio", *arguments], variables)
        typer.echo(f"{path.resolve()}\n{snippet(host, name, entry)}")
        if not dry_run:
            _write(plan_change(host, path, name, entry), yes=yes)


def _write(change: Change, *, yes: bool) -> None:
    if not change.is_needed:
        typer.echo("The file has this entry already.")
        return
    question = "Replace the entry of that name?" if change.earlier is not None else "Write this entry?"
    if not yes:
        typer.confirm(question, abort=True)
    try:
        copy = change.write()
    except OSError as error:
        raise ConfigurationError(f"{str(change.path)!r} cannot be written: {error.strerror}.") from error
    typer.echo("Written." if copy is None else f"Written. The old file is {copy}.")


@contextmanager
def _importing(extra: str) -> Iterator[None]:
    """End the process with a line that names `extra` if an import of the block needs it and it is not installed."""
    try:
        with importing():
            yield
    except ModuleNotFoundError as error:
        raise SystemExit(missing(error.name, extra)) from error
