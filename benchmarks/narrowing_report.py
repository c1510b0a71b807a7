"""What narrowing costs -> a table and Markdown. Every statement is listed, compared or not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from benchmarks.narrowing import MEDIAN, NINETIETH, TENANT_MEASURED, Cost, summary
from benchmarks.report import Report, Section
from tests.tenancy.tenants.tpch_rows import TENANTS

ENGINES = ("sqlite", "postgresql")


def report(costs: Sequence[Cost], overhead: Mapping[str, float]) -> Report:
    """The summary first, then every statement."""
    statements = [_statements(engine, _of(engine, costs)) for engine in ENGINES]
    sections = [_summary(costs, overhead), *statements]
    return Report("narrow", "What narrowing costs", sections, costs, _holds(costs))


def _holds(costs: Sequence[Cost]) -> bool:
    """Whether both floors hold on each engine, and no statement answered other rows than by hand."""
    rows = [summary(_of(engine, costs)) for engine in ENGINES]
    return all(middle <= MEDIAN and high <= NINETIETH for middle, high in rows) and not any(
        "DIFFER" in cost.problem for cost in costs
    )


def _of(engine: str, costs: Sequence[Cost]) -> list[Cost]:
    return [cost for cost in costs if cost.engine == engine]


def _summary(costs: Sequence[Cost], overhead: Mapping[str, float]) -> Section:
    lines = []
    for engine in ENGINES:
        middle, high = summary(_of(engine, costs))
        compared = sum(not cost.problem for cost in _of(engine, costs))
        lines.append((engine, str(compared), f"{middle:.3f}", f"{high:.3f}"))
    apart = ", ".join(f"{name} {seconds * 1000:.2f} ms" for name, seconds in overhead.items())
    return Section(
        "Narrowed against conditions by hand",
        f"The database's time for the same rows, fastest of many runs in turns; {len(TENANTS)} tenants, one "
        f"with {TENANT_MEASURED.size:g} of the largest one's rows. Floors: {MEDIAN} at the median, {NINETIETH} "
        f"at the 90th percentile. With SQLAlchemy's share, a row by its key on SQLite, two row filters "
        f"registered: {apart}.",
        ("engine", "statements", "median ratio", "90th percentile"),
        lines,
    )


def _statements(engine: str, costs: Sequence[Cost]) -> Section:
    return Section(
        f"Statement by statement, {engine}",
        "Milliseconds. Results of many rows are counted.",
        ("statement", "rows", "by hand", "narrowed", "ratio"),
        [_line(cost) for cost in costs],
    )


def _line(cost: Cost) -> tuple[str, ...]:
    if cost.problem:
        return (cost.statement, "", "", "", cost.problem)
    by_hand, narrowed = f"{cost.by_hand * 1000:.2f}", f"{cost.narrowed * 1000:.2f}"
    return (cost.statement, f"{cost.rows:,}", by_hand, narrowed, f"{cost.ratio:.2f}")
