"""A server in a process of its own that asks what takes for ever; run by test_restart.py, which kills it.

python -m tests.results.pending.asking DATABASE STORE SECONDS_OF_LEASE
"""

from __future__ import annotations

import asyncio
import sys
from datetime import timedelta

from dualsql.store import SQLResourceStore
from tests.http.application import BASE_URL, METADATA
from tests.results.pending.conftest import FOREVER, MOMENT, SECRETS
from tests.servers import create_server


async def ask(database: str, store: str, lease: str) -> None:
    """Print the ids of what is pending, then go on as long as one lets us."""
    async with create_server(
        database,
        base_url=BASE_URL,
        tables=METADATA,
        store=SQLResourceStore(store),
        secrets=SECRETS,
        pending_lease=timedelta(seconds=int(lease)),
    ) as server:
        for name in ("one", "two"):
            response = await server.create_response(FOREVER, name=name, wait=MOMENT)
            print(response.resource_id, flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(ask(*sys.argv[1:]))
