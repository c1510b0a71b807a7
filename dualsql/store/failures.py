"""A database's failures as StorageError; the rule: its own message is chained for the log, never shown.

It can hold a URL, a password or another tenant's value.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy.exc import DBAPIError, IntegrityError, SQLAlchemyError

from dualsql.errors import StorageError
from dualsql.store.files import MissingFileError

MIGRATE_HINT = "Run `dualsql migrate --database URL`."

# undefined_table, undefined_column, invalid_schema_name: PostgreSQL, appendix A.
_MISSING_STATES = frozenset({"42P01", "42703", "3F000"})

# SQLite has one code for every error of a statement; these are its words.
_MISSING_WORDS = ("no such table", "no such column", "has no column named")


@contextmanager
def storage_errors() -> Iterator[None]:
    """Raise StorageError for whatever the database or the way to it does in the block."""
    try:
        yield
    except SQLAlchemyError as error:
        raise _explained(error) from error
    except MissingFileError as error:
        raise StorageError("The resource store's file is not there.", hint=MIGRATE_HINT) from error
    except OSError as error:  # asyncpg leaves a refused or timed out connection as it is
        raise StorageError("The resource store is out of reach.") from error


def already_stored() -> StorageError:
    """The error for an id that is taken."""
    return StorageError("A resource with this id is already stored.", hint="Store it under a fresh id.")


def _explained(error: SQLAlchemyError) -> StorageError:
    if isinstance(error, IntegrityError):
        return already_stored()
    if isinstance(error, DBAPIError) and _is_schema_missing(error):
        return StorageError(
            "The resource store lacks its tables, or has an older form of them.", hint=MIGRATE_HINT
        )
    return StorageError("The resource store failed.")


def _is_schema_missing(error: DBAPIError) -> bool:
    if getattr(error.orig, "sqlstate", None) in _MISSING_STATES:
        return True
    return any(words in str(error.orig) for words in _MISSING_WORDS)
