"""Reading a text takes time in proportion to its length, whatever is in it: each reader, on texts of doubled sizes."""

from __future__ import annotations

import asyncio
import gc
import gzip
import json
import time
from base64 import b64encode
from collections.abc import Callable
from itertools import product
from math import inf
from typing import Any

import pytest

from dualsql_client import DualResponseClient, parse_markdown
from dualsql_client.codemode import CodeMode
from dualsql_client.detect import find, read_structure
from dualsql_client.identifiers import with_checksum
from dualsql_client.links import LinkReader
from dualsql_client.markdown import strip_decoration
from dualsql_client.origins import Origins
from tests.client.hosting import RESOURCE_ID, structured
from tests.quick import case_of

CLIENT = DualResponseClient()


def by_code_mode(text: str) -> object:
    class Server:
        async def call_tool(self, *_: object, **__: object) -> object:
            return {"content": [{"type": "text", "text": text}]}

    return asyncio.run(CodeMode(Server()).invoke("tool"))


def described(text: str) -> object:
    """In every place of a tool result that has a text."""
    result = structured()
    result["resource"] |= {"name": text, "url": text}
    result["metadata"] |= {"expires_at": text, "total_count_kind": text}
    result["metadata"]["columns"] = [{"name": text, "type": text, "encoding": text}]
    return read_structure(result), read_structure({**result, "resource": {"uri": text}})


READERS: dict[str, Callable[[str], object]] = {
    "markdown": parse_markdown,
    "markdown, aggressive": lambda text: parse_markdown(
        text, strategy="aggressive", expected_fields=["a", "x"] * 5
    ),
    "code mode": by_code_mode,
    "a text block": lambda text: CLIENT.find({"content": [{"type": "text", "text": text}]}),
    "JSON in a text": lambda text: CLIENT.find(json.dumps({"resource": [text], "text": text})),
    "many texts": lambda text: find([{"text": line} for line in text.splitlines()]),
    "links": lambda text: LinkReader(Origins(None, ())).read(text),
    "a description": described,
    "a value": strip_decoration,
}
PIECES = (
    "|a|b|\n|-|-|\n|x|y|\n", "|a|b|\n|-|-|\n", "|-", "|x|y|\n", "|", "-", "- ", "*", "* a: b\n", "a: ", "a:b\n",
    "```\n", "```json\n[1]\n```\n", "`", "`SELECT 1 FROM x` ", "FROM ", "data_access_id ", "error: ", "a_1",
    "_1234567890", " ", "\n", "\r", "\t", "😀", "*😀", "{", "[", '{"resource":', '{"a":1}\n', "data:{}\n", '"', "\\",
    "\\u0041", "0", "1e", "x", "é", f"resource://{RESOURCE_ID} ", f"resource://{RESOURCE_ID}/", RESOURCE_ID, '["',
    '{"a": x}\n', "[INFO] ", "//a/", "\n \n ", RESOURCE_ID[::-1], "a://", "a.", "a+", "://", "Z", "2026-01-01T",
    "role=user ", "user(", "args=", "args={", "A\n", "args:\n a\n", "isError=True ", "Error('",
    "7b22" * 20 + " ", "eyJ" * 30, "eyJ" * 20 + "\n ",
    RESOURCE_ID[:9] + "\n> " + RESOURCE_ID[9:] + " ", RESOURCE_ID + " 'role'", "1,",
    b64encode(gzip.compress(b" " * 4_000, mtime=0)).decode() + " ",
)  # fmt: skip
SIZE = 16 * 1024


