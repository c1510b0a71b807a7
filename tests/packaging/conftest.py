"""Wheels and clean environments, made with uv or with pip. Nothing of the checkout leaks in."""

from __future__ import annotations

import shutil
import subprocess
import sys
import venv
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
UV = shutil.which("uv")


@dataclass(frozen=True)
class Wheels:
    """The two wheels of this checkout."""

    server: Path
    client: Path


@dataclass(frozen=True)
class Environment:
    """A virtual environment and a folder outside the checkout to work in."""

    programs: Path
    folder: Path

    def run(self, program: str, *arguments: str | Path) -> str:
        """The standard output of an installed program; fails the test with all it said otherwise."""
        return _output([self.programs / program, *arguments], cwd=self.folder)

    def python(self, *arguments: str | Path) -> str:
        """The standard output of its Python, isolated from whatever surrounds it."""
        return self.run("python", "-I", *arguments)

    def install(self, *requirements: str | Path) -> None:
        """Install more into it."""
        _output([*_installer(self.programs / "python"), *requirements], cwd=self.folder)


@pytest.fixture(scope="session")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Wheels:
    """Both wheels, freshly built."""
    folder = tmp_path_factory.mktemp("wheels")
    for project in (ROOT, ROOT / "client"):
        _output(_build_command(project, folder), cwd=ROOT)
    return Wheels(next(folder.glob("dualsql-*.whl")), next(folder.glob("dualsql_client-*.whl")))


@pytest.fixture(scope="session")
def make_environment(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Environment]:
    """A function from requirements to a clean environment that holds them."""

    def make(*requirements: str, constraints: Path = ROOT / "constraints.txt") -> Environment:
        folder = tmp_path_factory.mktemp("clean")
        home = folder / "environment"
        if UV:
            _output([UV, "venv", "--quiet", "--python", sys.executable, home], cwd=folder)
        else:
            venv.create(home, with_pip=True)
        _output([*_installer(home / "bin" / "python"), "-c", constraints, *requirements], cwd=folder)
        return Environment(home / "bin", folder)

    return make


def wheel_of(project: Path, folder: Path) -> Path:
    """The wheel of a project, freshly built into an empty folder."""
    _output(_build_command(project, folder), cwd=project)
    return next(folder.glob("*.whl"))


def _installer(python: Path) -> list[str | Path]:
    if UV:
        return [UV, "pip", "install", "--quiet", "--python", python]
    return [python, "-I", "-m", "pip", "install", "--quiet"]


def _build_command(project: Path, folder: Path) -> list[str | Path]:
    if UV:
        return [UV, "build", "--quiet", "--wheel", "--out-dir", folder, project]
    return [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", folder, project]


def _output(command: list[str | Path], cwd: Path) -> str:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.fail(f"{command[0]} failed:\n{done.stdout}\n{done.stderr}")
    return done.stdout
