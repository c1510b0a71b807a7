"""Random values of what clients look for: names of messages and structures, texts, links and forged ones."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from html import escape
from random import Random
from typing import Any
from urllib.parse import quote

from tests.client.cases import BASE_URL
from tests.client.hosting import OTHER_ID, RESOURCE_ID, structured

_NAMES = (
    "type role kind part_kind source content text data results items records rows metadata columns total_count "
    "resource uri url name output result tool_output toolResult tool_name args Arguments input kwargs parameters "
    "isError is_error status error toolCallError message tool-result structuredContent M S L BOOL fields stringValue"
).split()
_WORDS = (
    "user tool assistant ROLE_USER error ok text tool-result mcp_call function_call_output resource system failed "
    "response.function_call_arguments.delta"
).split()
_STRUCTURE = structured()
_JSON = json.dumps(_STRUCTURE)
_URIS = (f"resource://{RESOURCE_ID}", f"resource://{OTHER_ID}")
_LEAVES = (
    *_WORDS,
    *_URIS,
    *(RESOURCE_ID, f"{BASE_URL}/{RESOURCE_ID}", f"https://other.example/{OTHER_ID}"),
    *(True, False, None, 1, 565.0, "565"),
)
_PIECES = (
    *(f"The application gets every row from {uri} (expires 2026)." for uri in _URIS),
    *(
        "\n\n",
        "\n",
        " ",
        "[INFO] ",
        "{ ",
        "} ",
        "[",
        "]",
        '{"a": ',
        "'",
        '"',
        ",",
        "|",
        "args={'a': 1} ",
        "data: ",
    ),
    *(
        "ok=false",
        "success: false\n",
        "status: failed",
        "status='failed', ",
        "content: ",
        "- text: ",
        "  ",
        "(",
        ")",
    ),
    *(
        "isError: true\n",
        "'ok': False",
        "\r",
        "\r\n",
        "\\r",
        "\n  '",
        '\n  "status": "error"',
        "{",
        "role: user\n",
        'content: "',
        '."\nstatus: failed\n',
    ),
    *("```json\n", "\\n\\n", "%0A", "&#10;", "é", "😀", "words and words " * 30),
    *(*_URIS, f"{BASE_URL}/{RESOURCE_ID}", f"//evil.example/a/{OTHER_ID}", f"wss://evil.example/{OTHER_ID}"),
    *("https://docs.example.com/page,", "https%3A%2F%2F", "\\u002f"),
    *(_JSON, json.dumps(_STRUCTURE, indent=1), repr(_STRUCTURE)),
    json.dumps({"resource": {"uri": _URIS[1]}, "note": _URIS[0]}),
)
_ENCODINGS: tuple[Callable[[str], str], ...] = (quote, json.dumps, repr, escape, *[str] * 6)


def mixed_texts(number: int, *, seed: int) -> Iterator[str]:
    draw = Random(seed)
    return (_text(draw) for _ in range(number))


def mixed_values(number: int, *, seed: int) -> Iterator[Any]:
    draw = Random(seed)
    return (_value(draw, 0) for _ in range(number))


def _text(draw: Random) -> str:
    pieces = draw.choices(_PIECES, k=draw.randrange(1, 7))
    if draw.random() < 0.2:
        pieces.append(_JSON[: -draw.randrange(1, len(_JSON))])
        draw.shuffle(pieces)
    return draw.choice(_ENCODINGS)("".join(pieces))


def _value(draw: Random, depth: int) -> Any:
    def inner(count: int) -> dict[str, Any]:
        return {draw.choice(_NAMES): _value(draw, depth + 1) for _ in range(count)}

    match draw.randrange(8) if depth < 4 else 0:
        case 0:
            return draw.choice(_LEAVES)
        case 1 | 2:
            return _text(draw)
        case 3:
            return [_value(draw, depth + 1) for _ in range(draw.randrange(4))]
        case 4:
            return {**_STRUCTURE, **inner(1)}
    return inner(draw.randrange(1, 5))
