"""A release: one version everywhere, an entry of the MCP registry, equal bytes of two builds, old and new Pythons."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from hashlib import sha256
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import jsonschema
import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
ENTRY = json.loads((ROOT / "server.json").read_text())
WORKFLOW = (ROOT / ".github" / "workflows" / "release.yml").read_text()
PYPROJECTS = [tomllib.loads((ROOT / folder / "pyproject.toml").read_text()) for folder in (".", "client")]

TEXT = {"type": "string", "minLength": 1}
ARGUMENT = {
    "required": ["type"],
    "properties": {"type": {"enum": ["positional", "named"]}, "name": TEXT, "value": TEXT, "valueHint": TEXT},
    "allOf": [
        {
            "if": {"properties": {"type": {"const": "named"}}},
            "then": {"required": ["name"]},
            "else": {"anyOf": [{"required": ["value"]}, {"required": ["valueHint"]}]},
        }
    ],
}
RULES: dict[str, Any] = {
    "required": ["$schema", "name", "description", "version", "packages"],
    "properties": {
        "name": {
            "type": "string",
            "pattern": "^[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+$",
            "minLength": 3,
            "maxLength": 200,
        },
        "title": {"type": "string", "minLength": 1, "maxLength": 100},
        "description": {"type": "string", "minLength": 1, "maxLength": 100},
        "version": {"type": "string", "pattern": "^[0-9]+[.][0-9]+[.][0-9]+$"},
        "packages": {
            "minItems": 1,
            "items": {
                "required": ["registryType", "identifier", "version", "transport"],
                "additionalProperties": False,
                "properties": {
                    "registryType": {"const": "pypi"},
                    "identifier": TEXT,
                    "version": TEXT,
                    "runtimeHint": TEXT,
                    "runtimeArguments": {"items": ARGUMENT},
                    "packageArguments": {"items": ARGUMENT},
                    "environmentVariables": {
                        "items": {
                            "required": ["name"],
                            "properties": {
                                "isRequired": {"type": "boolean"},
                                "isSecret": {"type": "boolean"},
                            },
                        }
                    },
                    "transport": {"properties": {"type": {"const": "stdio"}}, "required": ["type"]},
                },
            },
        },
    },
}
"""What the registry requires of `server.json`, in our words. The release asks its schema, which is not here."""


def test_one_version_everywhere() -> None:
    (version,) = {project["project"]["version"] for project in PYPROJECTS}
    assert f"dualsql-client=={version}" in PYPROJECTS[0]["project"]["dependencies"]
    for package in (ROOT / "dualsql", ROOT / "client" / "dualsql_client"):
        assert f'__version__ = "{version}"' in (package / "__init__.py").read_text()
    assert json.loads((ROOT / "client-js" / "package.json").read_text())["version"] == version
    assert {ENTRY["version"], *(package["version"] for package in ENTRY["packages"])} == {version}
    assert f"dualsql[serve]=={version}" in json.dumps(ENTRY)
    assert re.search(rf"^## {re.escape(version)}\b", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)


def test_every_extra_takes_a_duckdb_that_reads_a_limit_in_percent() -> None:
    """`memory_limit` is a part of the machine's memory (or the container's), which DuckDB 1 refuses: "Unknown unit"."""
    extras = PYPROJECTS[0]["project"]["optional-dependencies"]
    wanted = [Requirement(line) for lines in extras.values() for line in lines]
    of_duckdb = [each.specifier for each in wanted if each.name == "duckdb"]
    assert len(of_duckdb) == 3
    assert not any(each.contains(version) for each in of_duckdb for version in ("1.4.0", "1.5.6"))


def test_the_entry_of_the_registry_is_valid() -> None:
    jsonschema.validate(ENTRY, RULES)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**ENTRY, "description": "x" * 101}, RULES)
    assert "check-jsonschema --schemafile" in WORKFLOW, "a release asks the schema itself"


def test_the_registry_finds_its_name_in_the_package() -> None:
    readme = (ROOT / "README.md").read_text()
    assert f"mcp-name: {ENTRY['name']} " in readme


def test_the_entry_starts_a_server_that_exists() -> None:
    (package,) = ENTRY["packages"]
    words = [argument.get("name") or argument["value"] for argument in package["packageArguments"]]
    assert words == ["serve", "--stdio", "--all"]
    assert [one["name"] for one in package["environmentVariables"]] == ["DUALSQL_DATABASE_URL"]


def test_the_workflow_is_valid_and_has_no_secret_and_few_rights() -> None:
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.github-workflows"]
    subprocess.run([*command, ROOT / ".github" / "workflows" / "release.yml"], check=True)
    assert "secrets." not in WORKFLOW
    assert re.search(r"^permissions: \{\}$", WORKFLOW, re.MULTILINE), "each job names its own"
    assert WORKFLOW.count("id-token: write") == 4
    assert "attestations: true" in WORKFLOW
    assert "npm publish --provenance" in WORKFLOW
    assert re.search(r"tags: \[", WORKFLOW) and "branches" not in WORKFLOW and "pull_request" not in WORKFLOW


def built(folder: Path, tools: Path) -> dict[str, str]:
    """Checksums of what the script builds, by name."""
    environment = {**os.environ, "RELEASE_TOOLS": str(tools)}
    command = [ROOT / "scripts" / "release", folder]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return {path.name: sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Both packages, built twice with the same bytes."""
    folder = tmp_path_factory.mktemp("release")
    first, again = (built(folder / name, folder / "tools") for name in ("dist", "again"))
    assert first == again
    assert len(first) == 4
    return folder / "dist"


@pytest.mark.exhaustive
def test_nothing_but_the_packages_is_in_the_wheels(dist: Path) -> None:
    for wheel in dist.glob("*.whl"):
        names = ZipFile(wheel).namelist()
        package = wheel.name.partition("-")[0]
        assert f"{package}/py.typed" in names
        assert not [name for name in names if "test" in name.partition("/")[0] or "conftest" in name]


def pythons() -> list[str]:
    """The oldest and the newest Python of this machine that the packages support."""
    found: dict[int, str] = {}
    for minor in range(11, 20):
        candidates = [
            *Path.home().glob(f".pyenv/versions/3.{minor}.*/bin/python"),
            shutil.which(f"python3.{minor}"),
        ]
        if present := [str(each) for each in candidates if each]:
            found[minor] = present[0]
    return [found[minor] for minor in sorted({min(found), max(found)})] if found else []


@pytest.mark.exhaustive
@pytest.mark.parametrize("python", pythons())
def test_it_is_installed_and_used_outside_the_repository(dist: Path, tmp_path: Path, python: str) -> None:
    def run(*command: str | Path) -> str:
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=500)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    run(python, "-m", "venv", tmp_path / "venv")
    programs = tmp_path / "venv" / "bin"
    server, client = next(dist.glob("dualsql-*.whl")), next(dist.glob("dualsql_client-*.whl"))
    wanted = [f"dualsql[serve,files] @ {server.as_uri()}", str(client)]
    run(programs / "python", "-I", "-m", "pip", "install", "--quiet", "-c", ROOT / "constraints.txt", *wanted)
    assert run(programs / "dualsql", "--version") == f"dualsql {ENTRY['version']}\n"
    (tmp_path / "sales.csv").write_text("id,city\n1,Ulm\n2,Bern\n")
    entry = run(programs / "dualsql", "connect", "cursor", "sales.csv", "--dry-run")
    assert str(programs / "dualsql") in entry.replace("\n", "")
    assert "15,191" in run(programs / "dualsql", "demo", "--port", "0")
