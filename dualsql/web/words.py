"""Values, totals, times and schemas as a page writes them, and the words of its dialogs."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, NamedTuple

from dualsql.charts.chart import MARKS
from dualsql.columns.exact import decoded
from dualsql.formats.json import dumps
from dualsql.formats.text import beginning
from dualsql.query.aggregates import AGGREGATES
from dualsql.query.conditions import OPERATOR_KINDS
from dualsql.query.model import BUCKETS, OPERATORS, ConditionOperator
from dualsql.query.parse import MAXIMUM_GROUPS, MAXIMUM_MEASURES
from dualsql_client.wire import Column, Profile, Row, TotalCountKind

LONGEST_CELL = 500
"""Characters of one cell in a page without JavaScript."""
_SHORTEST_CELL = 50
_MOST_CHARACTERS = 250_000
"""Characters of all cells of a page, about: of many cells, each is cut earlier."""

# As HIDDEN in static/values.js. The tags of a flag (England's) are no secret, and neither are joiners between letters
# that join; behind a Latin one, nothing joins.
_HIDDEN = re.compile(
    "(\U0001f3f4[\U000e0020-\U000e007f]+)"
    "|[\\x00-\\x1f\\x7f-\\x9f\xad\u061c\u115f\u1160\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\u3164"
    "\ufeff\uffa0\ufff9-\ufffb\U000e0000-\U000e007f]"
    "|(?:^|(?<=[\\x00-\u024f]))[\u200c\u200d]"
)
_SIGNS = {"\n": "↵", "\r": "␍", "\t": "⇥"}

_NUMBERS = frozenset({"integer", "integer-string", "float", "decimal", "interval"})

CellKind = Literal["null", "empty", "number", "text", "json"]


class Cell(NamedTuple):
    """A cell as it is shown; `left_out` counts the characters that are not."""

    kind: CellKind
    text: str
    left_out: int = 0


def cells(columns: Sequence[Column], rows: Sequence[Row]) -> list[list[Cell]]:
    """The cells of each row, as the JSON of a page has their values."""
    longest = _MOST_CHARACTERS // max(1, len(columns) * len(rows))
    longest = min(LONGEST_CELL, max(_SHORTEST_CELL, longest))
    plain: list[Row] = decoded(dumps(list(rows)).decode(), _READER)
    return [[_cell(column, row[column["name"]], longest) for column in columns] for row in plain]


def _cell(column: Column, value: Any, longest: int) -> Cell:
    if value is None:
        return Cell("null", "NULL")
    if value == "":
        return Cell("empty", "")
    if isinstance(value, bool):
        return Cell("text", "true" if value else "false")
    kind: CellKind = "number" if is_number(column) else "json" if column["encoding"] == "json" else "text"
    head = beginning(value, longest)
    text = exact(head)
    # The text of millions of elements is not made: it is as long as their JSON, but for blanks.
    length = len(text) if head is value else max(len(text), len(dumps(value).decode()))
    return Cell(kind, visible(text[:longest]), max(0, length - longest))


_READER = json.JSONDecoder(parse_float=str)
"""Floats keep the digits that the JSON has."""


def exact(value: Any) -> str:
    """A value of the JSON as text."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def visible(text: str) -> str:
    """Characters that are not seen, or change the direction of others, as signs; a text of spaces as such."""
    text_ = _HIDDEN.sub(lambda match: match[1] or _SIGNS.get(match[0], f"⟨U+{ord(match[0]):04X}⟩"), text)
    return text_ if text.strip() else text_.replace(" ", "␣").replace("\u00a0", "⟨U+00A0⟩")


def is_number(column: Column) -> bool:
    """Whether the cells of a column stand at the right."""
    return column["encoding"] in _NUMBERS


def total_in_words(total: int | None, kind: TotalCountKind) -> str:
    """The total, with what it is worth."""
    if total is None:
        return "rows not counted"
    rows = f"{total:,} {'row' if total == 1 else 'rows'}"
    return {"estimated": f"about {rows} (estimated)", "capped": f"at least {rows}"}.get(kind, rows)


def profile_rows(profile: Profile) -> list[Sequence[str]]:
    """A line for each column: its name, NULLs, distinct values, lowest, highest, and the most frequent ones."""
    columns: Sequence[Mapping[str, Any]] = json.loads(dumps(list(profile["columns"])), parse_float=str)
    return [_profile_row(column) for column in columns]


def _profile_row(column: Mapping[str, Any]) -> Sequence[str]:
    if column["masked"]:
        return (visible(column["name"]), "masked", "", "", "", "")
    estimated = column.get("estimated", {}).get("statistics", ())
    about = "about " if "most_frequent" in estimated else ""
    frequent = (
        f"{_statistic(each['value'])} ({about}{each['count']:,})"
        for each in column.get("most_frequent", [])[:3]
    )
    names = ("nulls", "distinct", "minimum", "maximum")
    is_about = column.get("distinct_kind") == "approximate"
    statistics = (
        ("about " if is_about and name == "distinct" else "") + _statistic(column[name])
        if name in column
        else ""
        for name in names
    )
    return (visible(column["name"]), *statistics, ", ".join(frequent))


def _statistic(value: Any) -> str:
    return "NULL" if value is None else visible(exact(value)[:100]) or "empty"


