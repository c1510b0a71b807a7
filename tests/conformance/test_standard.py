"""The document, the table of sentences, the schemas, both clients' types and OpenAPI say the same."""

from __future__ import annotations

import json
import re
import runpy
from pathlib import Path
from typing import Any, get_type_hints

import pytest

from dualsql.conformance import checks
from dualsql.conformance.rows_server import RowsServer
from dualsql.conformance.standard import schema_of, sentences, standard
from dualsql.openapi.document import component_schemas
from dualsql.openapi.service import EXTENSION, STANDARD_PARTS, WELL_KNOWN

ROOT = Path(__file__).parents[2]
TYPES = runpy.run_path(str(ROOT / "scripts" / "make_standard.py"))["TYPES"]
DOCUMENT = ROOT / "docs" / "standard" / "README.md"
STEP = {
    "send", "at", "query", "json", "text", "as", "expect", "schema", "rows", "equals", "matches", "header", "keep",
    "alike",
}  # fmt: skip
SHAPES = sorted(standard()["shapes"])
CHARACTERS_OF_A_PAGE = 3_600


def test_generated_files_are_current() -> None:
    generated = runpy.run_path(str(ROOT / "scripts" / "make_standard.py"))["files"]()
    stale = [path.name for path, text in generated.items() if path.read_text(encoding="utf-8") != text]
    assert stale == [], "run: python scripts/make_standard.py"
    folder = next(path.parent for path in generated if path.suffix == ".json")
    assert {path.name for path in folder.iterdir()} == {f"{name}.json" for name in SHAPES}


def test_the_document_has_ten_pages() -> None:
    assert len(DOCUMENT.read_text(encoding="utf-8")) <= 10 * CHARACTERS_OF_A_PAGE


def test_each_sentence_is_checked_or_says_that_it_cannot_be() -> None:
    names = [each.check for each in sentences() if each.check]
    assert all(callable(getattr(checks, name, None)) for name in names)
    public = {
        name
        for name, value in vars(checks).items()
        if name[0] != "_" and getattr(value, "__module__", "") == checks.__name__
    }
    assert public == set(names)
    assert {key for each in sentences() for step in each.steps for key in step} <= STEP
    numbers = [each.number for each in sentences()]
    assert len(set(numbers)) == len(numbers)
    for each in sentences():
        assert each.part in {*standard()["required"], *standard()["optional"], "client", "versions"}
        assert re.search(rf"\b{each.level}\b", each.text), each.number


def test_the_document_names_each_part_and_each_name_of_the_protocol() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    assert standard()["extension"] == EXTENSION
    assert standard()["well_known"] == WELL_KNOWN
    assert {*STANDARD_PARTS, "identity"} == set(standard()["optional"])
    for name in (EXTENSION, WELL_KNOWN, *(f"`{part}`" for part in standard()["optional"])):
        assert name in text


@pytest.mark.parametrize("name", SHAPES)
def test_a_shape_is_that_of_the_types_and_of_openapi(name: str) -> None:
    """What dualsql writes, and its clients read, is what the schema says: no property of another type, none missing."""
    schema, hints = schema_of(name), get_type_hints(TYPES[name])
    assert set(schema["properties"]) <= set(hints)
    assert set(schema["required"]) <= set(schema["properties"])
    component = component_schemas(is_dual_mode=False).get(name)
    if component is None:
        return
    assert set(schema["required"]) <= set(component["required"])
    for key, part in schema["properties"].items():
        assert plain(part) == plain(component["properties"][key]), key


def plain(schema: Any) -> Any:
    """A schema without descriptions, its references by the last word."""
    text = re.sub(r"#/(?:components/schemas|\$defs)/", "", json.dumps(schema))
    return {key: value for key, value in json.loads(text).items() if key not in ("description", "examples")}


def test_the_javascript_types_are_made_of_the_same_shapes() -> None:
    script = runpy.run_path(str(ROOT / "scripts" / "make_javascript_types.py"))
    used = set(script["SCHEMAS"]) & set(SHAPES)
    assert {"Column", "Page", "ResourceDescription", "Problem", "SortKey"} <= used
    assert f"SHA-256 of the shapes: {script['digest']()}" in script["TYPES"].read_text(encoding="utf-8")


def test_the_server_for_clients_writes_the_documented_rows() -> None:
    server = RowsServer("http://127.0.0.1:1")
    content = server.tool_result(server.create(3))["structuredContent"]
    assert content["results"][0] == {"id": 1, "name": "row 0001", "kind": "b", "score": 7}
