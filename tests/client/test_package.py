"""What the client exports and imports, and that the example in its docstring runs."""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
import sys
import textwrap
import tomllib
from pathlib import Path
from typing import Any

import pytest

import dualsql_client
from dualsql_client import DualResponseClient, MissingExtraError, ParsedDualResponse, errors
from tests.client.hosting import Contract, Host, structured

PACKAGE = Path(dualsql_client.__file__).parent


def test_the_exports_are_sealed() -> None:
    assert dualsql_client.__all__ == sorted(dualsql_client.__all__) == dir(dualsql_client)
    for name in dualsql_client.__all__:
        # A union, such as Sort, has no module of its own.
        assert getattr(dualsql_client, name).__module__.startswith(("dualsql_client.", "types"))
    with pytest.raises(AttributeError, match="has no attribute 'Nothing'"):
        dualsql_client.Nothing  # type: ignore[attr-defined]  # noqa: B018


def test_every_error_is_exported_and_drawn_in_the_tree() -> None:
    kinds = {
        name: kind
        for name, kind in vars(errors).items()
        if inspect.isclass(kind) and issubclass(kind, errors.DualResponseClientError)
    }
    assert kinds.keys() <= set(dualsql_client.__all__)
    drawn = errors.__doc__ or ""
    for name, kind in kinds.items():
        assert name in drawn
        if kind is not errors.DualResponseClientError:
            assert kind.default_code in drawn


async def test_the_docstring_runs(host: Host, capsys: pytest.CaptureFixture[str]) -> None:
    documented = inspect.getdoc(dualsql_client) or ""
    code = textwrap.dedent("\n".join(line for line in documented.splitlines() if line.startswith("    ")))
    assert len([line for line in code.splitlines() if line]) <= 10
    scope: dict[str, object] = {}
    exec(compile(code, "docstring", "exec"), scope)
    base_url = host.serve(Contract([{"id": 1}, {"id": 2}]))
    await scope["show"](structured(), base_url)  # type: ignore[operator]
    assert "2 rows, the first is {'id': 1}" in capsys.readouterr().out


# Servers, databases and SDKs: none of them may come along with the client.
HEAVY = "dualsql sqlalchemy starlette alembic mcp mcp_types fastmcp httpx2 orjson uvicorn".split()


# Not rich: httpx imports it for a command of its own.
EXTRAS = "pyarrow polars pandas numpy orjson typer textual".split()


def test_importing_it_imports_nothing_of_the_server() -> None:
    probe = f"import dualsql_client, sys; print([name for name in {HEAVY} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def imported_by(module: Path) -> set[str]:
    names = set()
    for node in ast.walk(ast.parse(module.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names.add((node.module or "").partition(".")[0])
    return names


def names_of(needs: list[str]) -> set[str]:
    return {re.split(r"\W", need.replace("-", "_"), maxsplit=1)[0] for need in needs}


def test_it_imports_what_it_declares_and_nothing_else() -> None:
    project = tomllib.loads((PACKAGE.parent / "pyproject.toml").read_text("utf-8"))["project"]
    extras = set().union(*map(names_of, project["optional-dependencies"].values()))
    wanted = set().union(*(imported_by(module) for module in PACKAGE.rglob("*.py")))
    wanted -= sys.stdlib_module_names | {"dualsql_client"}
    assert wanted - extras == names_of(project["dependencies"])


def test_no_extra_is_imported_before_it_is_needed() -> None:
    probe = f"import dualsql_client, sys; print([name for name in {EXTRAS} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def call(parsed: ParsedDualResponse, method: str) -> Any:
    return getattr(parsed, method)()


@pytest.mark.parametrize(
    ("method", "module", "extra"),
    [
        ("to_arrow", "pyarrow", "arrow"),
        ("to_polars", "polars", "polars"),
        ("to_polars", "pyarrow", "polars"),
        ("to_pandas", "pandas", "pandas"),
        ("to_pandas", "pyarrow", "pandas"),
    ],
)
async def test_a_missing_package_is_told_by_its_extra(
    monkeypatch: pytest.MonkeyPatch, method: str, module: str, extra: str
) -> None:
    # None there is how Python itself says that a module is not to be had.
    monkeypatch.setitem(sys.modules, module, None)
    parsed = DualResponseClient("http://host/resources").parse(structured(), strict=True)
    with pytest.raises(MissingExtraError, match=rf"needs {module}.*dualsql-client\[{extra}\]") as error:
        await call(parsed, method)
    assert (error.value.code, error.value.details) == ("MISSING_EXTRA", {"extra": extra})


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="Python has zstd")
def test_a_package_with_a_dot_in_its_name_is_told_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "backports.zstd", None)
    with pytest.raises(MissingExtraError, match=r"needs backports\.zstd, .*dualsql-client\[zstd\]"):
        errors.import_extra("backports.zstd", "zstd")


async def test_a_bar_without_rich_is_told_before_anything_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rich.console", None)
    parsed = DualResponseClient("http://host.invalid/resources").parse(structured(), strict=True)
    with pytest.raises(MissingExtraError, match=r"dualsql-client\[progress\]"):
        await parsed.fetch_all(progress=True)
