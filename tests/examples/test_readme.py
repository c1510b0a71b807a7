"""What the README prints is what runs."""

from __future__ import annotations

import re
import runpy
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from textwrap import indent
from typing import Any

import fastmcp
import httpx
import httpx2
import pytest
from fastmcp.exceptions import ToolError
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from sqlalchemy import select
from starlette.applications import Starlette
from starlette.routing import Mount

from dualsql import Principal
from dualsql.demo import Institution
from dualsql_client import DualResponseClient
from tests.examples.running import ROOT, output_of, served


def printed(file: str) -> str:
    """The code of an example without its docstring, as the README shows it."""
    return (ROOT / "examples" / file).read_text().partition('"""\n\n')[2].strip()


def test_all_code_of_the_readme_is_an_example_word_for_word() -> None:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    examples = [printed(file.name) for file in (ROOT / "examples").glob("*.py")]
    assert blocks and {block.strip() for block in blocks} <= set(examples)


def code_of_docs_mcp() -> list[str]:
    return re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "mcp.md").read_text(), re.DOTALL)


def test_the_code_of_docs_mcp_is_an_example_word_for_word() -> None:
    block, _ = code_of_docs_mcp()
    assert block.strip() == printed("tools.py")


async def test_the_code_of_docs_mcp_without_an_sdk_runs() -> None:
    example = loaded("tools.py")
    _, block = code_of_docs_mcp()
    lines = f"{block}return answer, resource, await dual.get_resource(response.resource_id)"
    exec(f"async def run():\n{indent(lines, '    ')}", example)
    async with example["dual"]:
        answer, resource, deleted = await example["run"]()
    assert answer["content"] and answer["structuredContent"]
    assert (resource.name, deleted) == ("Colleges", None)


def test_the_code_of_docs_catalogue_is_an_example_word_for_word() -> None:
    [block] = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "catalogue.md").read_text(), re.DOTALL)
    assert block.strip() == printed("catalogue.py")


def loaded(file: str) -> dict[str, Any]:
    """The names an example defines, once it has run. It builds its database, so outside an event loop."""
    with ThreadPoolExecutor() as threads:
        return threads.submit(runpy.run_path, str(ROOT / "examples" / file)).result()


@pytest.mark.long
async def test_results_are_kept_in_a_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("DUALSQL_SECRET", "a secret of at least thirty-two characters")
    first, second = loaded("table.py")["dual"], loaded("table.py")["dual"]
    async with first, second:
        response = await first.create_response(select(Institution), name="Colleges")
        assert await second.unchecked.get(response.resource_id)


