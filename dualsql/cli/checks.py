"""What must hold of the options of `dualsql serve` before anything runs, and the settings that they make.

It imports no more than that takes: `dualsql serve --stdio` answers before the server is imported.
"""

from __future__ import annotations

import re
import signal
from datetime import timedelta
from socket import socket
from typing import Any
from urllib.parse import urlsplit

from dualsql.cli.options import DEFAULT_PORT, ServeOptions
from dualsql.databases.file_selection import COPIED_INTO, find_files, kind_in_place
from dualsql.errors import ConfigurationError
from dualsql.serve.sockets import is_loopback, is_wildcard, origin_of_listener, proxies_in
from dualsql.settings import Settings


def require_consistent(options: ServeOptions) -> None:
    """Raises ConfigurationError if options do not fit together, or one that is read later is invalid."""
    if options.opens_browser and options.stdio:
        raise ConfigurationError(
            "--open cannot be combined with --stdio.", hint="Open the page by its address."
        )
    if options.metrics and options.admin_port is None:
        raise ConfigurationError(
            "--metrics requires --admin-port.",
            hint="Metrics are answered on a port that only operators reach: --admin-port 8001",
        )
    if options.metrics:
        from dualsql.telemetry import require_metrics

        require_metrics()  # before anything runs: later, a task group would wrap the error
    proxies_in(options.trusted_proxies or "")
    notes_of(options)
    _require_shareable(options)


def _require_shareable(options: ServeOptions) -> None:
    """Raises ConfigurationError if several workers would not serve the same, or cannot be replaced."""
    if options.workers == 1:
        return
    if not hasattr(signal, "SIGUSR1"):
        raise ConfigurationError("--workers is not supported on Windows.", hint="Start one process.")
    for flag, is_set, reason in (
        ("--stdio", options.stdio, "a host talks to one process"),
        ("files", bool(options.files), "each worker would read them anew"),
        ("--open", options.opens_browser, "each worker would open a page"),
    ):
        if is_set:
            raise ConfigurationError(
                f"--workers cannot be combined with {flag}: {reason}.", hint="Leave out one of them."
            )
    if options.store_url is None:
        raise ConfigurationError(
            "--workers requires --store: results in memory are known to one process alone.",
            hint="Give the URL of a database for results, and run once: dualsql migrate --create --store URL",
        )


def require_exposable(options: ServeOptions, listener: socket) -> None:
    """Raises ConfigurationError if others could call without authentication, or would not know the address."""
    if is_open(options) and not (is_loopback(listener) and is_of_this_machine(options.base_url)):
        raise ConfigurationError(
            "A server that other machines can reach requires authentication.",
            hint="Set DUALSQL_TOKEN, or use --authenticate module:function.",
        )
    if is_wildcard(listener) and options.base_url is None:
        raise ConfigurationError(
            "--base-url is required when the server listens on all addresses.",
            hint="Give the URL at which callers reach it: --base-url https://...",
        )


def is_open(options: ServeOptions) -> bool:
    """Whether callers need no authentication; see `require_exposable`."""
    return options.token is None and options.authenticate is None


def is_of_this_machine(base_url: str | None) -> bool:
    """Whether the base URL, if any, names this machine. Behind a proxy, a loopback address does not limit access."""
    return base_url is None or urlsplit(base_url).hostname in {"localhost", "127.0.0.1", "::1"}


def rest_elsewhere(options: ServeOptions, rest_url: str) -> str:
    """The base URL of the server that reads what this one stores.

    Raises:
        ConfigurationError: that server would not find the results, or options are for a REST service of this process.
    """
    if not options.stdio or options.store_url is None:
        raise ConfigurationError(
            "--rest-url requires --stdio and --store.",
            hint="The server at that URL reads the results that this process writes: give both the same store.",
        )
    unused = [
        flag
        for flag, value in (
            ("--port", options.port),
            ("--base-url", options.base_url),
            ("--authenticate", options.authenticate),
        )
        if value is not None
    ]
    if unused:
        raise ConfigurationError(
            f"--rest-url cannot be combined with {', '.join(unused)}: this process serves no REST.",
            hint="Give these options to the server that does.",
        )
    if not urlsplit(rest_url).path.strip("/"):
        raise ConfigurationError(
            "--rest-url must be the URL of REST resources, with its path.",
            hint=f"A dualsql serve prints it at its start, such as http://127.0.0.1:{DEFAULT_PORT}/resources.",
        )
    return rest_url.rstrip("/")


def resources_at(options: ServeOptions, listener: socket) -> str:
    """The base URL of a server on the listener."""
    return f"{(options.base_url or origin_of_listener(listener)).rstrip('/')}/resources"


def dialect_of(options: ServeOptions) -> str:
    """The name in URLs of the database that is served.

    Raises:
        ConfigurationError: files cannot be served.
    """
    if options.files:
        return kind_in_place(find_files(options.files).paths) or COPIED_INTO
    return options.database.partition(":")[0].partition("+")[0]


def settings_of(options: ServeOptions) -> Settings:
    """The settings of the server.

    Raises:
        ConfigurationError: an origin is none.
    """
    origins = words_of(options.cors_origins)
    for origin in origins:
        if origin != "*" and not re.fullmatch(r"[a-z][a-z0-9+.-]*://[^/?#\s]+", origin):
            raise ConfigurationError(
                f"--cors-origins: {origin[:200]!r} is not an origin.",
                hint="Give scheme and host, without a path: https://app.example.com",
            )
    settings: dict[str, Any] = {
        "cors_origins": origins,
        "allowed_hosts": words_of(options.allowed_hosts),
        "unproved_read_only": options.unproved_read_only,
    }
    if is_open(options):  # to callers of this machine alone
        settings["anonymous_actions"] = Settings().anonymous_actions | {"refresh"}
    if options.sample_size is not None:
        settings["default_sample_size"] = options.sample_size
    if options.count_budget is not None:
        settings["count_budget"] = timedelta(seconds=options.count_budget)
    return Settings(**settings)


def notes_of(options: ServeOptions) -> str:
    if options.notes is None:
        return ""
    try:
        return options.notes.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise ConfigurationError(
            f"--notes: {str(options.notes)[:200]!r} cannot be read as a text in UTF-8.",
            hint="Give the path of a text file.",
        ) from error


def words_of(text: str | None) -> tuple[str, ...]:
    """The parts between commas."""
    return tuple(part.strip() for part in (text or "").split(",") if part.strip())
