"""What a server holds while it streams. The same for one million rows and for five."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from benchmarks.bare import csv_rows
from benchmarks.flights import ROWS, TIMES_FIVE
from benchmarks.report import Report, Section, verdict
from benchmarks.streaming import Server, served

MEBIBYTE = 1024 * 1024
CEILING, PARQUET_CEILING = 40 * MEBIBYTE, 120 * MEBIBYTE
FORMATS = {
    "SQLite": ("ndjson", "json", "csv", "arrow", "parquet", "xlsx"),
    "PostgreSQL": ("ndjson", "csv", "arrow", "parquet"),
}
"""Of PostgreSQL one of each backend, and Parquet, which takes most. JSON and Excel are made of the rows of NDJSON."""


@dataclass(frozen=True)
class Peak:
    """Bytes above the idle server, at the most, while one stream was read."""

    engine: str
    format: str
    rows: int
    above_idle: int

    @property
    def ceiling(self) -> int:
        return PARQUET_CEILING if self.format == "parquet" else CEILING

    @property
    def holds(self) -> bool:
        return self.above_idle <= self.ceiling


async def measure(engine: str, url: str, note: Callable[[str], object]) -> list[Peak]:
    """One million rows and five, in every format, each in a server that has streamed a few rows before."""
    peaks = []
    for form in FORMATS[engine]:
        for name, rows in (("flights", ROWS), ("five times", ROWS * TIMES_FIVE)):
            note(f"{engine}: {form}, {rows:,} rows")
            async with served(url) as server:
                peaks.append(Peak(engine, form, rows, await _above_idle(server, name, form)))
    return peaks


async def _above_idle(server: Server, name: str, form: str) -> int:
    result = await server.result(name)
    rows = f"{result.resource_url}/rows?format={form}"
    # What is imported on first use belongs to the idle server; a process that reads for it does not.
    await csv_rows(server.http, f"{rows}&limit=10")
    idle = server.process.resident()
    server.process.forget_peak()
    await csv_rows(server.http, rows)
    return server.process.peak() - idle


def report(peaks: Sequence[Peak]) -> Report:
    """Every peak beside its ceiling."""
    section = Section(
        "Memory of a streaming server above the idle one, at the most, in MiB",
        "Linux's VmHWM of the uvicorn process and of those it starts, while one client reads the whole stream, less "
        "what it held before; imports are behind it.",
        ("format", "engine", "rows", "MiB", "ceiling", ""),
        [
            (
                peak.format,
                peak.engine,
                f"{peak.rows:,}",
                f"{peak.above_idle / MEBIBYTE:.1f}",
                f"{peak.ceiling / MEBIBYTE:g}",
                verdict(holds=peak.holds),
            )
            for peak in peaks
        ],
    )
    return Report("memory", "What a stream holds", [section], peaks, all(peak.holds for peak in peaks))
