"""Results of ordinary tools are no dual responses, whatever an SDK wraps them in."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from dualsql_client import DualResponseClient, ParseError
from tests.client import foreign, ordinary
from tests.client.cases import BASE_URL
from tests.client.hosting import RESOURCE_ID, structured

client = DualResponseClient(BASE_URL)
RESULTS: dict[str, Any] = {**ordinary.RESULTS, **foreign.RESULTS}


@pytest.mark.quick(30)
@pytest.mark.parametrize("result", RESULTS.values(), ids=RESULTS.keys())
def test_no_ordinary_result_is_a_dual_response(result: Any) -> None:
    for form in (result, json.dumps(result), SimpleNamespace(output=result), {"output": json.dumps(result)}):
        assert client.find(form) == []
        assert client.parse(form) is None
    with pytest.raises(ParseError, match="no dual response"):
        client.parse(result, strict=True)


def test_there_are_many_of_them() -> None:
    assert len(RESULTS) >= 200
    assert client.find(list(RESULTS.values())) == []


def test_none_of_them_hides_one_or_is_taken_for_another() -> None:
    conversation = [*RESULTS.values(), json.dumps(structured()), *RESULTS.values()]
    assert [parsed.resource_uri for parsed in client.find(conversation)] == [f"resource://{RESOURCE_ID}"]
