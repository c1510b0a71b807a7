"""Where a database is, whether it can be reached, and why not: for the messages to an operator."""

from __future__ import annotations

import asyncio
import re
import ssl
from datetime import timedelta

from sqlalchemy import URL, Connection
from sqlalchemy.exc import DBAPIError

from dualsql.databases.driver import USED
from dualsql.databases.guard import FailureKind, Guard, Refusal
from dualsql.databases.source import Source
from dualsql.errors import ConfigurationError, DatabaseUnreachableError, DualResponseError


def server_at(url: URL) -> tuple[str, str | None, str | None]:
    """Kind, host and port of a URL: equal for databases on the same server."""

    def one(name: str) -> str | None:
        value = url.query.get(name)
        return value if value is None or isinstance(value, str) else ",".join(value)

    port = one("port") if url.port is None else str(url.port)
    return url.get_backend_name(), url.host or one("host"), port


async def reach(source: Source, *, timeout: timedelta) -> None:
    """Open a connection, and let the database read its catalogue.

    Raises:
        ConfigurationError: it rejects the user, or the database or the role does not exist.
        DatabaseUnreachableError: no database answers now, or it accepts no connection.
    """
    try:
        async with asyncio.timeout(timeout.total_seconds()):
            await _look(source)
    except DualResponseError:
        raise
    # A driver, a resolver or the network may raise anything, with a URL in it.
    except Exception as error:
        raise _refusal(source, error.orig if isinstance(error, DBAPIError) else error) from error


async def _look(source: Source) -> None:
    """Look with a connection of the pool; if that one is dead, with another one."""

    def look(connection: Connection) -> None:
        _require_usable(source, connection)
        connection.info[USED] = True

    for may_be_dead in (True, False):
        try:
            async with source.engine.connect() as connection:
                return await connection.run_sync(look)
        except DBAPIError as error:
            if not (may_be_dead and error.connection_invalidated):
                raise
    raise AssertionError("the second attempt returns or raises")


def _require_usable(source: Source, connection: Connection) -> None:
    role, rights = source.role, source.backend.rights
    source.guard.look(connection)
    if role is not None and rights is not None and not rights.may_assume(role, connection):
        raise ConfigurationError(
            f"The database user may not take the role {role!r}."[:200], hint="GRANT the role to the user."
        )


def refusal_of(guard: Guard, error: BaseException | None) -> tuple[Refusal, str, str] | None:
    """Why a database refuses connections, with a message and a hint for its operator; None if it may be otherwise."""
    if option := _UNKNOWN_OPTION.search(str(error)):
        message = f"The driver of the database has no option {option[1][:60]!r}."
        return (
            Refusal.DATABASE,
            message,
            "Check the options after the ? in the URL, or name another driver in it.",
        )
    refusal = guard.refusal_of(error)
    if refusal is None and error is not None and _is_of_tls(error):
        refusal = Refusal.TLS
    elif refusal is None and isinstance(error, OSError) and not isinstance(error, TimeoutError):
        refusal = Refusal.HOST
    if refusal is not None:
        message, hint = _REFUSALS[refusal]
        reason = _reason_of_tls(error) if error is not None and refusal is Refusal.TLS else None
        return refusal, message if reason is None else f"{message[:-1]}: {reason[:200].rstrip('.')}.", hint
    for words, message, hint in _OF_FILES:
        if words.search(str(error)):
            return Refusal.DATABASE, message, hint
    return None


def for_operator(source: Source, error: DualResponseError) -> DualResponseError:
    """The error of a server that cannot start, in words for its operator; one that may pass by itself is unchanged."""
    cause = error.__cause__
    reason = refusal_of(source.guard, cause.orig if isinstance(cause, DBAPIError) else cause)
    # A handshake fails, too, while a proxy's database starts.
    if reason is None or reason[0] in {Refusal.HOST, Refusal.TLS}:
        return error
    _, message, hint = reason
    return ConfigurationError(f"The database {source.name!r}: {message}", hint=hint)


