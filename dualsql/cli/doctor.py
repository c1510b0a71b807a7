"""`dualsql doctor`: what would stop `dualsql serve` with the same options, and what would go wrong later.

Nothing is changed, and no message holds a URL's password, a token or a secret.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from sqlalchemy import MetaData, Table

from dualsql.cli.checks import is_of_this_machine, require_consistent, require_exposable, settings_of
from dualsql.cli.files import with_database
from dualsql.cli.options import DEFAULT_PORT, ServeOptions, hint_with_flag, secrets
from dualsql.cli.serve import (
    UNOPENED_URL,
    authenticate_of,
    kept_feature,
    rates_of,
    selection_of,
    without_log,
)
from dualsql.databases.proof import prove_read_only
from dualsql.databases.reach import reach, server_at
from dualsql.databases.reflection import ReflectedTables, reflect
from dualsql.databases.rights import connection_limit, prove_role
from dualsql.databases.session import in_session
from dualsql.databases.source import Source, open_source
from dualsql.databases.unproved import unproved_notice
from dualsql.errors import ConfigurationError, DualResponseError
from dualsql.feature_list import default_features
from dualsql.features import DualResponseServer
from dualsql.freeze import Registry
from dualsql.kept import ObjectResultStorage, storage_at
from dualsql.kept.files import require_packages
from dualsql.maintenance import TOLERATED_SKEW
from dualsql.openapi.operations import OPENAPI
from dualsql.resource import Clock
from dualsql.serve.sockets import is_loopback, listen
from dualsql.settings import Settings
from dualsql.store import SQLResourceStore

State = Literal["ok", "warning", "fault"]

_MOST_NAMES = 10
_LONGEST_ANSWER = 4 * 1024 * 1024
_SECONDS = 10.0
_DATABASE = "default"


@dataclass(frozen=True, slots=True)
class Finding:
    """The outcome of one check.

    Attributes:
        check: its name.
        state: a fault stops the server or its callers; a warning does not.
        message: one sentence.
        hint: what to do; empty if nothing is to be done.
    """

    check: str
    state: State
    message: str
    hint: str = ""

    def __str__(self) -> str:
        first = f"{self.state:8} {self.check:15} {self.message}"
        return f"{first}\n{'':25}{self.hint}" if self.hint else first


async def examine(options: ServeOptions) -> list[Finding]:
    """Make all checks that the options allow; files are read as at a start.

    Raises:
        ConfigurationError: nothing is given to serve, or files and a database.
    """
    with with_database(options, lambda _: None) as (complete, files):
        if files.loader is None:
            return await _examine(complete)
        findings: list[Finding] = []
        with _noting("files", findings):
            await files.load(lambda _: None, None)
            tables = len(files.loader.tables)
            findings.append(
                Finding("files", "ok", f"{tables:,} table{'s are' if tables != 1 else ' is'} read.")
            )
            findings += [
                Finding("files", "warning", f"Not read: {each.file}: {each.reason}")
                for each in files.loader.unread
            ]
            findings += await _examine(complete)
        return findings


async def _examine(options: ServeOptions) -> list[Finding]:
    findings = [*_configuration(options), *_exposure(options)]
    with without_log():
        findings += await _database(options)
        findings += await _store(options)
        findings += await _storage(options)
    return [*findings, await asyncio.to_thread(_base_url, options)]


def write_report(findings: Sequence[Finding], *, as_json: bool) -> str:
    """The findings as lines for a person, or as a JSON object."""
    if as_json:
        return json.dumps(
            {"healthy": is_healthy(findings), "checks": [asdict(each) for each in findings]}, indent=2
        )
    return "\n".join(map(str, findings))


def is_healthy(findings: Sequence[Finding]) -> bool:
    """Whether there is no fault."""
    return all(each.state != "fault" for each in findings)


@contextmanager
def _noting(check: str, findings: list[Finding]) -> Iterator[None]:
    """An error of the block is a fault of the check."""
    try:
        yield
    except DualResponseError as error:
        findings.append(Finding(check, "fault", error.message, hint_with_flag(error)))


def _configuration(options: ServeOptions) -> list[Finding]:
    findings: list[Finding] = []
    with _noting("configuration", findings):
        require_consistent(options)
        DualResponseServer(
            UNOPENED_URL,
            base_url=f"{(options.base_url or 'http://127.0.0.1').rstrip('/')}/resources",
            tables=MetaData(),
            secrets=secrets(options),
            authenticate=authenticate_of(options),
            settings=settings_of(options),
            features=default_features(*rates_of(options)),
        )
        if options.store_url is not None and not secrets(options):
            raise ConfigurationError(
                "--store requires a secret: stored results are signed.",
                hint="Set DUALSQL_SECRET to at least 32 characters, the same in every process and after each restart.",
            )
    return findings or [Finding("configuration", "ok", "The options fit together.")]


def _exposure(options: ServeOptions) -> list[Finding]:
    findings: list[Finding] = []
    is_local = True
    with _noting("authentication", findings), listen(options.host, 0) as listener:
        is_local = is_loopback(listener) and is_of_this_machine(options.base_url)
        require_exposable(options, listener)
    if findings:
        return findings
    if not is_local and (options.base_url or "").lower().startswith("http:"):
        return [
            Finding(
                "authentication",
                "warning",
                "Callers send their tokens over http, which others on the way can read.",
                "Put a proxy with TLS in front of the server, and give its https:// URL as --base-url.",
            )
        ]
    needs_token = options.token or options.authenticate
    sentence = "Callers need a token." if needs_token else "Only this machine can call."
    return [Finding("authentication", "ok", sentence)]


async def _database(options: ServeOptions) -> list[Finding]:
    findings: list[Finding] = []
    with _noting("database", findings):
        async with _open(options) as source:
            await reach(source, timeout=source.limits.connection_timeout)
            findings.append(Finding("database", "ok", f"{source.capabilities.name} answers."))
            with _noting("read-only", findings):
                await prove_read_only(source)
                findings.append(
                    Finding("read-only", "ok", "A session refuses to write.")
                    if source.backend.has_read_only_sessions
                    else Finding(
                        "read-only", "warning", unproved_notice(source.name, source.capabilities.name)
                    )
                )
            with _noting("tables", findings):
                tables = await reflect(source, selection_of(options))
                findings.append(_readable(tables))
                findings += await _rights(source, tables)
            findings.append(await _connections(source, options))
            findings += await _pooler(source)
    return findings


@asynccontextmanager
async def _open(options: ServeOptions) -> AsyncIterator[Source]:
    roles = {} if options.read_only_role is None else {_DATABASE: options.read_only_role}
    settings = _settings_or_default(options)
    # Each check may take as long as a connection.
    settings = replace(settings, read_only_roles=roles, query_timeout=settings.queue_timeout)
    source = open_source(_DATABASE, options.database, Registry(MetaData()), settings)
    try:
        yield source
    finally:
        await source.close()


def _settings_or_default(options: ServeOptions) -> Settings:
    try:
        return settings_of(options)
    except ConfigurationError:  # the first check has reported it
        return Settings()


def _readable(tables: ReflectedTables) -> Finding:
    total = len(tables.metadata.tables)
    sentence = f"{total} table{'s' * (total != 1)} can be read."
    if not tables.left_out:
        return Finding("tables", "ok", sentence)
    names = ", ".join(tables.left_out[:_MOST_NAMES])
    more = f" and {len(tables.left_out) - _MOST_NAMES} more" if len(tables.left_out) > _MOST_NAMES else ""
    return Finding(
        "tables",
        "warning",
        f"{sentence} Not served: {names}{more}.",
        "GRANT SELECT on them, or name others with --tables.",
    )


async def _rights(source: Source, tables: ReflectedTables) -> list[Finding]:
    """Whether the session's user could write if sessions were not read-only."""
    required: list[Table] = list(tables.metadata.tables.values())
    findings: list[Finding] = []
    rights = source.backend.rights
    if rights is None:
        return [Finding("rights", "ok", _of_file(source.engine.url.database or ""))]
    with _noting("rights", findings):
        if source.role is not None:
            await prove_role(replace(source, registry=Registry(tables.metadata)))
        names = await in_session(
            source, None, lambda connection: rights.writable_tables(connection, required)
        )
        if names:
            more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
            return [
                Finding(
                    "rights",
                    "warning",
                    f"The user may change: {', '.join(names[:_MOST_NAMES])}{more}. Only sessions are read-only.",
                    "Use a user that has only SELECT and is not a superuser"
                    + (", or --read-only-role." if rights.has_roles else "."),
                )
            ]
        findings.append(Finding("rights", "ok", "The database user may change none of the tables."))
    return findings


