"""What it costs to store a Select: the 22 queries of TPC-H, each built anew, the least of many runs.

`python -m benchmarks.freezing` prints the medians over the queries beside issue 3's bounds.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from time import perf_counter
from typing import Any

from sqlalchemy.dialects import postgresql

from dualsql.freeze import Registry, freeze, thaw
from dualsql.freeze.codec import Encoder
from dualsql.freeze.document import AnySelect, deflate, dump
from tests.tenancy.tenants import queries, tpch

RUNS = 40
DIALECT = postgresql.dialect()  # type: ignore[no-untyped-call]
REGISTRY = Registry([*tpch.SHARED, *tpch.OWNED])
BUILDERS: list[Callable[[], AnySelect]] = [
    getattr(queries, name.partition(" ")[2].replace(" ", "_")) for name in queries.QUERIES
]


@dataclass(frozen=True, slots=True)
class Cost:
    """Seconds of one query, and the bytes of its document."""

    encode: float
    freeze: float
    decode: float
    size: int


def least(prepare: Callable[[], object], work: Callable[[object], object]) -> float:
    """Seconds of the quickest run; what is prepared for each run is not counted."""
    times = []
    for _ in range(RUNS):
        prepared = prepare()
        start = perf_counter()
        work(prepared)
        times.append(perf_counter() - start)
    return min(times)


def encoded(statement: object) -> bytes:
    """The document of a statement, without reading it back."""
    encoder = Encoder(REGISTRY)
    body = {"nodes": encoder.encode(statement), "print": REGISTRY.fingerprint(encoder.dependencies)}
    return deflate(dump(body, REGISTRY.maximum_size))


def cost(build: Callable[[], AnySelect]) -> Cost:
    """What one query costs; a statement is measured once, as an application passes it once."""
    document = freeze(build(), REGISTRY, dialect=DIALECT)
    return Cost(
        encode=least(build, encoded),
        freeze=least(build, lambda statement: freeze(statement, REGISTRY, dialect=DIALECT)),  # type: ignore[arg-type]
        decode=least(lambda: document, lambda document: thaw(document, REGISTRY)),  # type: ignore[arg-type]
        size=len(document),
    )


def _compile(statement: Any) -> object:
    return statement.compile(dialect=DIALECT)


def main() -> int:
    """Print the medians; 1 when a bound of issue 3 does not hold."""
    costs = [cost(build) for build in BUILDERS]
    rows = [
        ("encode", median(cost.encode for cost in costs) * 1e6, 250, "us"),
        ("freeze, proof included", median(cost.freeze for cost in costs) * 1e6, 1_200, "us"),
        ("decode", median(cost.decode for cost in costs) * 1e6, 250, "us"),
        ("document", median(cost.size for cost in costs), 900, "bytes"),
    ]
    compiled = median(least(build, _compile) for build in BUILDERS)
    print(f"one compile by SQLAlchemy {compiled * 1e6:7.0f} us  (the proof makes two)")
    for name, figure, bound, unit in rows:
        print(f"{name:24s} {figure:8.0f} {unit}  (at most {bound})")
    return 0 if all(figure < bound for _, figure, bound, _ in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
