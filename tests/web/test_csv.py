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
UNSEEN = [
    "",
    " ",
    "\n",
    "\r\n",
    "\t",
    "\0",
    "\ufeff",
    "\u200b",
    "\xa0",
    "\u3000",
    "\u2028",
    "\U000e0061",
    " \ufeff\n",
]
TEXTS = [f"{sign}{rest}" for sign in UNSEEN for rest in ("=1", "+1", "-1", "@x", "\uff1d1", "x", "x=1", "1")]
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
    guarded = [line.removeprefix('"').startswith("'") for line in lines]
    assert guarded[: len(TEXTS)] == [begins_formula(text) for text in TEXTS]
    assert lines[len(TEXTS) :] == [line for _, _, line in OTHERS]
