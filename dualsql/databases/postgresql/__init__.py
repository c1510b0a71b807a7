"""PostgreSQL: opening it, also on several hosts or behind a pooler; read-only mode, time limit, reading rows."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import URL

from dualsql.columns.exact import read_document
from dualsql.databases.backends import Backend
from dualsql.databases.postgresql.capabilities import CAPABILITIES
from dualsql.databases.postgresql.copied_csv import copied_csv_writer
from dualsql.databases.postgresql.described import described_type
from dualsql.databases.postgresql.guard import PostgreSQLGuard
from dualsql.databases.postgresql.pipeline import fetch_in_pipeline
from dualsql.databases.postgresql.rights import PostgreSQLRights
from dualsql.databases.postgresql.streams import choose_stream, fetch_exactly

__all__ = ["BACKEND", "PostgreSQLGuard"]

_PORT = "5432"

_HOST_SECONDS = 2.0
"""For which a host may not answer before the next one is asked. Across oceans, a login with TLS takes about one."""

_ANSWER_SECONDS = 0.5
"""Seconds in which a host that is up answers."""

_PENALTY_SECONDS = 30.0
"""Seconds for which a host that could not be used is asked after the others."""

_GONE_SECONDS = 6
"""Seconds after which a machine that acknowledges nothing is given up, with each connection to it. Kernels wait for 15
minutes while they have something to send, and for ever where they have not."""

_QUIET_SECONDS = 3
"""Seconds without a byte after which a machine is asked whether it is there, each second."""

PREFER_PRIMARY = "prefer-primary"
"""A value of `target_session_attrs` that is dualsql's own: a server that takes writes, and without one any other."""

_IN_TURN = {"prefer-standby": ("standby", "any"), PREFER_PRIMARY: ("read-write", "any")}
"""What is asked for first, and what if no host has it."""


def adapted(url: URL) -> URL:
    """The URL as its driver takes it: `ssl=` for libpq's `sslmode=`, and a port for each of several hosts."""
    sslmode = url.query.get("sslmode")
    if sslmode is not None:
        # asyncpg takes the same words.
        url = url.difference_update_query(["sslmode"]).update_query_dict({"ssl": sslmode})
    hosts, ports = url.query.get("host"), url.query.get("port")
    if isinstance(hosts, tuple):
        complete = [host if ":" in host else f"{host}:{_PORT}" for host in hosts]
        return url.update_query_dict({"host": complete})
    if hosts and "," in hosts and (ports is None or (isinstance(ports, str) and "," not in ports)):
        # As libpq has it, one port is that of all hosts.
        return url.update_query_dict({"port": ",".join([ports or _PORT] * len(hosts.split(",")))})
    return url


def arguments_beyond(url: URL) -> Mapping[str, Any]:
    """Arguments of the driver that this URL needs and does not have."""
    driver = url.get_driver_name()
    if driver not in _CONNECT:
        return {}
    arguments: dict[str, Any] = {
        "async_creator_fn": Hosts(driver).connect if has_several_hosts(url) else _CONNECT[driver]
    }
    if driver == "asyncpg" and url.query.get("prepared_statement_cache_size") == "0":
        # SQLAlchemy's word for a pooler that gives each transaction another session: statements without a name, which
        # asyncpg then sends along with each execution.
        arguments |= {"statement_cache_size": 0, "prepared_statement_name_func": lambda: ""}
    return arguments


async def _by_asyncpg(**options: Any) -> Any:
    import asyncpg  # type: ignore[import-untyped]

    connection = await asyncpg.connect(**options)
    used = connection._transport.get_extra_info("socket")  # asyncpg has no option for it
    if used.family != getattr(socket, "AF_UNIX", None):
        used.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in _SOCKET_OPTIONS.items():
            if hasattr(socket, name):  # not every system has each
                used.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    return connection


async def _by_psycopg(**options: Any) -> Any:
    import psycopg

    return await psycopg.AsyncConnection.connect(**{**_LIBPQ_OPTIONS, **options})


_CONNECT = {"asyncpg": _by_asyncpg, "psycopg": _by_psycopg, "psycopg_async": _by_psycopg}
"""By driver: how a connection is made that ends when its machine is gone."""

_SOCKET_OPTIONS = {
    "TCP_KEEPIDLE": _QUIET_SECONDS,
    "TCP_KEEPINTVL": 1,
    "TCP_KEEPCNT": _GONE_SECONDS - _QUIET_SECONDS,
    "TCP_USER_TIMEOUT": _GONE_SECONDS * 1000,
}
# https://www.postgresql.org/docs/current/libpq-connect.html#LIBPQ-PARAMKEYWORDS
_LIBPQ_OPTIONS = {
    "keepalives_idle": _QUIET_SECONDS,
    "keepalives_interval": 1,
    "keepalives_count": _GONE_SECONDS - _QUIET_SECONDS,
    "tcp_user_timeout": _GONE_SECONDS * 1000,
}


