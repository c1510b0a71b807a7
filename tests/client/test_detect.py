"""The dual response is found in what agent SDKs deliver, and nothing else is taken for one."""

from __future__ import annotations

import json
from collections import UserDict
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, make_dataclass
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import fastmcp
import mcp
import mcp_types
import pytest
from fastmcp.tools import ToolResult
from hypothesis import given, strategies as st
from mcp.server import MCPServer
from pydantic import BaseModel, ConfigDict

from dualsql.mcp.results import output_schema
from dualsql.settings import ResultsFormat
from dualsql_client import DualResponseClient, ParseError
from tests.client.hosting import RESOURCE_ID, structured
from tests.client.recorded import URI, URL, recordings, recordings_of_dualsql, revived

# Recordings in which nothing but the link is left.
LINK_ONLY = {
    f"{sdk}: linkonly/{form}"
    for sdk, forms in {
        "mcp": ("python", "model_dump", "wire"),
        "mcp_v1": ("python", "wire"),
        "fastmcp": ("python",),
        "openai_agents": ("default", "use_structured_content", "custom_data_extractor"),
    }.items()
    for form in forms
} | {"openai_agents: plain/default", "openai_agents: schema/default"}

# Recordings in which the SDK left prose or a bare URI: all that can be found is the URI.
TEXT_ONLY = {
    "anthropic.nolink: plain/request_2_last_message",
    "langchain: linkonly/toolmessage_python",
    "langchain: linkonly/agent_messages",
    "openai_agents.nolink: plain/default",
    *(f"pydantic_ai: {tool}/tool_return_python" for tool in ("plain", "schema", "linkonly")),
}

# Recordings in which the SDK left nothing, or an error message of its own.
LOST = {
    *(f"anthropic: {tool}/request_2_last_message" for tool in ("plain", "schema", "json", "linkonly")),
    "openai_agents: structuredonly/default",
}

client = DualResponseClient()


@pytest.mark.quick(30)
@pytest.mark.parametrize(("name", "result"), [pytest.param(*case, id=case[0]) for case in recordings()])
def test_recorded_tool_results(name: str, result: Any) -> None:
    parsed = client.parse(result)
    if name in LOST or ": error/" in name:
        assert parsed is None
        return
    assert parsed is not None
    assert parsed.resource_uri == URI
    assert parsed.name == ("" if name in TEXT_ONLY else "search_institutions result")
    if name in LINK_ONLY | TEXT_ONLY:
        assert (parsed.sample, parsed.total_count, parsed.columns) == ([], None, [])
        return
    assert [row["id"] for row in parsed.sample] == [1, 2, 3]
    assert parsed.sample[1]["name"] == "東京大学"
    assert parsed.total_count == 1234
    assert parsed.resource_url == URL
    assert [column["type"] for column in parsed.columns] == [
        "number",
        "string",
        "string",
        "number",
        "date",
        "number",
    ]
    assert {column["encoding"] for column in parsed.columns} == {"any"}
    assert parsed.executed_at == datetime(2026, 11, 21, 10, tzinfo=UTC)
    assert parsed.expires_at == datetime(2026, 11, 21, 11, tzinfo=UTC)


@pytest.mark.quick(30)
@pytest.mark.parametrize(
    ("name", "dump", "found"), [pytest.param(*case, id=case[0]) for case in recordings_of_dualsql()]
)
def test_recorded_results_of_dualsql(name: str, dump: Any, found: list[list[Any]]) -> None:
    for result in (dump, revived(dump), json.dumps(dump)):
        assert [[len(each.sample), each.total_count] for each in client.find(result)] == found


TOOL_RESULT: dict[str, Any] = {
    "content": [{"type": "text", "text": "showing 1 of 3"}],
    "structuredContent": structured(),
}


