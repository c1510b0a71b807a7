"""Count the modules of dualsql that one warm request passes through: `python scripts/count_modules.py [--names]`.

A `create_response`, a page, a stream, a refinement and a creation that keeps its rows, all of SQLite rows, are traced
after a first request of the same kind. The server has the default features and a storage for kept results. A module is
counted when a function of it is called, in whatever thread. Pages and streams are asked for over the REST routes.
`--names` lists the modules. `MOST_MODULES` is what the design allows.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import sys
import tempfile
import threading
from collections.abc import Awaitable, Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
from sqlalchemy import Column, Integer, MetaData, String, Table, create_engine, insert, select  # noqa: TID251 - it fills the database
from starlette.applications import Starlette
from starlette.routing import Mount

import dualsql
from dualsql import DualResponseServer, Settings
from dualsql.feature_list import default_features
from dualsql.kept.feature import Kept

ROOT = Path(dualsql.__file__).parent
MOST_MODULES = {"create_response": 33, "page": 29, "stream": 31, "refine": 43, "kept create": 43}
"""SQLite calls the clock of a page or a stream, a module of its own, once in several requests."""
BASE_URL = "http://127.0.0.1:8000/resources"


class Crossings:
    """The modules that functions were called in, and how often the call before was in another one."""

    def __init__(self) -> None:
        self.modules: set[str] = set()
        self.switches = 0
        self.is_on = False
        self._last = ""

    def note(self, frame: Any, event: str, _: object) -> None:
        """See `sys.setprofile`."""
        if event != "call" or not self.is_on:
            return
        file = frame.f_code.co_filename
        if not file.startswith(str(ROOT)):
            return
        self.modules.add(file)
        self.switches += file != self._last
        self._last = file

    @contextlib.contextmanager
    def count(self) -> Iterator[None]:
        """Count in the block."""
        self.modules, self.switches, self._last, self.is_on = set(), 0, "", True
        try:
            yield
        finally:
            self.is_on = False


def fill(file: Path) -> Table:
    """A table of 1,000 people in a new SQLite file."""
    people = Table("people", MetaData(), Column("id", Integer, primary_key=True), Column("name", String))
    engine = create_engine(f"sqlite:///{file}")
    people.metadata.create_all(engine)
    with engine.begin() as connection:
        connection.execute(insert(people), [{"name": f"person {number}"} for number in range(1_000)])
    engine.dispose()
    return people


async def trace(crossings: Crossings) -> dict[str, tuple[set[str], int]]:
    """The modules and switches of each kind of request."""
    with tempfile.TemporaryDirectory() as folder:
        people = fill(Path(folder) / "people.db")
        async with DualResponseServer(
            f"sqlite:///{folder}/people.db",
            base_url=BASE_URL,
            tables=people.metadata,
            features=default_features(Kept(f"{folder}/kept")),
            settings=Settings(slow_query=timedelta(hours=1)),  # a busy machine adds no line of the log
        ) as dual:
            app = Starlette(routes=[Mount("/resources", dual.router())])
            async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=BASE_URL) as http:

                async def create(**options: Any) -> str:
                    return (await dual.create_response(select(people), name="People", **options)).resource_id

                async def refine() -> None:
                    refinement = {"columns": ["name"], "filters": {"column": "id", "op": "lt", "value": 500}}
                    await dual.create_response(name="Some", parent=resource_id, refinement=refinement)

                async def get(path: str) -> None:
                    (await http.get(path)).raise_for_status()

                resource_id = await create()
                requests: dict[str, Callable[[], Awaitable[Any]]] = {
                    "create_response": create,
                    "page": lambda: get(f"{BASE_URL}/{resource_id}?limit=100&offset=200"),
                    "stream": lambda: get(f"{BASE_URL}/{resource_id}/rows?format=ndjson"),
                    "refine": refine,
                    "kept create": lambda: create(keep=True),
                }
                modules = {}
                for kind, request in requests.items():
                    await request()
                    with crossings.count():
                        await request()
                    own, switches = crossings.modules, crossings.switches
                    for _ in range(7):
                        if len(own) <= MOST_MODULES[kind]:
                            break
                        # A busy machine adds what happens to a statement that takes long, and timers that are due.
                        await asyncio.sleep(0.5)
                        with crossings.count():
                            await request()
                        own, switches = own & crossings.modules, min(switches, crossings.switches)
                    modules[kind] = own, switches
                return modules


def main() -> None:
    """Print a line for each kind of request; exit with 1 where a request crosses more."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--names", action="store_true", help="list the modules")
    arguments = parser.parse_args()
    crossings = Crossings()
    threading.setprofile(crossings.note)
    sys.setprofile(crossings.note)
    counts = asyncio.run(trace(crossings))
    sys.setprofile(None)
    threading.setprofile(None)  # type: ignore[arg-type]  # typeshed lacks that None ends it
    for kind, (modules, switches) in counts.items():
        print(f"{kind}: {len(modules)} modules, {switches} switches (at most {MOST_MODULES[kind]} modules)")
        if arguments.names:
            print("".join(f"    {Path(name).relative_to(ROOT)}\n" for name in sorted(modules)), end="")
    sys.exit(any(len(modules) > MOST_MODULES[kind] for kind, (modules, _) in counts.items()))


if __name__ == "__main__":
    main()
