"""`dualsql serve --stdio`: the host is answered at once, while the server is imported and its database opened."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Coroutine
from contextlib import suppress
from socket import socket
from typing import Any, NoReturn

import typer

from dualsql.cli.checks import (
    dialect_of,
    is_open,
    notes_of,
    require_consistent,
    require_exposable,
    resources_at,
    rest_elsewhere,
    settings_of,
)
from dualsql.cli.options import ServeOptions
from dualsql.cli.process import line_of
from dualsql.errors import ConfigurationError, DualResponseError
from dualsql.packages import importing
from dualsql.serve.sockets import listen, stop_on_signals
from dualsql.serve.stdio import Started, outline, run_stdio


async def run(options: ServeOptions) -> None:
    """Serve MCP over the standard streams, on which nothing else is written, and REST beside, until the host hangs up.

    An error after the first answers ends the process.

    Raises:
        ConfigurationError: an option is invalid.
    """
    stop_on_signals()
    require_consistent(options)
    if options.rest_url is not None:
        await _run(options, rest_elsewhere(options, options.rest_url), None)
        return
    # Each host starts a process of its own, and only one of them would get a fixed port.
    with listen(options.host, options.port or 0) as listener:
        require_exposable(options, listener)
        await _run(options, resources_at(options, listener), listener)


async def _run(options: ServeOptions, base_url: str, listener: socket | None) -> None:
    started = Started()
    server = outline(
        started,
        settings_of(options),
        name=options.name,
        notes=notes_of(options),
        results_format=options.results_format,
        dialect=dialect_of(options),
        base_url=base_url,
        is_authenticated=listener is not None and not is_open(options),
    )
    session = asyncio.create_task(run_stdio(server))
    try:
        await _beside(session, _serve(options, base_url, listener, started))
        session.result()
    except asyncio.CancelledError:
        _end(0, "Stopped.")
    except DualResponseError as error:
        _end(1, line_of(error))


async def _serve(options: ServeOptions, base_url: str, listener: socket | None, started: Started) -> None:
    serve_beside = await asyncio.to_thread(_imported, options.extra)
    await serve_beside(options, base_url, listener, started)


def _imported(extra: str) -> Any:
    """`serve_beside`. Its module imports SQLAlchemy and all features: in a thread, because the host is asking."""
    try:
        with importing():
            from dualsql.cli.serve import serve_beside
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            f"{error.name} is not installed.", hint=f'Try: pip install "dualsql[{extra}]"'
        ) from error
    return serve_beside


async def _beside(session: asyncio.Task[None], serving: Coroutine[Any, Any, None]) -> None:
    """Run `serving` until it fails, or `session` has ended."""
    # `await session` could not be cancelled while the session waits for the host.
    task = asyncio.create_task(serving)
    try:
        await asyncio.wait({session, task}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def _end(code: int, line: str) -> NoReturn:
    """End the process at once, because a thread that waits for the host's next line cannot be interrupted."""
    typer.echo(line, err=True)
    sys.stderr.flush()
    os._exit(code)