async def test_the_official_sdk_live() -> None:
    server = MCPServer("colleges")

    @server.tool()
    def search() -> mcp_types.CallToolResult:
        return mcp_types.CallToolResult.model_validate(TOOL_RESULT)

    async with mcp.Client(server) as session:
        result = await session.call_tool("search", {})
    for form in (result, result.model_dump(), result.model_dump(by_alias=True), result.model_dump_json()):
        parsed = client.parse(form, strict=True)
        assert (parsed.resource_uri, parsed.total_count) == (f"resource://{RESOURCE_ID}", 3)


async def test_fastmcp_live() -> None:
    server = fastmcp.FastMCP("colleges")

    @server.tool
    def search() -> ToolResult:
        return ToolResult(content="showing 1 of 3", structured_content=dict(structured()))

    async with fastmcp.Client(server) as session:
        for result in (await session.call_tool("search"), await session.call_tool_mcp("search", {})):
            parsed = client.parse(result, strict=True)
            assert (parsed.resource_uri, parsed.total_count) == (f"resource://{RESOURCE_ID}", 3)


@pytest.mark.parametrize("results_format", ["rows", "columnar"])
async def test_the_data_that_fastmcp_makes_of_a_published_schema(results_format: ResultsFormat) -> None:
    server = fastmcp.FastMCP("colleges")

    @server.tool(output_schema=output_schema(results_format))
    def search() -> ToolResult:
        actual: dict[str, Any] = {**structured()}
        if results_format == "columnar":
            actual["results"] = {"id": [0]}
        return ToolResult(content="showing 1 of 3", structured_content=actual)

    async with fastmcp.Client(server) as session:
        data = (await session.call_tool("search")).data
        assert not isinstance(data, Mapping)
        (found,) = client.find(data)
        (raw,) = client.find(await session.call_tool_mcp("search", {}))
        assert (found.sample, found.total_count, found.columns) == (raw.sample, raw.total_count, raw.columns)


class Model(BaseModel):
    model_config = ConfigDict(extra="allow")
    output: Any


@dataclass(slots=True)
class Slotted:
    output: Any


def nested(value: Any, times: int) -> str:
    """JSON inside a string inside JSON, `times` deep."""
    return json.dumps(value if times == 1 else {"output": nested(value, times - 1)})


CARRIERS: dict[str, Any] = {
    "structured content": structured(),
    "another scheme": structured(uri=f"my-app+v2://results/{RESOURCE_ID}"),
    "blocks": [{"type": "text", "text": "hello"}, {"type": "text", "text": json.dumps(structured())}],
    "tuple": (json.dumps(structured()), "and prose"),
    "indented JSON": json.dumps(structured(), indent=2),
    "JSON in JSON": nested(structured(), 4),
    "model": Model(output=structured()),
    "undeclared field": Model.model_validate({"output": None, "undeclared": structured()}),
    "slots": Slotted(structured()),
    "namespace": SimpleNamespace(artifact={"structured_content": structured()}),
    "mapping": UserDict(TOOL_RESULT),
    "dataclass": make_dataclass("Dual", structured())(**structured()),
    "twice the same": [TOOL_RESULT, json.dumps(TOOL_RESULT)],
    "bytes": json.dumps(TOOL_RESULT).encode(),
    "a view of bytes": (7, memoryview(json.dumps(TOOL_RESULT).encode())),
    "lines of JSON": f'{{"type": "start"}}\n{json.dumps(TOOL_RESULT)}\nnot JSON\n',
    "server-sent events": f"event: message\ndata: {json.dumps(TOOL_RESULT)}\n\nevent: end\ndata: x\n\n",
    "one line of server-sent events": f"data:{json.dumps(TOOL_RESULT)}",
    "a private attribute": SimpleNamespace(output="Done.", _state=SimpleNamespace(_messages=[TOOL_RESULT])),
}


@pytest.mark.parametrize("carrier", CARRIERS.values(), ids=CARRIERS.keys())
def test_carriers(carrier: Any) -> None:
    parsed = client.parse(carrier, strict=True)
    assert parsed.sample == [{"id": 0}]


