"""Values for a statement that takes none: every placeholder is found, and nothing that only looks like one."""

from __future__ import annotations

from typing import Any

import pytest
from asyncpg.types import Type  # type: ignore[import-untyped]

from dualsql.databases.postgresql.streams import setting_statement, without_parameters

INTEGER = Type(23, "int4", "scalar", "pg_catalog")
MOOD = Type(99_999, 'mo"od', "scalar", "public")
DATE = Type(1082, "date", "scalar", "pg_catalog")

READ = """(current_setting('dualsql.value_1')::"pg_catalog"."int4")"""


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT $1", f"SELECT {READ}"),
        ("SELECT $1, '$1', \"$1\", 'a''$1', $1", f"SELECT {READ}, '$1', \"$1\", 'a''$1', {READ}"),
        ("SELECT 1", None),
        ("SELECT $1, $2", None),
        ("SELECT $2", None),
        ("SELECT $$ $1 $$, $1", None),
        ("SELECT $a$ $1 $a$, $1", None),
        ("SELECT E'\\'$1', $1", None),
        ("SELECT $1 -- '", None),
        ("SELECT $1 /* ' */", None),
    ],
)
def test_placeholders(sql: str, expected: str | None) -> None:
    assert without_parameters(sql, [7], [INTEGER, INTEGER]) == expected


@pytest.mark.parametrize("values", [[None], [1] * 201])
def test_what_cannot_be_carried(values: list[Any]) -> None:
    sql = "SELECT " + ", ".join(f"${number}" for number, _ in enumerate(values, 1))
    assert without_parameters(sql, values, [INTEGER] * len(values)) is None


def test_names_of_types_are_quoted() -> None:
    assert (
        without_parameters("$1", ["x"], [MOOD])
        == """(current_setting('dualsql.value_1')::"public"."mo""od")"""
    )
    assert '::"public"."mo""od")::text' in setting_statement([MOOD])
    assert "to_json(" in setting_statement([DATE])
