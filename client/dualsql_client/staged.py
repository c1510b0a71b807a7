"""SQL over a stored result, every row of its answer; the rule: pages are followed to the last one."""

from __future__ import annotations

from dualsql_client.parsed import ParsedDualResponse
from dualsql_client.wire import Row


async def rows_of_sql(parsed: ParsedDualResponse, sql: str) -> list[Row]:
    """All rows that one SELECT over the relation `data` gives.

    Raises what `ParsedDualResponse.sql` raises.
    """
    page = await parsed.sql(sql)
    rows = list(page.data)
    while page.has_next:
        if page.next_cursor is None:
            page = await parsed.sql(sql, offset=len(rows))
        else:
            page = await parsed.sql(sql, cursor=page.next_cursor)
        rows += page.data
    return rows