def time_left(expires_at: datetime | None, now: datetime) -> str:
    """When a resource expires, from now on."""
    if expires_at is None:
        return "pinned: kept until it is deleted"
    minutes = max(0, int((expires_at - now).total_seconds() // 60))
    if minutes < 1:
        return "expires in less than a minute"
    if minutes < 120:
        return f"expires in {minutes} min"
    return f"expires in {minutes // 60} hours"


def refusals(*, may_pin: bool, may_delete: bool) -> str:
    """What a reader may not do with a result without an owner; empty if nothing is missing."""
    names = [*([] if may_pin else ["pin", "renew"]), *([] if may_delete else ["delete"])]
    return f"Not allowed here: {', '.join(names)}." if names else ""


def vocabulary() -> str:
    """What the dialogs of a page offer: the JSON in its attribute `data-vocabulary`, which `static/dialogs.js` reads.

    `conditions` are choices with `name` (unique), `signs`, `op` and `takes`, words, and the kind of their columns;
    `kinds` are those kinds by encoding. `aggregates` leaves out those that need a fraction. `marks` are of charts.
    """
    words = {
        "conditions": [choice for operator in OPERATORS.values() for choice in _choices(operator)],
        "kinds": {**OPERATOR_KINDS, "integer-string": OPERATOR_KINDS["integer"]},
        "aggregates": [name for name, aggregate in AGGREGATES.items() if not aggregate.takes_fraction],
        "buckets": [
            {
                "name": bucket.name,
                "months": bucket.months,
                "hours": bucket.hours,
                "characters": bucket.characters,
            }
            for bucket in BUCKETS.values()
        ],
        "marks": [{"name": mark, "words": kind.words, "uses": kind.uses} for mark, kind in MARKS.items()],
        "maximum_groups": MAXIMUM_GROUPS,
        "maximum_aggregates": MAXIMUM_MEASURES,
    }
    return dumps(words).decode()


def _choices(operator: ConditionOperator) -> Iterator[dict[str, Any]]:
    """The operator, and its opposite where that has words."""
    shared = {"op": operator.name, "kind": operator.kind, "takes": operator.takes}
    own = {"name": operator.name, "words": operator.words, "signs": operator.signs}
    yield {**shared, **own, "ofTimes": operator.of_times}
    if operator.opposite:
        signs = operator.opposites
        yield {**shared, "name": signs[0], "words": operator.opposite, "signs": signs, "value": False}
    if operator.negation:
        signs = operator.negations
        yield {**shared, "name": signs[0], "op": signs[0], "words": operator.negation, "signs": signs}


_METHODS = ("get", "put", "post", "delete", "options", "head")
_LIMITS = ("minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems", "pattern", "default")
_LEADS_TO = "#/components/schemas/"


class Words(NamedTuple):
    """A part of the description of a schema.

    Attributes:
        schema: the name of the schema that the text leads to; empty for a text.
    """

    text: str
    schema: str = ""


class Member(NamedTuple):
    """A parameter, a name of a body, or a name of an object.

    Attributes:
        place: "query", "header" or "path"; empty for a name of an object.
    """

    name: str
    place: str
    is_required: bool
    type: Sequence[Words]
    description: str


def api_reference(document: Mapping[str, Any]) -> dict[str, Any]:
    """What the template shows of an OpenAPI document."""
    return {
        "info": document["info"],
        "base_url": document["servers"][0]["url"],
        "operations": list(_operations(document)),
        "schemas": [
            {
                "name": name,
                "description": schema.get("description", ""),
                "members": list(_members(schema)),
                "type": [] if "properties" in schema else list(_describe(schema)),
                "example": _example_of(schema),
            }
            for name, schema in sorted(document["components"]["schemas"].items())
        ],
    }


def _operations(document: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for path, item in document["paths"].items():
        for method in _METHODS:
            operation = item.get(method)
            if operation is None:
                continue
            yield {
                "id": f"{method}{path}",
                "method": method.upper(),
                "path": path,
                "summary": operation["summary"],
                "parameters": [
                    Member(
                        each["name"],
                        each["in"],
                        bool(each.get("required")),
                        list(_describe(each["schema"])),
                        each.get("description", ""),
                    )
                    for each in (*item.get("parameters", ()), *operation.get("parameters", ()))
                ],
                "bodies": [
                    {"media_type": media_type, "members": list(_members(content["schema"]))}
                    for media_type, content in operation.get("requestBody", {}).get("content", {}).items()
                ],
                "answers": [
                    {
                        "status": status,
                        "description": answer.get("description", ""),
                        "contents": [
                            {"media_type": media_type, "type": list(_describe(content.get("schema", {})))}
                            for media_type, content in answer.get("content", {}).items()
                        ],
                    }
                    for status, answer in operation["responses"].items()
                ],
            }


def _members(schema: Mapping[str, Any]) -> Iterator[Member]:
    required = schema.get("required", ())
    for name, value in schema.get("properties", {}).items():
        yield Member(name, "", name in required, list(_describe(value)), value.get("description", ""))


def _describe(schema: Mapping[str, Any]) -> Iterator[Words]:
    """The type and the limits of a value in words."""
    if (reference := schema.get("$ref", "")).startswith(_LEADS_TO):
        name = reference.removeprefix(_LEADS_TO)
        yield Words(name, name)
        return
    choices = schema.get("anyOf") or schema.get("oneOf") or ()
    for index, choice in enumerate(choices):
        yield Words(" or " if index else "")
        yield from _describe(choice)
    if "enum" in schema or "const" in schema:
        yield Words(", ".join(json.dumps(each) for each in schema.get("enum", (schema.get("const"),))))
    elif not choices:
        kind = schema.get("type", "any value")
        yield Words(kind if isinstance(kind, str) else " or ".join(kind))
        if "items" in schema:
            yield Words(" of ")
            yield from _describe(schema["items"])
    limits = [f"{name} {schema[name]}" for name in _LIMITS if name in schema]
    if limits:
        yield Words(f" ({', '.join(limits)})")


def _example_of(schema: Mapping[str, Any]) -> str:
    examples = schema.get("examples")
    return json.dumps(examples[0], indent=2, ensure_ascii=False) if examples else ""