def repeated(*pieces: str, size: int) -> str:
    whole = "".join(pieces)
    return whole * (size // len(whole))


def in_turn(one: str, other: str, *, size: int) -> str:
    """Many of the one, then many of the other."""
    return repeated(one, size=size // 2) + repeated(other, size=size // 2)


def seconds(read: Callable[[Any], object], text: Any) -> float:
    started = time.process_time()
    read(text)
    return time.process_time() - started


def _loop(turns: int) -> None:
    for turn in range(turns):
        str(turn)


def is_at_once(read: Callable[[Any], object], text: Any, *, most: float) -> bool:
    """Whether it takes `most` seconds of an idle core at most, by the CPU time of a loop that takes 0.1 of them.

    The loop is measured beside it: a core that is shared, or slower, takes as much longer for the one as for the other.
    """
    return any(seconds(read, text) < 10 * most * seconds(_loop, 1_300_000) for _ in range(3))


def check(read: Callable[[str], object], write: Callable[[int], str]) -> None:
    """Four times the text takes about four times as long; sixteen times would be quadratic."""
    large = small = inf
    for _ in range(6):  # of each the least: another process only adds
        large = min(large, seconds(read, write(4 * SIZE)))
        # What takes 15 ms for 64 KB would take 4 seconds for the largest text, if it were quadratic.
        if large < 0.015:
            return
        small = min(small, seconds(read, write(SIZE)))
        if large < 8 * small:
            return
    raise AssertionError(f"{large:.2f} s for {4 * SIZE:,} characters")


@pytest.fixture(autouse=True)
def _no_collections() -> Any:
    gc.disable()
    yield
    gc.enable()


@pytest.mark.quick(3)
@pytest.mark.parametrize("reader", READERS)
def test_one_piece_again_and_again(reader: str) -> None:
    for piece in PIECES:
        check(READERS[reader], lambda size, piece=piece: repeated(piece, size=size))  # type: ignore[misc]


@pytest.mark.long
@pytest.mark.parametrize("third", range(3))
@pytest.mark.parametrize("write", [repeated, in_turn])
@pytest.mark.parametrize("reader", READERS)
def test_two_pieces_in_every_order(reader: str, write: Callable[..., str], third: int) -> None:
    """In parts: 7,000 pairs take so long on a busy machine that they would be taken for a hang."""
    for one, other in list(product(PIECES, repeat=2))[third::3]:
        check(READERS[reader], lambda size, one=one, other=other: write(one, other, size=size))  # type: ignore[misc]


@pytest.mark.parametrize("share", [case_of(1, is_long=True), 2])
def test_the_longest_text_of_small_tables_is_read_at_once(share: int) -> None:
    """It held the event loop for 23 seconds for 90 KB."""
    text = repeated("|a|b|\n|-|-|\n" + "|x|y|\n" * 3, size=1024 * 1024 // share)
    assert is_at_once(parse_markdown, text, most=4 / share)
    assert len(parse_markdown("|a|b|\n|-|-|\n|x|y|\n" * 3).tables) == 3


@pytest.mark.parametrize("share", [case_of(1, is_long=True), 4])
def test_the_longest_texts_that_are_no_json_are_read_at_once(share: int) -> None:
    for piece in ("[[", '["', '{"a": "', '{"resource": "abc", def}\n', "{'a': 1, 'resource': 2}\n"):
        text = f"resource {repeated(piece, size=4 * 1024 * 1024 // share)}"
        assert is_at_once(find, text, most=4 / share), piece


@pytest.mark.long
def test_many_links_of_many_results() -> None:
    """They took 11 seconds."""
    links = " ".join(
        f"resource://{with_checksum(f'Tq4x9hXv2ZkLwPmB7sYd1RcE{place:03}')}" for place in range(1_000)
    )
    assert is_at_once(find, [f"{place} {links}" for place in range(100)], most=7)


@pytest.mark.long
def test_many_links_beside_many_breaks() -> None:
    """A run of backslashes or of line breaks is not read again from each of them."""
    ids = [with_checksum(f"Tq4x9hXv2ZkLwPmB7sYd1Rc{place:04}") for place in range(2_000)]
    for beside in ("\\", "\n", "\\n ", "\\r"):
        texts = [
            " ".join(f"{each} ok role {beside * 295}" for each in ids[at : at + 200])
            for at in range(0, 2_000, 200)
        ]
        assert is_at_once(find, texts, most=5), beside


def test_values_that_stand_in_many_places_are_read_once() -> None:
    """YAML's aliases make them; these are 2**64 values."""
    value: object = {"S": "x"}
    for _ in range(32):
        value = {"M": {"a": {"M": {"b": value, "c": value}}, "d": value}}
    results = [{"resource": value, "results": []}, [{"key": "a", "value": value}]]
    assert is_at_once(find, results, most=2)
    itself: dict[str, object] = {}
    itself["M"] = {"a": itself, "uri": {"S": f"resource://{RESOURCE_ID}"}}
    assert len(find({"resource": itself})) == 1
