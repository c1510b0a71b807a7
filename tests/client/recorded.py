"""Tool results as agent SDKs delivered them. They come back as objects, not as dumps.

`shapes/*.json` hold excerpts of recordings made by running each SDK; `{"__type__": "module.Class", ...}` is
an object of that class. A class of that name with the same attributes stands in for it, which is all that
detection may look at, so no SDK has to be installed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import make_dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic import AnyUrl

SHAPES = Path(__file__).parent / "shapes"
RECORDED = SHAPES / "dualsql"
"""Results of dualsql itself, as `DUALSQL_RECORD_SHAPES=1 make test-sdks` records them; of 2026-11-28."""
URI = "dualsql://results/Zk3qT9vWmm4LxR7bNc1YdPo8HsTzESv9s"
URL = "http://127.0.0.1:18199/dual/resources/Zk3qT9vWmm4LxR7bNc1YdPo8HsTzESv9s"


def recordings() -> Iterator[tuple[str, Any]]:
    """Name and tool result of every recording, such as ("mcp: linkonly/wire", {...})."""
    for file in sorted(SHAPES.glob("*.json")):
        for case, dump in json.loads(file.read_text("utf-8")).items():
            yield f"{file.stem}: {case}", revived(dump)


def recordings_of_dualsql() -> Iterator[tuple[str, Any, list[list[Any]]]]:
    """Name and tool result of every recording of a result of dualsql, with sample and total of what is found in it."""
    for file in sorted(RECORDED.glob("*.json")):
        for form, recorded in json.loads(file.read_text("utf-8")).items():
            yield f"{file.stem}: {form}", recorded["value"], recorded["found"]


def revived(dump: Any) -> Any:
    """The object that a dump describes."""
    if isinstance(dump, list):
        return [revived(item) for item in dump]
    if not isinstance(dump, dict):
        return dump
    fields = {name: revived(item) for name, item in dump.items()}
    kind = fields.pop("__type__", None)
    if kind is None:
        return fields
    if kind == "pydantic.networks.AnyUrl":
        return AnyUrl(fields["__repr__"].removeprefix("AnyUrl('").removesuffix("')"))
    if kind == "datetime.datetime":
        return datetime(2026, 11, 21, tzinfo=UTC)
    return make_dataclass(kind.rpartition(".")[2], list(fields))(**fields)
