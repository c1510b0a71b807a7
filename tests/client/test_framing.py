"""Rows are found wherever the network cuts a stream, and other bytes are refused."""

from __future__ import annotations

import io
import json
import random
import struct
from contextlib import suppress
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

from dualsql_client import FetchError
from dualsql_client.arrow_ipc import ArrowFramer, read_message
from dualsql_client.formats import ARROW, CSV, NDJSON, DownloadFormat
from dualsql_client.framing import Block, Framer, RecordFramer
from dualsql_client.ndjson import rows_of
from dualsql_client.wire import row_digest

MOST = 1_000_000


def cut(data: bytes, places: list[int]) -> list[bytes]:
    """`data` in pieces, cut at these places."""
    edges = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    return [data[start:end] for start, end in pairwise(edges)]


def read(framer: Framer, pieces: list[bytes]) -> list[Block]:
    blocks = [block for piece in pieces for block in framer.feed(piece)]
    return blocks + framer.finish(sum(block.rows for block in blocks))


def whole(framer: Framer, pieces: list[bytes]) -> tuple[bytes, int]:
    blocks = read(framer, pieces)
    return b"".join(block.data for block in blocks), sum(block.rows for block in blocks)


PLACES = st.lists(st.integers(0, 5_000), max_size=20)
CELLS = st.text(st.sampled_from('ab",\r\n{}$é'), max_size=8)


@given(st.lists(CELLS, max_size=20), PLACES)
def test_lines(cells: list[str], places: list[int]) -> None:
    lines = b"".join(json.dumps({"$summary": cell}).encode() + b"\n" for cell in cells)
    end = (
        json.dumps({"$summary": {"rows": len(cells), "complete": True}}, separators=(",", ":")).encode()
        + b"\n"
    )
    assert whole(NDJSON.framer(MOST), cut(lines + end, places)) == (lines, len(cells))


def quoted(cell: str) -> str:
    return f'"{cell.replace(chr(34), chr(34) * 2)}"' if set(cell) & set('",\r\n') else cell


@given(st.lists(st.tuples(CELLS, CELLS), max_size=20), PLACES)
def test_records(rows: list[tuple[str, str]], places: list[int]) -> None:
    records = [f"{quoted(one)},{quoted(two)}\r\n".encode() for one, two in rows]
    data = b'"a\r\n",b\r\n' + b"".join(records)
    framer = RecordFramer(MOST)
    assert whole(framer, cut(data, places)) == (data, len(rows))
    assert framer.last_digest() == (row_digest(records[-1][:-2]) if records else None)


@given(st.lists(st.tuples(CELLS, CELLS), min_size=2, max_size=20), PLACES, st.integers(0, 5_000))
def test_records_that_go_on_after_a_break(rows: list[tuple[str, str]], places: list[int], end: int) -> None:
    records = [f"{quoted(one)},{quoted(two)}\r\n".encode() for one, two in rows]
    head, framer = b"a,b\r\n", CSV.framer(MOST)
    data = head + b"".join(records)
    before = [block for piece in cut(data[: end % len(data)], places) for block in framer.feed(piece)]
    known = sum(block.rows for block in before)
    if known:
        framer.forget()
        assert framer.last_digest() == row_digest(records[known - 1][:-2])
        after = read(framer, cut(b"".join(records[known:]), places))
        assert b"".join(block.data for block in before + after) == data
        assert sum(block.rows for block in before + after) == len(rows)


def arrow(sizes: list[int], notes: dict[str, Any] | None = None) -> bytes:
    """A stream of batches of so many rows, and its end."""
    schema = pa.schema([("id", pa.int64()), ("name", pa.string())])
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, schema) as stream:
        for size in sizes:
            ids = list(range(size))
            stream.write_batch(pa.record_batch([ids, [str(n) for n in ids]], schema=schema))
        said = {"rows": sum(sizes), "complete": True} if notes is None else notes
        empty = pa.record_batch([pa.array([], field.type) for field in schema], schema=schema)
        stream.write_batch(empty, custom_metadata={name: json.dumps(value) for name, value in said.items()})
    return sink.getvalue()


@given(st.lists(st.integers(1, 50), max_size=5), PLACES)
def test_messages(sizes: list[int], places: list[int]) -> None:
    joined, rows = whole(ArrowFramer(MOST), cut(arrow(sizes), places))
    assert rows == sum(sizes)
    assert pa.ipc.open_stream(joined).read_all() == pa.ipc.open_stream(arrow(sizes)).read_all()


ENDS = {
    NDJSON: [b'{"id":1}\n', b'{"$summary":{"rows":1,"complete":true}}\n'],
    ARROW: [arrow([1])[:-8], arrow([1])[-8:]],
}


@pytest.mark.parametrize("written", ENDS, ids=lambda written: written.name)
def test_a_stream_without_its_end_is_never_whole(written: DownloadFormat) -> None:
    data = b"".join(ENDS[written])
    assert whole(written.framer(MOST), [data])[1] == 1
    for length in range(len(data)):
        framer = written.framer(MOST)
        blocks = framer.feed(data[:length])
        with pytest.raises(FetchError) as error:
            framer.finish(sum(block.rows for block in blocks))
        assert (error.value.code, error.value.status) == ("FETCH_ERROR", None)


