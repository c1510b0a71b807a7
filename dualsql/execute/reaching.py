"""Whether a database can be reached at all; the rule: what stands in the way is named, not the driver's words."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from functools import partial

from sqlalchemy import Connection, func, inspect, select
from sqlalchemy.exc import DBAPIError

from dualsql.errors import ConfigurationError, DualResponseError
from dualsql.execute.source import Source

# SQLSTATEs of PostgreSQL, numbers of MariaDB.
_CREDENTIALS = ("28", "42501", "1044", "1045", "1698")
_DATABASES = ("3D", "1049")
_NO_ROLE = "42704"


async def reach(source: Source, *, timeout: timedelta) -> None:
    """Open a connection, and have the database look at its catalogue.

    Raises:
        ConfigurationError: nobody answers, or not to this user, or the database or the role is not there.
    """
    try:
        async with asyncio.timeout(timeout.total_seconds()):
            async with source.engine.connect() as connection:
                await connection.run_sync(partial(_look, source.role))
    except DualResponseError:
        raise
    # A driver, a resolver or the network may raise anything, with a URL in it.
    except Exception as error:
        raise _refusal(error.orig if isinstance(error, DBAPIError) else error) from error


def _look(role: str | None, connection: Connection) -> None:
    inspect(connection).has_table("a")
    if role is not None and not connection.scalar(select(func.pg_has_role(role, "MEMBER"))):
        raise ConfigurationError(
            f"The database's user may not take the role {role!r}."[:200], hint="GRANT the role to the user."
        )


def _refusal(error: BaseException | None) -> ConfigurationError:
    said = _said(error)
    if said.startswith(_CREDENTIALS):
        return ConfigurationError(
            "The database refuses this user.",
            hint="Check user and password in the URL, and the user's rights.",
        )
    if said.startswith(_DATABASES):
        return ConfigurationError("The server has no such database.", hint="Check the end of the URL's path.")
    if said == _NO_ROLE:
        return ConfigurationError(
            "The database has no such role.", hint="CREATE ROLE it, and GRANT it SELECT."
        )
    if isinstance(error, TimeoutError):
        return ConfigurationError("The database does not answer.", hint="Check host and port in the URL.")
    if isinstance(error, OSError) or said.startswith("2003"):
        return ConfigurationError(
            "Nobody answers there.", hint="Check host and port in the URL; does it run?"
        )
    return ConfigurationError(
        "The database cannot be opened.", hint="Check that the URL names one, and options it knows."
    )


def _said(error: BaseException | None) -> str:
    """What the driver says went wrong, as a code."""
    state = getattr(error, "sqlstate", None)
    if state:
        return str(state)
    number = next(iter(getattr(error, "args", ())), "")
    return str(number) if isinstance(number, int) else ""
