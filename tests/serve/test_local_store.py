"""`dualsql serve --stdio`: the next process knows the results of the one before, and clients find the running one."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from dualsql.cli.local_store import open_local_store
from dualsql.cli.options import ServeOptions
from dualsql.resource import new_resource_id
from dualsql_client import DualResponseClient, FetchError, NotConfiguredError, SyncDualResponseClient
from dualsql_client.local_servers import MARK_LENGTH, address_of, announce, folder
from tests.serve.conftest import PROGRAM, environment, text_of

MARK = "aB3dE"
ADDRESS = "http://127.0.0.1:1234/resources"


@pytest.fixture(autouse=True)
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The user's folders, for this process and for those that it starts."""
    variables = {name: str(tmp_path / name) for name in ("XDG_STATE_HOME", "XDG_RUNTIME_DIR")}
    for name, path in variables.items():
        Path(path).mkdir(mode=0o700)
        monkeypatch.setenv(name, path)
    return variables


@asynccontextmanager
async def stdio_server(
    database: str, *flags: str, errors: Path = Path(os.devnull), **variables: str
) -> AsyncIterator[Client]:
    """A model's client of a process of its own."""
    parameters = StdioServerParameters(
        command=PROGRAM[0],
        args=[*PROGRAM[1:], "serve", "--stdio", *(flags or ("--all",))],
        env=environment(DUALSQL_DATABASE_URL=database, **variables),
    )
    with errors.open("a") as written:
        async with Client(stdio_client(parameters, errlog=written)) as model:
            yield model


def modes(path: Path) -> set[str]:
    return {oct(stat.S_IMODE(each.stat().st_mode)) for each in path.iterdir()}


async def uri_of(model: Client) -> str:
    result = await model.call_tool("execute_query", {"query": "SELECT * FROM parts"})
    content: Any = result.structured_content
    return str(content["resource"]["uri"])


async def count_of(model: Client, uri: str) -> Any:
    result = await model.call_tool("query_result", {"resource": uri, "aggregates": ["count"]})
    return text_of(result) if result.is_error else (result.structured_content or {})["results"]


@pytest.mark.long
async def test_the_process_of_the_next_call_knows_the_result(shop: str, tmp_path: Path) -> None:
    log = tmp_path / "said"
    async with stdio_server(shop, errors=log) as model:
        uri = await uri_of(model)
    async with stdio_server(shop) as model, stdio_server(shop) as other:
        assert await count_of(model, uri) == await count_of(other, uri) == [{"count": 1_000}]
        assert await count_of(model, await uri_of(other)) == [{"count": 1_000}]
    state = tmp_path / "XDG_STATE_HOME" / "dualsql"
    assert (modes(state.parent), modes(state)) == ({"0o700"}, {"0o600"})
    # Other tables are another server, and so is one that keeps its results in memory.
    for flags in (("--tables", "parts"), ("--all", "--store", "memory")):
        async with stdio_server(shop, *flags) as model:
            assert "RESOURCE_NOT_FOUND" in await count_of(model, uri)
    assert "its results are known to the next one" in log.read_text()


@pytest.mark.long
async def test_without_a_folder_results_end_with_the_process(shop: str, tmp_path: Path) -> None:
    log, blocked = tmp_path / "said", tmp_path / "file"
    blocked.write_text("")
    async with stdio_server(shop, errors=log, XDG_STATE_HOME=str(blocked)) as model:
        assert await count_of(model, await uri_of(model)) == [{"count": 1_000}]
    assert "Results end with this process" in log.read_text()


