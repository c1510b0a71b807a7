"""What both clients find: the cases of `cases.json`, every carrier of a result, and every place to cut one."""

from __future__ import annotations

import gzip
import json
import zlib
from base64 import b64encode
from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import wrap
from typing import Any, NamedTuple

from tests.client import forms, quotations, services
from tests.client.beside import OTHERS
from tests.client.carriers import STRUCTURE, TEXT, TOOL_RESULT, URI, shapes
from tests.client.hosting import OTHER_ID, RESOURCE_ID, structured
from tests.client.passed_on import SHAPES
from tests.client.strange import ORDINARY

BASE_URL = "http://127.0.0.1:1/resources"
_NAMES = {
    "$URI": f"resource://{RESOURCE_ID}",
    "$ID": RESOURCE_ID,
    "$OTHER": f"resource://{OTHER_ID}",
    "$URL": f"{BASE_URL}/{RESOURCE_ID}",
    "$WORD": "Tq4x9hXv2ZkLwPmB7sYd1RcE0aKLOHLka",  # as long as an id, with a wrong checksum
}


_FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "$merge": lambda parts: {**parts[0], **parts[1]},
    "$json": json.dumps,
    "$cut": lambda cut: json.dumps(cut[0])[: -cut[1]],
    "$repr": repr,
    "$folded": lambda text: "\n ".join(wrap(b64encode(text.encode()).decode(), 76)),
    "$gzip": lambda text: b64encode(gzip.compress(text.encode(), mtime=0)).decode(),
    "$zlib": lambda text: b64encode(zlib.compress(text.encode())).decode(),
    "$join": lambda pieces: "".join(text * times for text, times in pieces),
}


class Case(NamedTuple):
    """A value, and what is found in it: the URI, the rows of the sample and the total of each result."""

    name: str
    value: Any
    found: list[list[Any]]


def cases() -> list[Case]:
    """The cases of `cases.json`, and of the modules that have forms, quotations and results of others.

    In the first, `$STRUCTURE` is a dual response, `$merge` replaces parts, `$json` is JSON text, `$cut` is JSON text
    without its last characters, `$repr` is Python's, `$join` joins repeated texts, and `$gzip` and `$zlib` are
    base64 of compressed texts, `$folded` is base64 over indented lines.
    """
    document = json.loads((Path(__file__).parent / "cases.json").read_text("utf-8"))
    return [
        *(Case(*filled([each["name"], each["value"], each["found"]])) for each in document),
        *(Case(f"passed on: {name}", value, each) for name, (value, each) in SHAPES.items()),
        *(Case(f"beside: {name}", value, []) for name, value in OTHERS.items()),
        *(Case(f"strange: {name}", value, []) for name, value in ORDINARY.items()),
        *(Case(f"form: {name}", value, each) for name, (value, each) in forms.SHAPES.items()),
        *(Case(f"quotation: {name}", value, []) for name, value in quotations.OTHERS.items()),
        *(Case(f"service: {name}", value, []) for name, value in services.RESULTS.items()),
    ]


def filled(value: Any) -> Any:
    """A written value with the ids and structures that its names stand for."""
    match value:
        case "$STRUCTURE":
            return structured()
        case dict() if len(value) == 1 and (name := next(iter(value))) in _FUNCTIONS:
            return _FUNCTIONS[name](filled(value[name]))
        case dict():
            return {name: filled(item) for name, item in value.items()}
        case list():
            return [filled(item) for item in value]
        case str():
            for name, text in _NAMES.items():
                value = value.replace(name, text)
    return value


def cut_texts() -> Iterator[tuple[str, str, bool]]:
    """Texts cut at each place within and after the link: a name, the text, and whether it still has the whole id."""
    wholes = {
        "structure": json.dumps(STRUCTURE),
        "tool result": json.dumps(TOOL_RESULT),
        "text": TEXT,
        "repr": repr(TOOL_RESULT),
        "JSON in JSON": json.dumps({"output": json.dumps(STRUCTURE)}),
    }
    for name, whole in wholes.items():
        first = whole.index(RESOURCE_ID)
        for end in range(first + 1, len(whole)):
            yield f"{name}, {end}", whole[:end], end >= first + len(RESOURCE_ID)


CARRIED: dict[str, Any] = dict(shapes())
CARRIED_URI = URI
