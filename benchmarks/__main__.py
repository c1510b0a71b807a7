"""`python -m benchmarks`: measure, print, keep; exits with 1 when a floor does not hold or a result is not kept.

A result is kept only of five rounds or more, and if other processes took less than a tenth of a core meanwhile.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Callable, Coroutine
from importlib import import_module
from pathlib import Path
from typing import Any

from rich.console import Console

from benchmarks import machine, report, timing
from benchmarks.plan import MINUTES, ROUNDS, chosen


def main() -> int:
    """Run the parts asked for; without names, all."""
    arguments = _arguments().parse_args()
    console = Console(width=110)
    names = chosen(arguments.only)
    console.print(f"About {sum(MINUTES[name] for name in names)} minutes: {', '.join(names)}.")
    is_kept = arguments.rounds >= ROUNDS and not arguments.small
    # What measures needs packages that `--help` must not need.
    parts = import_module("benchmarks.parts")
    options = parts.Options(arguments.rounds, arguments.reference, arguments.small)
    results = [_measured(parts.PARTS[name], name, options, console, is_kept=is_kept) for name in names]
    figures = import_module("benchmarks.figures")
    if is_kept:
        figures.write()
        pictures = import_module("benchmarks.chart").draw()
        console.print("Drawn:", *(path.name for path in pictures))
    console.print("Older than the code:", ", ".join(figures.outdated()) or "none")
    return 0 if all(results) else 1


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="make bench ARGS=", description=__doc__)
    about = ", ".join(f"{name} {minutes}" for name, minutes in MINUTES.items())
    parser.add_argument(
        "--only",
        choices=list(MINUTES),
        nargs="+",
        action="extend",
        metavar="PART",
        help=f"measure these; minutes of each: {about}",
    )
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="runs of which the median is taken")
    parser.add_argument(
        "--small", action="store_true", help="less of what takes long, to see that it runs; nothing is kept"
    )
    parser.add_argument(
        "--reference",
        type=Path,
        help="the folder example/server of github.com/freezer333/mcp-rlp, to compare with",
    )
    return parser


def _measured(
    measure: Callable[[Callable[[str], object], Any], Coroutine[Any, Any, report.Report]],
    name: str,
    options: object,
    console: Console,
    *,
    is_kept: bool,
) -> bool:
    """Measure one part. Returns whether its floors hold and its result could be kept."""
    with timing.recording() as rounds, machine.watching() as watch, console.status(name) as status:
        try:
            part = asyncio.run(measure(lambda doing: status.update(f"{name}: {doing}"), options))
        except (Exception, SystemExit) as error:  # noqa: BLE001 - other parts can still be measured
            console.print(f"{name}: NOT MEASURED. {type(error).__name__}: {error}", markup=False)
            return False
    report.show(part, console)
    if rounds:
        report.show_section(report.spread(rounds), console)
    console.print(f"{name}: {report.floors(part)} Meanwhile, {watch}.")
    if not watch.is_quiet:
        console.print(f"{name}: NOT KEPT, because the machine was not idle. The last result stays.")
        return False
    if is_kept:
        console.print("Kept in", *(path.name for path in report.keep(part, rounds, str(watch))))
    return part.holds is not False


if __name__ == "__main__":
    sys.exit(main())
