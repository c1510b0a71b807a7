"""Blocks that are no Python: commands exist, with these options; data parses; every block says what it is."""

from __future__ import annotations

import ast
import configparser
import json
import re
import shlex
import tomllib
from collections.abc import Callable, Iterator

import pytest
import sqlglot
import typer
from alembic.config import CommandLine
from packaging.requirements import Requirement
from uvicorn.main import main as uvicorn

from dualsql.cli.commands import app as dualsql
from dualsql_client.cli.commands import app as dualsql_client
from tests.docs.blocks import ROOT, Block, all_blocks, in_language

FOREIGN = {
    "apt-get",
    "cd",
    "curl",
    "docker",
    "export",
    "gh",
    "git",
    "jq",
    "npm",
    "npx",
    "source",
    "systemctl",
}
"""Programs whose options are not checked here."""
WORDS = re.compile(
    r"^( *)(dualsql|pip|make|python|uvicorn|curl|import|from|await|with|async|def) \S", re.MULTILINE
)
"""What a program begins a line with, and a text seldom does."""


def words_of(line: str) -> list[str] | None:
    """The words of a line, with `;` behind the last; None if it goes on in the next line."""
    lexer = shlex.shlex(line.removesuffix("\\"), posix=True, punctuation_chars="|&;")
    lexer.whitespace_split = True
    try:
        words = [*lexer, ";"]
    except ValueError:  # no closing quotation
        return None
    return None if line.endswith("\\") else words


def commands_of(block: Block) -> Iterator[list[str]]:
    """The words of each command; of a console, the lines behind `$ `."""
    lines = block.code.splitlines()
    while lines:
        line = lines.pop(0)
        if block.language == "console":
            if not line.startswith("$ "):
                continue  # what a command printed
            line = line[2:]
        while (words := words_of(line)) is None:
            line = line.removesuffix("\\") + "\n" + lines.pop(0)
        command: list[str] = []
        for word in words:
            if word not in {"|", "&&", ";", "&"}:
                command.append(word)
            elif command:
                yield command
                command = []


def of_typer(app: typer.Typer, arguments: list[str]) -> None:
    group = typer.main.get_group(app)
    if arguments in (["--help"], ["--version"]):
        return
    name, command, rest = group.resolve_command(group.make_context("", list(arguments)), list(arguments))
    assert command is not None
    if "--help" not in rest:
        command.make_context(name, rest)


def of_pip(arguments: list[str]) -> None:
    assert arguments.pop(0) == "install"
    for word in arguments:
        folder = ROOT / word.partition("[")[0]
        if word.startswith("-"):
            assert word in {"-c", "-e", "-q", "--group", "--no-deps"}
        elif not (word.startswith(".") and folder.is_dir()) and not (ROOT / word).is_file():
            wanted = Requirement(word)
            assert wanted.extras <= extras_of(wanted.name)


def extras_of(package: str) -> set[str]:
    folder = {"dualsql": ROOT, "dualsql-client": ROOT / "client"}.get(package)
    if folder is None:
        return set()
    project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return set(project["optional-dependencies"])


def of_make(arguments: list[str]) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    assert {word for word in arguments if "=" not in word} <= targets


def of_python(arguments: list[str]) -> None:
    match arguments:
        case ["-c", code]:
            ast.parse(code)
        case ["-m", "venv", _]:
            pass
        case ["-m", "pytest", *words]:
            of_pytest(words)
        case [file, *_]:
            assert (ROOT / file).is_file(), file


def of_pytest(arguments: list[str]) -> None:
    for word in arguments:
        path, _, test = word.partition("::")
        if word.startswith("tests"):
            assert (ROOT / path).exists(), word
            assert not test or f"def {test}(" in (ROOT / path).read_text(encoding="utf-8"), word


def of_uvicorn(arguments: list[str]) -> None:
    given = uvicorn.make_context("uvicorn", list(arguments)).params
    module = given["app"].partition(":")[0]
    assert (ROOT / (given["app_dir"] or "") / f"{module}.py").is_file()


PROGRAMS: dict[str, Callable[[list[str]], object]] = {
    "dualsql": lambda words: of_typer(dualsql, words),
    "dualsql-client": lambda words: of_typer(dualsql_client, words),
    "uvx": lambda words: of_typer(dualsql, words[words.index("dualsql") + 1 :]),
    "pip": of_pip,
    "make": of_make,
    "python": of_python,
    "python3": of_python,
    "pytest": of_pytest,
    "uvicorn": of_uvicorn,
    "alembic": CommandLine().parser.parse_args,
}


def check_commands(block: Block) -> None:
    for words in commands_of(block):
        while re.match(r"[A-Z_]+=", words[0]):
            words.pop(0)
        program, *arguments = words
        program = program.removeprefix(".venv/bin/")
        if (ROOT / program).is_file() or program in FOREIGN:
            continue
        assert program in PROGRAMS, f"{block}: what is {program}?"
        PROGRAMS[program](arguments)


def check_text(block: Block) -> None:
    match = WORDS.search(block.code)
    assert not match, f"{block}: {match and match[0]!r} is a program; name its language"


def check_ini(block: Block) -> None:
    configparser.ConfigParser(interpolation=None).read_string(block.code)


CHECKS: dict[str, Callable[[Block], object]] = {
    "bash": check_commands,
    "console": check_commands,
    "json": lambda block: json.loads(block.code),
    "toml": lambda block: tomllib.loads(block.code),
    "ini": check_ini,
    "sql": lambda block: sqlglot.parse(block.code, dialect="postgres"),
    "text": check_text,
    "python": lambda block: None,  # test_types.py
    "ts": lambda block: None,  # http/typescript, javascript
}


@pytest.mark.parametrize(
    ("language", "code"),
    [
        ("bash", "dualsql serve --databases x"),
        ("bash", "dualsql server"),
        ("console", "$ dualsql-client fetch https://a.example/b --out rows.csv\nrows 3"),
        ("bash", 'pip install "dualsql[nothing]"'),
        ("bash", "make everything"),
        ("bash", "A=b python examples/nothing.py | jq ."),
        ("bash", "uvicorn --reloading server:app"),
        ("bash", "unknown program"),
        ("json", '{"a": 1, ...}'),
        ("sql", "SELEC 1 FROM"),
        ("text", "Run:\n  dualsql serve --all"),
    ],
)
def test_what_is_wrong_is_seen(language: str, code: str) -> None:
    with pytest.raises((Exception, SystemExit)):
        CHECKS[language](Block("page.md", 1, language, code))


def test_every_block_says_what_it_is() -> None:
    assert [str(block) for block in all_blocks() if block.language not in CHECKS] == []


CHECKED = [
    block
    for block in in_language(*CHECKS.keys() - {"python", "ts"})
    if not (block.is_run and block.language in {"bash", "console", "text"})
]


@pytest.mark.parametrize("block", CHECKED, ids=str)
def test_a_block_is_what_it_says(block: Block) -> None:
    CHECKS[block.language](block)
