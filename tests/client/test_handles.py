"""A resource's URI is found in a text if there is nothing better, and no other text is taken for one."""

from __future__ import annotations

import secrets
from typing import Any

import pytest
from hypothesis import given, strategies as st

from dualsql_client import DualResponseClient
from tests.client.hosting import RESOURCE_ID, structured

URI = f"resource://{RESOURCE_ID}"
FOUND = "resource://Zk3_qT9vWm-4LxR7bNc1YdPo8Hs"

client = DualResponseClient()


def uris(anything: Any) -> list[str]:
    return [parsed.resource_uri for parsed in client.find(anything)]


@pytest.mark.parametrize(
    "text",
    [
        URI,
        f"The application gets every row from {URI} (expires 2026-11-21 10:15 UTC).",
        f"Das vollständige Ergebnis steht unter {URI}.",
        f"全ての行は {URI} にあります",
        f"📊 847 rows. Full data: <{URI}>",
        f"[the rows]({URI})",
        f"`{URI}`",
        f"{URI}, {URI} and again {URI}!",
        f"Found:\n\n|id|\n|-|\n|1|\n\n{URI}\n",
        f"Sample from https://example.com/docs, all of it from {URI}",
    ],
)
def test_the_only_uri_of_a_text(text: str) -> None:
    assert uris(text) == [URI]
    assert uris([{"type": "text", "text": text}]) == [URI]
    assert uris({"role": "tool", "content": text}) == [URI]
    [parsed] = client.find(text)
    assert (parsed.sample, parsed.total_count, parsed.columns, parsed.name) == ([], None, [], "")


@pytest.mark.parametrize(
    "uri",
    [
        "dualsql://results/a132548d-f08c-43d0-bd85-c2a69821a292",
        "my-app+results://a/aeaf5cde8b2a4012ad64533ecc84072f",
        FOUND,
    ],
)
def test_any_scheme_that_names_results(uri: str) -> None:
    assert uris(f"All rows: {uri}") == [uri]


def test_nearly_every_id_of_a_server() -> None:
    drawn = [f"resource://{secrets.token_urlsafe(20)}" for _ in range(2_000)]
    assert sum(uris(f"See {uri}") == [uri] for uri in drawn) > 1_960
    assert all(uris(f"The application gets every row from {uri} (kept).") == [uri] for uri in drawn)
    assert all(uris(f"Rows for the application: {uri}") == [uri] for uri in drawn)


@pytest.mark.parametrize(
    "text",
    [
        f"{URI} or {FOUND}",
        f"{URI}…",
        f"{URI}...",
        f"{URI}[truncated]",
        f"{URI}%20x",
        f"{URI}/rows",
        f"{URI}?limit=5",
        f"{URI}#x",
        f"{URI}.json",
        f"x{URI[1:]}-",
        "resource://short",
        "resource://Meeting-Notes-2026-Q1-Planning",
        "resource://GettingStartedWithTheToolkit",
        "resource://quarterly-report-for-the-finance-team",
        "resource://search_json_1764792555209_7hb77x",
        "resource://AWS-S3-EC2-VPC-Setup-Guide-V2",
        "resource://0000000000000000000000000001",
        f"notes://{RESOURCE_ID}",
        f"https://resource/{RESOURCE_ID}",
        f"file://results/{RESOURCE_ID}",
        f"http://api.example.com/resources/{RESOURCE_ID}",
        "attachment://1f0663a6-a6e4-410d-9163-9cccb61bee7e",
        f"resource:{RESOURCE_ID}",
        f"resource:/ /{RESOURCE_ID}",
    ],
)
def test_a_doubtful_one_is_none(text: str) -> None:
    assert uris(text) == []


def test_texts_count_only_where_there_is_nothing_else() -> None:
    assert uris([{"type": "text", "text": FOUND}, structured()]) == [URI]


def test_an_error_s_text_is_not_looked_at() -> None:
    assert uris({"isError": True, "content": [{"type": "text", "text": URI}]}) == []


def test_a_cell_is_no_text() -> None:
    assert uris({"rows": [{"id": 1, "link": URI, "note": f"see {URI}"}]}) == []


def test_much_text_is_bounded() -> None:
    assert uris([f"see resource://{secrets.token_urlsafe(20)}" for _ in range(5_000)]) != []
    assert uris(["x://" * 2_000_000, URI]) == []
    assert uris("a://" + "b/" * 1_000_000) == []


@given(st.text(st.sampled_from("resource://abAB019-_. \n[]()…%"), max_size=200))
def test_no_text_raises(text: str) -> None:
    assert len(client.find(f"{text}{URI}{text}")) <= 1
