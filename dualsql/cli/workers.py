"""`dualsql serve --workers N`: a parent that holds the socket, keeps N workers on it, and answers for all of them.

uvicorn's own supervisor starts and replaces processes, too. Its workers cut streams when they stop, and nothing adds up
their health and metrics (decision 49).
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from functools import partial
from multiprocessing import get_context, parent_process
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from dualsql.cli.process import errors_in_one_line, run_in_loop
from dualsql.health import NO_STORE, SERVER, live
from dualsql.run import NOT_STARTED, START_INTERVAL
from dualsql.serve.sockets import listen, on_sighup, origin_of_listener, stop_on_signals
from dualsql.telemetry import merged_metrics

if TYPE_CHECKING:
    import httpx

Serve = Callable[..., Coroutine[Any, Any, None]]
"""Serves in a worker until cancelled, with the arguments `admin`, `show` and `answers_at_once`. Its name is pickled."""

logger = logging.getLogger(__name__)

# A process that is forked from one with threads and an event loop may hang.
_SPAWN = get_context("spawn")

_LONGEST_PAUSE = 30.0
"""Seconds before a worker is started again that died again and again."""

_ANSWER_SECONDS = 3.0
"""How long a worker may take to send its health or metrics; its own checks end after `health_timeout`, 2 seconds."""


class Worker:
    """A process that serves.

    Attributes:
        number: its place among the workers, which the one that replaces it takes over.
        lines: what a person should read, once it serves requests; none before.
        has_ended: the process has ended.
        origin: where it answers health checks.
    """

    def __init__(self, number: int, serve: Serve) -> None:
        self.number = number
        self.lines: list[str] = []
        self.has_ended = asyncio.Event()
        self._has_started_or_ended = asyncio.Event()
        self._receiver, sender = _SPAWN.Pipe(duplex=False)
        with listen("127.0.0.1", 0) as admin, sender:
            self.origin = origin_of_listener(admin)
            self._process = _SPAWN.Process(target=_work, args=(sender, partial(serve, admin=admin)))
            self._process.start()
        asyncio.get_running_loop().add_reader(self._receiver.fileno(), self._receive)

    def _receive(self) -> None:
        try:
            self.lines = self._receiver.recv()
        except EOFError:  # the other end of the pipe ends with the process
            asyncio.get_running_loop().remove_reader(self._receiver.fileno())
            self._receiver.close()
            self._process.join()
            self.has_ended.set()
        self._has_started_or_ended.set()

    async def has_started(self) -> bool:
        """Wait until it serves requests, or has ended without."""
        await self._has_started_or_ended.wait()
        return bool(self.lines)

    @property
    def exit_code(self) -> int | None:
        """The exit code of an ended process: minus the number of the signal, if one ended it."""
        return self._process.exitcode

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the process, if it runs."""
        if self._process.pid is not None and not self.has_ended.is_set():
            os.kill(self._process.pid, number)


def _work(sender: Connection, serve: Serve) -> None:
    gc.freeze()  # the objects of imports are no garbage
    # Ctrl-C reaches all processes of a terminal; the parent passes it to its workers.
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    async def work() -> None:
        stop_on_signals()
        _stop_without_parent()
        await serve(show=lambda lines: sender.send(list(lines)))

    with errors_in_one_line(), suppress(asyncio.CancelledError):
        run_in_loop(work())


def _stop_without_parent() -> None:
    """Cancel the current task when the parent ends: no parent would replace it, and the next start needs its port."""
    task, parent, loop = asyncio.current_task(), parent_process(), asyncio.get_running_loop()

    def stop() -> None:
        if parent is not None and task is not None:
            loop.remove_reader(parent.sentinel)  # a second cancellation would end the drain
            task.cancel()

    if parent is not None:
        loop.add_reader(parent.sentinel, stop)


