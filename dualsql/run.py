"""One run of a server: it starts on first use, tries again while a database is out of reach, and is shut down."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from urllib.parse import urlsplit

from dualsql.errors import (
    ConfigurationError,
    DatabaseBusyError,
    DualResponseError,
    QueryTimeoutError,
    ServerUnavailableError,
    StorageError,
)
from dualsql.log import Outage, log_failure, log_unforeseen
from dualsql.resource import DEFAULT_PORTS
from dualsql.threads import shielded

logger = logging.getLogger(__name__)

START_INTERVAL = 1.0
"""Seconds between two attempts to start while a database or the store cannot be reached."""

OK, NOT_STARTED = "ok", "not started"
"""States of a server, in fixed words."""


class Run:
    """One run of a server, from its start on first use to its shutdown.

    Attributes:
        loop: the event loop in which it has started; None before and after.
    """

    def __init__(self, start: Callable[[], Awaitable[None]]) -> None:
        self.loop: asyncio.AbstractEventLoop | None = None
        self.is_draining = self.is_closed = False
        self._start = start
        self._starting = asyncio.Lock()
        self._retrying: asyncio.Task[None] | None = None
        self._probing: asyncio.Task[None] | None = None
        self._refusal: ConfigurationError | None = None
        self._outage = Outage("The start of the server")

    async def ready(self) -> None:
        """Start, unless it has started.

        Raises:
            ConfigurationError: it was shut down, or may not start. That is final: another attempt could pass by chance.
            ServerUnavailableError: it could not start, and tries again by itself.
            DualResponseError: it could not start.
        """
        if self._refusal is not None:
            raise self._refusal
        if self._retrying is not None:
            raise ServerUnavailableError(
                "The server has not started: a database or its store cannot be reached."
            )
        if self.is_closed:
            raise ConfigurationError(
                "The server was shut down.",
                hint="Start it again: `async with dual`, or `await dual.start()`.",
            )
        await self._start_once()

    async def _start_once(self) -> None:
        loop = asyncio.get_running_loop()
        async with self._starting:
            if self.loop is loop:
                return
            try:
                await self._start()
            except ConfigurationError as error:
                self._refusal = error
                raise
            self.loop = loop
        self._outage.succeeded()

    async def begin(self) -> None:
        """Start, or if a database or the store cannot be reached, return and try again in the background.

        Raises:
            ConfigurationError: it may not start.
        """
        if self._retrying is not None or self.loop is not None:
            return
        try:
            await self.ready()
        except (DatabaseBusyError, QueryTimeoutError, StorageError) as error:
            self._outage.failed(error)
            if self._retrying is None:  # of two applications that begin at once
                self._retrying = asyncio.create_task(self._retry())

    async def _retry(self) -> None:
        try:
            while self.loop is None and self._refusal is None:
                await asyncio.sleep(START_INTERVAL)
                await self._try()
        except Exception as error:  # noqa: BLE001 - nothing awaits this task
            log_unforeseen(logger, error, "The start of the server failed")
        finally:
            self._retrying = None  # the next use of the server starts it

    async def _try(self) -> None:
        """Try to start, and log what hinders it."""
        try:
            await self._start_once()
        except ConfigurationError as error:
            log_failure(logger, error, "the start of the server")
        except DualResponseError as error:
            self._outage.failed(error)

    async def state(self) -> str:
        """Its state, in fixed words. A server that nothing has used yet is started, which may take several checks."""
        if self.is_closed:
            return "stopped"
        if self.is_draining:
            return "draining"
        if self.loop is None and self._refusal is None and self._retrying is None:
            if self._probing is None or self._probing.done():
                self._probing = asyncio.create_task(self._try())
            await shielded(self._probing)
        return NOT_STARTED if self.loop is None else OK

    def close(self) -> None:
        """It was shut down."""
        self.loop, self.is_closed = None, True
        for task in (self._retrying, self._probing):
            if task is not None:
                task.cancel()
        self._retrying = None


def warn_of_uvicorn(base_url: str) -> None:
    """Warn if the uvicorn of this lifespan waits for streams without limit, or has not the port of `base_url`."""
    task = asyncio.current_task()
    frame = getattr(None if task is None else task.get_coro(), "cr_frame", None)
    lifespan = None if frame is None else frame.f_locals.get("self")
    if type(lifespan).__module__ == "uvicorn.lifespan.on":
        config = getattr(lifespan, "config", None)
        if getattr(config, "timeout_graceful_shutdown", 0) is None:
            logger.warning(
                "uvicorn waits without limit for running streams when it is told to stop. "
                "Give it a limit: --timeout-graceful-shutdown 20 (docs/operations.md)."
            )
        # 8000 is also what a config has whose server gets sockets, as those of gunicorn, or a socket's path.
        port = getattr(config, "port", 8000)
        other = None if port in (0, 8000) else other_port(base_url, port)
        if other is not None:
            logger.warning("base_url has the port %s, and uvicorn listens on %s.", other, port)


def other_port(base_url: str, port: int) -> int | None:
    """The port of a `base_url` on this machine, if it is not `port`; None otherwise."""
    url = urlsplit(base_url)
    if url.hostname not in {"localhost", "127.0.0.1", "::1"}:
        return None
    url_port = url.port or DEFAULT_PORTS[url.scheme]
    return None if url_port == port else url_port