def test_camel_case_metadata() -> None:
    metadata = {"totalCount": 3, "executedAt": "2026-11-21T10:00:00", "expiresAt": None, "columns": []}
    parsed = client.parse({**structured(), "metadata": metadata})
    assert parsed is not None
    assert (parsed.total_count, parsed.expires_at) == (3, None)
    assert parsed.executed_at == datetime(2026, 11, 21, 10, tzinfo=UTC)


def test_the_structure_tells_more_than_a_link_found_before_it() -> None:
    link = {"type": "resource_link", "uri": f"resource://{RESOURCE_ID}", "mimeType": "application/json"}
    [parsed] = client.find([link, [structured()]])
    assert parsed.sample == [{"id": 0}]


def test_find_tells_resources_apart_and_parse_does_not_choose() -> None:
    other = structured(uri="resource://another")
    results = [TOOL_RESULT, {"output": json.dumps(other)}]
    assert [each.resource_uri for each in client.find(results)] == [
        f"resource://{RESOURCE_ID}",
        "resource://another",
    ]
    assert client.parse(results) is None
    with pytest.raises(ParseError) as error:
        client.parse(results, strict=True)
    assert error.value.code == "PARSE_ERROR"
    assert error.value.details["resources"] == [f"resource://{RESOURCE_ID}", "resource://another"]


@pytest.mark.parametrize("mark", [{"isError": True}, {"is_error": True}, {"status": "error"}])
def test_an_error_is_none_whatever_it_carries(mark: dict[str, Any]) -> None:
    assert client.parse({**TOOL_RESULT, **mark}) is None
    with pytest.raises(ParseError):
        client.parse([{**TOOL_RESULT, **mark}], strict=True)


def test_a_row_cannot_pose_as_a_dual_response() -> None:
    forged = structured(uri="resource://forged")
    result = {**structured(), "results": [{"note": json.dumps(forged)}, {"note": forged}]}
    assert [each.resource_uri for each in client.find(result)] == [f"resource://{RESOURCE_ID}"]


async def events(*values: Any) -> AsyncIterator[Any]:
    for value in values:
        yield value


async def test_a_stream_of_events_gives_each_as_it_comes() -> None:
    link = {"type": "resource_link", "uri": f"resource://{RESOURCE_ID}", "mimeType": "application/json"}
    other = structured(uri="resource://another")
    stream = events("text", link, link, {"item": TOOL_RESULT}, TOOL_RESULT, [other, TOOL_RESULT], None)
    actual = [(parsed.resource_uri, len(parsed.sample)) async for parsed in client.find_in(stream)]
    ours = f"resource://{RESOURCE_ID}"
    assert actual == [(ours, 0), (ours, 1), ("resource://another", 1)]


async def test_a_stream_of_texts() -> None:
    pieces = events("every row from resource://", f"resource://{RESOURCE_ID[:-3]}", RESOURCE_ID[-3:])
    assert [parsed async for parsed in client.find_in(pieces)] == []
    texts = events(f"Rows: resource://{RESOURCE_ID}", f"resource://{RESOURCE_ID} again")
    assert len([parsed async for parsed in client.find_in(texts)]) == 1


def test_what_is_private_completes_what_is_public() -> None:
    other = structured(uri="resource://another")
    private = SimpleNamespace(_messages=[TOOL_RESULT, other])
    assert len(client.find(private)) == 2
    [parsed] = client.find([f"All rows: resource://{RESOURCE_ID}", private])
    assert parsed.sample == [{"id": 0}]


def test_what_is_public_hides_what_is_private() -> None:
    other = structured(uri="resource://another")
    [parsed] = client.find(SimpleNamespace(output=TOOL_RESULT, _before=other))
    assert parsed.resource_uri == f"resource://{RESOURCE_ID}"


FOREIGN = structured(uri="resource://7", url="https://other.example/resources/7")


def without(*path: str) -> dict[str, Any]:
    result: dict[str, Any] = json.loads(json.dumps(FOREIGN))
    part = result
    for name in path[:-1]:
        part = part[name]
    del part[path[-1]]
    return result


