"""What the client finds in each case that both clients have, in each carrier, and in a result that is cut anywhere."""

from __future__ import annotations

from typing import Any

import pytest

from dualsql_client import DualResponseClient
from tests.client.cases import BASE_URL, CARRIED, CARRIED_URI, Case, cases, cut_texts

client = DualResponseClient(BASE_URL)
parser = DualResponseClient()


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_each_case(case: Case) -> None:
    found = [[each.resource_uri, len(each.sample), each.total_count] for each in client.find(case.value)]
    assert found == case.found


@pytest.mark.quick(30)
@pytest.mark.parametrize("carrier", CARRIED.values(), ids=CARRIED.keys())
def test_each_carrier(carrier: Any) -> None:
    for reader in (client, parser):
        assert [each.resource_uri for each in reader.find(carrier)] == [CARRIED_URI]


def test_there_are_two_hundred_of_them() -> None:
    assert len(CARRIED) >= 200


def test_a_result_that_is_cut_anywhere_behind_its_link() -> None:
    for name, text, has_id in cut_texts():
        assert [each.resource_uri for each in client.find(text)] == [CARRIED_URI] * has_id, name
