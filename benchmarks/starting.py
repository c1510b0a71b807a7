"""What is waited for before the first request: the import, `dualsql serve --all` on a thousand tables, and over stdio.

Bytecode is in place. The import is compared with one of every module of other packages that it loads, and the server
over stdio with one of the MCP SDK that has one tool, in turns, each in an interpreter of its own.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from time import perf_counter
from typing import TextIO

from mcp import Client, StdioServerParameters, stdio_client

from benchmarks.machine import process
from benchmarks.processes import dualsql_serve
from benchmarks.report import Report, Section, verdict
from benchmarks.timing import median_of

TIMES, SECONDS, STDIO_TIMES = 1.2, 5.0, 1.25
IMPORTS, TABLES = 20, 1_000

OWN = "from dualsql import DualResponseServer"
_LOADED = f"""
import sys
before = set(sys.modules)
{OWN}
own = sys.stdlib_module_names.union(("dualsql", "dualsql_client"))
print(*(name for name in sys.modules if name not in before and name.partition(".")[0] not in own))
"""
_OTHERS = """
from contextlib import suppress
from importlib import import_module
for name in {names}:
    with suppress(ImportError):  # what an extension registers is no file
        import_module(name)
"""
_BARE = """
from mcp.server import MCPServer
server = MCPServer("bare")
@server.tool()
def greet(name: str) -> str:
    return name
server.run("stdio")
"""
_SERVE = "from dualsql.cli import main; main()"

Note = Callable[[str], object]


@dataclass(frozen=True)
class Import:
    """Median CPU seconds of interpreters that import the server, and the other packages that it needs."""

    seconds: float
    others: float
    packages: Sequence[str]

    @property
    def ratio(self) -> float:
        return self.seconds / self.others

    @property
    def holds(self) -> bool:
        return self.ratio <= TIMES


@dataclass(frozen=True)
class Start:
    """Median seconds until `dualsql serve --all` has read the tables and answers, and those of CPU."""

    tables: int
    answered: float
    cpu: float

    @property
    def holds(self) -> bool:
        return self.answered < SECONDS


@dataclass(frozen=True)
class Stdio:
    """Median seconds until `dualsql serve --stdio --all` has listed its tools, and until a bare server has."""

    listed: float
    bare: float

    @property
    def ratio(self) -> float:
        return self.listed / self.bare

    @property
    def holds(self) -> bool:
        return self.ratio <= STDIO_TIMES


def measure(folder: Path, note: Note, rounds: int) -> tuple[Import, Start, Stdio]:
    """All three; the file of the tables is made in the folder."""
    note("imports")
    imported = _imported()
    note(f"dualsql serve on {TABLES:,} tables")
    path = _tables(folder / "thousand.sqlite")
    times = [_started(path) for _ in range(rounds + 1)][1:]  # the first writes bytecode
    answered, cpu = ([each[place] for each in times] for place in (0, 1))
    start = Start(TABLES, median_of("answered, s", answered), median_of("answered: CPU, s", cpu))
    note("dualsql serve --stdio")
    with Path(os.devnull).open("w") as log:
        return imported, start, asyncio.run(_over_stdio(path, rounds, log))


def _imported() -> Import:
    names = _python(_LOADED).split()
    programs = {"dualsql": OWN, "the others": _OTHERS.format(names=names)}
    times: dict[str, list[float]] = {name: [] for name in programs}
    for number in range(IMPORTS + 1):
        for name, program in programs.items():
            before = _of_children()
            _python(program)
            if number:  # the first writes bytecode
                times[name].append(_of_children() - before)
    seconds, others = (median_of(f"import, {name}: CPU, s", times) for name, times in times.items())
    packages = {name.partition(".")[0] for name in names if not name.startswith("_")}
    return Import(seconds, others, sorted(packages))


def _python(program: str) -> str:
    command = [sys.executable, "-c", program]
    return subprocess.run(command, env=_variables(), check=True, text=True, stdout=subprocess.PIPE).stdout


def _variables() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def _of_children() -> float:
    used = getrusage(RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _tables(path: Path) -> Path:
    """Tables of ten columns, each of which refers to the one before."""
    path.unlink(missing_ok=True)
    columns = (
        "id INTEGER PRIMARY KEY, name VARCHAR(20) NOT NULL, amount NUMERIC(10, 2), created DATETIME, a INTEGER, "
        "b INTEGER, c TEXT, d REAL, e BOOLEAN"
    )
    with closing(sqlite3.connect(path)) as connection, connection:
        for number in range(TABLES):
            other = f"other INTEGER REFERENCES table_{max(0, number - 1)} (id)"
            connection.execute(f"CREATE TABLE table_{number} ({columns}, {other})")
    return path


def _started(path: Path) -> tuple[float, float]:
    """Seconds until it answers, and those of CPU."""
    start = perf_counter()
    with dualsql_serve(path) as server:
        return perf_counter() - start, process(server.pid).own


async def _over_stdio(path: Path, rounds: int, log: TextIO) -> Stdio:
    commands = {"dualsql": ["-c", _SERVE, "serve", "--stdio", str(path), "--all"], "bare": ["-c", _BARE]}
    times: dict[str, list[float]] = {name: [] for name in commands}
    for number in range(rounds + 1):
        for name, arguments in commands.items():
            seconds = await _listed(arguments, log)
            if number:  # the first writes bytecode
                times[name].append(seconds)
    listed, bare = (median_of(f"tools listed, {name}, s", each) for name, each in times.items())
    return Stdio(listed, bare)


async def _listed(arguments: list[str], log: TextIO) -> float:
    """Seconds until a server over stdio has listed its tools."""
    server = StdioServerParameters(command=sys.executable, args=arguments, env=_variables())
    start = perf_counter()
    async with Client(stdio_client(server, errlog=log)) as client:
        await client.list_tools()
        return perf_counter() - start


def report(imported: Import, start: Start, stdio: Stdio) -> Report:
    """Three tables."""
    sections = [_of_import(imported), _of_start(start), _of_stdio(stdio)]
    return Report(
        "start",
        "Starting",
        sections,
        [imported, start, stdio],
        imported.holds and start.holds and stdio.holds,
    )


def _of_import(imported: Import) -> Section:
    return Section(
        "The import",
        f"`{OWN}`, against an import of all modules of other packages that it loads ({', '.join(imported.packages)}). "
        f"CPU milliseconds of interpreters, medians; at most {TIMES:g} times.",
        ("dualsql", "the others", "times", ""),
        [
            (
                f"{imported.seconds * 1e3:.0f}",
                f"{imported.others * 1e3:.0f}",
                f"{imported.ratio:.2f}",
                verdict(holds=imported.holds),
            )
        ],
    )


def _of_start(start: Start) -> Section:
    return Section(
        "A thousand tables",
        f"`dualsql serve --all` on a SQLite file, until it has read the tables and answers; less than {SECONDS:g} s.",
        ("tables", "answered, s", "CPU, s", ""),
        [(f"{start.tables:,}", f"{start.answered:.2f}", f"{start.cpu:.2f}", verdict(holds=start.holds))],
    )


def _of_stdio(stdio: Stdio) -> Section:
    return Section(
        "Over stdio",
        "From the start of `dualsql serve --stdio --all` on that file to its list of tools, against a server of the "
        f"MCP SDK with one tool; medians, at most {STDIO_TIMES:g} times.",
        ("dualsql, s", "bare, s", "times", ""),
        [(f"{stdio.listed:.2f}", f"{stdio.bare:.2f}", f"{stdio.ratio:.2f}", verdict(holds=stdio.holds))],
    )
