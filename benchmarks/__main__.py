"""`python -m benchmarks`: measure, print, keep; exits with 1 when a floor does not hold."""

from __future__ import annotations

import argparse
import asyncio
import sys
from pathlib import Path

from rich.console import Console
from rich.progress import Progress

from benchmarks import creating, fetching, narrowing, narrowing_report, report
from benchmarks.flights import FILE, database

FOLDER = FILE.parent


def main() -> int:
    """Run what was asked for; without a choice, all but narrowing, which takes ten minutes by itself."""
    parser = argparse.ArgumentParser(prog="make bench ARGS=", description=__doc__)
    parser.add_argument("--only", choices=["create", "fetch", "narrow"], help="measure one part")
    only = parser.parse_args().only
    console = Console(width=100)
    if only == "narrow":
        return asyncio.run(_narrowing(console))
    with console.status("building the database"):
        path = database()
    creations = asyncio.run(_creations(path, console)) if only != "fetch" else []
    fetched = asyncio.run(_fetching(path, console)) if only != "create" else None
    report.show(report.sections(creations, fetched), console)
    if only is None:
        console.print("Kept in", *(str(kept.name) for kept in report.write(creations, fetched)))
    return 0 if all(creation.holds for creation in creations) else 1


async def _narrowing(console: Console) -> int:
    FOLDER.mkdir(exist_ok=True)
    with console.status("two databases of four tenants") as status:
        costs = await narrowing.measure(
            FOLDER.resolve(), lambda cost: status.update(f"{cost.engine}: {cost.statement}")
        )
        overhead = await narrowing.overhead(FOLDER.resolve())
    report.show(narrowing_report.sections(costs, overhead), console)
    console.print("Kept in", narrowing_report.write(costs, overhead).name)
    return 0 if narrowing_report.holds(costs) else 1


async def _creations(path: Path, console: Console) -> list[creating.Creation]:
    with console.status("create_response"):
        return await creating.measure(path)


async def _fetching(path: Path, console: Console) -> fetching.Fetching:
    with Progress(console=console, transient=True) as progress:
        return await fetching.measure(path, progress)


if __name__ == "__main__":
    sys.exit(main())
