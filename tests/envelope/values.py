"""Strategies: values that are JSON, and values that a tool might return all the same."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts
)
json_values: st.SearchStrategy[Any] = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=15,
)

odd_scalars = (
    scalars
    | st.floats()
    | st.integers()
    | st.decimals()
    | st.binary(max_size=20)
    | st.text(max_size=20)  # half surrogate pairs too
    | st.datetimes()
    | st.datetimes(timezones=st.just(dt.UTC))
    | st.timedeltas()
    | st.uuids()
    | st.complex_numbers()
    | st.just(object())
)
# A signalling NaN cannot be hashed.
odd_keys = odd_scalars.filter(lambda key: not isinstance(key, Decimal) and key == key)  # noqa: PLR0124
# The words an envelope is made of, so that half and wrong envelopes come up.
words = st.sampled_from(
    "success timestamp content data error code message details type text image resource url altText isError "
    "structuredContent metadata display operation status rows dataAccessId entities suggestion resource_link uri "
    "mimeType resourceType identifier name executionTime cached".split()
)
anything: st.SearchStrategy[Any] = st.recursive(
    odd_scalars | words,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(words, inner, max_size=6)
        | st.dictionaries(odd_keys, inner, max_size=3)
        | st.tuples(inner, inner)
    ),
    max_leaves=20,
)

items = st.fixed_dictionaries(
    {"type": st.sampled_from(["text", "image", "resource", "resource_link", "audio", "other"])},
    optional={
        "text": anything,
        "url": st.sampled_from(["https://example.com/a.png", "javascript:alert(1)", ""]) | anything,
        "altText": anything,
        "resourceType": anything,
        "identifier": anything,
        "name": anything,
        "data": anything,
        "mimeType": st.sampled_from(["image/png", "image/svg+xml"]) | anything,
        "resource": anything,
        "uri": anything,
    },
)
envelopes = st.fixed_dictionaries(
    {},
    optional={
        "success": st.booleans() | anything,
        "timestamp": st.sampled_from(["2026-01-31T12:00:00Z", "yesterday"]) | anything,
        "content": st.lists(items, max_size=3) | anything,
        "data": anything,
        "error": anything,
        "message": anything,
        "isError": st.booleans(),
        "structuredContent": anything,
        "metadata": anything,
        "display": anything,
    },
)
