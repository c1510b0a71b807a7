"""Answers to a page that takes too long, and whether a client waits for the rows: one table for both clients."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from tests.client.hosting import Contract

CASES: list[dict[str, Any]] = json.loads(Path(__file__).with_suffix(".json").read_text())
ROWS = [{"id": 1}, {"id": 2}]
WAITED = [("POST", "respond-async, wait=24"), ("GET", None), ("GET", None), ("POST", None)]


class Deferring:
    """Answers the first page as a case says, and says once that rows are being kept. `seen` has what was asked."""

    def __init__(self, case: dict[str, Any]) -> None:
        self._case = case
        self._contract = Contract(ROWS, columns=[{"name": "id", "type": "number", "encoding": "integer"}])
        self.seen: list[tuple[str, str | None]] = []

    async def __call__(self, request: Request) -> Response:
        self.seen.append((request.method, request.headers.get("prefer")))
        if len(self.seen) > 2:
            return await self._contract(request)
        applied = self._case["applied"] if request.method == "POST" else None
        headers = {} if applied is None else {"preference-applied": applied}
        status = self._case["status"] if request.method == "POST" else 200
        metadata = {**self._contract.metadata(), "kept": {"kept": False, "rows_so_far": 1}}
        return JSONResponse(metadata, status, headers)
