"""What a stranger gets from the wheels. Everything runs outside the checkout."""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from zipfile import ZipFile

import pytest

from tests.packaging.conftest import Environment, Wheels

pytestmark = pytest.mark.exhaustive

MakeEnvironment = Callable[..., Environment]

APPLICATION = Path(__file__).with_name("installed_application.py")


CALL_THE_COMMAND = """
from {package}.cli import main
try:
    main()
except SystemExit as refusal:
    print(refusal)
"""


@pytest.fixture(scope="module")
def environment(wheels: Wheels, make_environment: MakeEnvironment) -> Environment:
    """An environment with the server, its command line and the client."""
    return make_environment(f"dualsql[cli] @ {wheels.server.as_uri()}", str(wheels.client))


def test_the_server_s_wheel_holds_all_it_needs(wheels: Wheels) -> None:
    names = set(ZipFile(wheels.server).namelist())
    assert {"dualsql/py.typed", "dualsql/migrations/env.py", "dualsql/migrations/script.py.mako"} <= names
    assert {"dualsql/__init__.pyi", "dualsql/mcp/__init__.pyi", "dualsql/conformance/standard.json"} <= names
    assert any(name.startswith("dualsql/migrations/versions/0001") for name in names)
    assert any(name.startswith("dualsql/demo/") and name.endswith(".csv.gz") for name in names)
    assert any(name.endswith("/licenses/LICENSE") for name in names)


def test_the_client_s_wheel_holds_all_it_needs(wheels: Wheels) -> None:
    names = set(ZipFile(wheels.client).namelist())
    assert {
        "dualsql_client/py.typed",
        "dualsql_client/__init__.pyi",
        "dualsql_client/schemas/Page.json",
    } <= names
    assert "dualsql_client/wire.py" in names
    assert any(name.endswith("/licenses/LICENSE") for name in names)


def test_the_wheels_hold_one_package_each(wheels: Wheels) -> None:
    for wheel, package in ((wheels.server, "dualsql"), (wheels.client, "dualsql_client")):
        tops = {name.partition("/")[0] for name in ZipFile(wheel).namelist()}
        assert tops == {package, f"{package}-{wheel.name.split('-')[1]}.dist-info"}


def test_an_installed_server_migrates_stores_and_serves_a_page(environment: Environment) -> None:
    store = environment.folder / "store.sqlite"
    environment.run("dualsql", "migrate", "--create", "--store", f"sqlite:///{store}")
    answer = json.loads(environment.python(APPLICATION, environment.folder / "data.sqlite", store))
    assert answer["total"] == 7
    assert [row["id"] for row in answer["sample"]] == [1, 2]
    assert answer["page"] == [{"id": number, "name": f"School {number}"} for number in (5, 4, 3)]


def test_without_extras_the_library_imports_and_the_command_names_what_is_missing(
    wheels: Wheels, make_environment: MakeEnvironment
) -> None:
    bare = make_environment(f"dualsql @ {wheels.server.as_uri()}", str(wheels.client))
    bare.python("-c", "import dualsql.http, dualsql.store, dualsql_client")
    output = bare.python("-c", CALL_THE_COMMAND.format(package="dualsql"))
    assert 'pip install "dualsql[cli]"' in output


def test_the_client_alone_brings_no_server(wheels: Wheels, make_environment: MakeEnvironment) -> None:
    alone = make_environment(str(wheels.client))
    listed = alone.python(
        "-c",
        "import dualsql_client; from importlib.metadata import distributions;"
        "print(*(found.name.lower() for found in distributions()))",
    )
    assert not {"dualsql", "sqlalchemy", "starlette", "alembic", "mcp"} & set(listed.split())
    assert "dualsql-client" in listed.split()
    # pip comes along where uv does not.
    assert len(set(listed.split()) - {"pip", "setuptools"}) <= 14
    output = alone.python("-c", CALL_THE_COMMAND.format(package="dualsql_client"))
    assert 'pip install "dualsql-client[cli]"' in output


def test_a_parser_whose_steps_cannot_be_counted_is_refused(
    wheels: Wheels, make_environment: MakeEnvironment
) -> None:
    compiled = make_environment(
        f"dualsql[sql] @ {wheels.server.as_uri()}", str(wheels.client), f"sqlglotc=={version('sqlglot')}"
    )
    for use in ("from dualsql.sql import read_select", "import dualsql.sql.service as s; s.require_parser()"):
        script = f"try:\n {use}\nexcept Exception as error: print(type(error).__name__, error)"
        assert compiled.python("-c", script).startswith("ConfigurationError The compiled build of sqlglot")
