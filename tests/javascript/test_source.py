"""The source of the JavaScript client on a node that runs TypeScript: against a real server, and against wrong ones."""

from __future__ import annotations

import json
import runpy
from collections.abc import Iterator
from typing import Any

import pytest

from dualsql_client import DualResponseClient
from tests.client import foreign, ordinary
from tests.client.carriers import texts_encoded_twice
from tests.client.cases import BASE_URL, CARRIED, cases, cut_texts
from tests.client.mixtures import mixed_texts, mixed_values
from tests.client.recorded import SHAPES, recordings_of_dualsql
from tests.javascript.running import PACKAGE, node, run
from tests.javascript.serving import given_to_client

ROOT = PACKAGE.parent


def test_the_generated_types_are_those_of_the_openapi_document() -> None:
    script = runpy.run_path(str(ROOT / "scripts" / "make_javascript_types.py"))
    is_current = (
        (PACKAGE / "src" / "openapi.ts")
        .read_text()
        .startswith(f"// SHA-256 of the shapes: {script['digest']()}\n")
    )
    assert is_current, "run: python scripts/make_javascript_types.py (it needs npm)"


def test_nothing_but_its_own_files_is_imported() -> None:
    described = json.loads((PACKAGE / "package.json").read_text())
    assert "dependencies" not in described
    for source in (PACKAGE / "src").glob("*.ts"):
        imported = [
            line for line in source.read_text().splitlines() if " from " in line and line.endswith('";')
        ]
        assert [line for line in imported if 'from "./' not in line] == []
        # A script writes openapi.ts.
        assert source.name == "openapi.ts" or len(source.read_text().splitlines()) < 700


async def test_numbers_keep_their_digits() -> None:
    await run(node(), "json.test.mjs")


@pytest.mark.long
async def test_the_same_is_found_as_by_the_python_client() -> None:
    python = DualResponseClient(BASE_URL)
    actual = [{"name": name, "value": value, "found": _found(python, value)} for name, value in _inputs()]
    await run(node(), "detect.test.mjs", given=actual)


@pytest.mark.parametrize("number", [300, pytest.param(5_000, marks=pytest.mark.long)])
async def test_the_same_is_found_in_random_values(number: int) -> None:
    python = DualResponseClient(BASE_URL)
    values = [*mixed_texts(number // 2, seed=number), *mixed_values(number // 2, seed=number)]
    actual = [{"value": value, "found": _found(python, value)} for value in values]
    assert sum(1 for each in actual if each["found"]) > number // 3
    await run(node(), "mixtures.test.mjs", given=actual)


def _found(client: DualResponseClient, value: Any) -> list[Any]:
    return [
        [each.resource_uri, each.name, len(each.sample), each.total_count, len(each.columns)]
        for each in client.find(value)
    ]


def _inputs() -> Iterator[tuple[str, Any]]:
    for file in sorted(SHAPES.glob("*.json")):
        for case, dump in json.loads(file.read_text("utf-8")).items():
            yield f"{file.stem}: {case}", dump
            yield f"{file.stem}: {case} as text", json.dumps(dump)
    yield from ((name, dump) for name, dump, _ in recordings_of_dualsql())
    yield from (ordinary.RESULTS | foreign.RESULTS).items()
    yield from ((case.name, case.value) for case in cases())
    # A set or bytes are no JSON, and the same to both as their text.
    yield from (
        (name, json.loads(json.dumps(value, default=bytes.decode))) for name, value in CARRIED.items()
    )
    yield from ((name, text) for name, text, _ in cut_texts())
    yield from (
        (name, json.loads(json.dumps(value, default=bytes.decode))) for name, value in texts_encoded_twice()
    )


@pytest.mark.long
async def test_rows_of_a_real_server_and_errors_of_wrong_ones(sqlite_url: str) -> None:
    async with given_to_client(sqlite_url) as given:
        await run(node(), "client.test.mjs", given=given)
