"""`dualsql serve`. It never prints a URL of a database or a token."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
import sys
import webbrowser
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import (
    AbstractContextManager,
    AsyncExitStack,
    asynccontextmanager,
    contextmanager,
    nullcontext,
    suppress,
)
from dataclasses import fields, replace
from datetime import timedelta
from functools import partial
from importlib import import_module
from inspect import iscoroutinefunction
from socket import socket
from typing import Any, cast, get_args
from urllib.parse import urlsplit

import typer
from mcp.server import MCPServer
from sqlalchemy import MetaData
from starlette.applications import Starlette
from starlette.types import ASGIApp

from dualsql.capabilities import capabilities_named
from dualsql.cli.checks import (
    notes_of,
    require_consistent,
    require_exposable,
    resources_at,
    rest_elsewhere,
    settings_of,
    words_of,
)
from dualsql.cli.files import ServedFiles, names_in_words, with_database
from dualsql.cli.local_store import LocalStore, MarkedIds, new_mark, open_local_store
from dualsql.cli.options import DEFAULT_PORT, RequestLogForm, ServeOptions, secrets
from dualsql.cli.workers import Workers
from dualsql.databases.engines import parsed_url
from dualsql.errors import (
    ConfigurationError,
    DatabaseBusyError,
    QueryTimeoutError,
    StorageError,
)
from dualsql.feature_list import default_features
from dualsql.features import DualResponseServer
from dualsql.health import Health, routes_until_started
from dualsql.http.router import LOOPBACK_NAMES, HostCheck
from dualsql.http.streaming import CutOffError
from dualsql.identity import Authenticate, static_tokens
from dualsql.kept.feature import Kept
from dualsql.openapi.feature import OpenAPI
from dualsql.packages import importing
from dualsql.rates import Rate, Rates
from dualsql.request_log import LogFormatter, request_logger
from dualsql.run import START_INTERVAL, other_port
from dualsql.serve import Built, Selection, build_mcp, build_server, one_token, required, serve_app
from dualsql.serve.application import TOKEN_PRINCIPAL, mcp_path
from dualsql.serve.hosts import over_http, over_stdio
from dualsql.serve.listening import StandIn, Starting, leave_on_signal, running
from dualsql.serve.sockets import (
    is_loopback,
    listen,
    on_sighup,
    origin_of_listener,
    proxies_in,
    stop_on_signals,
)
from dualsql.serve.stdio import Started
from dualsql.settings import LimitedAction
from dualsql.store import MemoryStore, SQLResourceStore
from dualsql.store.protocol import MIGRATE_HINT, ResourceStore
from dualsql.telemetry import metrics_route
from dualsql.web.feature import Pages
from dualsql.web.home import TokenSession
from dualsql_client.local_servers import announce


async def run(options: ServeOptions) -> None:
    """Serve over HTTP until cancelled.

    Raises:
        ConfigurationError: an option is invalid, or the database cannot be served safely.
        DualResponseError: the database, or the store, failed.
    """
    stop_on_signals()
    require_consistent(options)
    if options.rest_url is not None:
        rest_elsewhere(options, options.rest_url)  # refuses it
    with _database_of(options) as (complete, files):
        await _run(complete, files)


async def _run(options: ServeOptions, files: ServedFiles) -> None:
    authenticate_of(options)  # refuses what cannot be used before the port is taken
    port = DEFAULT_PORT if options.port is None else options.port
    with listen(options.host, port) as listener:
        require_exposable(options, listener)
        _show(_port_notice(options.base_url, listener), options)
        base_url = resources_at(options, listener)
        with _admin_listener(options) as admin:
            serve = partial(_over_http, options, files, base_url, listener, admin_origin=_origin_of(admin))
            show = partial(_show, options=options)
            if options.workers > 1:
                _configure_log(options)
                workers = Workers(options.workers, serve, show=show, has_metrics=options.metrics)
                async with _serve_admin(workers.health(), admin):
                    await workers.run()
            else:
                await serve(admin=admin, show=show)


async def serve_beside(
    options: ServeOptions, base_url: str, listener: socket | None, started: Started
) -> None:
    """Start the server whose MCP is on the standard streams, and serve the rest until cancelled.

    Args:
        listener: where REST is served; None where another process does.

    Raises:
        ConfigurationError, DualResponseError: as `run`.
    """
    with _database_of(options) as (complete, files), _admin_listener(options) as admin:
        build = partial(_server_of, complete, files, base_url)
        if listener is None:
            await _serve_no_rest(complete, files, build, admin, started)
            return
        build = partial(build, authenticate=authenticate_of(complete))
        _show(_port_notice(complete.base_url, listener), complete)
        await _serve_rest(complete, files, build, listener, started, admin=admin)


def _database_of(options: ServeOptions) -> AbstractContextManager[tuple[ServeOptions, ServedFiles]]:
    return with_database(options, lambda line: _show([line], options))


def _port_notice(base_url: str | None, listener: socket) -> Iterator[str]:
    """A line if --base-url names another port of this machine: a mistake, unless a proxy listens there."""
    port = listener.getsockname()[1]
    other = None if base_url is None else other_port(base_url, port)
    if other is not None:
        yield f"Note: --base-url has the port {other}, and the server listens on {port}. Is a proxy at {other}?"


UNOPENED_URL = "sqlite+aiosqlite://"
"""The database of a server that is made to check its options or to describe its routes, and never started."""


def _admin_listener(options: ServeOptions) -> AbstractContextManager[socket | None]:
    return nullcontext() if options.admin_port is None else listen(options.admin_host, options.admin_port)


def _origin_of(admin: socket | None) -> str | None:
    return None if admin is None else origin_of_listener(admin)


@asynccontextmanager
async def _serve_admin(health: ASGIApp, admin: socket | None) -> AsyncIterator[None]:
    """Answer health checks during the block, where there is a port for them."""
    if admin is None:
        yield
        return
    # On other addresses any Host is served: probes send addresses and names of their own networks.
    guard = HostCheck(health, hosts=LOOPBACK_NAMES, origins=(), is_local=True, needs_host=False)
    async with running(guard if is_loopback(admin) else health, admin):
        yield


def _health(options: ServeOptions, dual: DualResponseServer) -> ASGIApp:
    metrics = [metrics_route()] if options.metrics else []
    return Starlette(routes=[*dual.features.get(Health).process_routes(), *metrics])


def openapi(origin: str) -> str:
    """The OpenAPI document of a server at `origin`, as JSON. No database is opened.

    Raises:
        ConfigurationError: `origin` is no absolute URL.
    """
    server = DualResponseServer(
        UNOPENED_URL,
        base_url=f"{origin}/resources",
        tables=MetaData(),
        features=default_features(Pages()),
        authenticate=static_tokens({}),
    )
    return json.dumps(server.features.get(OpenAPI).document(), indent=2)


async def _server_of(
    options: ServeOptions,
    files: ServedFiles,
    base_url: str,
    *,
    authenticate: Authenticate | None = None,
    local: LocalStore | None = None,
    mark: str | None = None,
) -> Built:
    # SIGHUP ends a process that has no handler for it, and the tables may take a while to be read.
    is_signalled = asyncio.Event()
    if options.secret_file is not None:
        on_sighup(is_signalled.set)
    with without_log():
        await files.load(lambda line: _show([line], options), _console(options))
    marked = [] if mark is None else [MarkedIds(mark)]
    with without_log(), _reading(options):
        setup = await build_server(
            options.database,
            replace(selection_of(options), row_number=files.row_number),
            base_url=base_url,
            read_only_role=options.read_only_role,
            authenticate=_session(options, base_url) or authenticate,
            store=await _store(options) if local is None else SQLResourceStore(local.url),
            secrets=secrets(options) or (() if local is None else (local.secret,)),
            features=default_features(kept_feature(options), pages_of(options), *rates_of(options), *marked),
            settings=settings_of(options),
        )
    _configure_log(options)
    if options.secret_file is not None:
        reload = partial(_reload, options, setup.server)
        on_sighup(reload)
        if is_signalled.is_set():
            reload()
    return setup


def _configure_log(options: ServeOptions) -> None:
    handler = logging.StreamHandler()
    handler.setFormatter(LogFormatter(as_json=options.log is RequestLogForm.JSON))
    # Over stdio, the MCP SDK has set up a log already.
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=options.stdio)
    if options.log is not RequestLogForm.OFF:
        request_logger.setLevel(logging.INFO)
    # A stream that is cut off is logged by dualsql, in one line.
    logging.getLogger("uvicorn.error").addFilter(_is_no_cut_off)


def _is_no_cut_off(record: logging.LogRecord) -> bool:
    return not (record.exc_info and isinstance(record.exc_info[1], CutOffError))


def selection_of(options: ServeOptions) -> Selection:
    return Selection(schema=options.schema, tables=words_of(options.tables), everything=options.everything)


def rates_of(options: ServeOptions) -> list[Rates]:
    """The rate limits of the server, if there are some.

    Raises:
        ConfigurationError: a rate is none.
    """
    principal = _rates("--rate-limits", options.rate_limits)
    address = _rates("--address-rate-limits", options.address_rate_limits)
    return [Rates(principal=principal, address=address)] if principal or address else []


def pages_of(options: ServeOptions) -> Pages:
    """The pages of the server."""
    return Pages(pages_in_text=options.pages_in_text, pages_show_sql=True, pages_show_values=True)


def kept_feature(options: ServeOptions) -> Kept:
    """The kept results of the server."""
    return Kept(options.keep, keep_cache=options.keep_cache, keep_cache_bytes=options.keep_cache_bytes)


def _rates(flag: str, text: str | None) -> dict[LimitedAction, Rate]:
    rates: dict[LimitedAction, Rate] = {}
    for part in words_of(text):
        match = re.fullmatch(r"(\w+)=([0-9]{1,9})(?:/([0-9]{1,9}))?", part, re.ASCII)
        if match is None or match[1] not in get_args(LimitedAction) or match[1] in rates:
            raise ConfigurationError(
                f"{flag}: {part[:200]!r} is not a rate.",
                hint=f"Give each of {', '.join(get_args(LimitedAction))} once at most, with how often a minute, and "
                "after a slash how often at once: create=60,ask=600/50",
            )
        rates[cast("LimitedAction", match[1])] = Rate(int(match[2]), int(match[3] or 0))
    return rates


def _build_mcp(options: ServeOptions, dual: DualResponseServer) -> MCPServer[Any]:
    wait = None if options.wait is None else timedelta(seconds=options.wait)
    return build_mcp(
        dual,
        name=options.name,
        wait=wait,
        results_format=options.results_format,
        text_format=options.text_format,
        notes=notes_of(options),
    )


async def _store(options: ServeOptions) -> ResourceStore:
    if options.store_url is None:
        return MemoryStore()
    if not secrets(options):
        raise ConfigurationError(
            "--store requires a secret: stored results are signed.",
            hint="Set DUALSQL_SECRET to at least 32 characters, the same in every process and after each restart.",
        )
    from dualsql.store.migrations import is_migrated

    if not await asyncio.to_thread(is_migrated, options.store_url):
        raise ConfigurationError(
            "The tables of the store are missing or of another release.",
            hint="Run: dualsql migrate --create --store <its URL>",
        )
    return SQLResourceStore(options.store_url)


def authenticate_of(options: ServeOptions) -> Authenticate | None:
    if options.token is not None and options.authenticate is not None:
        raise ConfigurationError("--token and --authenticate cannot be combined.", hint="Give one of them.")
    if options.token is not None:
        return one_token(options.token)
    return None if options.authenticate is None else required(_import_function(options.authenticate))


def _session(options: ServeOptions, base_url: str) -> TokenSession | None:
    """How browsers sign in, if the server has one token."""
    if options.token is None or options.rest_url is not None:
        return None
    bearer = one_token(options.token)
    return TokenSession(bearer, options.token, TOKEN_PRINCIPAL, base_url=base_url)


def _app(options: ServeOptions, setup: Built, mcp: MCPServer[Any]) -> Starlette:
    return serve_app(setup.server, mcp, session=_session(options, setup.server.base_url))


def _import_function(reference: str) -> Authenticate:
    """The async function at "module:function"; modules of the working directory are found too."""
    module, _, name = reference.partition(":")
    # A console script has its own folder on the path, where `python -m` has the working directory.
    sys.path.insert(0, os.getcwd())  # noqa: PTH109 - sys.path holds strings
    try:
        function: Any = getattr(import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigurationError(
            f"--authenticate: {reference!r} cannot be imported: {error}."[:300],
            hint="Give it as module:function.",
        ) from error
    if not iscoroutinefunction(function) and not iscoroutinefunction(getattr(function, "__call__", None)):  # noqa: B004
        raise ConfigurationError(
            f"--authenticate: {reference!r} is not an async function."[:200],
            hint="Define it as: async def who(request: Request) -> Principal | None",
        )
    return cast("Authenticate", function)


Build = Callable[..., Coroutine[Any, Any, Built]]


async def _over_http(
    options: ServeOptions,
    files: ServedFiles,
    base_url: str,
    listener: socket,
    *,
    admin: socket | None,
    admin_origin: str | None,
    show: Callable[[Iterable[str]], None],
    answers_at_once: bool = True,
) -> None:
    """Serve until cancelled, as the only process or as one of several workers.

    Args:
        admin: where health checks of this process are answered.
        admin_origin: where operators ask, also for all workers.
        show: is called with what a person should read, once requests are served.
        answers_at_once: answer 503 until then; otherwise listen only then, because another worker answers.
    """
    build = partial(_server_of, options, files, base_url, authenticate=authenticate_of(options))
    front, health = (
        StandIn(Starting(partial(_waits_for, files))),
        StandIn(Starlette(routes=routes_until_started())),
    )
    proxies = proxies_in(options.trusted_proxies or "")
    async with _serve_admin(health, admin), AsyncExitStack() as stack:
        served = running(front, listener, trusted_proxies=proxies)
        serving = await stack.enter_async_context(served) if answers_at_once else None
        setup = await _patiently(build)
        with importing():  # pydantic's models of the tools
            app = _app(options, setup, _build_mcp(options, setup.server))
        is_cancelled = False
        async with app.router.lifespan_context(app):
            # Within its lifespan: before, the application has no sessions and no started server.
            front.replace(app)
            health.replace(_health(options, setup.server))
            if serving is None:
                serving = await stack.enter_async_context(served)
            if options.workers > 1:
                leave_on_signal(serving)
            show(_announcement(options, files, setup, admin_origin))
            if options.opens_browser:
                # In a thread: a browser in text mode returns when its user quits it.
                await asyncio.to_thread(webbrowser.open, _home_page(setup))
            try:
                await serving.ended()
            except asyncio.CancelledError:  # SIGTERM or Ctrl-C
                is_cancelled = True
                with suppress(asyncio.CancelledError):  # the second one ends the drain
                    await setup.server.drain()
            await serving.stop()
    if is_cancelled:
        raise asyncio.CancelledError


def _waits_for(files: ServedFiles) -> str:
    share = files.share()
    if share < 1:
        return f"The server is loading its files: {share:.0%} are read."
    return "The server is starting: its database or store has not answered yet."


def _reload(options: ServeOptions, dual: DualResponseServer) -> None:
    """Read the file of secrets again. What is wrong with it is logged, and the former ones stay."""
    try:
        dual.maintenance.set_secrets(secrets(options))
    except ConfigurationError as error:
        logging.getLogger(__name__).error("The secrets were not read again: %s", error)
    else:
        logging.getLogger(__name__).warning("The secrets were read again.")


async def _patiently(build: Build) -> Built:
    """Build the server, and if a database or the store cannot be reached, again and again.

    Raises:
        ConfigurationError: it cannot be served safely.
    """
    is_reported = False
    while True:
        try:
            return await build()
        except (DatabaseBusyError, QueryTimeoutError, StorageError) as error:
            # Waiting makes no tables.
            if error.hint == MIGRATE_HINT:
                raise
            if not is_reported:
                typer.echo(f"dualsql: {error}\n{_WAITING}", err=True)
            is_reported = True
        await asyncio.sleep(START_INTERVAL)


_WAITING = "Requests are answered 503 until then. Trying again every second; Ctrl-C stops."


async def _serve_rest(
    options: ServeOptions,
    files: ServedFiles,
    build: Build,
    listener: socket,
    started: Started,
    *,
    admin: socket | None,
) -> None:
    proxies = proxies_in(options.trusted_proxies or "")
    local = None if options.store else await asyncio.to_thread(open_local_store, options)
    mark = new_mark() if local is None else local.mark
    setup = await build(local=local, mark=mark)
    mcp = await asyncio.to_thread(_build_mcp, options, setup.server)
    app = _app(options, setup, mcp)
    async with (
        app.router.lifespan_context(app),
        _serve_admin(_health(options, setup.server), admin),
        running(app, listener, trusted_proxies=proxies),
    ):
        started.set_server(mcp)
        keeps_results = (local or options.store_url) is not None
        _show(_announcement(options, files, setup, _origin_of(admin), keeps_results=keeps_results), options)
        with announce(setup.server.base_url, mark):
            await asyncio.Event().wait()


async def _serve_no_rest(
    options: ServeOptions, files: ServedFiles, build: Build, admin: socket | None, started: Started
) -> None:
    setup = await build()
    async with setup.server, _serve_admin(_health(options, setup.server), admin):
        started.set_server(await asyncio.to_thread(_build_mcp, options, setup.server))
        _show(_announcement(options, files, setup, _origin_of(admin)), options)
        await asyncio.Event().wait()


@contextmanager
def without_log() -> Iterator[None]:
    """Suppress dualsql's log records in the block. An error before the start is printed as one line."""
    logger = logging.getLogger("dualsql")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)