def _refusal(source: Source, error: BaseException | None) -> DualResponseError:
    reason = refusal_of(source.guard, error)
    if reason is not None:
        refusal, message, hint = reason
        kind = DatabaseUnreachableError if refusal is Refusal.HOST else ConfigurationError
        return kind(message, hint=hint)
    if isinstance(error, TimeoutError):
        return DatabaseUnreachableError(
            "The database does not answer.", hint="Check the host and port in the URL."
        )
    if source.guard.failure_kind(error) in (_PASSING_OF_FILES if source.backend.file_suffixes else _PASSING):
        return DatabaseUnreachableError(
            "The database accepts no connections now.",
            hint="Check that it has started and has room for more.",
        )
    return ConfigurationError(
        "The database cannot be opened.", hint="Check the database name and the options in the URL."
    )


def _causes_of(error: BaseException) -> list[BaseException]:
    """The error, and what caused it."""
    causes, cause = list[BaseException](), error
    while cause not in causes:
        causes.append(cause)
        cause = cause.__cause__ or cause.__context__ or cause
    return causes


def _reason_of_tls(error: BaseException) -> str | None:
    """What is wrong with a certificate or a file, in the words of OpenSSL or of the system; None if it is not known."""
    for each in _causes_of(error):
        if isinstance(each, ssl.SSLCertVerificationError):
            return each.verify_message
        if isinstance(each, OSError) and isinstance(each.filename, str):
            return f"{each.filename}: {each.strerror}"
        if match := _FAULT_OF_CERTIFICATE.search(str(each)):
            return match[0]
    return None


def _is_of_tls(error: BaseException) -> bool:
    """Whether TLS, or a file that its options name, is the cause."""
    causes = _causes_of(error)
    # A socket that is missing has no file name. Most drivers have no other sign than their text.
    return any(
        isinstance(each, ssl.SSLError)
        or (isinstance(each, OSError) and isinstance(each.filename, str))
        or _OF_TLS.search(str(each))
        for each in causes
    )


_FAULT_OF_CERTIFICATE = re.compile(
    r"certificate has expired|self[- ]signed certificate|certificate is not yet valid|certificate verify failed|"
    r"unable to get local issuer certificate|root certificate file \S+ does not exist|(server )?does not support SSL|"
    r"parameter must be one of: [a-z, -]+|invalid \w+ value: \S+",
    re.IGNORECASE,
)
_UNKNOWN_OPTION = re.compile(r"unexpected keyword argument '(\w+)'")
_OF_TLS = re.compile(r"\b(ssl|tls|certificate)", re.IGNORECASE)

_OF_FILES = (
    (
        re.compile(r"is not a (valid \w+ )?database|disk image is malformed|file with version number"),
        "The file is no database of this kind, is damaged, or was written by another version.",
        "Check the path. What is no database needs the suffix of what it is, such as .csv.",
    ),
    (
        re.compile(r"Could not set lock|used by another process"),
        "Another program has the database file open.",
        "Close the file there, or serve a copy of it.",
    ),
    (
        re.compile(r"unable to open database|Cannot open (file|database)|readonly database"),
        "The database file cannot be opened.",
        "Check the path, and the rights on the file and its folder.",
    ),
)
"""By the words of SQLite and DuckDB, which have no numbers of errors that tell these apart."""
_PASSING_OF_FILES = (FailureKind.BUSY,)
_PASSING = (FailureKind.BUSY, FailureKind.UNREACHABLE, FailureKind.BROKEN, FailureKind.PART)

_REFUSALS = {
    Refusal.USER: (
        "The database rejected the login.",
        "Check the user and password in the URL, and whether the server lets this user in.",
    ),
    Refusal.RIGHT: (
        "The database user lacks a right.",
        "GRANT CONNECT on the database, USAGE on the schema; for a store also SELECT, INSERT, UPDATE, DELETE, CREATE.",
    ),
    Refusal.DATABASE: (
        "The server has no such database.",
        "Check the name of the database at the end of the URL.",
    ),
    Refusal.ROLE: (
        "The database has no such role.",
        "Create the role with CREATE ROLE, and GRANT it SELECT.",
    ),
    Refusal.HOST: (
        "No database answers at that address.",
        "Check the host and port in the URL, and that the database runs.",
    ),
    Refusal.TLS: (
        "The encrypted connection to the database was refused, or one of its certificates.",
        "Check TLS in the URL, its files, the server's certificate, and that the driver may read its files in HOME.",
    ),
    Refusal.POOLER: (
        "A pooler between the server and its database does not keep prepared statements.",
        "Add ?prepared_statement_cache_size=0 to the URL.",
    ),
}