async def test_results_are_bound_to_people(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    people = loaded("people.py")
    [(token, ana)], dual = people["SESSIONS"].items(), people["dual"]
    app = Starlette(routes=[Mount("/resources", dual.router())])
    async with dual, httpx.AsyncClient(transport=httpx.ASGITransport(app)) as http:
        response = await people["colleges_for"](ana)
        assert (await http.get(response.resource_url)).status_code == 404
        mine = await http.get(response.resource_url, headers={"Authorization": token})
        assert mine.json()["total_count"] == 6_127


@pytest.mark.long
async def test_tables_are_narrowed_to_the_tenant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    tenants = loaded("tenants.py")
    async with tenants["dual"]:
        values = [
            (await tenants["programs_of"](Principal(id=name, tenant=state))).sample[0]
            for name, state in (("ana", "NJ"), ("auditor", "NJ"), ("ben", "PA"))
        ]
    (ana_count, ana_debt), (auditor_count, auditor_debt), (ben_count, _) = (row.values() for row in values)
    assert (ana_count, ana_debt) == (auditor_count, None)
    assert auditor_debt > 0
    assert 0 < ana_count < ben_count < 106_145


@pytest.mark.long
async def test_the_two_programs_run_against_each_other(tmp_path: Path) -> None:
    async with served("server.py", tmp_path) as origin:
        output = await output_of("client.py", origin, tmp_path)
    assert output == "Colleges: the model saw 15 rows, the application got 146."


@pytest.mark.long
async def test_every_row_comes_in_any_shape(tmp_path: Path) -> None:
    async with served("server.py", tmp_path) as origin:
        output = await output_of("rows.py", origin, tmp_path)
    assert output.splitlines()[-1] == "10 dicts, 146 rows of 2 columns, colleges.csv"
    assert len((tmp_path / "colleges.csv").read_bytes().splitlines()) == 147


@pytest.mark.long
async def test_a_tool_says_more_than_its_select(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    example = loaded("tools.py")
    async with example["dual"], fastmcp.Client(example["mcp"]) as model:
        [tool] = await model.list_tools()
        assert tool.input_schema["properties"]["state"]["description"] == "two letters, such as NJ."
        result = await model.call_tool("search_colleges", {"state": "nj"})
        assert result.structured_content["resource"]["name"] == "Colleges in NJ"
        assert len(result.structured_content["results"]["name"]) == 10
        assert DualResponseClient().parse(result, strict=True).total_count == 146
        with pytest.raises(ToolError, match=r"BAD_PARAMETER: 'Ohio' is no state\. Give two letters"):
            await model.call_tool("search_colleges", {"state": "Ohio"})


@pytest.mark.long
async def test_a_model_looks_into_the_catalogue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    example = loaded("catalogue.py")
    async with example["dual"], Client(example["mcp"]) as model:
        assert model.instructions is not None and "give the link" in model.instructions
        result = await model.call_tool("search_catalog", {"terms": ["earnigns"]})
        assert {match["name"] for match in result.structured_content["matches"]} >= {"programs"}
        read = await model.read_resource("catalog://default/query/colleges_of_state")
        assert "Colleges of one state" in str(read.contents[0])
        answer = await model.call_tool(
            "execute_query", {"query_name": "colleges_of_state", "parameters": {"state": "NJ"}}
        )
        page = await model.read_resource(answer.structured_content["resource"]["uri"])
        assert '"total_count":146' in str(page.contents[0])
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(example["app"]), base_url="http://127.0.0.1:8000"
    ) as http:
        assert (await http.get("/.well-known/resource-link-service")).json()["endpoints"]


@pytest.mark.long
async def test_a_model_writes_the_sql(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    example = loaded("sql.py")
    async with example["dual"], Client(example["mcp"]) as model:
        result = await model.call_tool(
            "query", {"sql": "SELECT state, count(*) AS n FROM institutions GROUP BY state ORDER BY n DESC"}
        )
        assert result.structured_content["results"][0]["state"] == "CA"
        refused = await model.call_tool("query", {"sql": "SELECT * FROM instituttions"})
        assert refused.is_error
        assert "Did you mean institutions?" in str(refused.content)


@pytest.mark.long
async def test_one_token_opens_mcp_and_rest(tmp_path: Path) -> None:
    async with (
        served("identity.py", tmp_path) as origin,
        # The server builds its database first, which takes longer than the five seconds of a default.
        httpx2.AsyncClient(headers=_as("ana"), timeout=60) as ana,
        httpx2.AsyncClient(headers=_as("bob")) as bob,
        httpx2.AsyncClient() as nobody,
        Client(streamable_http_client(f"{origin}/mcp", http_client=ana)) as model,
        DualResponseClient(f"{origin}/resources", http=ana) as application,
    ):
        result = await model.call_tool("search_colleges", {"state": "NJ"})
        parsed = application.parse(result, strict=True)
        assert len(await parsed.fetch_all()) == 146
        [listed] = [each async for each in application.list_resources()]
        assert listed.resource_uri == parsed.resource_uri
        url = str(parsed.resource_url)
        assert [(await stranger.get(url)).status_code for stranger in (bob, nobody)] == [404, 404]
        for endpoint in (url, f"{origin}/mcp"):
            answer = await nobody.get(endpoint, headers=_as("nobody"))
            assert answer.status_code == 401
            assert 'error="invalid_token"' in answer.headers["www-authenticate"]


def _as(person: str) -> dict[str, str]:
    return {"Authorization": f"Bearer a-token-of-{person}"}
