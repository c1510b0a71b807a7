"""The limits of concurrent queries: slots that callers share, so that none keeps the others waiting for long."""

from __future__ import annotations

import asyncio
import math
import sys
import time
from collections import Counter, OrderedDict, deque
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from contextvars import ContextVar
from copy import copy
from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache
from ipaddress import IPv6Address, IPv6Network, ip_address
from typing import NamedTuple

from dualsql.errors import TooManyQueriesError
from dualsql.events import EVENTS, SlotAwaited
from dualsql.resource import Principal
from dualsql.settings import Settings


class Caller(NamedTuple):
    """A caller among those who share slots.

    Attributes:
        key: the principal, or the network; None for work of the server itself, which has no share to keep to.
        is_reading: it reads a result that exists, which rarely takes long.
    """

    key: tuple[str, ...] | None = None
    is_reading: bool = True


NOBODY = Caller()

CALLER: ContextVar[Caller] = ContextVar("dualsql_caller", default=NOBODY)
"""Whose query runs in this context."""


def caller_of(
    principal: Principal | None, address: str | None, link_id: str | None, *, is_reading: bool
) -> Caller:
    """The caller with this signed link, or else with this principal, or else with this address."""
    if link_id is not None:
        return Caller(("link", link_id), is_reading)
    if principal is not None:
        return Caller(("principal", principal.id, principal.tenant or ""), is_reading)
    if address is not None:
        return Caller(("address", network_of(address)), is_reading)
    return Caller(None, is_reading)


@lru_cache(10_000)
def network_of(address: str) -> str:
    """Whose an address is: of IPv6 the network of 64 bits, in which a host may choose any address."""
    try:
        ip = ip_address(address.partition("%")[0])
    except ValueError:
        return address[:64]  # of a test's transport, or a socket without addresses
    if isinstance(ip, IPv6Address):
        return str(ip.ipv4_mapped or IPv6Network((int(ip) >> 64 << 64, 64)))
    return str(ip)


_PRESENT = 10.0
"""Seconds for which a caller that has taken a slot counts as one of those who share them."""


