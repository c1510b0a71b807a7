"""Which resource of a `MemoryStore` makes room for another one. Loaded when two thirds of the store are in use.

A quarter of the capacity is for principals only. Of what the groups of principals, or the others, may use, the last
tenth is for groups below an equal share.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from dualsql.errors import LimitExceededError
from dualsql.store.rows import Row


def ids_to_evict(rows: Mapping[str, Row], group: Sequence[Any], maximum: int) -> Sequence[str]:
    """The ids to delete before the group saves one more resource: none, or that of its oldest unpinned one.

    Args:
        rows: by id, in the order of their creation.

    Raises:
        LimitExceededError: the group may use no free capacity, and has no unpinned resource.
    """
    sizes = Counter(row["group"] for row in rows.values())
    is_named = group[0] == "principal"
    alike = {each: size for each, size in sizes.items() if (each[0] == "principal") == is_named}
    used = sum(alike.values())
    others = len(rows) - used
    capacity = maximum - (others if is_named else max(others, maximum // 4))
    is_modest = sizes[group] < capacity // (len(alike.keys() | {group}) + 1)
    if capacity - used > (0 if is_modest else maximum // 10):
        return ()
    theirs = (key for key, row in rows.items() if row["group"] == group)
    oldest = next((key for key in theirs if rows[key]["expires_at"] is not None), None)
    if oldest is None:
        raise LimitExceededError(
            f"This server keeps at most {maximum:,} resources, and none of the caller's can make room.",
            hint="Try again when other results have expired, or delete a pinned one.",
            developer_hint="The store in memory is full. Use a database: store=SQLResourceStore(url).",
        )
    return (oldest,)
