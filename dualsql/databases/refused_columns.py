"""The error for a statement that returns other columns than are described. Loaded with the first one."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from dualsql.errors import QueryExecutionError

_log = logging.getLogger(__name__)


def other_columns(names: Sequence[str], described: Sequence[str]) -> QueryExecutionError:
    """The error, without the names, which are logged."""
    _log.error("The database returned the columns %r where %r are described.", list(names), list(described))
    return QueryExecutionError(
        f"The database returned {len(names)} columns that differ from the {len(described)} columns of the result.",
        hint="No row was sent. Tell the operator: the server's log names the columns.",
        developer_hint="No row was sent. Each literal_column() has to stand for one column. If the statement has none, "
        "this is a bug in dualsql: report the columns that the log names.",
    )
