"""How a command runs: its event loop, and its end."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import typer

from dualsql.cli.connect import with_the_line_that_installs
from dualsql.cli.options import hint_with_flag
from dualsql.errors import DualResponseError


def run_in_loop(serving: Coroutine[Any, Any, None]) -> None:
    """`asyncio.run` on the event loop of uvloop, where it is installed: Windows has none."""
    loop_factory: Callable[[], asyncio.AbstractEventLoop] = asyncio.new_event_loop
    with suppress(ModuleNotFoundError):
        import uvloop

        loop_factory = uvloop.new_event_loop
    with asyncio.Runner(loop_factory=loop_factory) as runner:
        runner.run(serving)


def line_of(error: DualResponseError) -> str:
    """The line in which an error ends the process."""
    line = f"{error.message} {hint_with_flag(error)}".rstrip()
    return f"dualsql: {with_the_line_that_installs(line)}"


@contextmanager
def errors_in_one_line() -> Iterator[None]:
    """End the process with exit code 1 and a line of the error; "Stopped." after a signal."""
    try:
        yield
    except DualResponseError as error:
        typer.echo(line_of(error), err=True)
        sys.exit(1)
    except (KeyboardInterrupt, asyncio.CancelledError):
        typer.echo("Stopped.")
