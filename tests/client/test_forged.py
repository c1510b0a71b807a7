"""Forged answers to every call of the client: it ends soon, in little memory, with rows or a FetchError."""

from __future__ import annotations

import asyncio
import gzip
import json
import random
import tracemalloc
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from dualsql_client import DualResponseClient, DualResponseClientError, ParsedDualResponse, Retry
from dualsql_client.arrow_ipc import ArrowFramer
from dualsql_client.framing import Block
from dualsql_client.streaming import read_table
from tests.client.hosting import RESOURCE_ID, structured
from tests.quick import case_of

MIB = 1024 * 1024
LIMITS: dict[str, Any] = {
    "timeout": 2.0,
    "maximum_response_bytes": MIB,
    "maximum_stream_bytes": 4 * MIB,
    "retry": Retry(times=1),
}
MOST_SECONDS, MOST_MEMORY = 12.0, 96 * MIB

Head = dict[str, str]
Body = Iterator[bytes]


def repeated(piece: bytes) -> Body:
    while True:
        yield piece


def page(**fields: Any) -> bytes:
    """A page of one row, some of whose fields are forged."""
    honest = {"data": [{"id": 1}], "total_count": 3, "offset": 0, "returned_count": 1, "has_next": False}
    columns = [{"name": "id", "type": "number", "encoding": "integer"}]
    return json.dumps({**honest, "columns": columns, **fields}).encode()


def nested(depth: int, opening: bytes = b"[", closing: bytes = b"]") -> bytes:
    return opening * depth + closing * depth


JSON: Head = {"content-type": "application/json"}
ROWS: Head = {"content-type": "application/x-ndjson"}
ARROW: Head = {"content-type": "application/vnd.apache.arrow.stream"}
GZIP: Head = {"content-encoding": "gzip"}


@cache
def bomb(*, of: bytes = bytes(MIB), times: int = 200, is_twice: bool = False) -> bytes:
    """Compressed zeros. Made when a test asks: it takes 0.7 s, which both workers of a run would spend."""
    packed = gzip.compress(of * times, 1)
    return gzip.compress(packed) if is_twice else packed


@cache
def deflated() -> bytes:
    return zlib.compress(bytes(200 * MIB), 1)


ROW = b'{"id":1}\n'

