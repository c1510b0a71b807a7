"""What is read from a kept result is what its database gave, byte for byte, over every type of docs/types.md."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pytest
from sqlalchemy import select

from dualsql import LocalResultStorage
from tests.columns.kinds import table
from tests.columns.kinds.results import Served, served, table_of
from tests.columns.kinds.test_table import filled

NOT_KEPT = {
    ("PostgreSQL", "NUMERIC"): "NaN",
    ("PostgreSQL", "TIMETZ"): "a time with a zone",
    ("PostgreSQL", "TIMESTAMPTZ "): "infinity",
    ("PostgreSQL", "DATE "): "before the year 1",
    ("PostgreSQL", "INTERVAL "): "months",
    ("PostgreSQL", "FLOAT8[]"): "NaN",
    ("PostgreSQL", "NUMERIC[]"): "NaN",
    ("DuckDB", "HUGEINT"): "beyond 64 bits",
    ("DuckDB", "UHUGEINT"): "beyond 64 bits",
    ("DuckDB", "DATE "): "infinity",
    ("DuckDB", "TIMESTAMP "): "infinity",
}
"""Values for which no exact form is kept, by their engine and type."""
FORMATS = ("ndjson", "csv", "json", "arrow", "parquet", "xlsx")


def read(answer: httpx.Response, written: str) -> Any:
    """The bytes of an answer; of Arrow and Parquet the schema and the values.

    PostgreSQL's own batches have another layout, and its documents in them have spaces.
    """
    if written in ("arrow", "parquet") and answer.status_code == 200:
        with suppress(pa.ArrowInvalid):  # it ends with a problem
            found = table_of(answer, written)
            return found.schema, [list(map(parsed, row.values())) for row in found.to_pylist()]
    return answer.content


def parsed(value: Any) -> Any:
    """The object of a document, and any other value."""
    return json.loads(value) if isinstance(value, str) and value.startswith("{") else repr(value)


async def answers(server: Served, statement: Any, **options: Any) -> tuple[Any, dict[str, Any]]:
    """What the metadata say of the kept rows, and the answer in each format."""
    made = await server.dual.create_response(statement, name="kinds", **options)
    described = await server.dual.describe(made.resource_id, None)
    path = f"/resources/{made.resource_id}/rows"
    found = {
        written: read(await server.http.post(path, json={"format": written}), written) for written in FORMATS
    }
    found["sample"] = made.sample, made.columns
    return described.get("kept"), found


async def refined(server: Served, statement: Any, *, keep: bool) -> dict[str, Any]:
    """A refinement of a result, in each format; where the result is kept, it is kept too."""
    parent = await server.dual.create_response(statement, name="kinds", keep=keep)
    asked = {"filters": [{"column": "id", "op": "gte", "value": 0}], "order_by": ["id"]}
    made = await server.dual.create_response(name="refined", parent=parent.resource_uri, refinement=asked)
    said = (await server.dual.describe(made.resource_id, None)).get("kept")
    assert (said is not None and said["kept"]) is keep, said
    path = f"/resources/{made.resource_id}/rows"
    return {
        written: read(await server.http.post(path, json={"format": written}), written) for written in FORMATS
    }


async def compared(server: Served, statement: Any) -> str | None:
    """Compare the kept answers with the live ones. Returns why the rows are not kept."""
    _, live = await answers(server, statement)
    said, kept = await answers(server, statement, keep=True)
    for written, answer in kept.items():
        assert answer == live[written], written
    if said["kept"]:
        assert said["rows"] == 1
        return None
    return str(said["reason"])


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:Type object.*OperatorClass:DeprecationWarning")
@pytest.mark.parametrize("engine", table.KINDS)
async def test_every_type_comes_back_as_it_was(
    engine: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    kinds = table.KINDS[engine]
    url, declared = await filled(engine, tmp_path, request), table.declared(kinds)
    storage = LocalResultStorage(tmp_path / "kept")
    async with served(url, declared.metadata, storage=storage) as server:
        refused = {}
        for number, kind in enumerate(kinds):
            reason = await compared(server, select(declared.c.id, declared.c[f"c{number}"]))
            if reason is not None:
                refused[engine, kind.sql_type] = reason
        assert refused.keys() == {key for key in NOT_KEPT if key[0] == engine}, refused
        kept = [
            declared.c[f"c{number}"]
            for number, kind in enumerate(kinds)
            if (engine, kind.sql_type) not in refused
        ]
        assert await compared(server, select(declared.c.id, *kept)) is None
        whole = select(declared.c.id, *kept)
        live, of_kept = [await refined(server, whole, keep=keep) for keep in (False, True)]
        for written, answer in of_kept.items():
            assert answer == live[written], written
