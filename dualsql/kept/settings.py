"""The settings of kept results."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from dualsql.errors import ConfigurationError
from dualsql.settings import KeepOption, SettingsGroup, is_keep_option, setting

if TYPE_CHECKING:
    from dualsql.kept.storage import ResultStorage

LEAST_KEEP_MEMORY = 256 * 1024**2
"""Bytes with which one file can be written while another one is read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptSettings(SettingsGroup):
    """The arguments of `Kept`."""

    storage: ResultStorage | str | Path | None = field(default=None, kw_only=False)
    keep: KeepOption = setting(
        "slow",
        "Which results are kept in the `storage` if the tool does not say: all (True), none (False), or those of "
        'slow queries ("slow", see `keep_after`).',
        is_checked=False,
    )
    keep_after: timedelta = setting(
        timedelta(seconds=2),
        'With keep="slow": if sample and total are not there after so long, or after `wait` if that is shorter, the '
        "query is stopped and run again as one whose rows are kept.",
    )
    keep_for: timedelta = setting(
        timedelta(days=1),
        "How old the rows of a kept result may be, also of a pinned one. Then they are read from the database again.",
        positive=True,
    )
    keep_rows: int = setting(
        10_000_000, "The most rows of one kept result. A larger one is read from its database.", positive=True
    )
    keep_bytes: int = setting(
        4 * 1024**3,
        "The largest file of one kept result. A larger one is read from its database.",
        positive=True,
    )
    keep_quota: int | None = setting(
        16 * 1024**3,
        "Bytes that the kept rows of one principal may take, and those of all callers without one together; None for "
        "no limit. Further results are read from their database.",
        positive=True,
    )
    keep_total: int | None = setting(
        64 * 1024**3,
        "Bytes that all files of the storage may take; None for no limit. Further results are read from their "
        "database.",
        positive=True,
    )
    keep_memory: int = setting(
        2 * 1024**3,
        "Bytes of memory with which a process reads and writes the files of kept results: divided among at most 16 "
        "files that are open at once.",
        positive=True,
    )
    keep_cache: str = setting(
        "",
        "If the `storage` is the URL of an object store: the folder of the copies that are read. By default "
        "`dualsql/kept` in the cache folder of the user.",
    )
    keep_cache_bytes: int = setting(
        16 * 1024**3,
        "Bytes that these copies may take together; more than `keep_bytes`.",
        positive=True,
    )
    keep_past_rule_changes: bool = setting(
        False,
        "Keep results also under hooks that are functions, row filters with subqueries, and row security. A change of "
        "what these read is not seen: a reader gets the kept rows until `keep_for` is over.",
    )

    def __post_init__(self) -> None:
        """Raise ConfigurationError for an invalid value."""
        SettingsGroup.__post_init__(self)
        if self.keep_memory < LEAST_KEEP_MEMORY:
            raise ConfigurationError(f"keep_memory must be at least {LEAST_KEEP_MEMORY}.")
        if not is_keep_option(self.keep):
            raise ConfigurationError('keep must be True, "slow" or False.')
