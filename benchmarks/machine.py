"""Where, with what and beside what a figure was measured. Nothing that names the machine or its owner."""

from __future__ import annotations

import ast
import ctypes
import os
import platform
import sqlite3
import subprocess
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

PACKAGES = (
    "sqlalchemy", "aiosqlite", "asyncpg", "duckdb", "pyarrow", "starlette", "uvicorn", "uvloop", "orjson", "httpx",
    "pydantic", "backports.zstd",
)  # fmt: skip
PEERS = ("adbc-driver-sqlite", "adbc-driver-postgresql", "datasette", "fastapi-pagination")

MOST_BESIDE = 0.10
"""Of a core: what other processes may take while figures are measured."""

_WRITTEN = (":!/docs/performance.*", ":!/docs/reliability.md", ":!/docs/scaling.md")
"""Documents into which results are written (as pathspecs of git)."""

_PAUSE = 1.0
_KERNEL = 2
"""The process id of kthreadd (Linux). Its children write our pages to the disk."""


def describe() -> dict[str, str]:
    """Processor, interpreter, versions of what is measured and of its peers, and the commit."""
    return {
        "processor": f"{_processor()}, {os.cpu_count()} cores",
        "system": f"{platform.system()} {platform.machine()}",
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "sqlite": sqlite3.sqlite_version,
        **{name: version for name in (*PACKAGES, *PEERS) if (version := _version(name))},
        "commit": commit(),
    }


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or "unknown processor"
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def commit() -> str:
    """The commit that is measured, with `-dirty` if files differ from it. Results do not count."""
    version = ["git", "describe", "--always"]
    status = ["git", "status", "--porcelain", "--", ":/", ":!/benchmarks/results", *_WRITTEN]
    name, changes = (
        subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
        for command in (version, status)
    )
    return (name or "unknown") + ("-dirty" if changes else "")


def is_current(commit: str) -> bool:
    """Whether both packages do today what they did in that commit: their layout and comments may be others."""
    commit = commit.removesuffix("-dirty")
    packages = [":/dualsql", ":/client/dualsql_client"]
    try:
        names = _git("diff", "--name-only", "--no-relative", commit, "--", *packages).split()
        root = Path(_git("rev-parse", "--show-toplevel").strip())
        return all(
            _program(_git("show", f"{commit}:{name}")) == _program((root / name).read_text())
            for name in names
        )
    except (subprocess.CalledProcessError, OSError, SyntaxError):  # unknown, new, deleted, or no Python
        return False


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], capture_output=True, check=True, text=True).stdout


def _program(text: str) -> str:
    return ast.dump(ast.parse(text))


class Process(NamedTuple):
    """A process, as /proc has it: CPU seconds of its own, and of its children that have ended."""

    parent: int
    name: str
    own: float
    ended: float


def processes() -> dict[int, Process]:
    """All processes, by their ids."""
    versions = {}
    for file in Path("/proc").glob("[0-9]*/stat"):
        pid = int(file.parent.name)
        with suppress(OSError):  # it has ended
            versions[pid] = process(pid)
    return versions


def process(pid: int) -> Process:
    """The process with this id."""
    stat = Path(f"/proc/{pid}/stat").read_text()
    head, _, tail = stat.rpartition(")")  # a name may contain spaces and brackets
    fields = tail.split()
    tick = os.sysconf("SC_CLK_TCK")
    user, system, children_user, children_system = (int(field) / tick for field in fields[11:15])
    return Process(int(fields[1]), head.partition("(")[2], user + system, children_user + children_system)


def others(by_id: Mapping[int, Process], root: int) -> dict[int, Process]:
    """The processes that do not descend from `root`, without those of the kernel."""
    rest = {}
    for pid, process in by_id.items():
        above, place = {pid}, process.parent
        while place in by_id and place not in above:
            above.add(place)
            place = by_id[place].parent
        if not above & {root, _KERNEL}:
            rest[pid] = process
    return rest


class Watch:
    """What other processes take, from `start` to `stop`.

    Attributes:
        seconds: CPU seconds of all of them.
        names: the same by their names, of what was seen alive.
    """

    def __init__(self) -> None:
        self.seconds = 0.0
        self.names: Counter[str] = Counter()
        self._begun = perf_counter()
        self._last: Mapping[int, Process] = others(processes(), os.getpid())

    def look(self) -> None:
        """Add what was taken since the last look."""
        self.add(others(processes(), os.getpid()))

    def add(self, now: Mapping[int, Process]) -> None:
        """Add what the others took until `now`.

        A process that has ended is in `ended` of its parent, so the sum over all includes those that no look met.
        """
        self.seconds += max(0.0, _sum(now) - _sum(self._last))
        for pid, process in now.items():
            before = self._last[pid].own if pid in self._last else 0.0
            self.names[process.name] += max(0.0, process.own - before)  # type: ignore[assignment]
        self._last = now

    @property
    def share(self) -> float:
        """CPU seconds of the others per second."""
        return self.seconds / max(perf_counter() - self._begun, _PAUSE)

    @property
    def is_quiet(self) -> bool:
        """Whether the figures are worth keeping."""
        return self.share <= MOST_BESIDE

    def __str__(self) -> str:
        names = ", ".join(name for name, seconds in self.names.most_common(3) if seconds > 0)
        return f"other processes took {self.share:.0%} of a core" + (f" (most: {names})" if names else "")


def _sum(processes: Mapping[int, Process]) -> float:
    return sum(process.own + process.ended for process in processes.values())


@contextmanager
def watching() -> Iterator[Watch]:
    """Watch the other processes for the length of the block, each second."""
    _adopt_orphans()
    watch, ended = Watch(), threading.Event()

    def look() -> None:
        while not ended.wait(_PAUSE):
            watch.look()

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield watch
    finally:
        ended.set()
        thread.join()
        watch.look()


def _adopt_orphans() -> None:
    """Stay the ancestor of servers whose starter has ended, such as PostgreSQL by pg_ctl (Linux: prctl(2))."""
    subreaper = 36
    with suppress(AttributeError):  # elsewhere
        ctypes.CDLL(None).prctl(subreaper, 1, 0, 0, 0)
