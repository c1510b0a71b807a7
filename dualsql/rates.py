"""The feature Rates: it limits how often a caller creates results, asks for rows and opens streams.

The limits are token buckets in memory, per worker.

A bucket is full after a pause. Each request takes one token, and `Rate.per_minute` tokens come back each minute. With
several workers, each counts what it serves itself, so a caller gets up to the rate times the number of workers.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, get_args

from dualsql.databases.slots import network_of
from dualsql.errors import ConfigurationError, RateLimitedError
from dualsql.extension import Parts
from dualsql.feature import Feature
from dualsql.request_log import Log
from dualsql.resource import Principal
from dualsql.settings import LimitedAction, takes

if TYPE_CHECKING:
    from dualsql.server import ResultServer


@dataclass(frozen=True, slots=True)
class Rate:
    """How often a caller may do something: `per_minute` times a minute on average, and `burst` times at once.

    Args:
        burst: a sixth of `per_minute` unless given, and at least 1.
    """

    per_minute: int
    burst: int = 0

    def __post_init__(self) -> None:
        """Raise ConfigurationError for a rate that allows nothing."""
        if (
            # Not isinstance: True is an int.
            type(self.per_minute) is not int
            or type(self.burst) is not int
            or self.per_minute <= 0
            or self.burst < 0
        ):
            raise ConfigurationError(
                "The per_minute and the burst of a Rate must be positive whole numbers.",
                hint="For example Rate(per_minute=60, burst=10).",
            )
        if self.burst == 0:
            object.__setattr__(self, "burst", max(1, self.per_minute // 6))


@dataclass(frozen=True, slots=True, kw_only=True)
class RateLimits:
    """How often one caller may do what. Each worker counts for itself, in memory.

    Attributes:
        principal: by action, the rate of one principal, and of one signed link: who reads by a link uses up nothing of
            the principal that made it.
        address: by action, the rate of one IP address (of IPv6: of one /64), for any principal. Behind a proxy, let
            `dualsql serve --trusted-proxies`, or another uvicorn's `--forwarded-allow-ips`, name that proxy: otherwise
            all callers have the proxy's address. By default, uvicorn trusts every program of its own machine.
    """

    principal: Mapping[LimitedAction, Rate] = field(default_factory=dict)
    address: Mapping[LimitedAction, Rate] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Raise ConfigurationError for an unknown action, or what is no mapping."""
        if not all(isinstance(each, Mapping) for each in (self.principal, self.address)):
            raise ConfigurationError(
                "Rates are given by action.", hint='For example Rates(principal={"create": Rate(60)}).'
            )
        for action, rate in (*self.principal.items(), *self.address.items()):
            if action not in get_args(LimitedAction) or not isinstance(rate, Rate):
                raise ConfigurationError(
                    f"Rates: {action!r} is not an action with a Rate.",
                    hint='For example Rates(principal={"create": Rate(60)}, address={"ask": Rate(600)}).',
                )


MOST_BUCKETS = 10_000
"""Of one table."""


class Buckets:
    """The buckets of one kind of caller, at most `most` of them.

    A bucket is the time at which it will be full again; one that is full is forgotten. If more callers have spent
    tokens, those that have spent the fewest are forgotten: a caller at its limit stays there.
    """

    def __init__(self, *, clock: Callable[[], float] = time.monotonic, most: int = MOST_BUCKETS) -> None:
        self._clock = clock
        self._most = most
        self._full_at: dict[tuple[str, ...], float] = {}

    def __len__(self) -> int:
        return len(self._full_at)

    def take(self, key: tuple[str, ...], rate: Rate) -> float:
        """Take a token: 0, or if there is none, the seconds until there is one."""
        now, pause = self._clock(), 60 / rate.per_minute
        full_at = max(self._full_at.get(key, now), now) + pause
        # Rounding: at the end of a pause the token is there.
        wait = full_at - now - rate.burst * pause
        if wait > 1e-6:
            return wait
        if key not in self._full_at and len(self._full_at) >= self._most:
            self._forget(now)
        self._full_at[key] = full_at
        return 0.0

    def give_back(self, key: tuple[str, ...], rate: Rate) -> None:
        """Return a token that was taken."""
        if key in self._full_at:
            self._full_at[key] -= 60 / rate.per_minute

    def _forget(self, now: float) -> None:
        times = sorted((at, key) for key, at in self._full_at.items() if at > now)
        # A tenth at once, so that a flood of callers does not sort the table at each request.
        room = max(1, self._most // 10)
        self._full_at = {key: at for at, key in times[max(0, len(times) + room - self._most) :]}


class RateLimiter:
    """The buckets of one server's callers. Requests that are refused take no token."""

    def __init__(self, limits: RateLimits) -> None:
        self._limits = limits
        # Apart, so that a flood of addresses or links makes no principal forgotten.
        self._principals, self._links, self._addresses = Buckets(), Buckets(), Buckets()

    def require(
        self,
        action: LimitedAction,
        principal: Principal | None,
        address: str | None = None,
        link_id: str | None = None,
    ) -> None:
        """Take a token of the principal or of the link, and one of the address, where they are known and limited.

        Args:
            principal: in whose name the caller reads.
            link_id: of the signed link that it reads by: a caller of its own, who uses up nothing of the principal's.

        Raises:
            RateLimitedError: one of them has none left.
        """
        of_principal = self._limits.principal.get(action)
        of_address = self._limits.address.get(action)
        buckets, key = self._buckets_of(principal, link_id)
        wait = 0.0
        if of_principal is not None and key:
            wait = buckets.take((action, *key), of_principal)
        if not wait and of_address is not None and address is not None:
            wait = self._addresses.take((action, network_of(address)), of_address)
            if wait and of_principal is not None:
                buckets.give_back((action, *key), of_principal)
        if wait:
            raise RateLimitedError(f"This caller {_DOES[action]} too often.", retry_after=math.ceil(wait))

    def _buckets_of(
        self, principal: Principal | None, link_id: str | None
    ) -> tuple[Buckets, tuple[str, ...]]:
        """The table that counts a caller, and its key there; an empty key for a caller that is only an address."""
        if link_id is not None:
            return self._links, (link_id,)
        return self._principals, () if principal is None else (principal.id, principal.tenant or "")


_DOES: Mapping[LimitedAction, str] = {
    "create": "creates results",
    "ask": "asks for rows",
    "stream": "opens streams",
}


class Rates(Feature):
    """Rate limits; see docs/identity.md. Its arguments are `RateLimits`. The log has the addresses of callers."""

    needs = (Log,)

    @takes(RateLimits)
    def __init__(self, limits: RateLimits) -> None:
        self.limits = limits

    def attach(self, server: ResultServer, parts: Parts) -> None:
        parts.access.require_rate = RateLimiter(self.limits).require