@pytest.mark.parametrize(
    "ordinary",
    [
        None,
        3.5,
        "",
        "plain prose about resource://abc123 and more",
        "[INFO] not JSON",
        "{}",
        [],
        {"results": [1, 2, 3], "resource": {"uri": "resource://abc"}, "metadata": {"total_count": 3}},
        {**FOREIGN, "metadata": {"total_count": -1}},
        {**FOREIGN, "metadata": {"total_count": True}},
        {**FOREIGN, "metadata": {"total_count": 3, "columns": [{"type": "string"}]}},
        without("results"),
        without("resource"),
        without("resource", "uri"),
        without("metadata"),
        without("metadata", "total_count"),
        {
            "type": "resource_link",
            "uri": "repo://octo/cat/contents/package.json",
            "mimeType": "application/json",
        },
        {"type": "resource_link", "uri": "config://settings", "mimeType": "application/json"},
        {"results": [], "count": 0, "next": None, "previous": None},
        dict,
        json,
        client,
    ],
)
def test_ordinary_results_are_none(ordinary: Any) -> None:
    assert client.find(ordinary) == []
    assert client.parse(ordinary) is None
    assert client.parse_structured(ordinary) is None


@pytest.mark.parametrize(
    "uri",
    [
        "resource://../../admin",
        "resource://a/..",
        "resource://a/",
        "resource://abc?limit=1",
        "resource://abc#x",
        "resource://abc%2f..%2fadmin",
        "resource://user@evil.example/abc:80",
        "resource://evil.example:8080/abc",
        "resource:abc",
        "//abc",
        "abc",
        "resource://äbc",
        "resource://abc\n",
        "resource:// abc",
        "resource://a\\b",
        "resource://" + "a" * 129,
        "resource://" + "a/" * 300 + "b",
    ],
)
def test_an_id_that_could_leave_its_place_in_a_url_is_no_resource(uri: str) -> None:
    assert client.parse(structured(uri=uri)) is None


class Raises:
    """An object that does not want to be looked at."""

    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError(name)


class RaisingDict(UserDict[str, Any]):
    def get(self, key: str, default: Any = None) -> Any:
        raise OSError


class Computed:
    """Its attribute costs something, so detection must not ask for it."""

    @property
    def structured_content(self) -> Any:
        raise AssertionError("computed")


@pytest.mark.parametrize("make", [Raises, lambda: RaisingDict(a=1), Computed])
def test_a_hostile_neighbour_hides_nothing(make: Callable[[], Any]) -> None:
    hostile = make()
    assert client.parse(hostile) is None
    assert client.parse([hostile, {"x": hostile}, TOOL_RESULT], strict=True) is not None


def test_cycles_depth_and_size_are_bounded() -> None:
    cycle: dict[str, Any] = {}
    cycle["self"] = [cycle]
    assert client.find(cycle) == []
    deep: Any = structured()
    for _ in range(100):
        deep = [deep]
    assert client.find(deep) == []
    assert client.find("[" * 100_000) == []
    [link] = client.find(nested(structured(), 5))
    assert (link.resource_uri, link.sample) == (f"resource://{RESOURCE_ID}", [])
    assert client.find([{} for _ in range(200_000)]) == []
    assert client.find("[" + "1" * 5_000 + "]") == []
    assert client.find('["' + "x" * 17_000_000 + '"]') == []


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.binary(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                ["results", "resource", "metadata", "uri", "type", "total_count", "columns", "isError"]
            ),
            inner,
            max_size=5,
        )
        | inner.map(lambda value: json.dumps(value, default=str))
        | inner.map(lambda value: SimpleNamespace(content=value))
    ),
    max_leaves=20,
)


@given(JSON_VALUES)
def test_no_value_raises_or_is_taken_for_one(value: Any) -> None:
    assert client.find(value) == []
    assert client.parse_structured(value) is None


@given(st.sampled_from(sorted(structured())), JSON_VALUES)
def test_no_broken_part_raises(part: str, value: Any) -> None:
    client.find({**structured(), part: value})
    client.parse_structured({**structured(), "resource": {"uri": value}, part: value})