ANSWERS: dict[str, tuple[Head, Callable[[], Body]]] = {
    "bomb": (JSON | GZIP, lambda: iter([bomb()])),
    "bomb of rows": (ROWS | GZIP, lambda: iter([bomb(of=ROW, times=20_000_000)])),
    "bomb of Arrow": (ARROW | GZIP, lambda: iter([bomb()])),
    "compressed twice": (JSON | {"content-encoding": "gzip, gzip"}, lambda: iter([bomb(is_twice=True)])),
    "rows compressed twice": (
        ROWS | {"content-encoding": "gzip,gzip"},
        lambda: iter([bomb(of=ROW, times=20_000_000, is_twice=True)]),
    ),
    "deflated": (JSON | {"content-encoding": "deflate"}, lambda: iter([deflated()])),
    "broken compression": (JSON | GZIP, lambda: iter([b"\x1f\x8b" + bytes(100)])),
    "a million brackets": (JSON, lambda: iter([nested(300_000)])),
    "a million objects": (JSON, lambda: iter([nested(100_000, b'{"data":', b"}")])),
    "nested in a page": (JSON, lambda: iter([page(metadata=None).replace(b"null", nested(50_000))])),
    "many empty objects": (JSON, lambda: iter([b"[" + b"{}," * 300_000 + b"{}]"])),
    "many digits": (JSON, lambda: iter([page().replace(b'"id": 1', b'"id": ' + b"9" * 500_000)])),
    "a great exponent": (JSON, lambda: iter([page().replace(b'"id": 1', b'"id": 1e999999999')])),
    "not a number": (JSON, lambda: iter([page(total_count=float("nan"))])),
    "a total of many digits": (JSON, lambda: iter([page(total_count=10**4000)])),
    "a negative total": (JSON, lambda: iter([page(total_count=-5, returned_count=-1)])),
    "wrong types": (JSON, lambda: iter([page(data={"id": 1}, has_next="yes", columns=7, offset=[])])),
    "rows that are none": (JSON, lambda: iter([page(data=[1, None, [], "x"], returned_count=4)])),
    "columns that are none": (JSON, lambda: iter([page(columns=[{"name": 1}, None, []])])),
    "wrong instants": (
        JSON,
        lambda: iter([page(status="ready", expires_at=10**30, created_at=[[]], name="x")]),
    ),
    "an endless object": (JSON, lambda: repeated(b'{"a":"' + b"x" * 65_536 + b'"},')),
    "endless space": (JSON, lambda: repeated(b" " * 65_536)),
    "endless rows": (ROWS, lambda: repeated(b'{"id":1}\n' * 5_000)),
    "one endless row": (ROWS, lambda: repeated(b"x" * 65_536)),
    "endless empty lines": (ROWS, lambda: repeated(b"\n" * 65_536)),
    "nested rows": (ROWS, lambda: iter([nested(100_000, b'{"a":', b"}") + b"\n"] * 2)),
    "a row of many digits": (
        ROWS,
        lambda: iter([b'{"id":' + b"9" * 100_000 + b"}\n", b'{"$summary":{"rows":1}}\n']),
    ),
    "a summary that lies": (ROWS, lambda: iter([b'{"id":1}\n{"$summary":{"rows":1e999,"complete":true}}\n'])),
    "a problem that is none": (ROWS, lambda: iter([b'{"id":1}\n{"$problem":{"code":[[]],"details":7}}\n'])),
    "Arrow of a great length": (ARROW, lambda: iter([b"\xff\xff\xff\xff\xff\xff\xff\x7f" + bytes(4096)])),
    "Arrow that never begins": (ARROW, lambda: repeated(b"\xff\xff\xff\xff\x00\x10\x00\x00" + bytes(65_536))),
    "no JSON at all": ({"content-type": "text/html"}, lambda: repeated(b"<p>" * 20_000)),
    "bytes": (JSON, lambda: iter([bytes(range(256)) * 100])),
    "nothing": (JSON, lambda: iter([])),
}


def ever_new_pages() -> Body:
    """A page after a page, each as it was asked for, each with another cursor, and never the last."""
    number = int(ASKED.get("cursor", "c0")[1:]) or ASKED.get("offset", 0)
    following = {
        "has_next": True,
        "next_offset": number + 1,
        "next_cursor": f"c{number + 1}",
        "offset": number,
    }
    yield page(**following, data=[{"id": number, "filler": "x" * 60_000}])


def the_same_page_again() -> Body:
    yield page(has_next=True, next_cursor="c", data=[{"id": 1}] * 100, returned_count=100)


ASKED: dict[str, Any] = {}
"""The body of the last request."""

ANSWERS["ever new pages"] = (JSON, ever_new_pages)
ANSWERS["the same page repeatedly"] = (JSON, the_same_page_again)
ANSWERS["listings without an end"] = (
    JSON,
    lambda: iter([json.dumps({"resources": [], "next_cursor": "c"}).encode()]),
)

Call = Callable[[DualResponseClient, ParsedDualResponse, Path], Awaitable[object]]


async def drained(rows: AsyncIterator[Any]) -> None:
    async for _ in rows:
        pass


CALLS: dict[str, Call] = {
    "fetch": lambda _, parsed, __: parsed.fetch(typed=True),
    "fetch_all": lambda _, parsed, __: parsed.fetch_all(typed=True),
    "fetch_stream": lambda _, parsed, __: drained(parsed.fetch_stream()),
    "to_arrow": lambda _, parsed, __: parsed.to_arrow(),
    "save csv": lambda _, parsed, folder: parsed.save(folder / "rows.csv"),
    "save parquet": lambda _, parsed, folder: parsed.save(folder / "rows.parquet"),
    "get_metadata": lambda _, parsed, __: parsed.get_metadata(),
    "wait_until_ready": lambda _, parsed, __: parsed.wait_until_ready(timeout=1),
    "pin": lambda _, parsed, __: parsed.pin(),
    "unpin": lambda _, parsed, __: parsed.unpin(),
    "delete": lambda _, parsed, __: parsed.delete(),
    "query_all": lambda _, parsed, __: parsed.query_all(),
    "sql": lambda _, parsed, __: parsed.sql("SELECT 1 FROM data"),
    "profile": lambda _, parsed, __: parsed.profile(),
    "refine": lambda _, parsed, __: parsed.refine(),
    "list_resources": lambda client, _, __: drained(client.list_resources()),
    "query_staged_data": lambda client, _, __: client.query_staged_data(RESOURCE_ID, "SELECT 1 FROM data"),
}