def _of_file(path: str) -> str:
    sentence = "The database has no users, and sessions refuse to write."
    return f"{sentence} The process may{' ' if os.access(path, os.W_OK) else ' not '}write to its file."


async def _connections(source: Source, options: ServeOptions) -> Finding:
    required = source.maximum_connections
    if options.store_url is not None:
        store = SQLResourceStore(options.store_url)
        # A store in the same server takes its connections from the same limit.
        required += store.maximum_connections if store.server == server_at(source.engine.url) else 0
        await store.close()
    required *= options.workers
    allowed = await connection_limit(source)
    who = "One worker opens" if options.workers == 1 else f"{options.workers} workers open"
    sentence = f"{who} up to {required} connections"
    if allowed is None:
        return Finding("connections", "ok", f"{sentence}; the database tells no limit.")
    sentence = f"{sentence}, and the database allows this user {allowed}."
    if required > allowed:
        hint = "Raise max_connections, or put a pooler such as PgBouncer between them."
        return Finding("connections", "fault", sentence, hint)
    enough = allowed * options.workers // required
    return Finding(
        "connections", "ok", f"{sentence} That is enough for {enough} worker{'s' * (enough != 1)}."
    )


async def _pooler(source: Source) -> list[Finding]:
    """The findings about a pooler between, if there is one."""
    rights = source.backend.rights
    if rights is None or not await in_session(source, None, rights.is_pooled):
        return []
    sentence = "A pooler stands between the server and its database."
    # An argument of SQLAlchemy's own (dialects/postgresql/asyncpg.py), which asyncpg does not know.
    if source.engine.url.query.get("prepared_statement_cache_size") == "0":
        return [Finding("pooler", "ok", f"{sentence} No statement is prepared beyond a transaction.")]
    hint = "In transaction mode, add ?prepared_statement_cache_size=0 to the URL. In session mode nothing is needed."
    return [Finding("pooler", "warning", sentence, hint)]


