"""Listening sockets, the addresses of proxies, and the signals of a process that serves."""

from __future__ import annotations

import asyncio
import errno
import signal
import socket
from collections.abc import Callable
from contextlib import ExitStack, suppress
from ipaddress import ip_address, ip_network

from dualsql.errors import ConfigurationError


def stop_on_signals() -> None:
    """Cancel the current task on each SIGTERM, which supervisors send, and on each Ctrl-C.

    asyncio.run cancels it on the first Ctrl-C only: a second one ends the loop in the middle of whatever runs.
    """
    task = asyncio.current_task()
    if task is not None:
        for number in (signal.SIGTERM, signal.SIGINT):
            # A shell lets its background jobs ignore Ctrl-C.
            if signal.getsignal(number) is not signal.SIG_IGN:
                with suppress(NotImplementedError):  # Windows
                    asyncio.get_running_loop().add_signal_handler(number, task.cancel)


def on_sighup(reload: Callable[[], None]) -> None:
    """Call `reload` on SIGHUP, which ends the process otherwise."""
    with suppress(NotImplementedError, AttributeError):  # Windows
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, reload)


def listen(host: str, port: int) -> socket.socket:
    """A listening socket on IPv4 or IPv6.

    Raises:
        ConfigurationError: the port is taken, or the address is not one of this machine's.
    """
    try:
        # With the protocol, because asyncio disables Nagle's algorithm (40 ms) only on sockets with IPPROTO_TCP.
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP
        )[0]
        with ExitStack() as on_failure:
            listener = on_failure.enter_context(socket.socket(family, kind, protocol))
            # Otherwise a restart fails while connections of the last process are in TIME_WAIT.
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
            listener.listen()
            on_failure.pop_all()
            return listener
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise ConfigurationError(
                f"Port {port} is in use.",
                hint="Stop the program that uses it, or choose another port with --port.",
            ) from error
        raise ConfigurationError(
            f"Cannot listen on {host}, port {port}.", hint="Use --host 127.0.0.1 and a port above 1023."
        ) from error


def origin_of_listener(listener: socket.socket) -> str:
    """The origin at which this machine reaches the listener; loopback for the wildcard addresses."""
    host, port = listener.getsockname()[:2]
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 it is replaced here
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def is_loopback(listener: socket.socket) -> bool:
    """Whether only this machine reaches the listener."""
    return ip_address(str(listener.getsockname()[0])).is_loopback


def is_wildcard(listener: socket.socket) -> bool:
    """Whether it listens on every address of the machine."""
    return ip_address(str(listener.getsockname()[0])).is_unspecified


def proxies_in(text: str) -> tuple[str, ...]:
    """Addresses and networks, separated by commas.

    Raises:
        ConfigurationError: a part is not an address or a network, or it is the network of all addresses.
    """
    proxies = tuple(part.strip() for part in text.split(",") if part.strip())
    for proxy in proxies:
        try:
            network = ip_network(proxy)
        except ValueError as error:
            raise ConfigurationError(
                f"--trusted-proxies: {proxy[:200]!r} is not an address or a network.",
                hint="Give addresses of proxies, separated by commas: 127.0.0.1,10.0.0.0/8",
            ) from error
        if not network.prefixlen:
            raise ConfigurationError(
                f"--trusted-proxies: {proxy!r} is every address, and any caller could say that it is another one.",
                hint="Give the addresses of your proxies.",
            )
    return proxies
