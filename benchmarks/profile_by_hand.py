"""The figures of a profile as a careful developer asks for them. Written before the feature, and left alone.

One statement for what a single pass gives, and for each column one for its histogram and one for its most frequent
values. Nothing of dualsql is in it: `benchmarks.profiling` sends these texts to the driver itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

TEXTS = ("carrier", "tailnum", "origin", "dest")
INSTANT = "time_hour"
NUMBERS = (
    "id", "year", "month", "day", "dep_time", "sched_dep_time", "dep_delay", "arr_time", "sched_arr_time",
    "arr_delay", "flight", "air_time", "distance", "hour", "minute",
)  # fmt: skip
COLUMNS = (*NUMBERS, *TEXTS, INSTANT)

_SECONDS: Mapping[str, str] = {
    "SQLite": "unixepoch(time_hour)",
    "PostgreSQL": "CAST(extract(epoch FROM time_hour) AS bigint)",
}


def statements(engine: str) -> Sequence[str]:
    """All of them for one of the two engines, on the table `flights`."""
    binned = {name: name for name in NUMBERS} | {INSTANT: _SECONDS[engine]}
    return [
        _summary(),
        *(_histogram(value) for value in binned.values()),
        *(_most_frequent(name) for name in COLUMNS),
    ]


def _summary() -> str:
    each = ", ".join(f"count({c}), count(DISTINCT {c}), min({c}), max({c})" for c in COLUMNS)
    longest = ", ".join(f"max(length({c}))" for c in TEXTS)
    return f"SELECT count(*), {each}, {longest} FROM flights"


def _histogram(value: str) -> str:
    return f"""
        WITH bounds AS (SELECT min({value}) AS lowest, max({value}) AS highest FROM flights)
        SELECT CASE WHEN {value} = highest THEN 9
               ELSE ({value} - lowest) * 10 / nullif(highest - lowest, 0) END AS bin, count(*)
        FROM flights, bounds WHERE {value} IS NOT NULL GROUP BY 1
    """


def _most_frequent(name: str) -> str:
    return f"SELECT {name}, count(*) FROM flights GROUP BY {name} ORDER BY 2 DESC LIMIT 5"
