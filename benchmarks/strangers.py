"""Does the time of a refusal tell what is there? `python -m benchmarks.strangers`; exits with 1 when it does.

The real routes on a store in SQLite, called in process, 2,000 requests of each kind in turns: what is measured is
the server's work alone, without a network, whose noise would hide more than a stranger may count on.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from random import Random
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

from sqlalchemy import select
from sqlalchemy.ext.asyncio import create_async_engine
from starlette.types import ASGIApp, Message, Scope

from dualsql import DualResponseServer, Principal, Settings, SQLResourceStore
from dualsql.identity import static_tokens
from dualsql.resource import new_resource_id
from dualsql.store import upgrade
from tests.schools import Base, School, fill

REQUESTS = 2_000
TOLERANCE = 0.05
"""How far a median may lie from that of an unknown id."""

ANA, BOB, EVE = (Principal(id=name, tenant=tenant) for name, tenant in
                 (("ana", "acme"), ("bob", "acme"), ("ana", "evil")))  # fmt: skip
TOKENS = {"of-ana": ANA, "of-bob": BOB, "of-eve": EVE}


@dataclass(frozen=True)
class Refused:
    """One kind of request that is answered 404.

    Attributes:
        seconds: the median.
        against_unknown: the same for an unknown id, by the same caller, is 1.
    """

    name: str
    seconds: float
    against_unknown: float

    @property
    def holds(self) -> bool:
        """Whether nobody could tell it from an unknown id by its time."""
        return abs(self.against_unknown - 1) <= TOLERANCE


async def measure(folder: Path) -> list[Refused]:
    """Medians of each kind of refusal."""
    data, store = (f"sqlite+aiosqlite:///{folder}/{name}.sqlite" for name in ("data", "kept"))
    engine = create_async_engine(data)
    await fill(engine)
    await asyncio.to_thread(upgrade, store)
    server = DualResponseServer(
        engine,
        base_url="http://127.0.0.1:8000/resources",
        tables=Base,
        store=SQLResourceStore(store),
        secrets=["a secret of more than thirty-two characters"],
        authenticate=static_tokens(TOKENS),
        settings=Settings(gone_retention=timedelta(0)),
    )
    async with server:
        medians = await _medians(server.router(), await _requests(server))
    await engine.dispose()
    return [
        Refused(name, seconds, seconds / medians[f"unknown id, asked by {name.rpartition(' ')[2]}"])
        for name, seconds in medians.items()
    ]


async def _requests(server: DualResponseServer) -> dict[str, Scope]:
    mine = await _create(server)
    large = await _create(server, metadata={"note": "x" * 20_000})
    expired = await _create(server, expiration=timedelta(microseconds=1))
    await asyncio.sleep(0.01)
    return {
        "unknown id, asked by bob": _scope(new_resource_id(), "of-bob"),
        "ana's, asked by bob": _scope(mine, "of-bob"),
        "ana's with 20 kB of metadata, asked by bob": _scope(large, "of-bob"),
        "unknown id, asked by evil": _scope(new_resource_id(), "of-eve"),
        "of another tenant's ana, asked by evil": _scope(mine, "of-eve"),
        "unknown id, asked by ana": _scope(new_resource_id(), "of-ana"),
        "ana's and long expired, asked by ana": _scope(expired, "of-ana"),
        "unknown id, asked by nobody": _scope(new_resource_id(), None),
        "ana's, asked by nobody": _scope(mine, None),
    }


async def _create(server: DualResponseServer, **options: Any) -> str:
    statement = select(School).where(School.name > "A").order_by(School.id)
    response = await server.create_response(statement, name="Schools", principal=ANA, **options)
    return response.resource_id


def _scope(resource_id: str, token: str | None) -> Scope:
    headers = [(b"host", b"127.0.0.1:8000")]
    if token is not None:
        headers.append((b"authorization", f"Bearer {token}".encode()))
    return {
        "type": "http",
        "http_version": "1.1",
        "method": "GET",
        "scheme": "http",
        "path": f"/{resource_id}",
        "root_path": "",
        "query_string": b"",
        "headers": headers,
    }


async def _medians(app: ASGIApp, requests: Mapping[str, Scope]) -> dict[str, float]:
    times: dict[str, list[float]] = {name: [] for name in requests}
    # In another order each time: whoever always came after the slowest would pay for it.
    shuffle = Random("strangers").shuffle
    names = list(requests)
    for _ in range(REQUESTS):
        shuffle(names)
        for name in names:
            times[name].append(await _seconds(app, requests[name]))
    return {name: median(seconds) for name, seconds in times.items()}


async def _seconds(app: ASGIApp, scope: Scope) -> float:
    start = perf_counter()
    await app(dict(scope), _receive, _expect_not_found)
    return perf_counter() - start


async def _receive() -> Message:
    return {"type": "http.request", "body": b"", "more_body": False}


async def _expect_not_found(message: Message) -> None:
    if message["type"] == "http.response.start" and message["status"] != 404:
        raise AssertionError(f"answered {message['status']} instead of 404")


def main() -> int:
    """Measure and print."""
    with TemporaryDirectory() as folder:
        refusals = asyncio.run(measure(Path(folder)))
    for refusal in refusals:
        verdict = "holds" if refusal.holds else "FAILS"
        print(f"{refusal.name:45} {refusal.seconds * 1e6:8.0f} us {refusal.against_unknown:6.3f}  {verdict}")
    return 0 if all(refusal.holds for refusal in refusals) else 1


if __name__ == "__main__":
    sys.exit(main())
