"""A page of the documentation as a session: its blocks are files and commands, in a reader's order.

A block whose first line is a comment with a file's name (`# app.py`, `; alembic.ini`) is that file, in a folder of the
page's own. A `console` block has commands after `$`, each followed by what it prints; `...` stands for any text. So
nothing is run but what the page shows. Two things are changed: the port, and the folder of dualsql's migrations.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import runpy
import shlex
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib import import_module, invalidate_caches
from importlib.metadata import distribution
from pathlib import Path
from typing import NamedTuple

import uvicorn

from dualsql.store import migrations_path
from tests.docs.blocks import blocks_in

ORIGIN = "http://127.0.0.1:8000"
"""Where the servers of all pages are, in print."""

_NAME = re.compile(r"^(?:#|;) ((?:[\w-]+/)*[\w.-]+\.\w+)\n")


class Command(NamedTuple):
    """What a reader types, and what the page says that it prints; None where the page says nothing."""

    words: list[str]
    printed: str | None


class File(NamedTuple):
    """A file, by its path in the reader's folder."""

    path: str
    text: str


def steps(page: str) -> Iterator[File | Command]:
    """The files and commands of a page.

    Raises:
        ValueError: a block of code is neither.
    """
    for block in blocks_in(page):
        text = block.code
        named = _NAME.match(text)
        if named:
            yield File(named[1], text)
        elif block.language == "console":
            yield from _commands(text)
        elif block.language not in {"text", "http", "json"}:
            raise ValueError(f"This block is neither a named file nor commands, so nothing runs it:\n{text}")


def _commands(text: str) -> Iterator[Command]:
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        typed, _, printed = part.partition("\n")
        yield Command(shlex.split(typed, comments=True), printed.strip() or None)


def is_as_printed(output: str, printed: str) -> bool:
    """Whether a program's output is what the page shows of it."""
    pattern = ".*".join(map(re.escape, printed.split("...")))
    return re.fullmatch(pattern, output.strip(), re.DOTALL) is not None


@dataclass
class Session:
    """A reader's folder, shell and servers.

    Attributes:
        folder: an empty one. The process must be in it, and have it on `sys.path`.
        environment: variables that the reader has set.
        has_processes: programs run in processes of their own, as a reader's do. Without, each is a second faster.
    """

    folder: Path
    environment: dict[str, str] = field(default_factory=dict)
    has_processes: bool = False
    _listener: socket.socket = field(default_factory=lambda: socket.create_server(("127.0.0.1", 0)))
    _server: tuple[uvicorn.Server, threading.Thread] | None = None

    def run(self, page: str) -> int:
        """Follow a page to its end. Returns how many commands were run."""
        commands = 0
        try:
            for step in steps(page):
                if isinstance(step, File):
                    self._write(step)
                else:
                    self._run(step)
                    commands += 1
        finally:
            self._stop()
            self._listener.close()
            self._forget_modules()
        return commands

    def _write(self, file: File) -> None:
        path = self.folder / file.path
        path.parent.mkdir(parents=True, exist_ok=True)
        host, port = self._listener.getsockname()
        text = file.text.replace(ORIGIN, f"http://{host}:{port}")
        # Where an installed package has its migrations; an editable checkout has them elsewhere.
        text = text.replace("dualsql:migrations/versions", str(migrations_path() / "versions"))
        path.write_text(text, encoding="utf-8")
        invalidate_caches()

    def _run(self, command: Command) -> None:
        program, *arguments = command.words
        run = {"pip": self._install, "uvicorn": self._serve, "python": self._python}.get(program)
        output = self._program(command.words) if run is None else run(arguments)
        assert command.printed is None or is_as_printed(output, command.printed), (
            f"{shlex.join(command.words)} printed\n{output}\nand the page says\n{command.printed}"
        )

    def _install(self, arguments: list[str]) -> str:
        """Whatever a page lets its reader install is installed here."""
        assert arguments.pop(0) == "install"
        for requirement in arguments:
            distribution(re.split(r"[\[<>=]", requirement)[0])
        return ""

    def _serve(self, arguments: list[str]) -> str:
        """`uvicorn app:app`, until the next one or the end of the page."""
        self._stop()
        self._forget_modules()
        [target] = arguments
        module, _, name = target.partition(":")
        application = getattr(import_module(module), name)
        server = uvicorn.Server(uvicorn.Config(application, log_level="warning", lifespan="on"))
        running = threading.Thread(target=server.run, kwargs={"sockets": [self._listener.dup()]})
        running.start()
        while not server.started:
            running.join(0.01)
            assert running.is_alive(), f"{target} did not start"
        self._server = server, running
        return ""

    def _stop(self) -> None:
        if self._server is not None:
            server, running = self._server
            server.should_exit = True
            running.join()
            self._server = None

    def _python(self, arguments: list[str]) -> str:
        [file] = arguments
        if self.has_processes:
            return self._program([str(self.folder / file)])
        self._forget_modules()
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            runpy.run_path(str(self.folder / file), run_name="__main__")
        return output.getvalue()

    def _program(self, words: list[str]) -> str:
        """A program of the reader's environment, or a file for Python, in a process of its own."""
        installed = Path(sys.executable).with_name(Path(words[0]).name)
        running = subprocess.run(
            [installed if installed.exists() else sys.executable, *words[installed.exists() :]],
            env={**os.environ, **self.environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert running.returncode == 0, f"{shlex.join(words)} failed:\n{running.stdout}"
        return running.stdout

    def _forget_modules(self) -> None:
        """The next program imports its modules anew, as a process would."""
        for name, module in list(sys.modules.items()):
            if str(getattr(module, "__file__", None) or "").startswith(f"{self.folder}/"):
                del sys.modules[name]
