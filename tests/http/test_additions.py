"""A format, an operator, an aggregate and a parameter of streams are added in the places that CONTRIBUTING.md names."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from dualsql.formats.writer import WriterOptions
from dualsql.http.parameters import STREAM_PARAMETERS
from dualsql.results.streams import token_parts
from dualsql.results.view import CursorScope

ROOT = Path(__file__).parents[2]

WRITER = '''"""Rows as TSV."""

from dualsql.formats.csv import CSVWriter
from dualsql.formats.writer import Chunk, WriterOptions


class TSVWriter(CSVWriter):
    """CSV with tabs."""

    def __init__(self, columns, dialect, options: WriterOptions) -> None:
        super().__init__(columns, dialect, options)
        self._is_headless = options.headless

    def head(self) -> bytes:
        return b"" if self._is_headless else super().head().replace(b",", b"\\t")

    def rows(self, rows) -> Chunk:
        chunk = super().rows(rows)
        return Chunk(chunk.data.replace(b",", b"\\t"), chunk.rows)
'''
FORMAT = """        Format(
            name="tsv",
            media_type="text/tab-separated-values",
            suffix="tsv",
            writer=_of("tsv", "TSVWriter"),
            title="TSV",
            guards_formulas=True,
            resuming=Resuming(first_row=_of("csv", "first_record")),
            has_end=False,
        ),
"""
OPERATOR = """        ConditionOperator(
            name="same_letters",
            words="is, in any case,",
            kind="text",
            signs=("equals_ignoring_case",),
            find=lambda dialect, text, part: dialect.lowered(text) == part.lower(),
        ),
"""
AGGREGATE = """        AggregateFunction(
            words="words of",
            name="span",
            of=_NUMBERS,
            result=_DOUBLE,
            values=_doubles,
            write=lambda call: func.max(call.values) - func.min(call.values),
            use="computed",
            is_sound=_is_same,
        ),
"""
PARAMETER = """    headless: bool = option("TSV: without the names of the columns.", default=False)
"""
END = "    )\n}\n"

# By what is added: in which file, what, and before which text.
ADDITIONS: Mapping[str, list[tuple[str, str, str]]] = {
    "an export format": [
        ("dualsql/formats/tsv.py", WRITER, ""),
        ("dualsql/formats/table.py", FORMAT, '    )\n)\n"""By name, in order of preference'),
    ],
    "an operator": [("dualsql/query/model.py", OPERATOR, f"{END}\n\nNOT_HERE")],
    "an aggregate": [("dualsql/query/aggregates.py", AGGREGATE, f'{END}"""By name. To add an aggregate')],
    "a parameter of streams": [("dualsql/formats/writer.py", PARAMETER, "    summary: bool = option(")],
}


@pytest.mark.long
def test_what_is_added_is_served_described_and_offered(tmp_path: Path) -> None:
    """Nothing else is changed in the copy of the package."""
    shutil.copytree(ROOT / "dualsql", tmp_path / "dualsql", ignore=shutil.ignore_patterns("__pycache__"))
    for file, text, before in [each for additions in ADDITIONS.values() for each in additions]:
        written = (tmp_path / file).read_text(encoding="utf-8") if before else ""
        assert written.count(before) == 1 or not before, f"{file} has no single {before!r}"
        (tmp_path / file).write_text(written.replace(before, text + before) or text, encoding="utf-8")
    paths = (tmp_path, ROOT / "client", ROOT)
    program = subprocess.run(
        [sys.executable, "-P", ROOT / "tests" / "http" / "added.py"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths))},
        capture_output=True,
        text=True,
        check=False,
    )
    assert program.returncode == 0, program.stderr[-4000:]


@pytest.mark.parametrize("added", ADDITIONS)
def test_contributing_names_the_places(added: str) -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    row = re.search(rf"^\| {added} \| (.*) \|$", text, re.MULTILINE)
    assert row
    files = {file.replace("tsv", "NAME") for file, _, _ in ADDITIONS[added]}
    assert files <= set(re.findall(r"`(dualsql/[\w/.]+)`", row[1]))


def test_an_option_of_writers_is_part_of_the_token_of_a_stream() -> None:
    """A stream that continues with other options would not be the file that was begun. A summary is no row."""
    scope = CursorScope("a", None, None, b"")
    others: dict[type, Any] = {bool: True, str: "another", tuple: ("name",)}
    plain = WriterOptions()
    for each in fields(WriterOptions):
        if each.name != "summary":
            other = replace(plain, **{each.name: others[type(each.default)]})
            assert token_parts(scope, ["name"], other, None) != token_parts(scope, ["name"], plain, None), (
                each.name
            )


def test_the_page_about_streams_names_each_parameter() -> None:
    text = (ROOT / "docs" / "streams.md").read_text(encoding="utf-8")
    parameters = text.partition("## Parameters")[2].partition("## The answer")[0]
    assert [name for name in STREAM_PARAMETERS if f"`{name}`" not in parameters] == []
