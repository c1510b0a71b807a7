"""Samples of five rows with their counts, below a server."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

from dualsql.databases.fetch import Fetch, RowCounter, Sample, fetch_sample
from dualsql.databases.source import Source
from dualsql.plan import shape
from dualsql.resource import parse_count
from dualsql.results.view import Derived
from dualsql.settings import Settings
from dualsql.tenancy import Policy

MINUTE = timedelta(minutes=1)


def counter(source: Source, statement: Any, **settings: Any) -> RowCounter:
    """Of a statement as it is, without its sample."""
    rules = Policy(source.registry).rules_for(None)
    return RowCounter(
        source=source,
        shape=shape(statement),
        counting=Derived(statement).counting,
        rules=rules,
        settings=Settings(**settings),
        may_estimate=True,
    )


def first_rows(counting: RowCounter, statement: Any) -> Fetch:
    """Six rows."""
    return Fetch(
        source=counting.source,
        select=lambda: statement.limit(6),
        rules=counting.rules,
        described=("",) * len(statement.selected_columns),
        timeout=counting.settings.query_timeout,
    )


async def sampled(source: Source, statement: Any, how: str, **settings: Any) -> Sample:
    """Five rows and the total, once the session has ended, so that the next has the same connection."""
    counting = counter(source, statement, **{"count_head_start": MINUTE, **settings})
    sample = await fetch_sample(first_rows(counting, statement), counting, parse_count(how), size=5)
    await asyncio.gather(*source.finishing)
    return sample
