"""`dualsql connect`: one entry more in a host's configuration, and nothing lost of what was there."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from dualsql.cli.commands import app
from dualsql.cli.connect import (
    HostName,
    configuration_file,
    entry_over_http,
    missing,
    plan_change,
    with_the_line_that_installs,
)
from dualsql.errors import ConfigurationError

URL = "http://127.0.0.1:8000/mcp"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home" / ".config"))
    (tmp_path / "sales.csv").write_text("n\n1\n")
    return tmp_path


def connect(*arguments: str, answer: str = "") -> Result:
    return CliRunner().invoke(app, ["connect", *arguments], input=answer)


def read(path: Path) -> Any:
    return json.loads(path.read_text())


PROJECT = {
    "claude-code": (".mcp.json", {"mcpServers": {"dualsql": {"type": "http", "url": URL}}}),
    "vscode": (".vscode/mcp.json", {"servers": {"dualsql": {"type": "http", "url": URL}}}),
    "cursor": (".cursor/mcp.json", {"mcpServers": {"dualsql": {"url": URL}}}),
}


@pytest.mark.parametrize("host", PROJECT)
def test_a_server_over_http_in_a_new_file(here: Path, host: str) -> None:
    name, expected = PROJECT[host]
    done = connect(host, "--url", URL, answer="y\n")
    assert done.exit_code == 0, done.output
    assert read(here / name) == expected
    assert (here / name).stat().st_mode & 0o777 == 0o600
    assert not list(here.rglob("*.backup")), "there was nothing to copy"


def test_a_server_that_the_host_starts(here: Path) -> None:
    assert connect("claude-desktop", "sales.csv", "--name", "sales", "--yes").exit_code == 0
    path = here / "home" / ".config" / "Claude" / "claude_desktop_config.json"
    entry = read(path)["mcpServers"]["sales"]
    assert Path(entry["command"]).is_absolute(), "hosts of a desktop have no PATH of a shell"
    assert entry["args"][-3:] == ["serve", "--stdio", str(here / "sales.csv")]
    assert "env" not in entry


def test_the_url_of_a_database_is_written_and_never_printed(here: Path) -> None:
    url = "postgresql://reader:hunter2@db/shop"
    done = connect("cursor", "--database", url, "--schema", "sales", "--yes")
    assert "hunter2" not in done.output
    entry = read(here / ".cursor" / "mcp.json")["mcpServers"]["dualsql"]
    assert entry["env"] == {"DUALSQL_DATABASE_URL": url}
    assert entry["args"][-4:] == ["serve", "--stdio", "--schema", "sales"]


def test_what_a_url_holds_besides_the_address_is_never_printed(here: Path) -> None:
    url = "https://ana:hunter2@db.example/mcp?token=hunter3"
    done = connect("cursor", "--url", url, "--yes")
    assert "https://...@db.example/mcp?..." in done.output
    assert "hunter" not in done.output
    assert read(here / ".cursor" / "mcp.json")["mcpServers"]["dualsql"]["url"] == url


@pytest.mark.skipif(sys.platform == "win32", reason="files of Windows have no such mode")
def test_no_file_is_readable_for_others_while_it_is_written(here: Path) -> None:
    path = here / ".mcp.json"
    path.write_text('{"mcpServers": {"other": {"env": {"PASSWORD": "hunter2"}}}}')
    path.chmod(0o600)
    # Modes and audit hooks are those of a process.
    program = """
import os, sys
from dualsql.cli import main
os.umask(0)
def look(event, arguments):
    if event == "os.chmod":
        print("MODE", oct(os.stat(arguments[0]).st_mode & 0o777))
