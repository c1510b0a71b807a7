"""The Python of each page is one module to mypy: its names exist, its arguments fit."""

from __future__ import annotations

import builtins
import os
import subprocess
import symtable
import sys
import textwrap
from pathlib import Path

import pytest

from tests.docs.blocks import ROOT, Block, in_language

HEADER = """\
# mypy: allow-untyped-defs, allow-untyped-calls, allow-any-generics, allow-redefinition
# mypy: disable-error-code="no-redef"
from __future__ import annotations


async def page() -> None:
"""
STAND_INS = {"my_application.py": "from sqlalchemy import MetaData\n\nmetadata = MetaData()\n"}
"""Modules of a reader's own."""


def names_of(code: str) -> tuple[set[str], set[str]]:
    """The names that code takes from elsewhere, and those that it binds."""
    # A function around it, since some of it awaits.
    [function] = symtable.symtable(
        f"async def page():\n{textwrap.indent(code, '    ')}", "page", "exec"
    ).get_children()
    free: set[str] = set()
    tables = [function]
    while tables:
        table = tables.pop()
        free |= {symbol.get_name() for symbol in table.get_symbols() if symbol.is_global()}
        tables += table.get_children()
    return free, {symbol.get_name() for symbol in function.get_symbols() if symbol.is_local()}


def module_of(blocks: list[Block]) -> str:
    """A page's blocks in one function, since some of them await. Names they lack come from names.py."""
    known = set(vars(builtins)) | {"__file__", "__name__"}
    body = []
    for block in blocks:
        free, bound = names_of(block.code)
        missing = sorted(free - known)
        body += [f"from tests.docs.names import {name}" for name in missing]
        body += [f"# {block}", block.code]
        known |= bound | set(missing)
    return HEADER + textwrap.indent("\n".join(body), "    ")


def checked(folder: Path, blocks: list[Block]) -> str:
    """What mypy says of the pages of these blocks; nothing if they are well."""
    pages: dict[str, list[Block]] = {}
    for block in blocks:
        pages.setdefault(block.page, []).append(block)
    modules = {
        page.removesuffix(".md").replace("/", "_").replace("-", "_") + ".py": module_of(blocks)
        for page, blocks in pages.items()
    }
    for name, text in (modules | STAND_INS).items():
        (folder / name).write_text(text, encoding="utf-8")
    ran = subprocess.run(
        [sys.executable, "-m", "mypy", "--no-error-summary", *(str(folder / name) for name in modules)],
        cwd=ROOT,
        env={**os.environ, "MYPYPATH": f"{folder}:client"},
        capture_output=True,
        text=True,
        check=False,
    )
    return ran.stdout + ran.stderr


@pytest.mark.long
def test_python_of_the_documents_is_type_checked(tmp_path: Path) -> None:
    """With one page that is wrong in three ways, so that a checker which checks nothing is seen."""
    wrong = [
        "dual.create_respons()",
        "from dualsql import Nothing",
        "DualResponseServer(url, base_url=1, tables=Base)",
    ]
    blocks = [Block("wrong.md", number, "python", f"{code}\n") for number, code in enumerate(wrong)]
    unrun = [block for block in in_language("python") if not block.is_run]
    said = checked(tmp_path, unrun + blocks).splitlines()
    errors = [line for line in said if ": error: " in line]
    assert [line for line in errors if "/wrong.py:" not in line] == []
    assert {line.rpartition("[")[2] for line in errors} == {"attr-defined]", "arg-type]"}
