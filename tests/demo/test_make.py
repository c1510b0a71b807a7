"""`make demo` says what is in its way before it installs anything."""

from __future__ import annotations

import socket
import subprocess
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parents[2] / "scripts"


def _tried(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([SCRIPTS / "port_is_free", *arguments], capture_output=True, text=True, check=False)


def test_a_port_that_is_taken_is_said_with_the_way_out() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        for written in (["--port", port], [f"--port={port}", "--serve"]):
            ran = _tried(*written)
            assert ran.returncode == 1 and f"Port {port} of 127.0.0.1 cannot be used" in ran.stderr
            assert "--port 0" in ran.stderr and ran.stderr.count("\n") == 1


def test_a_free_port_is_not_mentioned() -> None:
    ran = _tried("--port", "0", "--serve", "--database", "sqlite:///x.db")
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")


def test_make_demo_looks_at_the_port_before_it_installs() -> None:
    ran = subprocess.run(
        ["make", "--no-print-directory", "--dry-run", "demo", "ARGS=--port 0"],
        cwd=SCRIPTS.parent,
        capture_output=True,
        text=True,
        check=True,
    )
    steps = ran.stdout.splitlines()
    assert steps[:2] == ["scripts/port_is_free --port 0", "scripts/environment demo"]


@pytest.mark.parametrize(("command", "shown"), [("echo noise; true", ""), ("echo why; false", "why\n")])
def test_what_pip_prints_is_shown_only_if_it_fails(command: str, shown: str) -> None:
    text = (SCRIPTS / "environment").read_text()
    function = text[text.index("quietly() {") : text.index("make_with_uv() {")]
    ran = subprocess.run(
        ["sh", "-c", f"{function}\nquietly sh -c '{command}'"], capture_output=True, text=True, check=False
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (int(bool(shown)), "", shown)
