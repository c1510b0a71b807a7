"""dualsql_client as a command of `dualsql conformance --client`."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from dualsql_client import DualResponseClient, FetchError, ParseError, Retry


async def answer(job: dict[str, Any]) -> dict[str, Any]:
    async with DualResponseClient(job["baseUrl"], retry=Retry(times=0)) as client:
        parsed = client.parse(job["toolResult"])
        if parsed is None:
            return {"none": True}
        sort = "-score" if job["task"] == "sorted" else None
        try:
            return {"rows": await parsed.fetch_all(batch_size=5, sort=sort)}
        except (FetchError, ParseError) as error:
            return {"error": error.message}


print(json.dumps(asyncio.run(answer(json.load(sys.stdin)))))
