"""`python -m benchmarks`: measure, print, keep; exits with 1 when a floor does not hold."""

from __future__ import annotations

import argparse
import asyncio
import sys
from pathlib import Path

from rich.console import Console

from benchmarks import chart, parts, report


def main() -> int:
    """Run the parts asked for; all but narrowing, which takes ten minutes by itself, when none is."""
    parser = argparse.ArgumentParser(prog="make bench ARGS=", description=__doc__)
    parser.add_argument("--only", choices=list(parts.PARTS), action="append", help="measure one part")
    parser.add_argument("--rounds", type=int, default=parts.ROUNDS, help="runs of which the median is taken")
    parser.add_argument(
        "--reference",
        type=Path,
        help="the folder example/server of github.com/freezer333/mcp-rlp, to compare with",
    )
    asked = parser.parse_args()
    options = parts.Options(asked.rounds, asked.reference)
    console = Console(width=110)
    chosen = asked.only or [name for name in parts.PARTS if name != "narrow"]
    found = [asyncio.run(_measured(name, options, console)) for name in chosen]
    if asked.rounds == parts.ROUNDS:
        kept = [path for part in found for path in report.keep(part)]
        console.print("Kept in", *(path.name for path in [*kept, *chart.draw()]))
    return 0 if all(part.holds for part in found) else 1


async def _measured(name: str, options: parts.Options, console: Console) -> report.Report:
    with console.status(name) as status:
        found = await parts.PARTS[name](lambda doing: status.update(f"{name}: {doing}"), options)
    report.show(found, console)
    return found


if __name__ == "__main__":
    sys.exit(main())