sys.addaudithook(look)
sys.argv = ["dualsql", "connect", "claude-code", "--url", sys.argv[1], "--yes"]
main()
"""
    done = subprocess.run([sys.executable, "-c", program, URL], capture_output=True, text=True, check=True)
    assert set(re.findall("MODE (.*)", done.stdout)) == {"0o600"}, "of each file, before it has its mode"
    (copy,) = here.glob("*.backup")
    assert {each.stat().st_mode & 0o777 for each in (path, copy)} == {0o600}


@pytest.mark.long
def test_the_program_takes_no_module_of_the_folder_in_which_a_host_starts_it(here: Path) -> None:
    (here / "dualsql").mkdir()
    (here / "dualsql" / "__init__.py").write_text("raise SystemExit('a stranger runs')")
    program = [
        sys.executable,
        "-c",
        "import sys; from dualsql.cli.connect import _program; print(_program())",
    ]
    variables = {"PATH": "", "PYTHONSAFEPATH": "1"}
    process = subprocess.run(program, capture_output=True, text=True, check=True, env=variables)
    command = [*ast.literal_eval(process.stdout), "--version"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=here, check=False)
    assert (done.returncode, done.stdout[:8]) == (0, "dualsql "), done.stderr


OLD = '{\n\t"inputs": [1, 2.5, null],\n\t"mcpServers": {"other": {"command": "ünï"}}\n}'


def test_what_was_there_stays_and_a_copy_is_kept(here: Path) -> None:
    path = here / ".mcp.json"
    path.write_text(OLD)
    path.chmod(0o640)
    done = connect("claude-code", "--url", URL, "--yes")
    (copy,) = here.glob(".mcp.json.*.backup")
    assert copy.read_text() == OLD
    assert str(copy) in done.output.replace("\n", "")
    now = read(path)
    assert now["mcpServers"].pop("dualsql") == {"type": "http", "url": URL}
    assert now == json.loads(OLD)
    assert "ünï" in path.read_text()
    assert path.stat().st_mode & 0o777 == 0o640
    again = connect("claude-code", "--url", URL, "--yes")
    assert "has this entry already" in again.output
    assert list(here.glob(".mcp.json.*.backup")) == [copy]


def test_an_entry_is_replaced_only_after_a_question(here: Path) -> None:
    path = here / ".mcp.json"
    path.write_text('{"mcpServers": {"dualsql": {"url": "mine"}}}')
    refused = connect("claude-code", "--url", URL, answer="n\n")
    assert (refused.exit_code, "Replace the entry" in refused.output) == (1, True)
    assert read(path) == {"mcpServers": {"dualsql": {"url": "mine"}}}
    assert connect("claude-code", "--url", URL, answer="y\n").exit_code == 0
    assert read(path)["mcpServers"]["dualsql"]["url"] == URL


@pytest.mark.parametrize(
    "text",
    [
        "// servers\n{}",
        '{"servers": {} /* none */}',
        '{"servers": {},}',
        '{"servers": {}, "servers": {"a": {}}}',
        '{"number": 1.10}',
        '{"number": 1e400}',
        "[]",
        '{"servers": []}',
        '{"servers": null}',
        "{",
        "\ufeff{}",
    ],
)
def test_a_file_that_would_lose_something_is_left_as_it_is(here: Path, text: str) -> None:
    path = here / ".vscode" / "mcp.json"
    path.parent.mkdir()
    path.write_text(text)
    done = connect("vscode", "--url", URL, "--yes")
    assert (done.exit_code, "is left as it is" in done.output) == (1, True)
    assert path.read_text() == text
    assert [each.name for each in path.parent.iterdir()] == ["mcp.json"]


def test_a_dry_run_writes_nothing_and_prints_what_can_be_pasted(here: Path) -> None:
    (here / ".cursor").mkdir()
    (here / ".cursor" / "mcp.json").write_text("// servers\n{}")
    pasted = json.loads(connect("cursor", "--url", URL, "--dry-run").output.partition("\n")[2])
    assert pasted == {"mcpServers": {"dualsql": {"url": URL}}}
    done = connect("vscode", "sales.csv", "--dry-run")
    assert done.exit_code == 0 and '"servers"' in done.output
    assert '"sales.csv"' not in done.output and str(here / "sales.csv") in done.output.replace("\n", "")
    assert not (here / ".vscode").exists()


def test_a_link_stays_one(here: Path) -> None:
    kept = here / "dotfiles" / "mcp.json"
    kept.parent.mkdir()
    kept.write_text("{}")
    (here / ".mcp.json").symlink_to(kept)
    connect("claude-code", "--url", URL, "--yes")
    assert (here / ".mcp.json").is_symlink()
    assert "dualsql" in read(kept)["mcpServers"]


def test_a_file_that_another_program_changes_meanwhile(here: Path) -> None:
    path = here / ".mcp.json"
    path.write_text("{}")
    change = plan_change("claude-code", path, "dualsql", entry_over_http("claude-code", URL))
    path.write_text('{"mcpServers": {"new": {}}}')
    with pytest.raises(ConfigurationError, match="changed by another program"):
        change.write()
    assert read(path) == {"mcpServers": {"new": {}}}


@pytest.mark.parametrize(
    ("host", "platform", "variables", "expected"),
    [
        ("claude-desktop", "darwin", {"HOME": "/u"},
         "/u/Library/Application Support/Claude/claude_desktop_config.json"),
        ("claude-desktop", "linux", {"HOME": "/u"}, "/u/.config/Claude/claude_desktop_config.json"),
        ("claude-desktop", "win32", {"APPDATA": "/a", "USERPROFILE": "/u"}, "/a/Claude/claude_desktop_config.json"),
        ("vscode", "darwin", {"HOME": "/u"}, "/u/Library/Application Support/Code/User/mcp.json"),
        ("vscode", "linux", {"HOME": "/u", "XDG_CONFIG_HOME": "/c"}, "/c/Code/User/mcp.json"),
        ("vscode", "win32", {"APPDATA": "/a", "USERPROFILE": "/u"}, "/a/Code/User/mcp.json"),
        ("cursor", "win32", {"APPDATA": "/a", "USERPROFILE": "/u"}, "/u/.cursor/mcp.json"),
        ("cursor", "linux", {"HOME": "/u"}, "/u/.cursor/mcp.json"),
    ],
)  # fmt: skip
def test_the_user_s_file_on_each_system(
    host: HostName, platform: str, variables: dict[str, str], expected: str
) -> None:
    file = configuration_file(host, is_users=True, platform=platform, variables=variables)
    assert file.as_posix() == expected


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["claude-desktop", "--url", URL], "starts itself"),
        (["claude-code", "--url", URL, "--user"], "claude mcp add --scope user"),
        (["cursor"], "one of them"),
        (["cursor", "sales.csv", "--url", URL], "one of them"),
        (["cursor", "none.csv"], "There is no file"),
        (["cursor", "sqlite:///shop.db"], "--database"),
        (["cursor", "--url", "localhost:8000"], "URL of an MCP endpoint"),
    ],
)
def test_what_cannot_be_connected(here: Path, arguments: list[str], said: str) -> None:
    done = connect(*arguments, "--yes")
    assert (done.exit_code, said in done.output.replace("\n", " ")) == (1, True), done.output
    assert sorted(each.name for each in here.iterdir()) == ["sales.csv"]


def test_the_version() -> None:
    from importlib.metadata import version

    assert CliRunner().invoke(app, ["--version"]).output == f"dualsql {version('dualsql')}\n"


@pytest.mark.parametrize(
    ("prefix", "line"),
    [
        ("/opt/uv/archive-v0/x", 'uvx --from "dualsql[serve]" dualsql serve ...'),
        ("/opt/pipx/.cache/x", 'pipx run --spec "dualsql[serve]" dualsql serve ...'),
        ("/srv/tools/venvs/x", 'pipx run --spec "dualsql[serve]" dualsql serve ...'),
        ("/srv/.venv", 'pip install "dualsql[serve]"'),
    ],
)
def test_the_line_that_works_is_said(monkeypatch: pytest.MonkeyPatch, prefix: str, line: str) -> None:
    monkeypatch.setattr("sys.argv", ["dualsql", "serve", "--database", "postgresql://u:secret@h/d"])
    monkeypatch.setenv("PIPX_HOME", "/srv/tools")
    assert missing("typer", "serve", prefix) == f"dualsql: typer is not installed. Try: {line}"


@pytest.mark.parametrize(("found", "line"), [("pipx", "pipx run --spec"), ("pipx uvx", "uvx --from")])
def test_the_line_is_of_pipx_where_pipx_has_a_uv_of_its_own(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, found: str, line: str
) -> None:
    for name in found.split():
        (tmp_path / name).touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("sys.argv", ["dualsql", "demo"])
    assert missing("typer", "demo", "/opt/uv/archive-v0/x").endswith(
        f'Try: {line} "dualsql[demo]" dualsql demo ...'
    )


@pytest.mark.parametrize(
    ("prefix", "extra", "line"),
    [
        ("/opt/uv/archive-v0/x", "prometheus", 'uvx --from "dualsql[serve,prometheus]" dualsql serve ...'),
        ("/opt/pipx/x", "serve,files", 'pipx run --spec "dualsql[serve,files]" dualsql serve ...'),
        ("/srv/.venv", "prometheus", 'pip install "dualsql[prometheus]"'),
    ],
)
def test_the_line_that_works_is_said_in_every_message(
    monkeypatch: pytest.MonkeyPatch, prefix: str, extra: str, line: str
) -> None:
    monkeypatch.setattr("sys.argv", ["dualsql", "serve", "sales.csv"])
    message = f'This needs packages that are not installed. pip install "dualsql[{extra}]"'
    assert with_the_line_that_installs(message, prefix) == message.partition("pip")[0] + line
