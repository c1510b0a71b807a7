"""What is chosen for the headers that callers send, the malformed ones among them."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from dualsql.http.parameters import preferred_coding, preferred_media_type
from dualsql.http.problems import NotAcceptableError

NDJSON, JSON, CSV = "application/x-ndjson", "application/json", "text/csv"
OFFERED = [NDJSON, JSON, CSV]
BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"


@pytest.mark.parametrize(
    ("accepted", "chosen"),
    [
        ([], NDJSON),
        ([""], NDJSON),
        (["*/*"], NDJSON),
        ([BROWSER], NDJSON),
        (["text/csv"], CSV),
        (["TEXT/CSV; header=absent"], CSV),
        (["text/*"], CSV),
        (["application/*"], NDJSON),
        (["application/json, */*;q=0.1"], JSON),
        (["text/csv;q=0.4, application/json;q=0.5"], JSON),
        (["text/csv;q=0.4", "application/json;q=0.3"], CSV),
        (["application/*;q=0.9, application/x-ndjson;q=0"], JSON),
        (["*/*, application/x-ndjson;q=0, application/json;q=0"], CSV),
        (["text/csv;q=0"], None),
        (["image/png"], None),
        (["*/*;q=0"], None),
        # What is no weight is none.
        (["text/csv;q=two, application/json;q=0.1"], JSON),
        (["text/csv;q=-1, application/json;q=0.1"], JSON),
        (["text/csv;q=nan, application/json;q=0.1"], JSON),
        (["text/csv;q=1e999, application/json;q=0.1"], JSON),
    ],
)
def test_media_types(accepted: list[str], chosen: str | None) -> None:
    assert preferred_media_type(accepted, OFFERED) == chosen


@pytest.mark.parametrize(
    ("accepted", "chosen"),
    [
        ([], None),
        ([""], None),
        (["identity"], None),
        (["gzip"], "gzip"),
        (["gzip, deflate, br, zstd"], "zstd"),
        (["gzip, zstd;q=0.9"], "gzip"),
        (["zstd;q=0, gzip"], "gzip"),
        (["br"], None),
        (["*"], "zstd"),
        (["gzip;q=0.5, identity"], None),
        (["gzip;q=0"], None),
    ],
)
def test_codings(accepted: list[str], chosen: str | None) -> None:
    assert preferred_coding(accepted, ["zstd", "gzip"]) == chosen


@pytest.mark.parametrize("accepted", ["identity;q=0", "*;q=0", "br, identity;q=0"])
def test_a_caller_who_takes_no_coding_at_all(accepted: str) -> None:
    with pytest.raises(NotAcceptableError):
        preferred_coding([accepted], ["zstd", "gzip"])


@given(st.lists(st.text(max_size=200), max_size=3))
def test_no_header_is_an_error(accepted: list[str]) -> None:
    assert preferred_media_type(accepted, OFFERED) in {*OFFERED, None}


def test_a_header_without_end_is_read_in_part() -> None:
    assert preferred_media_type([",".join(["a/b"] * 100_000 + ["text/csv"])], OFFERED) is None
