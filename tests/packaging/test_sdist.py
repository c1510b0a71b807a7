"""A source distribution has what both builders read: pip the package, uv the workspace besides."""

from __future__ import annotations

import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_a_source_distribution_is_whole_and_has_nothing_of_other_folders() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    included = project["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]
    # Without the slash, README.md is every README.md, and with client/README.md came a client without its pyproject.
    assert all(name.startswith("/") and (ROOT / name[1:]).exists() for name in included)
    for member in project["tool"]["uv"]["workspace"]["members"]:
        assert f"/{member}/pyproject.toml" in included, "uv refuses a member without it"
