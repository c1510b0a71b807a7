"""`python -m benchmarks`: measure, print, keep; exits with 1 when a floor does not hold or a result is not kept.

A result is kept only of five rounds or more, and if other processes took less than a tenth of a core meanwhile.
"""

from __future__ import annotations

import argparse
import sys
from importlib import import_module
from pathlib import Path
from time import perf_counter

from rich.console import Console

from benchmarks.one_part import in_own_process
from benchmarks.plan import MINUTES, ROUNDS, chosen


def main() -> int:
    """Run the parts asked for; without names, all."""
    arguments = _arguments().parse_args()
    console = Console(width=110)
    names, start = chosen(arguments.only), perf_counter()
    console.print(f"About {sum(MINUTES[name] for name in names)} minutes: {', '.join(names)}.")
    is_kept = arguments.rounds >= ROUNDS and not arguments.small
    # What measures needs packages that `--help` must not need.
    parts = import_module("benchmarks.parts")
    options = parts.Options(arguments.rounds, arguments.reference, arguments.small)
    results = [in_own_process(name, options, is_kept=is_kept) for name in names]
    figures = import_module("benchmarks.figures")
    if is_kept:
        figures.write()
        pictures = import_module("benchmarks.chart").draw()
        console.print("Drawn:", *(path.name for path in pictures))
    console.print(f"{(perf_counter() - start) / 60:.0f} minutes in all.")
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


if __name__ == "__main__":
    sys.exit(main())
