"""Whether this process answers (`/live`), whether requests can be served (`/ready`), and its metrics (`/metrics`).

Readiness is checked part by part: the server, the store and each database. A check is bounded in time, and its answer
serves all probes of a second, so probes cannot load a database. The part "server" is a `Run`: it starts a server on
first use, tries again while a database cannot be reached, and knows what callers and probes are told meanwhile.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any, NamedTuple

from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from dualsql.errors import (
    ConfigurationError,
    DatabaseBusyError,
    DualResponseError,
    QueryTimeoutError,
    ServerUnavailableError,
    StorageError,
)
from dualsql.log import Outage, log_failure, log_unforeseen

logger = logging.getLogger(__name__)

KEPT_SECONDS = 1.0
"""How long an answer serves further probes."""

SERVER = "server"
"""The part that is the server itself."""

OK, BUSY, TOO_SLOW, DRAINING = "ok", "busy", "no answer in time", "draining"
"""States of a part. A busy one answers, but has no connection to spare; it counts as ready."""

Probe = Callable[[], Awaitable[str]]
"""The state of one part, in fixed words."""

_NEVER_KEPT = {"Cache-Control": "no-store"}


class Readiness(NamedTuple):
    """The state of each part."""

    parts: Mapping[str, str]

    @property
    def is_ready(self) -> bool:
        """Whether requests can be served."""
        return all(state in (OK, BUSY) for state in self.parts.values())


class Health:
    """The readiness of one server.

    Args:
        probes: makes the probes, by part; called again after `close`.
        timeout: how long one check may take.
        unproved: the databases of which it is not proved that they are only read.
    """

    def __init__(
        self, probes: Callable[[], Mapping[str, Probe]], timeout: timedelta, *, unproved: Sequence[str] = ()
    ) -> None:
        self._make_probes = probes
        self._unproved = list(unproved)
        self._probes: Mapping[str, Probe] = {}
        self._seconds = timeout.total_seconds()
        self._running: dict[str, asyncio.Task[str]] = {}
        self._check: asyncio.Task[Readiness] | None = None
        self._kept_until = 0.0

    async def readiness(self) -> Readiness:
        """The state of each part, at most a second old."""
        loop = asyncio.get_running_loop()
        check = self._check
        if check is None or (check.done() and (loop.time() >= self._kept_until or check.cancelled())):
            check = self._check = asyncio.create_task(self._checked())
        # A probe that hangs up does not end the check, which others wait for.
        return await asyncio.shield(check)

    async def _checked(self) -> Readiness:
        self._probes = self._probes or self._make_probes()
        # A probe that ignores its cancellation still runs: no second one is sent after it.
        for part, probe in self._probes.items():
            if part not in self._running:
                self._running[part] = asyncio.create_task(_asked(probe))
        await asyncio.wait(self._running.values(), timeout=self._seconds)
        found = {part: self._state(part) for part in self._probes}
        self._kept_until = asyncio.get_running_loop().time() + KEPT_SECONDS
        return Readiness(found)

    def _state(self, part: str) -> str:
        task = self._running[part]
        if task.done():
            del self._running[part]
            return TOO_SLOW if task.cancelled() else task.result()
        task.cancel()
        return TOO_SLOW

    def forget(self) -> None:
        """Ask again at the next probe, because the state of the server has changed."""
        self._kept_until = 0.0

    def close(self) -> None:
        """End what still runs, and forget what was found."""
        tasks = [task for task in (self._check, *self._running.values()) if task is not None]
        self._check, self._running, self._probes, self._kept_until = None, {}, {}, 0.0
        for task in tasks:
            # Of another event loop, if it was left without a shutdown.
            with suppress(RuntimeError):
                task.cancel()

    def routes(self) -> list[Route]:
        """`/live` and `/ready`, for GET and HEAD."""
        return [Route("/live", _live, methods=["GET"]), Route("/ready", self._ready, methods=["GET"])]

    async def _ready(self, _: Request) -> JSONResponse:
        found = await self.readiness()
        body: dict[str, Any] = {
            "status": "ready" if found.is_ready else "not ready",
            "parts": dict(found.parts),
        }
        if self._unproved:
            body["unproved_read_only"] = self._unproved
        headers = _NEVER_KEPT if found.is_ready else {**_NEVER_KEPT, "Retry-After": "1"}
        return JSONResponse(body, 200 if found.is_ready else 503, headers)


class Run:
    """One run of a server, from its start on first use to its shutdown.

    Args:
        start: starts all parts of the server.

    Attributes:
        loop: the event loop in which it has started; None before and after.
        is_draining: it was told to stop.
        is_closed: it was shut down.
    """

    def __init__(self, start: Callable[[], Awaitable[None]]) -> None:
        self.loop: asyncio.AbstractEventLoop | None = None
        self.is_draining = self.is_closed = False
        self._start = start
        self._starting = asyncio.Lock()
        self._retrying: asyncio.Task[None] | None = None
        self._probing: asyncio.Task[str] | None = None
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
            self._retry_later()

    def _retry_later(self) -> None:
        if self._retrying is None:  # of two applications that begin at once
            self._retrying = asyncio.create_task(self._retry())

    async def _retry(self) -> None:
        try:
            while self.loop is None and self._refusal is None:
                await asyncio.sleep(START_INTERVAL)
                await self._try()
        except Exception as error:  # noqa: BLE001 - nobody waits for this task
            log_unforeseen(logger, error, "The start of the server failed")
        finally:
            self._retrying = None  # whoever uses the server next starts it

    async def _try(self) -> str:
        """Try to start, and log what hinders it. Returns its state."""
        try:
            await self._start_once()
        except ConfigurationError as error:
            log_failure(logger, error, "the start of the server")
            return _NOT_STARTED
        except DualResponseError as error:
            self._outage.failed(error)
            return _NOT_STARTED
        return OK

    async def state(self) -> str:
        """Its state, in fixed words. A server that nothing has used yet is started, which may take several checks."""
        if self.is_closed:
            return "stopped"
        if self.is_draining:
            return DRAINING
        if self.loop is not None:
            return OK
        if self._refusal is not None or self._retrying is not None:
            return _NOT_STARTED
        if self._probing is None or self._probing.done():
            self._probing = asyncio.create_task(self._try())
        return await asyncio.shield(self._probing)

    def close(self) -> None:
        """It was shut down."""
        self.loop, self.is_closed = None, True
        for task in (self._retrying, self._probing):
            if task is not None:
                task.cancel()
        self._retrying = None


START_INTERVAL = 1.0
"""Seconds between two attempts to start while a database or the store cannot be reached."""

_NOT_STARTED = "not started"


def routes_until_started() -> list[Route]:
    """`/live` and `/ready` of a process whose server does not exist yet."""
    return Health(lambda: {SERVER: _not_started}, timedelta(seconds=1)).routes()


async def _not_started() -> str:
    return _NOT_STARTED


def warn_of_endless_shutdown() -> None:
    """Warn if the uvicorn that starts this lifespan would wait without limit for streams when it is told to stop."""
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


async def _asked(probe: Probe) -> str:
    try:
        return await probe()
    except Exception as error:  # noqa: BLE001 - an operator is told the part, and the log has the traceback
        log_unforeseen(logger, error, "A readiness check failed")
        return "failed"


async def _live(_: Request) -> JSONResponse:
    return JSONResponse({"status": "live"}, headers=_NEVER_KEPT)