@pytest.mark.long
async def test_a_client_without_addresses_finds_the_running_server(shop: str, tmp_path: Path) -> None:
    log = tmp_path / "said"
    async with stdio_server(shop) as model, stdio_server(shop, "--tables", "parts", errors=log) as other:
        for server in (model, other):
            result = await server.call_tool("execute_query", {"query": "SELECT * FROM parts"})
            bare = (result.structured_content or {})["resource"]["uri"]
            async with DualResponseClient() as client:
                for form in (result, bare):
                    parsed = client.parse(form, strict=True)
                    assert len(await parsed.fetch_all()) == 1_000
                assert (await client.open(bare)).total_count == 1_000
        with SyncDualResponseClient() as client:
            assert len(client.parse(bare, strict=True).fetch_all()) == 1_000
        assert len(list(folder().iterdir())) == 2 and modes(folder()) == {"0o600"}
        origin = (result.structured_content or {})["resource"]["url"].rpartition("/")[0]
        assert origin in log.read_text(), "on standard error"
    assert list(folder().iterdir()) == []
    async with DualResponseClient() as client:
        with pytest.raises(NotConfiguredError):
            await client.parse(bare, strict=True).fetch_all()


async def test_a_client_with_an_address_asks_no_other_server() -> None:
    with announce(ADDRESS, MARK):
        async with DualResponseClient("http://127.0.0.1:9/resources") as client:
            parsed = client.parse(f"resource://{new_resource_id(MARK)}", strict=True)
            assert parsed.resource_url is not None and parsed.resource_url.startswith("http://127.0.0.1:9/")
        async with DualResponseClient() as client:
            parsed = client.parse(f"resource://{new_resource_id('zZ9yX')}", strict=True)
            with pytest.raises((NotConfiguredError, FetchError)):
                await parsed.fetch()


def test_the_mark_is_the_start_of_an_id() -> None:
    identifier = new_resource_id(MARK)
    assert identifier.startswith(MARK) and len(MARK) == MARK_LENGTH
    assert address_of(identifier) is None
    with announce(ADDRESS, MARK) as path:
        assert address_of(identifier) == ADDRESS
        assert path is not None and stat.S_IMODE(path.stat().st_mode) == 0o600
    assert address_of(identifier) is None and not path.exists()


@pytest.mark.parametrize(
    "change",
    [
        {"base_url": "https://evil.example/resources"},
        {"base_url": "http://10.0.0.1:8000/resources"},
        {"base_url": "http://user@127.0.0.1:8000/resources"},
        {"base_url": 7},
        {"mark": "other"},
        {"pid": 2**22 + 1},
        {"pid": -1},
        {"pid": None},
    ],
)
def test_a_file_that_names_no_running_server_of_this_machine_is_ignored(change: dict[str, Any]) -> None:
    with announce(ADDRESS, MARK) as path:
        assert path is not None
        path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
        assert address_of(new_resource_id(MARK)) is None


@pytest.mark.parametrize("text", ["", "[]", "no JSON", "x" * 5_000])
def test_a_file_that_cannot_be_read_is_ignored(text: str) -> None:
    with announce(ADDRESS, MARK) as path:
        assert path is not None
        path.write_text(text)
        assert address_of(new_resource_id(MARK)) is None


def test_files_and_folders_of_others_are_ignored(tmp_path: Path) -> None:
    with announce(ADDRESS, MARK) as path:
        assert path is not None
        path.chmod(0o644)
        assert address_of(new_resource_id(MARK)) is None
        path.chmod(0o600)
        folder().chmod(0o755)
        assert address_of(new_resource_id(MARK)) is None
        with announce(ADDRESS, "other") as refused:
            assert refused is None
        folder().chmod(0o700)
        moved = path.rename(tmp_path / "moved")
        path.symlink_to(moved)
        assert address_of(new_resource_id(MARK)) is None
    assert moved.exists()


def test_the_file_of_a_server_that_nobody_starts_is_deleted() -> None:
    one, other = (ServeOptions(database=f"sqlite:////tmp/{name}.db", everything=True) for name in ("a", "b"))
    first = open_local_store(one)
    assert first is not None and first == open_local_store(one)
    path = Path(first.url.removeprefix("sqlite:///"))
    os.utime(path, (0, 0))
    second = open_local_store(other)
    assert second is not None and not path.exists()
    assert second.secret == first.secret and second.mark != first.mark
    (path.parent / "secret").chmod(0o644)
    assert open_local_store(one) is None
