"""What the client finds in each case that both clients have, in each carrier, and in a result that is cut anywhere."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dualsql_client import DualResponseClient
from dualsql_client.identifiers import with_checksum
from tests.client.carriers import texts_encoded_twice
from tests.client.cases import BASE_URL, CARRIED, CARRIED_URI, Case, cases, cut_texts
from tests.client.hosting import structured
from tests.client.mixtures import mixed_texts, mixed_values
from tests.client.strange import WRAPPED

client = DualResponseClient(BASE_URL)
parser = DualResponseClient()


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_each_case(case: Case) -> None:
    actual = [[each.resource_uri, len(each.sample), each.total_count] for each in client.find(case.value)]
    assert actual == case.found


@pytest.mark.quick(30)
@pytest.mark.parametrize("carrier", CARRIED.values(), ids=CARRIED.keys())
def test_each_carrier(carrier: Any) -> None:
    for reader in (client, parser):
        assert [each.resource_uri for each in reader.find(carrier)] == [CARRIED_URI]


@pytest.mark.parametrize("text", WRAPPED.values(), ids=WRAPPED.keys())
def test_each_odd_wrapping(text: Any) -> None:
    for reader in (client, parser):
        assert [each.resource_uri for each in reader.find(text)] == [CARRIED_URI]


@pytest.mark.long
def test_each_encoding_of_each_encoding() -> None:
    for name, value in texts_encoded_twice():
        assert [each.resource_uri for each in client.find(value)] == [CARRIED_URI], name


def test_there_are_two_hundred_of_them() -> None:
    assert len(CARRIED) >= 200


def test_a_result_that_is_cut_anywhere_behind_its_link() -> None:
    for name, text, has_id in cut_texts():
        assert [each.resource_uri for each in client.find(text)] == [CARRIED_URI] * has_id, name


def test_nothing_before_or_beside_a_result_hides_it() -> None:
    uri = f"resource://{with_checksum('Zq4x9hXv2ZkLwPmB7sYd1RcE0aT')}"
    structure = structured()
    structure["resource"]["uri"] = uri
    announced = f"Rows.\n\nThe application gets every row from {uri} (expires 2026-11-21 10:15 UTC)."
    for text in mixed_texts(1_000, seed=7):
        assert uri in [each.resource_uri for each in client.find(f"{text}\n\n{announced}")], text
        parsed = {each.resource_uri: each for each in client.find(f"{text}\n{json.dumps(structure)}")}
        assert len(parsed[uri].sample) == 1, text
    for value in mixed_values(1_000, seed=7):
        responses = client.find([value, {"role": "tool", "content": announced}])
        assert uri in [each.resource_uri for each in responses], value
