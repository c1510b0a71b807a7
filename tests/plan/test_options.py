"""A with_loader_criteria() holds however its Select is wrapped."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import select, union_all
from sqlalchemy.dialects import sqlite
from sqlalchemy.orm import with_loader_criteria

from dualsql.capabilities import capabilities_of
from dualsql.plan import KeysetPosition, count, ordered, page, page_beside, shape
from tests.schools import School

SQLITE = sqlite.dialect()
_ONLY_NJ = with_loader_criteria(School, School.state == "NJ")
_CRITERIA: dict[str, Any] = {
    "select": select(School.id).options(_ONLY_NJ),
    "limited": select(School.id).limit(3).options(_ONLY_NJ),
    "union": union_all(select(School.id), select(School.id)).options(_ONLY_NJ),
    "renamed": select(School.id, School.id.label("id")).options(_ONLY_NJ),
    "columns changed": select(School).options(_ONLY_NJ).with_only_columns(School.name),
}


@pytest.mark.parametrize("name", _CRITERIA)
def test_a_criterion_is_never_lost(name: str) -> None:
    capabilities = capabilities_of(SQLITE)
    shaped = shape(_CRITERIA[name])
    key = shaped.columns[0].name
    for_sorting = ordered(shaped, capabilities, sort=[{"field": key, "order": "desc"}])
    plain = ordered(shaped, capabilities)
    beside = page_beside(plain, KeysetPosition(values=(3,)), limit=5).select
    for derived in (count(shaped), beside, *(page(rows, offset=0, limit=5) for rows in (plain, for_sorting))):
        compiled = derived.compile(dialect=SQLITE)
        assert str(compiled).count("schools.state = ?") == (2 if name == "union" else 1)
        assert "NJ" in compiled.params.values()