@pytest.mark.parametrize("body", [b"", b"a", b"a,b\r", b'a,b\r\n"', b"a,b\r\n1,2", b'a,b\r\n1,"\r\n'])
def test_a_record_that_is_cut(body: bytes) -> None:
    framer = CSV.framer(MOST)
    framer.feed(body)
    with pytest.raises(FetchError, match="ended too early"):
        framer.finish(0)


@pytest.mark.parametrize("said", [0, 2, "1", None, True, 1.5, [1]])
def test_an_end_that_counts_other_rows_is_refused(said: Any) -> None:
    body = (
        b'{"id":1}\n'
        + json.dumps({"$summary": {"rows": said, "complete": True}}, separators=(",", ":")).encode()
    )
    with pytest.raises(FetchError, match="another number of rows") as error:
        read(NDJSON.framer(MOST), [body + b"\n"])
    assert error.value.details == {"rows": 1}
    with pytest.raises(FetchError, match="another number of rows"):
        read(ARROW.framer(MOST), [arrow([1], {"rows": said, "complete": True})])


@pytest.mark.parametrize("complete", [False, None, 1, "true"])
def test_an_end_that_does_not_say_it_is_whole(complete: Any) -> None:
    end = json.dumps({"$summary": {"rows": 0, "complete": complete}}, separators=(",", ":")).encode()
    with pytest.raises(FetchError, match="ended too early"):
        read(NDJSON.framer(MOST), [end + b"\n"])
    with pytest.raises(FetchError, match="ended too early"):
        read(ARROW.framer(MOST), [arrow([], {"rows": 0, "complete": complete})])


PROBLEM = {
    "code": "QUERY_TIMEOUT",
    "message": "It took too long.",
    "hint": "Ask for less.",
    "details": {"a": 1},
}


def test_a_problem_at_the_end_is_raised() -> None:
    end = (
        json.dumps({"$problem": {**PROBLEM, "rows": 1, "complete": False}}, separators=(",", ":")).encode()
        + b"\n"
    )
    for written, body in ((NDJSON, b'{"id":1}\n' + end), (ARROW, arrow([1], {"problem": PROBLEM})[:-8])):
        with pytest.raises(FetchError, match="It took too long") as error:
            read(written.framer(MOST), [body])
        assert (error.value.code, error.value.hint) == ("QUERY_TIMEOUT", "Ask for less.")
        assert error.value.details == {"a": 1, "rows": 1}


@pytest.mark.parametrize("written", [NDJSON, CSV, ARROW], ids=lambda written: written.name)
def test_a_row_without_an_end_is_not_held(written: DownloadFormat) -> None:
    framer = written.framer(1_000)
    endless = arrow([500])[:-200] if written is ARROW else b"x" * 100_000
    with pytest.raises(FetchError, match="larger than 1,000 bytes"):
        read(framer, cut(endless, list(range(0, len(endless), 100))))


@given(st.binary(max_size=200))
def test_bytes_that_are_no_messages(data: bytes) -> None:
    for body in (data, b"\xff\xff\xff\xff" + data, arrow([1])[:400] + data):
        with pytest.raises(FetchError):
            read(ArrowFramer(MOST), [body])


@given(st.integers(0, 2**32 - 1))
def test_metadata_with_bits_changed(seed: int) -> None:
    data, chance = bytearray(arrow([3], {"rows": 3, "complete": True})), random.Random(seed)
    for _ in range(chance.randrange(1, 6)):
        data[chance.randrange(len(data))] = chance.randrange(256)
    framer = ArrowFramer(MOST)
    with suppress(FetchError):  # what is not refused here, pyarrow looks at
        whole(framer, [bytes(data)])


def test_what_pyarrow_writes_is_read_as_it_means_it() -> None:
    data = arrow([3])
    [length] = struct.unpack_from("<i", data, 4)
    schema = read_message(data[8 : 8 + length])
    assert (schema.kind, schema.rows, schema.body, schema.notes) == (1, 0, 0, {})


@pytest.mark.parametrize(
    "value",
    [
        2**64,
        -(2**63) - 1,
        2**63,
        -(2**63),
        10**30,
        2**53 + 1,
        0.1,
        1e22,
        1.7976931348623157e308,
        "9" * 40,
        [2**70],
    ],
)
def test_no_digit_is_lost(value: Any) -> None:
    [row] = rows_of(Block(json.dumps({"a": value}).encode() + b"\n", 1))
    assert row == {"a": value}
    assert type(row["a"]) is type(value)


@pytest.mark.parametrize(
    "lines",
    [
        b"1\n",
        b"[]\n",
        b"\n",
        b'{"a":1\n',
        b'{"a":1}\n\n',
        b'{"a":1\n"b":2}\n',
        b"{},{}\n",
        b"\xff\n",
        b"[" * 10**5 + b"\n",
    ],
)
def test_lines_that_are_no_rows(lines: bytes) -> None:
    with pytest.raises(FetchError, match="not rows"):
        rows_of(Block(lines, lines.count(b"\n")))
