"""An event loop in a thread of its own, for synchronous code."""

from __future__ import annotations

import asyncio
import atexit
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Iterable
from concurrent.futures import Future, wait
from contextlib import AbstractAsyncContextManager, contextmanager, suppress
from threading import Lock, Thread, current_thread
from typing import Any, ParamSpec, TypeVar
from weakref import WeakSet

T = TypeVar("T")

_END: Any = object()


async def each_of(items: Iterable[T]) -> AsyncGenerator[T, None]:
    """The items, for an `async for`."""
    for item in items:
        yield item


def step_through(items: AsyncGenerator[T, None]) -> Generator[T, None, None]:
    """The items, in the calling thread and without an event loop. The generator may await only `each_of`."""
    try:
        while (item := _result(_next(items))) is not _END:
            yield item
    finally:
        _result(items.aclose())


async def _next(items: AsyncGenerator[T, None]) -> T:
    return await anext(items, _END)


def _result(step: Coroutine[Any, Any, T]) -> T:
    try:
        step.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    raise RuntimeError("It awaits something else.")


P = ParamSpec("P")
AtEnd = Callable[[], Coroutine[Any, Any, None]]


# Seconds. Python handles a Ctrl-C when the waiting thread wakes. Once polars is imported, a signal does not wake it:
# polars installs a handler with SA_RESTART.
_INTERRUPTIBLE = 0.2


class Portal:
    """Runs coroutines for threads without an event loop, or with another one, such as a notebook's.

    The first call starts its thread. An open portal does not keep the process from ending, and its thread ends with
    it.

    Args:
        at_end: runs last, when the portal is closed or collected, or when the process ends. It must not refer to the
            portal.

    Attributes:
        is_closed: further calls are refused.
    """

    def __init__(self, at_end: AtEnd | None = None) -> None:
        self._at_end = at_end
        self._lock = Lock()
        self._worker: _LoopThread | None = None
        self.is_closed = False

    def __del__(self) -> None:
        # The garbage collector may run in the worker's own thread, which must not wait for itself.
        if worker := self.__dict__.get("_worker"):
            worker.stop()

    def call(self, function: Callable[P, Coroutine[Any, Any, T]], *args: P.args, **kwargs: P.kwargs) -> T:
        """The result of the coroutine. An interrupt of the waiting thread cancels it.

        Raises:
            RuntimeError: the portal is closed, or the caller runs in its event loop and would wait for itself.
        """
        worker = self._running_worker()
        if worker.is_current():
            raise RuntimeError("A callback cannot wait for the client that calls it.")
        return worker.result_of(function(*args, **kwargs))

    def each(
        self, function: Callable[P, AsyncGenerator[T, None]], *args: P.args, **kwargs: P.kwargs
    ) -> Generator[T, None, None]:
        """The items of the asynchronous generator, which ends with this one or with the portal."""
        items = function(*args, **kwargs)
        worker = self._running_worker()
        worker.open.add(items)
        try:
            while (item := self.call(_next, items)) is not _END:
                yield item
        finally:
            worker.release(items)

    @contextmanager
    def within(self, manager: AbstractAsyncContextManager[T]) -> Generator[T, None, None]:
        """The asynchronous context manager as a synchronous one."""
        value = self.call(manager.__aenter__)
        try:
            yield value
        finally:
            self.call(manager.__aexit__, None, None, None)

    def close(self) -> None:
        """Cancel what still runs and end the thread. Closing a closed portal does nothing."""
        with self._lock:
            worker, self._worker, self.is_closed = self._worker, None, True
        if worker is not None:
            worker.stop()
            worker.wait()

    def _running_worker(self) -> _LoopThread:
        with self._lock:
            if self.is_closed:
                raise RuntimeError("The client is closed.")
            if self._worker is None:
                self._worker = _LoopThread(self._at_end)
            return self._worker


class _LoopThread:
    """A running event loop. It has no reference to its portal, so that the portal can be collected and end it.

    Attributes:
        open: generators that have not ended; they are closed before the loop is.
    """

    def __init__(self, at_end: AtEnd | None) -> None:
        self.open: set[AsyncGenerator[Any, None]] = set()
        self._stopped = asyncio.Event()
        started: Future[asyncio.AbstractEventLoop] = Future()
        arguments = (started, self._stopped, self.open, at_end)
        self._thread = Thread(target=_run, args=arguments, name="dualsql-client", daemon=True)
        self._thread.start()
        self._loop = started.result()
        _WORKERS.add(self)

    def is_current(self) -> bool:
        """Whether the calling code runs in this event loop."""
        return self._thread is current_thread()

    def result_of(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """The result of the coroutine; waits for it.

        Raises:
            RuntimeError: the loop has ended.
        """
        try:
            future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        except RuntimeError:
            coroutine.close()
            raise
        try:
            while not wait([future], _INTERRUPTIBLE).done:
                pass
            return future.result()
        # Also KeyboardInterrupt, which is no Exception: otherwise the request would continue in its thread.
        except BaseException:
            future.cancel()
            raise

    def release(self, items: AsyncGenerator[Any, None]) -> None:
        """Close a generator; in the thread of the loop itself, or after its end, without waiting."""
        with suppress(RuntimeError):  # the loop has ended, and closed it
            if self.is_current():
                self._loop.call_soon(lambda: self._loop.create_task(_close(self.open, items)))
            else:
                self.result_of(_close(self.open, items))

    def stop(self) -> None:
        """Request the end of the loop, from any thread."""
        with suppress(RuntimeError):  # it has ended
            self._loop.call_soon_threadsafe(self._stopped.set)

    def wait(self) -> None:
        """Wait for the end of the loop."""
        if not self.is_current():
            self._thread.join()


# A daemon thread stops when the interpreter ends. A thread that waits for it then waits for ever.
_WORKERS: WeakSet[_LoopThread] = WeakSet()


@atexit.register
def _end_all() -> None:
    for worker in list(_WORKERS):
        worker.stop()
        worker.wait()


def _run(
    started: Future[asyncio.AbstractEventLoop],
    stopped: asyncio.Event,
    items: set[AsyncGenerator[Any, None]],
    at_end: AtEnd | None,
) -> None:
    with asyncio.Runner() as runner:
        started.set_result(runner.get_loop())
        runner.run(_until(stopped, items, at_end))


async def _until(stopped: asyncio.Event, items: set[AsyncGenerator[Any, None]], at_end: AtEnd | None) -> None:
    await stopped.wait()
    for each in list(items):
        await _close(items, each)
    if at_end is not None:
        await at_end()


async def _close(open_items: set[AsyncGenerator[Any, None]], items: AsyncGenerator[Any, None]) -> None:
    open_items.discard(items)
    with suppress(RuntimeError):  # another thread runs its next step; the end of the loop ends that
        await items.aclose()
