"""What narrowing costs -> a table and Markdown; the rule: every statement is listed, compared or not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks import machine
from benchmarks.narrowing import MEDIAN, NINETIETH, TENANT_MEASURED, Cost, summary
from benchmarks.report import FOLDER, Section, markdown_table
from tests.tenants.tpch_rows import TENANTS

ENGINES = ("sqlite", "postgresql")


def holds(costs: Sequence[Cost]) -> bool:
    """Whether both floors hold on each engine, and no statement answered other rows than by hand."""
    found = [summary(_of(engine, costs)) for engine in ENGINES]
    return all(middle <= MEDIAN and high <= NINETIETH for middle, high in found) and not any(
        "DIFFER" in cost.problem for cost in costs
    )


def sections(costs: Sequence[Cost], overhead: Mapping[str, float]) -> list[Section]:
    """The summary first, then every statement."""
    return [_summary(costs, overhead), *(_statements(engine, _of(engine, costs)) for engine in ENGINES)]


def write(costs: Sequence[Cost], overhead: Mapping[str, float]) -> Path:
    """Keep the tables."""
    tables = "\n\n".join(
        f"## {section.title}\n\n{section.explanation}\n\n{markdown_table(section)}"
        for section in sections(costs, overhead)
    )
    where = "\n".join(f"| {name} | {value} |" for name, value in machine.describe().items())
    kept = FOLDER / "narrowing.md"
    kept.write_text(f"# What narrowing costs\n\n{tables}\n\n## Where\n\n| | |\n|---|---|\n{where}\n", "utf-8")
    return kept


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