async def _store(options: ServeOptions) -> list[Finding]:
    if options.store_url is None:
        sentence = (
            "Results are kept in memory: they end with the process, and several workers do not share them."
        )
        return [Finding("store", "warning", sentence, "Give the URL of a database for results: --store.")]
    from dualsql.store.migrations import is_migrated

    findings: list[Finding] = []
    with _noting("store", findings):
        if not await asyncio.to_thread(is_migrated, options.store_url):
            raise ConfigurationError(
                "The tables of the store are missing or of another release.",
                hint="Run: dualsql migrate --create --store <its URL>",
            )
        findings.append(Finding("store", "ok", "The tables of the store are those of this release."))
        findings.append(await _clock(options.store_url))
    return findings


async def _clock(url: str) -> Finding:
    store = SQLResourceStore(url)
    try:
        await store.open()
        ahead = (await Clock(store).synchronize()).total_seconds()
    finally:
        await store.close()
    if abs(ahead) <= TOLERATED_SKEW:
        return Finding("clock", "ok", "The clocks of this machine and of the store agree.")
    side = "ahead of" if ahead > 0 else "behind"
    return Finding(
        "clock",
        "warning",
        f"The clock of this machine is {abs(ahead):,.0f} seconds {side} the store's, by which results expire.",
        "Set both clocks, for example with NTP.",
    )


