"""Write client-js/src/openapi.ts from the OpenAPI document: python scripts/make_javascript_types.py

It needs Node and npm (`scripts/typescript_environment`). The tests fail when the document has changed since.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from dualsql.cli.serve import openapi

ROOT = Path(__file__).parents[1]
TYPES = ROOT / "client-js" / "src" / "openapi.ts"
GENERATOR = ROOT / ".typescript" / "node_modules" / ".bin" / "openapi-typescript"

BODIES = ("/{id}", "/{id}/rows", "/{id}/query", "/{id}/sql")
"""The paths whose request bodies the client sends."""
SCHEMAS = {
    "Column", "Condition", "ListedResource", "Page", "Problem", "Profile", "ResourceDescription", "SortKey",
}  # fmt: skip
"""What else it reads and writes."""


def main() -> None:
    subprocess.run([ROOT / "scripts" / "typescript_environment"], check=True)
    TYPES.write_text(f"// SHA-256 of the shapes: {digest()}\n{generated()}", encoding="utf-8")


def shapes() -> dict[str, Any]:
    """The OpenAPI document, of what the client uses: bodies of requests and schemas."""
    document = json.loads(openapi("http://127.0.0.1"))
    schemas = document["components"]["schemas"]
    paths = {
        name: {"post": {"requestBody": document["paths"][name]["post"]["requestBody"], "responses": {}}}
        for name in BODIES
    }
    names: set[str] = set()
    waiting = SCHEMAS | _references(paths)
    while waiting:
        names |= waiting
        waiting = {name for schema_name in waiting for name in _references(schemas[schema_name])} - names
    return {
        "openapi": document["openapi"],
        "info": document["info"],
        "paths": paths,
        "components": {"schemas": {name: schemas[name] for name in sorted(names)}},
    }


def _references(part: Any) -> set[str]:
    if isinstance(part, dict):
        own = {part["$ref"].rpartition("/")[2]} if isinstance(part.get("$ref"), str) else set()
        return own.union(*map(_references, part.values()))
    return set().union(*map(_references, part)) if isinstance(part, list) else set()


def digest() -> str:
    """Changes with the shapes, and not with the version."""
    shape = {name: part for name, part in shapes().items() if name != "info"}
    return hashlib.sha256(json.dumps(shape, sort_keys=True).encode()).hexdigest()


def generated() -> str:
    """What the generator writes."""
    with tempfile.NamedTemporaryFile("w", suffix=".json") as document:
        json.dump(shapes(), document)
        document.flush()
        return subprocess.run([GENERATOR, document.name], check=True, capture_output=True, text=True).stdout


if __name__ == "__main__":
    main()
