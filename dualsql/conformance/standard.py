"""The table of sentences, the JSON Schemas of the shapes, and the rows of the documented tool."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from importlib.resources import files
from typing import Any, Literal

Level = Literal["MUST", "SHOULD", "MAY"]
Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sentence:
    """One sentence of the standard.

    Attributes:
        check: the function of `dualsql.conformance.checks` for it.
        steps: requests with what is expected of their answers, in this order; docs/standard describes their keys.
        fresh: the check changes the resource, so it needs one of its own.
        needs: another part that the check needs.
        task, behaviour, answer: for a client: what it fetches, how the server behaves, and whether the client must
            return the rows, an error, or say that there is no dual response.

    A sentence with neither `check` nor `steps` nor `task` cannot be tested from outside.
    """

    number: str
    part: str
    level: Level
    text: str
    check: str | None = None
    steps: Sequence[Mapping[str, Any]] = ()
    fresh: bool = False
    needs: str | None = None
    task: str | None = None
    behaviour: str = ""
    answer: Literal["rows", "error", "none"] = "rows"


@cache
def standard() -> Mapping[str, Any]:
    """The file standard.json."""
    table: Mapping[str, Any] = json.loads(files(__package__).joinpath("standard.json").read_text("utf-8"))
    return table


@cache
def sentences() -> tuple[Sentence, ...]:
    """All sentences, in the order of the document."""
    names = {field.name for field in fields(Sentence)}
    assert all(entry.keys() <= names for entry in standard()["sentences"])
    return tuple(Sentence(**entry) for entry in standard()["sentences"])


@cache
def schema_of(shape: str) -> Mapping[str, Any]:
    """The JSON Schema of a shape, which dualsql-client publishes."""
    text = files("dualsql_client").joinpath("schemas", f"{shape}.json").read_text("utf-8")
    schema: Mapping[str, Any] = json.loads(text)
    return schema


def standard_row(number: int) -> Row:
    """The row with this number, from 1, of the documented tool: texts, equal keys, NULLs."""
    score = None if number % 5 == 0 else number * 7 % 10
    return {"id": number, "name": f"row {number:04}", "kind": "abc"[number % 3], "score": score}
