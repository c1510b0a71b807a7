"""The work of `dualsql migrate`; the rule: what it reports was read from the database, before and after."""

from __future__ import annotations

from dataclasses import dataclass

from dualsql.store.migrations import current_revision, downgrade, upgrade


@dataclass(frozen=True, slots=True, kw_only=True)
class Migrated:
    """From which revision to which; None is a database without dualsql's tables."""

    before: str | None
    after: str | None

    def __str__(self) -> str:
        if self.before == self.after:
            return f"The database was at {_named(self.after)} already."
        return f"The database went from {_named(self.before)} to {_named(self.after)}."


def migrate(database: str, *, down_to: str | None = None) -> Migrated:
    """Bring the database up to date, or down to a revision ("base": remove everything of dualsql).

    Raises:
        StorageError: the database failed or is out of reach.
        ConfigurationError: the URL cannot be used, or the revision is unknown.
    """
    before = current_revision(database)
    if down_to is None:
        upgrade(database)
    else:
        downgrade(database, down_to)
    return Migrated(before=before, after=current_revision(database))


def _named(revision: str | None) -> str:
    return "no revision" if revision is None else f"revision {revision}"
