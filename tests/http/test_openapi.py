"""The OpenAPI document describes what the routes and parsers do, and nothing else."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, get_type_hints

import pytest
from jsonschema import Draft202012Validator
from openapi_spec_validator import validate
from sqlalchemy import MetaData
from starlette.routing import Route

from dualsql import DualResponseServer, OpenAPI, SignedLinks
from dualsql.charts.http import CHART_QUERY
from dualsql.http.parameters import (
    COUNT_QUERY,
    LISTING_QUERY,
    PAGE_BODY,
    PAGE_QUERY,
    STREAM_PARAMETERS,
)
from dualsql.http.problems import KINDS
from dualsql.identity import static_tokens
from dualsql.openapi import operations as openapi
from dualsql.openapi.document import errors_by_code
from dualsql.profiles.http import PROFILE_BODY, PROFILE_QUERY
from dualsql.query.http import NAMING, WINDOW
from dualsql.query.parse import KEYS, WINDOW_KEYS
from dualsql.query.select import TEXT_KEYS
from dualsql.resource import Principal
from dualsql_client import wire_requests
from tests.http.application import Application, problem_of, running
from tests.servers import create_server

Document = dict[str, Any]
OPTIONS: list[dict[str, Any]] = [
    {},
    {
        "pages": True,
        "signed_links": True,
        "secrets": ["s" * 40],
        "authenticate": static_tokens({"t" * 20: Principal(id="a")}),
    },
]
OF_PAGES = {"/openapi.html", "/{id}/view", "/{id}/view/profile"}
OF_ASSETS = "/assets/"


def make(**options: Any) -> DualResponseServer:
    return create_server(
        "sqlite+aiosqlite://", base_url="https://api.example.com/resources", tables=MetaData(), **options
    )


@pytest.fixture(params=OPTIONS, ids=["plain", "all"])
def server(request: pytest.FixtureRequest) -> DualResponseServer:
    return make(**request.param)


def operations(document: Document) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, item in document["paths"].items():
        for method, operation in item.items():
            if method != "parameters":
                yield method.upper(), path, operation


def query_names(operation: dict[str, Any]) -> list[str]:
    return [each["name"] for each in operation.get("parameters", ()) if each["in"] == "query"]


def body_names(operation: dict[str, Any]) -> list[str]:
    content = operation.get("requestBody", {}).get("content", {})
    return list(content["application/json"]["schema"]["properties"]) if "application/json" in content else []


def test_it_is_valid(server: DualResponseServer) -> None:
    document = server.features.get(OpenAPI).document()
    validate(document)
    names = [operation["operationId"] for _, _, operation in operations(document)]
    assert len(set(names)) == len(names) > 20


def test_it_has_the_routes_and_their_methods(server: DualResponseServer) -> None:
    router: Any = server.router()
    served = {
        (method, route.path.replace("{resource_id}", "{id}"))
        for route in router.routes
        if isinstance(route, Route) and not route.path.startswith(OF_ASSETS)
        for method in route.methods or ()
    }
    described = {(method, path) for method, path, _ in operations(server.features.get(OpenAPI).document())}
    # Starlette's routes of GET alone answer HEAD, too; method_route adds it only for paths that list it.
    heads = {("HEAD", path) for method, path in served if method == "GET"}
    assert described | heads == served | heads
    assert {path for method, path in described if method == "GET"} == {path for _, path in heads}


def test_parameters_are_those_of_the_parsers(server: DualResponseServer) -> None:
    link = ("link",) if SignedLinks in server.features else ()
    rows = (*STREAM_PARAMETERS, *link)
    page = (*PAGE_QUERY, *COUNT_QUERY, *link)
    queries: dict[tuple[str, str], tuple[str, ...]] = {
        ("GET", "/"): LISTING_QUERY,
        ("GET", "/{id}"): page,
        ("POST", "/{id}"): link,
        ("GET", "/{id}/rows"): rows,
        ("POST", "/{id}/rows"): link,
        ("GET", "/{id}/profile"): PROFILE_QUERY,
        ("GET", "/{id}/chart"): CHART_QUERY,
        ("GET", "/{id}/view"): (*PAGE_QUERY, *link),
        ("GET", "/{id}/view/profile"): PROFILE_QUERY,
    }
    bodies: dict[str, Iterable[str]] = {
        "/{id}": PAGE_BODY,
        "/{id}/rows": STREAM_PARAMETERS,
        "/{id}/query": (*KEYS, *WINDOW),
        "/{id}/sql": (*TEXT_KEYS, *WINDOW),
        "/{id}/profile": PROFILE_BODY,
        "/{id}/refine": (*KEYS, *TEXT_KEYS, *WINDOW_KEYS, *NAMING),
    }
    for method, path, operation in operations(server.features.get(OpenAPI).document()):
        asked = "GET" if method == "HEAD" else method
        assert set(query_names(operation)) == set(queries.get((asked, path), ())), (method, path)
        assert set(body_names(operation)) == set(bodies.get(path, ()) if method == "POST" else ()), path


async def test_each_parameter_is_known_and_no_other(application: Application) -> None:
    """Each by itself is known, whatever is said of its value; one that is not described is unknown."""
    for method, path, operation in operations(application.server.features.get(OpenAPI).document()):
        if method in {"OPTIONS", "HEAD"}:
            continue
        at = path.replace("/{id}", await application.create()) if "{id}" in path else f"/resources{path}"
        for name in query_names(operation):
            answer = await application.http.request(method, at, params={name: "1"})
            assert "Unknown query parameter" not in answer.text, (method, path, name)
        for name in body_names(operation):
            beside = {"sql": "SELECT 1"} if (name, path) == ("parameters", "/{id}/refine") else {}
            answer = await application.http.request(method, at, json={name: 1, **beside})
            assert "Unknown key" not in answer.text, (method, path, name)
        refused = await application.http.request(method, at, params={"unheard_of": "1"})
        assert problem_of(refused, 400)["message"] == "Unknown query parameter 'unheard_of'."
        if body_names(operation):
            refused = await application.http.request(method, at, json={"unheard_of": 1})
            assert problem_of(refused, 400)["message"] == "Unknown key 'unheard_of'."


def test_bodies_of_pages_and_streams_are_the_client_s_types() -> None:
    assert get_type_hints(wire_requests.PageBody).keys() == set(PAGE_BODY)
    names = get_type_hints(wire_requests.RowsBody).keys()
    assert names == set(STREAM_PARAMETERS), "write the new name in dualsql_client.wire_requests.RowsBody"


def test_every_error_is_described_with_its_status_and_an_example() -> None:
    document = make(pages=True).features.get(OpenAPI).document()
    answers = document["components"]["responses"]
    described = {
        code: int(status)
        for status, answer in answers.items()
        for code in answer["content"]["application/json"]["examples"]
    }
    assert described == {code: kind.status for code, kind in KINDS.items()}
    assert KINDS.keys() <= errors_by_code().keys()
    named = {
        code
        for _, _, operation in operations(document)
        for status, answer in operation["responses"].items()
        if int(status) >= 400
        for code in answer["description"].split(", ")
    }
    # The methods that a path does not have are no operations.
    assert named == KINDS.keys() - {"METHOD_NOT_ALLOWED"}


def test_every_header_in_the_tables_is_used(tmp_path: Path) -> None:
    text = json.dumps(make(pages=True, storage=tmp_path).features.get(OpenAPI).document())
    assert [name for name in openapi.HEADERS if f'"#/components/headers/{name}"' not in text] == []
    assert [name for name in openapi.REQUEST_HEADERS if f'"name": "{name}"' not in text] == []


def test_examples_fit_their_schemas(server: DualResponseServer) -> None:
    document = json.loads(json.dumps(server.features.get(OpenAPI).document()))
    checked = 0
    for schema, example in examples(document):
        validator = Draft202012Validator({**schema, "components": document["components"]})
        assert list(validator.iter_errors(example)) == [], example
        checked += 1
    assert checked > 60


def examples(part: Any) -> Iterator[tuple[dict[str, Any], Any]]:
    """Each schema with each of its examples, and each example of an answer."""
    if isinstance(part, list):
        for one in part:
            yield from examples(one)
    if isinstance(part, dict):
        for one in part.values():
            yield from examples(one)
        actual = part.get("examples")
        if isinstance(actual, list):
            yield from ((part, one) for one in actual)
        elif isinstance(actual, dict) and "schema" in part:
            yield from ((part["schema"], one["value"]) for one in actual.values())


async def test_it_is_served_and_named_by_the_well_known_document(application: Application) -> None:
    answer = await application.http.get("/resources/openapi.json")
    assert answer.json() == json.loads(json.dumps(application.server.features.get(OpenAPI).document()))
    service = (await application.http.get("/resources/.well-known/resource-link-service")).json()
    assert service["openapi"] == f"{application.server.base_url}/openapi.json"
    refused = await application.http.post("/resources/openapi.json")
    assert problem_of(refused, 405)["hint"] == "Allowed here: GET, HEAD, OPTIONS."
    assert refused.headers["allow"] == "GET, HEAD, OPTIONS"


async def test_every_header_of_an_answer_is_described(application: Application) -> None:
    document = application.server.features.get(OpenAPI).document()
    at = await application.create()
    requests = [
        ("GET", ""), ("HEAD", ""), ("POST", ""), ("OPTIONS", ""), ("PUT", "/pin"), ("DELETE", "/pin"), ("GET", "/rows"),
        ("POST", "/query"), ("GET", "/profile"), ("GET", "/rows?format=yaml"), ("GET", "?limit=0"), ("DELETE", ""),
        ("GET", "?limit=1"),
    ]  # fmt: skip
    for method, rest in requests:
        answer = await application.http.request(method, at + rest)
        operation = document["paths"]["/{id}" + rest.partition("?")[0]][method.lower()]
        described = operation["responses"][str(answer.status_code)]
        if "$ref" in described:
            described = document["components"]["responses"][described["$ref"].rpartition("/")[2]]
        known = {name.lower() for name in described["headers"]} | {"content-type", "content-length"}
        assert set(answer.headers) <= known, (method, rest)


async def test_the_collection_is_read_only(application: Application) -> None:
    refused = await application.http.post("/resources/", json={})
    assert problem_of(refused, 405)["code"] == "METHOD_NOT_ALLOWED"
    assert refused.headers["allow"] == "GET, HEAD, OPTIONS"


@pytest.mark.parametrize("origins", [[], ["https://app.example"]])
async def test_options_of_every_path_lists_its_methods(origins: list[str], institutions_url: str) -> None:
    """A browser asks before it sends what is no plain GET or POST, also for paths that are not there."""
    async with running(institutions_url, cors_origins=origins, pages=True) as application:
        http, document = application.http, application.server.features.get(OpenAPI).document()
        for path, item in document["paths"].items():
            methods = {method.upper() for method in item if method != "parameters"}
            at = f"/resources{path.replace('{id}', 'unknown')}"
            answer = await http.options(at)
            assert (answer.status_code, answer.content) == (204, b""), path
            assert set(answer.headers["allow"].split(", ")) == methods, path
            for method in methods:
                preflight = {"origin": "https://app.example", "access-control-request-method": method}
                answer = await http.options(at, headers=preflight)
                assert answer.status_code == (200 if origins else 403), (method, path)
                assert answer.headers.get_list("access-control-allow-origin") == origins


async def test_other_methods_are_405_with_those_of_the_path(application: Application) -> None:
    described: dict[str, set[str]] = {}
    for method, path, _ in operations(application.server.features.get(OpenAPI).document()):
        described.setdefault(path, set()).add(method)
    for path, methods in described.items():
        at = path.replace("/{id}", await application.create()) if "{id}" in path else f"/resources{path}"
        for method in {"GET", "POST", "PUT", "PATCH", "DELETE", "TRACE", "OPTIONS"} - methods:
            refused = await application.http.request(method, at)
            assert problem_of(refused, 405)["code"] == "METHOD_NOT_ALLOWED", (method, path)
            assert set(refused.headers["allow"].split(", ")) == methods, path


@pytest.mark.long
def test_the_command_prints_it() -> None:
    command = [
        str(Path(sys.executable).with_name("dualsql")),
        "openapi",
        "--base-url",
        "https://api.example.com",
    ]
    printed = subprocess.run(command, capture_output=True, text=True, check=True)
    document = json.loads(printed.stdout)
    validate(document)
    assert document["servers"] == [{"url": "https://api.example.com/resources"}]
    assert document["security"] == [{}, {"bearer": []}]
    assert document["paths"].keys() >= OF_PAGES
    refused = subprocess.run([*command[:3], "nowhere"], capture_output=True, text=True, check=False)
    assert refused.returncode == 1
    assert refused.stderr.startswith("dualsql: base_url must be an absolute URL")