class Workers:
    """The workers of one server.

    Args:
        number: how many.
        show: is called with what a person should read, once all of them serve requests.
        has_metrics: each answers metrics to operators.
    """

    def __init__(
        self, number: int, serve: Serve, *, show: Callable[[Iterable[str]], None], has_metrics: bool
    ) -> None:
        self._number = number
        self._serve = serve
        self._show = show
        self._has_metrics = has_metrics
        self._workers: list[Worker] = []
        # Those too that are being replaced.
        self._running: list[Worker] = []

    def _start(self, number: int) -> Worker:
        self._running = [each for each in self._running if not each.has_ended.is_set()]
        is_alone = not any(each.lines for each in self._running)
        worker = Worker(number, partial(self._serve, answers_at_once=is_alone))
        self._running.append(worker)
        return worker

    async def run(self) -> None:
        """Serve until cancelled; then each worker drains.

        Raises:
            SystemExit: a worker ended before it served requests, and has said why.
        """
        hung_up = asyncio.Event()
        on_sighup(hung_up.set)
        self._workers = [self._start(number) for number in range(self._number)]
        try:
            for start in asyncio.as_completed([each.has_started() for each in self._workers]):
                if not await start:
                    raise SystemExit(1)
            self._show(self._workers[0].lines)
            async with asyncio.TaskGroup() as tasks:
                for each in self._workers:
                    tasks.create_task(self._keep(each.number))
                while await hung_up.wait():
                    hung_up.clear()
                    await self._renew()
        finally:
            await self._stop()

    async def _keep(self, number: int) -> None:
        """Start another worker whenever one died."""
        pause = 0.0
        while True:
            worker = self._workers[number]
            await worker.has_ended.wait()
            if worker is self._workers[number]:
                logger.warning("Worker %d ended (%s); another one is started.", number, worker.exit_code)
                pause = 0.0 if worker.lines else min(max(START_INTERVAL, 2 * pause), _LONGEST_PAUSE)
                await asyncio.sleep(pause)
            if worker is self._workers[number]:
                self._workers[number] = self._start(number)

    async def _renew(self) -> None:
        """Replace the workers one after the other."""
        for number in range(len(self._workers)):
            worker = self._start(number)
            if not await worker.has_started():
                logger.error("Worker %d stays: the new one ended (%s).", number, worker.exit_code)
                return
            old, self._workers[number] = self._workers[number], worker
            old.send(signal.SIGUSR1)
            await old.has_ended.wait()
        logger.warning("All workers were replaced.")

    async def _stop(self) -> None:
        while running := [each for each in self._running if not each.has_ended.is_set()]:
            for each in running:
                each.send(signal.SIGTERM)
            with suppress(asyncio.CancelledError):  # the second signal ends the drain of each
                await asyncio.gather(*(each.has_ended.wait() for each in running))

    def health(self) -> Starlette:
        """`/live`, `/ready` and `/metrics` of all workers."""
        routes = [Route("/live", live), Route("/ready", self._ready)]
        if self._has_metrics:
            routes.append(Route("/metrics", self._metrics))
        return Starlette(routes=routes)

    async def _answers(self, path: str) -> dict[str, httpx.Response]:
        """By the number of those workers that answer."""
        import httpx  # which a worker does not need to start

        async def ask(worker: Worker) -> None:
            with suppress(httpx.HTTPError):
                answers[str(worker.number)] = await http.get(f"{worker.origin}{path}")

        answers: dict[str, httpx.Response] = {}
        async with httpx.AsyncClient(timeout=_ANSWER_SECONDS, trust_env=False) as http:
            await asyncio.gather(*map(ask, self._workers))
        return answers

    async def _ready(self, _: Request) -> JSONResponse:
        answers = list((await self._answers("/ready")).values())
        ready = [each for each in answers if each.status_code == 200]
        answer = next(iter(ready or answers), None)
        states = {"status": "not ready", "parts": {SERVER: NOT_STARTED}} if answer is None else answer.json()
        body = {**states, "workers": {"ready": len(ready), "all": len(self._workers)}}
        headers = NO_STORE if ready else {**NO_STORE, "Retry-After": "1"}
        return JSONResponse(body, 200 if ready else 503, headers)

    async def _metrics(self, request: Request) -> Response:
        answers = await self._answers("/metrics")
        texts = {number: each.text for number, each in sorted(answers.items()) if each.status_code == 200}
        return merged_metrics(texts, request) if texts else Response(status_code=503, headers=NO_STORE)