def _show(lines: Iterable[str], options: ServeOptions) -> None:
    """Print lines for a person: to standard error over stdio, where standard output belongs to the host."""
    for line in lines:
        typer.echo(line, err=options.stdio)


def _reading(options: ServeOptions) -> AbstractContextManager[object]:
    """Show that the tables are being read."""
    console = _console(options)
    status: AbstractContextManager[object] = (
        nullcontext() if console is None else console.status("Reading the tables ...")
    )
    return status


def _console(options: ServeOptions) -> Any:
    """The terminal of a person who waits; None without one."""
    if options.stdio or not sys.stdout.isatty():
        return None
    from rich.console import Console

    return Console()


_SERVED_ELSEWHERE = " (served by another process, on the same store)"

_ENDS_WITH_THE_PROCESS = "Results end with this process: no file of the user's own can be made for them."
_LINKS_END = "REST ends with this process; its results are known to the next one with the same options."


def _announcement(
    options: ServeOptions,
    files: ServedFiles,
    setup: Built,
    admin_origin: str | None,
    *,
    keeps_results: bool = True,
) -> Iterator[str]:
    base_url, reflected = setup.server.base_url, setup.reflected
    tables = len(reflected.metadata.tables)
    only = ", read-only" * (not setup.server.maintenance.unproved)
    yield f"Serving {tables} table{'s' * (tables != 1)} of {_database_name(options, files.names())}{only}."
    yield from files.summary()
    if reflected.left_out:
        names = names_in_words(reflected.left_out)
        yield f"Not served, because the database user cannot read them, or their type has no form: {names}."
    yield from (f"Note: {notice}" for notice in setup.server.notices)
    yield ""
    url = _mcp_url(setup)
    if options.rest_url is None:
        yield f"MCP endpoint    {url}"
    yield f"REST resources  {base_url}/<id>{_SERVED_ELSEWHERE if options.rest_url else ''}"
    if options.rest_url is None:
        yield f"For a browser   {_home_page(setup)}"
    if admin_origin is not None:
        yield f"Health          {admin_origin}/ready"
        if options.metrics:
            yield f"Metrics         {admin_origin}/metrics"
    if options.stdio and options.rest_url is None:
        yield _LINKS_END if keeps_results else _ENDS_WITH_THE_PROCESS
    pasted = (
        over_stdio(options.name, *_command(options))
        if options.stdio
        else over_http(options.name, url, has_token=options.token is not None)
    )
    for title, text in pasted:
        yield ""
        yield f"{title}:"
        yield f"  {text}"
    yield ""
    yield "The server stops when the host closes it." if options.stdio else "Press Ctrl-C to stop."


