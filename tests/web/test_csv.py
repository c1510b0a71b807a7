"""The CSV of an MCP host's page guards the cells that the server guards, and writes the others as it does."""

from __future__ import annotations

import json
from pathlib import Path

from dualsql.formats.csv import begins_formula
from tests.javascript.running import node, run

SCRIPT = Path(__file__).parents[2] / "dualsql" / "web" / "static" / "csv.js"
PROGRAM = """
import { text } from "node:stream/consumers";
const { csvLine } = await import(process.argv[2]);
const given = JSON.parse(await text(process.stdin));
console.log(JSON.stringify(given.map(([cell, column]) => csvLine([cell], [column]))));
"""
TEXT, DECIMAL = {"encoding": "text"}, {"encoding": "decimal"}
# The planes that have controls, formats and spaces; a lone surrogate is no text.
CHARACTERS = [chr(n) for n in (*range(0xD800), *range(0xE000, 0x20000), *range(0xE0000, 0xE0200))]
TEXTS = [
    *(f"{character}=1" for character in CHARACTERS),
    *(
        f"{sign}{rest}"
        for sign in ("", "\r\n", " \ufeff\n")
        for rest in ("+1", "-1", "@x", "\uff1d1", "x", "x=1")
    ),
]
OTHERS = [
    (None, TEXT, ""), ("", TEXT, '""'), (-1, TEXT, "-1"), ("-1.50", DECIMAL, "-1.50"), ("-1.50", TEXT, '"\'-1.50"'),
    ("-1e9", DECIMAL, "-1e9"), ("=1", DECIMAL, '"\'=1"'), ('a"b', TEXT, '"a""b"'), ("x", None, "x"),
    ("-5", {"encoding": "integer-string"}, "-5"), ("=x", None, '"\'=x"'),
]  # fmt: skip


async def test_the_page_guards_what_the_server_guards(tmp_path: Path) -> None:
    program = tmp_path / "program.mjs"
    program.write_text(PROGRAM)
    given = [*((text, TEXT) for text in TEXTS), *((cell, column) for cell, column, _ in OTHERS)]
    lines = json.loads(await run(node(), program, SCRIPT.as_uri(), given=given))
    guarded = [line.startswith("\"'") for line in lines[: len(TEXTS)]]
    differing = [
        text for text, is_guarded in zip(TEXTS, guarded, strict=True) if is_guarded != begins_formula(text)
    ]
    assert differing == []
    assert lines[len(TEXTS) :] == [line for _, _, line in OTHERS]
