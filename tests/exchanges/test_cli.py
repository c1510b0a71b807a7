"""Both command lines: what each command says of itself, does, and refuses."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from dualsql.cli.commands import app as app_of_commands
from dualsql.settings import ALL_ACTIONS
from dualsql_client.cli.commands import app
from tests.exchanges.recording import Exchanges
from tests.exchanges.subject import serving_on_loopback
from tests.exchanges.test_client import PLAIN

APPS = {"dualsql": app_of_commands, "dualsql-client": app}
# The width of a terminal, and none of its colours.
PLAINLY = {"COLUMNS": "100", "TERM": "dumb", "NO_COLOR": "1", "TERMINAL_WIDTH": "100"}


def run(exchanges: Exchanges, program: str, *arguments: str, stdin: str = "", **variables: str) -> None:
    """Run a command and take down how it ended."""
    cleared = {
        name: None for name in os.environ if name.startswith(("DUALSQL_", "FORCE_COLOR", "CI", "GITHUB_"))
    }
    ran = CliRunner().invoke(
        APPS[program],
        list(arguments),
        input=stdin,
        env={**cleared, **PLAINLY, **variables},
        prog_name=program,
    )
    assert ran.exception is None or isinstance(ran.exception, SystemExit), ran.exception
    content = {"code": ran.exit_code, "output": ran.stdout, "errors": ran.stderr}
    exchanges.add(" ".join([program, *arguments]), content)


def test_dualsql(exchanges: Exchanges, tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/store.sqlite"
    for arguments in (
        [], ["--help"], ["migrate", "--help"], ["demo", "--help"], ["serve", "--help"], ["fetch", "--help"],
        ["view", "--help"], ["nonsense"], ["migrate"], ["serve"], ["migrate", "--nonsense"],
        ["migrate", "--create", "--store", store], ["migrate", "--create", "--store", store],
        ["migrate", "--store", store, "--down-to", "base"],
        ["migrate", "--store", store, "--down-to", "nothing", "--yes"],
        ["migrate", "--store", store, "--down-to", "base", "--yes"],
        ["migrate", "--create", "--store", "nonsense"],
        ["migrate", "--create", "--store", "oracle://x"],
        ["serve", "--database", "nonsense"],
        ["serve", "--database", store],
        ["serve", "--database", store, "--all", "--tables", "x"],
        ["serve", "--database", store, "--tables", "nothing"],
        ["serve", "--database", store, "--all", "--port", "70000"],
        ["serve", "--database", store, "--all", "--authenticate", "nonsense"],
        ["serve", "--database", store, "--all", "--host", "0.0.0.0"],
        ["demo", "--port", "x"],
        ["fetch"],
        ["fetch", "nonsense", "-o", "x.csv"],
    ):  # fmt: skip
        run(exchanges, "dualsql", *arguments, stdin="n\n")


async def test_dualsql_client(sqlite_schools: str, exchanges: Exchanges, tmp_path: Path) -> None:
    async with serving_on_loopback(sqlite_schools, anonymous_actions=ALL_ACTIONS) as (dual, base_url):
        response = await dual.create_response(PLAIN, name="Schools", sample_size=2)
        kept = tmp_path / "result.json"
        kept.write_text(json.dumps(response.to_mcp_tool_result()))
        url, out = response.resource_url, str(tmp_path)

        def work() -> None:
            for arguments in (
                [], ["--help"], ["fetch", "--help"], ["view", "--help"], ["nonsense"],
                ["fetch", url, "-o", f"{out}/rows.csv"],
                ["fetch", f"{url}/rows", "-o", f"{out}/rows.ndjson"],
                ["fetch", url, "-o", f"{out}/rows", "--format", "csv", "--quiet"],
                ["fetch", url, "-o", f"{out}/rows.csv", "--columns", "id,name", "--sort", "-id", "--limit", "3"],
                ["fetch", url, "-o", f"{out}/rows.csv", "--columns", "nonsense"],
                ["fetch", url, "-o", f"{out}/rows.csv", "--limit", "-1"],
                ["fetch", url, "-o", f"{out}/rows.xml"],
                ["fetch", url, "-o", f"{out}/nowhere/rows.csv"],
                ["fetch", str(kept), "-o", f"{out}/rows.csv"],
                ["fetch", str(kept), "-o", f"{out}/rows.csv", "--base-url", base_url],
                ["fetch", f"{out}/nothing.json", "-o", f"{out}/rows.csv"],
                ["fetch", url, "-o", f"{out}/rows.csv", "--token-env", "NOTHING"],
                ["fetch", f"{base_url}/q4T-9_hXv2ZkLwPmB7sYd1RcE0a", "-o", f"{out}/rows.csv"],
                ["view", f"{out}/nothing.json"],
                ["view", f"{base_url}/q4T-9_hXv2ZkLwPmB7sYd1RcE0a"],
            ):  # fmt: skip
                run(exchanges, "dualsql-client", *arguments)
            stdin: Any = kept.read_text()
            run(
                exchanges,
                "dualsql-client",
                "fetch",
                "-",
                "-o",
                f"{out}/rows.csv",
                "--base-url",
                base_url,
                stdin=stdin,
            )

        await asyncio.to_thread(work)
    for name in ("rows.csv", "rows.ndjson"):
        exchanges.add(name, (tmp_path / name).read_text())