@asynccontextmanager
async def forging(head: Head, body: Callable[[], Body]) -> AsyncIterator[str]:
    """A server of one answer to all requests; its base URL."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while request := await reader.readuntil(b"\r\n\r\n"):
                length = [
                    line for line in request.lower().split(b"\r\n") if line.startswith(b"content-length:")
                ]
                asked = await reader.readexactly(int(length[0].partition(b":")[2]) if length else 0)
                ASKED.clear()
                ASKED.update(json.loads(asked or b"{}"))
                lines = "".join(f"{name}: {value}\r\n" for name, value in head.items())
                writer.write(f"HTTP/1.1 200 OK\r\n{lines}transfer-encoding: chunked\r\n\r\n".encode())
                for piece in body():
                    writer.write(b"%x\r\n%b\r\n" % (len(piece), piece))
                    await writer.drain()
                writer.write(b"0\r\n\r\n")
                await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


QUICK = {
    "compressed twice",
    "a total of many digits",
    "wrong types",
    "the same page repeatedly",
    "nested rows",
    "deflated",
}


@pytest.mark.quick(1)
@pytest.mark.parametrize("name", [case_of(name, is_long=name not in QUICK) for name in ANSWERS])
async def test_every_call_is_bounded(name: str, tmp_path: Path) -> None:
    faults = []
    next(ANSWERS[name][1](), b"")  # a bomb is made before its time and memory are measured
    async with forging(*ANSWERS[name]) as base_url, DualResponseClient(base_url, **LIMITS) as client:
        tracemalloc.start()
        try:
            for call, made in CALLS.items():
                parsed = client.parse(structured(), strict=True)
                parsed.columns = []
                tracemalloc.reset_peak()
                began = asyncio.get_running_loop().time()
                try:
                    async with asyncio.timeout(MOST_SECONDS):
                        await made(client, parsed, tmp_path)
                except DualResponseClientError:
                    pass
                except Exception as error:  # noqa: BLE001 - what else it raises is what the test is about
                    faults.append(f"{call}: {error!r}"[:200])
                lasted, peak = asyncio.get_running_loop().time() - began, tracemalloc.get_traced_memory()[1]
                if lasted > MOST_SECONDS or peak > MOST_MEMORY:
                    faults.append(f"{call}: {lasted:.1f} s, {peak / MIB:.0f} MiB")
        finally:
            tracemalloc.stop()
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize("times", [case_of(100, is_long=False), case_of(5_000, is_exhaustive=True)])
async def test_mutated_arrow_is_a_table_or_our_error(times: int) -> None:
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    table = pa.table({"id": [1, None, 3], "name": ["a", None, "ccc"], "tags": [[1, 2], None, []]})
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    honest = sink.getvalue().to_pybytes()
    draw = random.Random(7)
    refused = 0
    for _ in range(times):
        forged = bytearray(honest)
        for _ in range(draw.choice((1, 1, 2, 8))):
            forged[draw.randrange(len(forged))] = draw.choice((0, 1, 0x7F, 0x80, 0xFF, draw.randrange(256)))
        try:
            (await read_table(blocks_of(bytes(forged)))).to_pylist()
        except (DualResponseClientError, UnicodeDecodeError):
            refused += 1
    assert refused > times / 4


async def blocks_of(stream: bytes) -> AsyncIterator[Block]:
    """The blocks of a stream that says nothing at its end."""
    messages = ArrowFramer(MIB)
    for block in messages.feed(stream):
        yield block