async def _storage(options: ServeOptions) -> list[Finding]:
    """Whether rows can be kept in the folder or the object store. Nothing is left there."""
    if options.keep is None:
        return []
    findings: list[Finding] = []
    with _noting("kept results", findings):
        settings = kept_feature(options).settings
        require_packages()
        storage = storage_at(options.keep, settings)
        await storage.check()
        free = await asyncio.to_thread(_free, storage.folder)
        findings.append(_room(free, settings.keep_bytes))
        if isinstance(storage, ObjectResultStorage):
            findings.append(Finding("kept results", "ok", "The object store can be read."))
    return findings


def _free(folder: Path) -> int:
    """Free bytes where the folder is, or will be."""
    there = next(path for path in (folder, *folder.parents) if path.exists())
    return shutil.disk_usage(there).free


def _room(free: int, largest: int) -> Finding:
    sentence = f"The disk of the folder has {free / 1024**3:,.1f} GiB free"
    if free < largest:
        hint = "Free some of it, or lower keep_bytes."
        return Finding(
            "kept results", "warning", f"{sentence}; one result may take {largest / 1024**3:,.1f}.", hint
        )
    return Finding("kept results", "ok", f"{sentence}, and only this user may write there.")


# urllib follows redirects, and dualsql_client does not: a base URL that redirects is a fault.
class _NoRedirect(HTTPRedirectHandler):
    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


def _base_url(options: ServeOptions) -> Finding:
    """Whether a running server, or the proxy before it, answers at the base URL as a dualsql server does."""
    base_url = options.base_url
    if base_url is None:
        return Finding(
            "base URL",
            "ok",
            f"None is given: callers use the address of the server (port {options.port or DEFAULT_PORT}).",
        )
    # urllib would also open file: and ftp: URLs.
    if urlsplit(base_url).scheme not in ("http", "https"):
        return Finding(
            "base URL",
            "fault",
            "It is no http or https URL.",
            "Give the URL at which callers reach the server.",
        )
    address = f"{base_url.rstrip('/')}/resources{OPENAPI}"
    try:
        with build_opener(_NoRedirect).open(Request(address), timeout=_SECONDS) as answer:  # noqa: S310 - http only
            is_ours = "openapi" in json.loads(answer.read(_LONGEST_ANSWER))
    except HTTPError as error:
        return _of_answer(error)
    except (OSError, ValueError):
        is_ours = False
    if is_ours:
        return Finding("base URL", "ok", "A dualsql server answers there.")
    return Finding(
        "base URL",
        "warning",
        "No dualsql server answers there now.",
        "Start the server first. If it runs, see which part of the way to it (name, port, proxy, certificate) fails.",
    )


_CAUSES = {
    403: (
        "The server refuses the host name.",
        "Give --allowed-hosts, or let the proxy pass the Host header on.",
    ),
    404: ("The path leads elsewhere.", "Let the proxy pass the path on as it is, with its prefix."),
    421: ("The server refuses the host name.", "Let the proxy pass the Host header on."),
}


def _of_answer(error: HTTPError) -> Finding:
    if 300 <= error.code < 400:
        sentence, hint = (
            "The answer is a redirect.",
            "Give the URL that callers end at, with https:// and its prefix.",
        )
    else:
        sentence, hint = _CAUSES.get(
            error.code, ("The answer is an error.", "See the log of the proxy and of the server.")
        )
    # What a proxy answers while the server behind it is not running yet.
    state: State = "warning" if error.code in (502, 503, 504) else "fault"
    return Finding("base URL", state, f"{sentence} Status {error.code}.", hint)
