"""Write the generated files of docs/standard: python scripts/make_standard.py

The JSON Schemas in client/dualsql_client/schemas are made of the types in its `wire` and `wire_requests`; the
sentences of docs/standard/README.md are those of dualsql/conformance/standard.json.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from dualsql.conformance.standard import Sentence, sentences, standard
from dualsql_client import wire, wire_requests

TYPES = {**vars(wire), **vars(wire_requests)}
ROOT = Path(__file__).parents[1]
SCHEMAS = ROOT / "client" / "dualsql_client" / "schemas"
DOCUMENT = ROOT / "docs" / "standard" / "README.md"


def main() -> None:
    SCHEMAS.mkdir(exist_ok=True)
    for path, text in files().items():
        path.write_text(text, encoding="utf-8")


def files() -> dict[Path, str]:
    """The generated files and their texts."""
    return {**dict(schemas()), DOCUMENT: with_sentences(DOCUMENT.read_text(encoding="utf-8"))}


def with_sentences(document: str) -> str:
    """The document with the sentences of the table in place of its own."""
    lines = {each.number: each for each in sentences()}
    text = re.sub(
        r"^- \*\*(\d+\.\d+)\*\*.*$",
        lambda match: sentence_line(lines.pop(match[1])),
        document,
        flags=re.MULTILINE,
    )
    assert not lines, f"the document lacks lines of the sentences {', '.join(lines)}"
    return text


def sentence_line(sentence: Sentence) -> str:
    """A sentence as the document has it."""
    bold = re.sub(r"\b(MUST|SHOULD|MAY)( NOT)?\b", r"**\1\2**", sentence.text)
    return f"- **{sentence.number}** {bold}"


def schemas() -> Iterator[tuple[Path, str]]:
    """The JSON Schema of each shape."""
    for name in standard()["shapes"]:
        schema = without_prose(TypeAdapter(TYPES[name]).json_schema())
        definitions = {each: narrowed(each, part) for each, part in schema.pop("$defs", {}).items()}
        schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", **narrowed(name, schema)}
        if used := {each: definitions[each] for each in sorted(references_in(schema, definitions))}:
            schema["$defs"] = used
        # Lists of names, and types of one word, are on one line.
        text = re.sub(r"[\[{]\s+([^\[\]{}]*?)\s+[\]}]", in_a_line, json.dumps(schema, indent=1))
        yield SCHEMAS / f"{name}.json", f"{text}\n"


def in_a_line(match: re.Match[str]) -> str:
    """A list or an object without others in it, without its line breaks."""
    inside = re.sub(r"\s*\n\s*", " ", match[1])
    return f"{match[0][0]}{inside}{match[0][-1]}"


def without_prose(schema: Any) -> Any:
    """The schema without pydantic's titles and the docstrings of the types."""
    if isinstance(schema, list):
        return [without_prose(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: without_prose(part)
        for key, part in schema.items()
        if key not in ("title", "description") or not isinstance(part, str)
    }


def narrowed(name: str, schema: dict[str, Any]) -> dict[str, Any]:
    """The schema of a type with the properties of the standard, of which few are required."""
    if name not in standard()["shapes"]:
        return schema
    omitted = standard()["omitted"].get(name, ())
    properties = {key: part for key, part in schema["properties"].items() if key not in omitted}
    return {**schema, "properties": properties, "required": standard()["shapes"][name]}


def references_in(schema: Any, definitions: dict[str, Any]) -> set[str]:
    """The definitions that a schema refers to, directly or by others."""
    names = set(re.findall(r"#/\$defs/(\w+)", json.dumps(schema)))
    return names.union(*(references_in(definitions[name], definitions) for name in names))


if __name__ == "__main__":
    main()
