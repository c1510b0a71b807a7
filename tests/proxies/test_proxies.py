"""nginx, Caddy and HAProxy, as Debian has them, before `dualsql serve`: https, HTTP/2, a path prefix, streams."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import httpx2
import orjson
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from dualsql_client import DualResponseClient, Progress
from tests.proxies.running import (
    HOST,
    PATIENCE,
    PROXIES,
    Certificate,
    Ports,
    free_port,
    make_certificate,
    proxying,
    require,
)
from tests.relay import Relay, relaying
from tests.serve.conftest import TOKEN, serving_process, shop, text_of

__all__ = ["shop"]

BEARER = {"Authorization": f"Bearer {TOKEN}"}
MOST_PAGES = 20
"""That one address may ask for at once."""
PAIRS = "SELECT a.id, b.id AS other, a.price FROM parts a JOIN parts b ON b.id > 0 ORDER BY a.id, b.id"
"""A million rows: 40 MB of NDJSON."""


@dataclass(frozen=True)
class Front:
    """What callers see, and the relay behind the proxy."""

    origin: str
    certificate: Certificate
    relay: Relay
    folder: Path

    def caller(self, **options: Any) -> httpx.AsyncClient:
        """A client that trusts the certificate and has the token."""
        return httpx.AsyncClient(
            base_url=self.origin,
            verify=self.certificate.trusted(),
            headers=BEARER,
            timeout=PATIENCE,
            **options,
        )

    @asynccontextmanager
    async def model(self) -> AsyncIterator[Client]:
        """A client of the MCP endpoint, by the public name."""
        trusted = self.certificate.trusted()
        async with (
            httpx2.AsyncClient(headers=BEARER, verify=trusted) as http,
            Client(streamable_http_client(f"{self.origin}/data/mcp", http_client=http)) as model,
        ):
            yield model


@pytest.fixture(params=PROXIES)
async def front(
    request: pytest.FixtureRequest, shop: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Front]:
    """`dualsql serve` behind the proxy, under a public name that leads to the loopback."""
    require(request.param)
    resolve = socket.getaddrinfo

    def to_loopback(host: Any, *others: Any, **named: Any) -> Any:
        return resolve("127.0.0.1" if host in (HOST, HOST.encode()) else host, *others, **named)

    monkeypatch.setattr(socket, "getaddrinfo", to_loopback)
    folder, certificate = tmp_path / "proxy", make_certificate(tmp_path)
    folder.mkdir()
    public, admin = free_port(), free_port()
    origin = f"https://{HOST}:{public}"
    arguments = ("--database", shop, "--all", "--base-url", f"{origin}/data", "--admin-port", str(admin))
    limits = ("--address-rate-limits", f"ask=1/{MOST_PAGES}", "--trusted-proxies", "127.0.0.1")
    back = free_port()
    async with (
        serving_process(*arguments, *limits, "--port", str(back), DUALSQL_TOKEN=TOKEN),
        relaying(Relay(back)) as relay,
        proxying(request.param, Ports(public, relay.port, admin), certificate, folder),
    ):
        made = Front(origin, certificate, relay, folder)
        async with asyncio.timeout(PATIENCE), made.caller() as http:
            while (await http.get("/data/resources/openapi.json")).status_code in (502, 503):
                pass  # HAProxy waits for its first check of /ready
        yield made


async def _created(front: Front, query: str) -> Any:
    async with front.model() as model:
        return await model.call_tool("execute_query", {"query": query})


@pytest.mark.long
async def test_mcp_and_rest_by_the_public_name(front: Front) -> None:
    """Tools over streamable HTTP, links that lead through the proxy, pages, the prefix, and refusals."""
    result = await _created(front, "SELECT * FROM makers ORDER BY id")
    assert "all 40 rows" in text_of(result), text_of(result)
    url = result.structured_content["resource"]["url"]
    assert url.startswith(f"{front.origin}/data/resources/")
    async with front.caller() as http:
        page = await http.get(url, params={"limit": 3})
        assert (page.status_code, page.json()["returned_count"]) == (200, 3)
        answer = await http.get("/.well-known/resource-link-service")
        assert answer.status_code == 200 and f"{front.origin}/data/" in answer.text
        assert (await http.get(url, headers={"Authorization": "Bearer wrong-wrong-wrong"})).status_code == 401
        for path in ("/", "/resources/x", "/datax", "/ready"):
            assert (await http.get(path)).status_code == 404, path


@pytest.mark.long
async def test_redirects_keep_the_prefix_and_the_scheme(front: Front) -> None:
    async with front.caller() as http:
        for path in ("/data", "/data/resources"):
            moved = await http.get(path)
            assert moved.status_code in (307, 308), path
            assert moved.request.url.join(moved.headers["location"]) == f"{front.origin}{path}/"
        forged = {
            "X-Forwarded-Host": "evil.example",
            "X-Forwarded-Proto": "http",
            "Forwarded": "host=evil.example",
        }
        answer = await http.get("/data/resources", headers=forged)
        assert "evil.example" not in str(answer.headers)
        assert (await http.get("/data/resources/x", headers=forged)).status_code == 404
        refused = await http.get("/data/resources/x", headers={"Host": "evil.example"})
        assert not refused.is_success or not refused.content, "Caddy has an empty answer for other names"


@pytest.mark.long
async def test_an_address_is_the_caller_s_own_whatever_it_sends(front: Front) -> None:
    """A caller who says that each of its requests comes from elsewhere is limited as one; another one is not."""
    url = (await _created(front, "SELECT * FROM makers")).structured_content["resource"]["url"]
    trusted = front.certificate.trusted()
    elsewhere = httpx.AsyncHTTPTransport(local_address="127.0.0.2", verify=trusted)
    statuses = []
    async with front.caller() as http, front.caller(transport=elsewhere) as other:
        for number in range(MOST_PAGES + 2):
            address = f"203.0.113.{number}"
            forged = {
                "X-Forwarded-For": address,
                "X-Real-IP": address,
                "Forwarded": f"for={address}",
                "True-Client-IP": address,
            }
            answer = await http.get(url, params={"limit": number + 1}, headers=forged)
            statuses.append(answer.status_code)
        assert (await other.get(url, params={"limit": 1})).status_code == 200
    assert statuses == [200] * MOST_PAGES + [429, 429]


@pytest.mark.long
async def test_a_slow_reader_is_felt_by_the_server(front: Front) -> None:
    """Nothing spools the stream: the server has sent little more than the reader took, and no file was written."""
    url = (await _created(front, PAIRS)).structured_content["resource"]["url"]
    async with front.caller() as http, asyncio.timeout(PATIENCE):
        plain = {"Accept-Encoding": "identity"}
        async with http.stream("GET", f"{url}/rows?format=ndjson", headers=plain) as answer:
            assert answer.headers.get("x-accel-buffering", "no") == "no", "nginx heeds it and takes it away"
            await anext(answer.aiter_raw())
            assert await front.relay.settled() < 16 * 1024 * 1024
    written = sum(each.stat().st_size for each in front.folder.rglob("*") if each.is_file())
    assert written < 1024 * 1024


@pytest.mark.long
async def test_a_cut_stream_resumes_and_is_compressed_once(front: Front) -> None:
    result = await _created(front, PAIRS)
    url = result.structured_content["resource"]["url"]
    is_cut = False

    def cut(progress: Progress) -> None:
        nonlocal is_cut
        if progress.rows and not is_cut:
            is_cut = True
            front.relay.cut()

    number_of_rows = 0
    async with (
        asyncio.timeout(2 * PATIENCE),
        front.caller() as http,
        DualResponseClient(f"{front.origin}/data/resources", http, headers=BEARER) as client,
    ):
        packed = await http.get(
            f"{url}/rows", params={"format": "csv", "limit": 2_000}, headers={"Accept-Encoding": "gzip"}
        )
        assert packed.headers["content-encoding"] == "gzip"
        assert packed.text.count("\n") == 2_001
        parsed = client.parse(result, strict=True)
        async for batch in parsed.fetch_stream(progress=cut):
            for row in batch:
                assert (row["id"] - 1) * 1_000 + row["other"] - 1 == number_of_rows
                number_of_rows += 1
    assert is_cut and number_of_rows == 1_000_000


@pytest.mark.long
async def test_bodies_have_the_same_bounds(front: Front) -> None:
    """What dualsql takes, the proxy takes; what is larger than an MCP request, neither does."""
    result = await _created(front, "SELECT * FROM makers")
    url = result.structured_content["resource"]["url"]
    json = {"Content-Type": "application/json"}
    async with front.caller() as http:
        fits = b'{"limit": 1' + b" " * 60_000 + b"}"
        assert (await http.post(url, content=fits, headers=json)).status_code == 200
        large = await http.post(url, content=b" " * 100_000, headers=json)
        assert (large.status_code, large.json()["code"]) == (413, "BODY_TOO_LARGE")
        for address in (url, f"{front.origin}/data/mcp"):
            with suppress(httpx.NetworkError):  # or the connection ends before the answer could be read
                huge = await http.post(address, content=b" " * 2_000_000, headers=json)
                assert huge.status_code in (413, 502), "Caddy has 502 where it has begun to pass the body on"


@pytest.mark.long
async def test_http_2(front: Front) -> None:
    """The handshake of TLS chooses it; a whole answer of curl, or of whatever else speaks it, comes by it."""
    context = front.certificate.trusted()
    context.set_alpn_protocols(["h2", "http/1.1"])
    port = int(front.origin.rpartition(":")[2])
    _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname=HOST)
    assert writer.get_extra_info("ssl_object").selected_alpn_protocol() == "h2"
    writer.close()
    process = await asyncio.create_subprocess_exec(
        "curl", "--silent", "--http2", "--cacert", str(front.certificate.certificate),
        "--resolve", f"{HOST}:{port}:127.0.0.1", "--header", f"Authorization: Bearer {TOKEN}",
        "--write-out", "%{http_version}", f"{front.origin}/data/resources/openapi.json",
        stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    output, _ = await process.communicate()
    assert output.endswith(b"2") and orjson.loads(output[:-1])["openapi"].startswith("3.1")