def _host_errors(driver: str) -> tuple[type[Exception], ...]:
    """Errors of a host after which the next one is asked."""
    if driver != "asyncpg":
        import psycopg

        return (OSError, psycopg.OperationalError)
    import asyncpg

    return (
        OSError,  # also timeouts
        asyncpg.TargetServerAttributeNotMatched,
        asyncpg.CannotConnectNowError,
        asyncpg.TooManyConnectionsError,
    )


def has_several_hosts(url: URL) -> bool:
    """Whether the URL names several hosts, of which one is asked."""
    hosts = url.query.get("host", ())
    return len(hosts.split(",") if isinstance(hosts, str) else hosts) > 1


class Hosts:
    """Connects to the first of several hosts that accepts a connection and is of the requested kind.

    The drivers leave no time for the second host where the first is silent: asyncpg has one timeout for all hosts, and
    psycopg, which has one for each, asks a silent host first each time. asyncpg also ends at a host that is starting
    or has no room.
    """

    def __init__(self, driver: str) -> None:
        self._driver = driver
        self._last_until: dict[tuple[str, int], float] = {}

    async def connect(
        self,
        *,
        host: Sequence[str] | str,
        port: Sequence[int] | str = "",
        target_session_attrs: str = "any",
        **options: Any,
    ) -> Any:
        """A connection of the driver; the arguments are those of its `connect`."""
        choices = _IN_TURN.get(target_session_attrs, (target_session_attrs,))
        attempts = list(self._attempts(_addresses(host, port), choices))
        connect, errors_of_host = _CONNECT[self._driver], _host_errors(self._driver)
        for number, (address, attributes) in enumerate(attempts, 1):
            # The last one has the time that is left to the caller.
            seconds = _HOST_SECONDS if number < len(attempts) else None
            start = time.monotonic()
            try:
                async with asyncio.timeout(seconds):
                    return await connect(
                        host=address[0], port=address[1], target_session_attrs=attributes, **options
                    )
            except asyncio.CancelledError:
                # Who waits for a connection may give up before the host is passed over: the next one begins elsewhere.
                self._note(address, start)
                raise
            except errors_of_host:
                self._note(address, start)
                if number == len(attempts):
                    raise
        raise AssertionError("a URL of several hosts has at least two")

    def _note(self, address: tuple[str, int], start: float) -> None:
        """Ask a silent host last for a while. One that refuses at once costs no time, and may be up again."""
        now = time.monotonic()
        if now - start > _ANSWER_SECONDS:
            self._last_until[address] = now + _PENALTY_SECONDS

    def _attempts(
        self, addresses: list[tuple[str, int]], choices: Sequence[str]
    ) -> Iterator[tuple[tuple[str, int], str]]:
        now = time.monotonic()
        addresses.sort(key=lambda address: self._last_until.get(address, 0.0) > now)
        return ((address, attributes) for attributes in choices for address in addresses)


def _addresses(host: Sequence[str] | str, port: Sequence[int] | str) -> list[tuple[str, int]]:
    """Hosts with their ports: lists for asyncpg, texts with commas for psycopg."""
    hosts = host.split(",") if isinstance(host, str) else host
    ports: Sequence[int | str] = port.split(",") if isinstance(port, str) else port
    # As libpq has it, one port is that of all hosts.
    each = list(ports) * len(hosts) if len(ports) == 1 else ports
    return [(name, int(number or _PORT)) for name, number in zip(hosts, each, strict=True)]


_SESSION_SETTINGS = {"application_name": "dualsql-reader"}

BACKEND = Backend(
    capabilities=CAPABILITIES,
    guard=PostgreSQLGuard(),
    rights=PostgreSQLRights(),
    driver="asyncpg",
    package="asyncpg",
    # Hosting services write postgres://, which SQLAlchemy does not know.
    spellings={"postgres": "postgresql"},
    # After a restart of the database, the pool has dead connections; this detects them before use.
    engine_options={"pool_pre_ping": True, "json_deserializer": read_document},
    # BEGIN shows whether a connection is alive, and a machine that is gone is noticed after `_GONE_SECONDS`.
    reading_options={"pool_pre_ping": False},
    adapt_url=adapted,
    arguments_beyond=arguments_beyond,
    connect_arguments={
        "asyncpg": {"server_settings": _SESSION_SETTINGS},
        "psycopg": _SESSION_SETTINGS,
        "psycopg2": _SESSION_SETTINGS,
    },
    stream_backends={"asyncpg": choose_stream},
    row_fetches={"asyncpg": fetch_exactly, "psycopg": fetch_in_pipeline},
    copied_writers={"csv": copied_csv_writer},
    described_type=described_type,
)
