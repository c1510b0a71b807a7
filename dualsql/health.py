"""The feature Health: whether this process answers (`/live`), and whether requests can be served (`/ready`).

Readiness is checked part by part: the server, the store and each database. A check is bounded in time, and its answer
serves all probes of a second, so probes cannot load a database.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from dualsql.databases.health import SourceHealth
from dualsql.events import GaugeReading
from dualsql.extension import Extension, Parts
from dualsql.feature import Feature
from dualsql.log import log_unforeseen
from dualsql.run import NOT_STARTED, OK
from dualsql.settings import SettingsGroup, setting, takes
from dualsql.store.health import StoreHealth
from dualsql.threads import shielded

if TYPE_CHECKING:
    from dualsql.server import ResultServer

logger = logging.getLogger(__name__)

SERVER = "server"
"""The part that is the server itself."""

BUSY, TOO_SLOW = "busy", "no answer in time"
"""Further states of a part. A busy one answers, but has no connection to spare; it counts as ready."""

Probe = Callable[[], Awaitable[str]]
"""The state of one part, in fixed words."""

VALID_SECONDS = 1.0
"""How long an answer serves further probes."""

_MOST_LEFT = 3
"""Probes of one part that were given up and do not end. With so many, no further one is sent after them."""

NO_STORE = {"Cache-Control": "no-store"}


class Readiness(NamedTuple):
    """The state of each part."""

    parts: Mapping[str, str]

    @property
    def is_ready(self) -> bool:
        """Whether requests can be served."""
        return all(state in (OK, BUSY) for state in self.parts.values())


class ReadinessChecks(Extension):
    """The readiness of one server.

    Args:
        probes: makes the probes, by part; called again after `renew`.
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
        self._left: set[asyncio.Task[str]] = set()
        self._check: asyncio.Task[Readiness] | None = None
        self._latest: Mapping[str, str] = {}
        self._valid_until = 0.0

    async def readiness(self) -> Readiness:
        """The state of each part, at most a second old."""
        loop = asyncio.get_running_loop()
        check = self._check
        if check is None or (check.done() and (loop.time() >= self._valid_until or check.cancelled())):
            check = self._check = asyncio.create_task(self._check_parts())
        # A probe that hangs up does not end the check, which others wait for.
        return await shielded(check)

    async def _check_parts(self) -> Readiness:
        self._probes = self._probes or self._make_probes()
        for part, probe in self._probes.items():
            if sum(task.get_name() == part for task in self._left) < _MOST_LEFT:
                self._running[part] = asyncio.create_task(_state_of(probe), name=part)
        if self._running:
            await asyncio.wait(self._running.values(), timeout=self._seconds)
        states = {part: self._state(part) for part in self._probes}
        self._valid_until = asyncio.get_running_loop().time() + VALID_SECONDS
        self._latest = states
        return Readiness(states)

    def readings(self) -> Iterator[GaugeReading]:
        """The parts at the last check."""
        for part, state in self._latest.items():
            yield GaugeReading("ready", int(state in (OK, BUSY)), {"dualsql.part": part})

    def _state(self, part: str) -> str:
        """The answer of the probe. One that has not ended is given up: the next check starts another."""
        task = self._running.pop(part, None)
        if task is None:
            return TOO_SLOW
        if not task.done():
            self._left.add(task)
            task.add_done_callback(self._left.discard)
            task.cancel()
            return TOO_SLOW
        return TOO_SLOW if task.cancelled() else task.result()

    async def drain(self, timeout: timedelta) -> int:
        """Ask again at the next probe: the last answer, that the server is ready, would be given for a second."""
        self._valid_until = 0.0
        return 0

    async def close(self) -> None:
        self.renew()

    def renew(self) -> None:
        """Cancel the checks that run, and drop the last answer."""
        tasks = [task for task in (self._check, *self._running.values(), *self._left) if task is not None]
        self._check, self._running, self._left, self._probes, self._valid_until = None, {}, set(), {}, 0.0
        for task in tasks:
            # Of another event loop, if it was left without a shutdown.
            with suppress(RuntimeError):
                task.cancel()

    def routes(self) -> list[Route]:
        """`/live` and `/ready`, for GET and HEAD."""
        return [Route("/live", live, methods=["GET"]), Route("/ready", self._ready, methods=["GET"])]

    async def _ready(self, _: Request) -> JSONResponse:
        readiness = await self.readiness()
        body: dict[str, Any] = {
            "status": "ready" if readiness.is_ready else "not ready",
            "parts": dict(readiness.parts),
        }
        if self._unproved:
            body["unproved_read_only"] = self._unproved
        headers = NO_STORE if readiness.is_ready else {**NO_STORE, "Retry-After": "1"}
        return JSONResponse(body, 200 if readiness.is_ready else 503, headers)


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthSettings(SettingsGroup):
    """The arguments of `Health`."""

    health_timeout: timedelta = setting(
        timedelta(seconds=2),
        "How long a readiness check may take. A store or database that has not answered by then is not ready.",
        positive=True,
    )


class Health(Feature):
    """`/live` and `/ready`; see docs/operations.md. Its arguments are its settings: see `HealthSettings`."""

    settings_group = HealthSettings

    @takes(HealthSettings)
    def __init__(self, settings: HealthSettings) -> None:
        self.settings = settings

    def attach(self, server: ResultServer, parts: Parts) -> None:
        timeout = self.settings.health_timeout
        self._checks = ReadinessChecks(
            partial(_probes, server, timeout), timeout, unproved=server.maintenance.unproved
        )
        server.features.add(self._checks)

    def process_routes(self) -> list[Route]:
        """`/live` and `/ready`, for the root of an application or, better, for a port that only operators reach.

        /ready answers 503 until the server has started, the store can be read and each database answers, and says
        which part does not. It starts a server that nothing has used yet.
        """
        return self._checks.routes()


def routes_until_started() -> list[Route]:
    """`/live` and `/ready` of a process whose server does not exist yet."""
    return ReadinessChecks(lambda: {SERVER: _not_started}, timedelta(seconds=1)).routes()


def _probes(server: ResultServer, timeout: timedelta) -> Mapping[str, Probe]:
    """A probe for each part; with the sources of the last start."""
    probes: dict[str, Probe] = {SERVER: server.run.state}
    if server.run.is_closed:  # its connections are: no probe opens them again
        return probes
    parts = server.parts
    probes["store"] = StoreHealth(parts.store).state
    for name, source in parts.sources.items():
        health = SourceHealth(source, parts.policy.secured, parts.settings, timeout)
        probes[f"database {name}"] = health.state
    return probes


async def _not_started() -> str:
    return NOT_STARTED


async def _state_of(probe: Probe) -> str:
    try:
        return await probe()
    except Exception as error:  # noqa: BLE001 - an operator is told the part, and the log has the traceback
        log_unforeseen(logger, error, "A readiness check failed")
        return "failed"


async def live(_: Request) -> JSONResponse:
    return JSONResponse({"status": "live"}, headers=NO_STORE)