def _mcp_url(setup: Built) -> str:
    base_url = setup.server.base_url
    return f"{base_url[: -len(urlsplit(base_url).path)]}{mcp_path(base_url)}"


def _home_page(setup: Built) -> str:
    return _mcp_url(setup).removesuffix("mcp")


def _database_name(options: ServeOptions, names: Sequence[str]) -> str:
    """The database for messages: the parts of its URL without secrets; or the files."""
    if names:
        return names_in_words(names, "files")
    url = parsed_url(options.database)
    at = f" at {url.host}" if url.host else ""
    capabilities = capabilities_named(url.get_backend_name())
    name = url.get_backend_name() if capabilities is None else capabilities.name
    return f"{name} {url.database or ''}{at}"


def _command(options: ServeOptions) -> tuple[list[str], dict[str, str]]:
    """The command and environment with which a host starts this server; the user fills in the URL."""
    selection = selection_of(options)
    which = ["--all"] if selection.everything else ["--tables", ",".join(selection.tables)]
    if selection.schema is not None:
        which = ["--schema", selection.schema]
    files = [str(path) for path in options.files or ()]
    if files and selection.everything:
        which = []
    command = ["dualsql", "serve", *files, "--stdio", *which, *_changed_flags(options)]
    variables = {} if files else {"DUALSQL_DATABASE_URL": "<the database's URL>"}
    if options.rest_url is None:
        return command, variables
    of_storage = {"DUALSQL_STORE": "<the store's URL>", "DUALSQL_SECRET": "<the secret of both servers>"}
    return [*command, "--rest-url", options.rest_url], {**variables, **of_storage}


def _changed_flags(options: ServeOptions) -> Iterator[str]:
    """The flags, besides the tables, without which the server would answer otherwise."""
    for name in (
        "encoding",
        "read_only_role",
        "sample_size",
        "count_budget",
        "results_format",
        "text_format",
        "wait",
    ):
        value = getattr(options, name)
        if value != _DEFAULTS[name]:
            yield from (f"--{name.replace('_', '-')}", str(value))
    if options.no_file_cache:
        yield "--no-file-cache"
    if options.unproved_read_only:
        yield "--unproved-read-only"
    if not options.pages_in_text:
        yield "--no-pages-in-text"
    if options.notes is not None:
        yield from ("--notes", str(options.notes.absolute()))


_DEFAULTS = {option.name: option.default for option in fields(ServeOptions)}
