"""Fixtures: a real server, and httpx and httpx2 to call it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx
import httpx2
import pytest

from dualsql_client import DualResponseClient, ParsedDualResponse
from tests.client.hosting import Host, structured

Open = Callable[..., ParsedDualResponse]


@pytest.fixture(scope="module", params=[httpx, httpx2], ids=["httpx", "httpx2"])
def library(request: pytest.FixtureRequest) -> Any:
    """httpx, then httpx2."""
    return request.param


@pytest.fixture(scope="module")
async def host(anyio_backend: str) -> AsyncIterator[Host]:
    """A running server that takes handlers."""
    async with Host().listening() as listening:
        yield listening


@pytest.fixture(scope="module")
async def http(anyio_backend: str, library: Any) -> AsyncIterator[Any]:
    """A client of that library; making one loads all root certificates, so a module shares it."""
    async with library.AsyncClient() as client:
        yield client


@pytest.fixture
def open_at(http: Any) -> Open:
    """A function from a base URL to the dual response of `hosting.RESOURCE_ID` there."""

    def open_at(base_url: str, **options: Any) -> ParsedDualResponse:
        parsed = DualResponseClient(base_url, http=http, **options).parse_structured(structured())
        assert parsed is not None
        return parsed

    return open_at
