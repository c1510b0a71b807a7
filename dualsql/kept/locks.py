"""What kept files need and Windows lacks: locks, by which the processes of a machine take turns, and a flag."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Any

from dualsql.errors import ConfigurationError

fcntl: Any = None
with suppress(ImportError):  # Windows
    import fcntl

NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0)
"""The flag that refuses to open a link."""


def require_locks() -> None:
    """Raise ConfigurationError if this system has no such locks: nothing can be kept there."""
    if fcntl is None:
        raise ConfigurationError(
            "Results cannot be kept on this system: it has no locks on files that end with their process.",
            hint="Leave out the storage of Kept (--keep): results are read from the database.",
        )


def lock_file(file: Any, *, is_shared: bool = False, waits: bool = True) -> None:
    """Lock an open file or its number.

    Raises:
        BlockingIOError: another process has a lock, and `waits` is False.
    """
    require_locks()
    kind = fcntl.LOCK_SH if is_shared else fcntl.LOCK_EX
    fcntl.flock(file, kind if waits else kind | fcntl.LOCK_NB)
