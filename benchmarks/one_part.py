"""One part of the benchmarks, measured in a process of its own."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Coroutine
from importlib import import_module
from multiprocessing import get_context
from time import perf_counter
from typing import Any

from rich.console import Console

from benchmarks import machine, report, timing


def in_own_process(name: str, options: object, *, is_kept: bool) -> bool:
    """Measure one part where no other has been: after some, keeping rows took twice as long in the same process."""
    process = get_context("spawn").Process(target=_part, args=(name, options, is_kept))
    process.start()
    process.join()
    return process.exitcode == 0


def _part(name: str, options: object, is_kept: bool) -> None:
    measure = import_module("benchmarks.parts").PARTS[name]
    sys.exit(0 if _measured(measure, name, options, Console(width=110), is_kept=is_kept) else 1)


def _measured(
    measure: Callable[[Callable[[str], object], Any], Coroutine[Any, Any, report.Report]],
    name: str,
    options: object,
    console: Console,
    *,
    is_kept: bool,
) -> bool:
    """Measure one part. Returns whether its floors hold and its result could be kept."""
    start = perf_counter()
    with timing.recording() as rounds, machine.watching() as watch, console.status(name) as status:
        try:
            part = asyncio.run(measure(lambda doing: status.update(f"{name}: {doing}"), options))
        except (Exception, SystemExit) as error:  # noqa: BLE001 - other parts can still be measured
            console.print(f"{name}: NOT MEASURED. {type(error).__name__}: {error}", markup=False)
            return False
    report.show(part, console)
    if rounds:
        report.show_section(report.spread(rounds), console)
    minutes = (perf_counter() - start) / 60
    console.print(f"{name}: {report.floors(part)} It took {minutes:.1f} minutes. Meanwhile, {watch}.")
    if not watch.is_quiet:
        console.print(f"{name}: NOT KEPT, because the machine was not idle. The last result stays.")
        return False
    if is_kept:
        console.print("Kept in", *(path.name for path in report.keep(part, rounds, str(watch))))
    return part.holds is not False