class Shares:
    """How many of a number of slots each caller has, and who may have another one.

    One caller has at most two thirds of them, and at most a third while there are others: while one waits that has
    less, or has taken a slot of late. So a caller that comes later finds slots free, whatever runs. Some of these are
    for those who read results.

    Args:
        number: of slots.
        for_reading: of them, those for readers of results that have less than a third.
    """

    def __init__(self, number: int, *, for_reading: int = 0) -> None:
        self.number = number
        self.used = 0
        self._third = max(1, number // 3)
        self._most = number - number // 3
        self._for_reading = for_reading
        self._held: Counter[tuple[str, ...]] = Counter()
        self._latest: tuple[str, ...] | None = None
        self._latest_other = -math.inf
        """When a slot was last taken by another caller than `_latest`."""
        self._latest_at = -math.inf

    def is_modest(self, caller: Caller) -> bool:
        """Whether a caller has less than a third."""
        return caller.key is None or self._held[caller.key] < self._third

    def has_room(self, caller: Caller) -> bool:
        """Whether a caller may have another slot while no caller waits that has less than a third."""
        free = self.number - self.used
        if free > 0 and (caller.key is None or (caller.is_reading and self.is_modest(caller))):
            return True
        if free <= self._for_reading or caller.key is None:
            return False
        return self._held[caller.key] < (self._third if self._are_others(caller) else self._most)

    def _are_others(self, caller: Caller) -> bool:
        latest = self._latest_at if self._latest not in (None, caller.key) else self._latest_other
        return time.monotonic() - latest < _PRESENT

    def take(self, caller: Caller) -> None:
        """Note a slot as taken."""
        self.used += 1
        if caller.key is None:
            return
        self._held[caller.key] += 1
        if self._latest not in (None, caller.key):
            self._latest_other = self._latest_at
        self._latest, self._latest_at = caller.key, time.monotonic()

    def give_back(self, caller: Caller) -> None:
        """Note a slot as free again."""
        self.used -= 1
        if caller.key is not None:
            self._held[caller.key] -= 1
            if not self._held[caller.key]:
                del self._held[caller.key]

    def require_room(self, what: str, retry_after: int) -> Caller:
        """Take a slot for the present caller, where callers do not wait for one.

        Raises:
            TooManyQueriesError: it has as many as one caller may have, or all are taken.
        """
        caller = CALLER.get()
        if not self.has_room(caller):
            whose = "" if self.used >= self.number else " of one caller"
            raise TooManyQueriesError(
                f"The maximum number of {what}{whose} is already running.", retry_after=retry_after
            )
        self.take(caller)
        return caller


@dataclass(eq=False, repr=False)
class Queue:
    """How many may wait for any slot, how long each, and how many do."""

    most: int
    timeout: timedelta
    waiting: int = 0


class Slots:
    """Slots of one kind. Callers that wait take turns; the requests of each are served in their order."""

    def __init__(self, name: str, number: int, queue: Queue, *, for_reading: int = 0) -> None:
        self.name = name
        self.number = number
        self.queue = queue
        self._shares = Shares(number, for_reading=for_reading)
        self._waiting: OrderedDict[Caller, deque[asyncio.Future[None]]] = OrderedDict()
        self._seconds = 0.0
        """How long a slot was held of late."""

    @property
    def used(self) -> int:
        """How many are taken."""
        return self._shares.used

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[None]:
        """A slot during the block; raises what `take` raises."""
        caller = await self.take()
        start = time.monotonic()
        try:
            yield
        finally:
            self._seconds += (time.monotonic() - start - self._seconds) / 8
            self.give_back(caller)

    async def take(self) -> Caller:
        """Take a slot for the present caller, to whom it is to be given back.

        Raises:
            TooManyQueriesError: too many wait already, or the caller waited for too long.
        """
        caller = CALLER.get()
        if not self._waiting and self._shares.has_room(caller):
            self._shares.take(caller)
            return caller
        slot = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(caller, deque()).append(slot)
        self._hand_out()
        if not slot.done():
            try:
                await self._wait(slot)
            except BaseException:
                self._leave(caller, slot)
                raise
        return caller

    def give_back(self, caller: Caller) -> None:
        """Give back a slot of this caller."""
        self._shares.give_back(caller)
        self._hand_out()

    def has_room(self) -> bool:
        """Whether the present caller would get a slot at once."""
        caller = CALLER.get()
        if not self._shares.has_room(caller):
            return False
        return not self._waiting or self._shares.is_modest(caller)

    async def _wait(self, slot: asyncio.Future[None]) -> None:
        if self.queue.waiting >= self.queue.most:
            raise self._refused("Too many queries are running and waiting.")
        self.queue.waiting += 1
        start = time.perf_counter()
        try:
            async with asyncio.timeout(self.queue.timeout.total_seconds()):
                await slot
        except TimeoutError:
            raise self._refused("Too many queries are running, and none ended in time.") from None
        finally:
            self.queue.waiting -= 1
            EVENTS.report(SlotAwaited(self.name, time.perf_counter() - start))

    def _leave(self, caller: Caller, slot: asyncio.Future[None]) -> None:
        """The request does not wait any longer. It may have got its slot in the same moment."""
        if slot.done() and not slot.cancelled():
            self.give_back(caller)
            return
        slots = self._waiting.get(caller, deque())
        if slot in slots:
            slots.remove(slot)
            if not slots:
                del self._waiting[caller]
        self._hand_out()

    def _hand_out(self) -> None:
        """Give free slots to those that wait: to callers with less than a third first, one after the other."""
        while self._shares.used < self.number:
            # Two passes, of which the second one is for callers that take what the others leave.
            able = [caller for caller in self._waiting if self._shares.has_room(caller)]
            caller = next(filter(self._shares.is_modest, able), able[0] if able else None)
            if caller is None:
                return
            slots = self._waiting[caller]
            slot = slots.popleft()
            if slots:
                self._waiting.move_to_end(caller)
            else:
                del self._waiting[caller]
            if not slot.done():  # else its request was cancelled
                self._shares.take(caller)
                slot.set_result(None)

    def _refused(self, message: str) -> TooManyQueriesError:
        rounds = 1 + self.queue.waiting / self.number
        return TooManyQueriesError(message, retry_after=math.ceil(self._seconds * rounds))


TEXT_THREADS = 1
"""Of a process. With two, which share the interpreter's lock, the event loop waited 57 ms and not 20 (99 % of 4 s)."""
_MOST_WAITING_TEXTS = 64
"""Steps of texts; the longest takes 75 ms."""


class QueryLimits:
    """The slots for queries on one source.

    Streams have slots of their own, so that slow readers do not delay pages. Background queries have their own too.

    Attributes:
        query_timeout: the time limit of a statement for which nothing else is said.
        connection_timeout: how long a session waits for a connection of the pool.
        page_bytes: the maximum bytes of the rows of a page.
        longest_stream: the time limit of a statement whose session has no limit of its own.
        connections: how many connections all slots together use at most.
        slow_seconds: a statement that runs longer is logged.
        queries, streams: their slots.
        texts: the slots for work on callers' SQL texts; see `dualsql.databases.text_threads`.
        background: the limits of queries that may run in the background.
    """

    def __init__(self, settings: Settings, most_statements: int | None = None) -> None:
        queue = Queue(settings.maximum_queued_queries, settings.queue_timeout)
        number = min(settings.maximum_concurrent_queries, most_statements or sys.maxsize)
        self.queries = Slots("query", number, queue, for_reading=number // 5)
        self.streams = Slots("stream", settings.maximum_streams, queue)
        self.texts = Slots("text", TEXT_THREADS, Queue(_MOST_WAITING_TEXTS, settings.queue_timeout))
        self.query_timeout = settings.query_timeout
        self.connection_timeout = settings.queue_timeout
        self.page_bytes = settings.maximum_page_bytes
        self.longest_stream = settings.maximum_stream_duration
        self.slow_seconds = settings.slow_query.total_seconds()
        self.connections = sum(pool_options(settings).values())
        # All but the slots is that of the source, also the queue.
        self.background: QueryLimits = copy(self)
        self.background.queries = Slots("background", settings.maximum_pending, queue)
        self.background.background = self.background

    def slot(self, *, for_stream: bool = False) -> AbstractAsyncContextManager[None]:
        """A slot for one session during the block; raises what `Slots.take` raises."""
        return (self.streams if for_stream else self.queries).slot()

    def has_room(self) -> bool:
        """Whether a query would be served without waiting.

        Always false for those in the background: a count beside the sample would take another query's slot.
        """
        return self is not self.background and self.queries.has_room()


def pool_options(settings: Settings) -> dict[str, int]:
    """Pool options: one connection for each slot."""
    number = settings.maximum_concurrent_queries
    return {"pool_size": number, "max_overflow": settings.maximum_streams + settings.maximum_pending}
