"""Requests that are made of the OpenAPI document: no answer is a failure, and none is another than it says.

`make fuzz` runs more cases than the long tests do.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import tempfile
from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from copy import copy
from typing import Any, ClassVar

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from sqlalchemy.ext.asyncio import create_async_engine

from dualsql import LocalResultStorage, OpenAPI
from dualsql.identity import static_tokens
from dualsql.openapi.operations import OPENAPI
from dualsql.openapi.service import WELL_KNOWN
from dualsql.resource import Principal
from tests.engines import opened
from tests.http.application import ALL, BASE_URL, Application, fill, running
from tests.web.forms import open_link

CASES = int(os.environ.get("DUALSQL_FUZZ_CASES", "300"))
STEPS = 20
CHART: dict[str, Any] = {"mark": "bar", "x": "state", "y": {"aggregate": "avg", "field": "tuition"}}
TOKENS = {"a" * 20: Principal(id="ann", tenant="x"), "b" * 20: Principal(id="bob", tenant="x")}
CHECKS: Any = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
OF_ANY_ANSWER = {"content-type", "content-length"}

UNDERSTOOD = {"/{id}/query", "/{id}/sql", "/{id}/refine"}
"""Questions take more spellings than the document lists, and so requests that break its schema.

A page does, too: with a signed link it is a button, whatever else the address holds.
"""

LEARNED = {"cursor": r'"(?:next|previous)_cursor":"([^"]+)"'}
"""Values of answers that later requests send, by parameter."""

KNOWN: dict[str, list[Any]] = {
    "columns": [["id"], ["name", "id"]],
    "text_columns": [["budget"]],
    "sort": [{"field": "enrollment", "order": "desc"}, [{"field": "state"}, {"field": "id"}]],
    "filters": [
        [{"column": "state", "op": "eq", "value": "NJ"}],
        {"not": {"column": "enrollment", "op": "is_null"}},
    ],
    "group_by": [["state"], [{"column": "founded", "bucket": "year"}]],
    "aggregates": [["count"], [{"function": "avg", "column": "tuition"}]],
    "having": [[{"column": "count", "op": "gt", "value": 1}]],
    "order_by": [["count"], ["-id"]],
    "sql": [
        "SELECT state, count(*) AS n FROM data GROUP BY state",
        "SELECT id FROM data WHERE state = :state",
    ],
    "parameters": [{"state": "NJ"}],
    "limit": [1, 20],
}
"""Values that fit these results, of bodies. Strings of no meaning would be refused nearly always."""

SELDOM = {"cursor", "resume", "after", "last", "link", "having", "parameters", "text_columns", "summary"}
"""Parameters that exclude others, or that fit few requests."""

KNOWN_TEXTS: dict[str, list[Any]] = {
    "columns": ["id", "name,id"],
    "text_columns": ["budget"],
    "sort": ["-enrollment,name", "state"],
    "limit": ["1", "20"],
}
"""The same in query strings."""

FITTING: dict[str, Any] = {
    "/{id}": {"limit": 20, "sort": {"field": "enrollment", "order": "desc"}},
    "/{id}/rows": {"format": "csv", "columns": ["name", "id"]},
    "/{id}/query": {"group_by": ["state"], "aggregates": ["count"]},
    "/{id}/profile": {"filters": KNOWN["filters"][0]},
    "/{id}/sql": {"sql": KNOWN["sql"][0]},
    "/{id}/refine": {"filters": KNOWN["filters"][0]},
}
"""By path, a body that is answered with success. Drawn ones seldom are."""


def chosen(values: list[Any], data: st.DataObject) -> Any:
    """One of the values. Their number depends on earlier answers, on which no draw of Hypothesis may depend."""
    return values[data.draw(st.integers(0, 1023)) % len(values)]


class Fuzzed(RuleBasedStateMachine):
    """One caller's session: results, and requests about them that use what earlier answers said."""

    application: ClassVar[Application]
    loop: ClassVar[asyncio.AbstractEventLoop]
    operations: ClassVar[list[Any]]
    as_described: ClassVar[list[st.SearchStrategy[Any]]]
    otherwise: ClassVar[list[st.SearchStrategy[Any]]]
    document: ClassVar[dict[str, Any]]
    answered: ClassVar[Counter[tuple[str, str, int]]] = Counter()

    def __init__(self) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.owners: dict[str, str | None] = {}
        self.learned: dict[str, list[str]] = {}

    @initialize()
    def begin(self) -> None:
        for token in (None, *TOKENS):
            principal = TOKENS.get(token or "")
            resource_id = self.loop.run_until_complete(self._create(principal))
            self.ids.append(resource_id)
            chart = self.application.server.charts.create(resource_id, CHART, principal=principal)
            self.ids.append(self.loop.run_until_complete(chart).resource_id)
            self.ids.append(self.loop.run_until_complete(self._create(principal, keep=True)))
            self.owners.update(dict.fromkeys(self.ids[-3:], token))
        link = self.application.server.links.create
        signed = self.loop.run_until_complete(link(self.ids[3], TOKENS["a" * 20]))
        self.learned["link"] = [signed.partition("link=")[2]]

    async def _create(self, principal: Principal | None, *, keep: bool = False) -> str:
        response = await self.application.server.create_response(
            ALL, name="All", principal=principal, keep=keep
        )
        return response.resource_id

    @rule(data=st.data())
    def ask_as_described(self, data: st.DataObject) -> None:
        self._ask(data.draw(data.draw(st.sampled_from(self.as_described))), data, is_negative=False)

    @rule(data=st.data())
    def ask_otherwise(self, data: st.DataObject) -> None:
        self._ask(data.draw(data.draw(st.sampled_from(self.otherwise))), data, is_negative=True)

    def _ask(self, case: Any, data: st.DataObject, *, is_negative: bool) -> None:
        if not is_negative:
            self._use_what_is_known(case, data)
        elif case.path_parameters and data.draw(st.booleans()):
            case.path_parameters["id"] = chosen(self.ids, data)
        try:
            response = self.loop.run_until_complete(self._send(case, data))
        except httpx.InvalidURL:
            return  # httpx sends none so long
        path = response.request.url.path
        if not path.startswith("/resources") or "\n" in path:
            return  # beside the router: an id such as "..", or a line break, for which Starlette's Mount has no route
        self.answered[case.method, case.path, response.status_code] += 1
        checks = CHECKS
        is_page = response.headers.get("content-type", "").startswith("text/html")
        if is_negative and response.status_code < 400 and not (case.path in UNDERSTOOD or is_page):
            checks = [*CHECKS, negative_data_rejection]
        self.check(case, response, checks)
        self._learn(response)

    def _use_what_is_known(self, case: Any, data: st.DataObject) -> None:
        """Put values in that fit: all that are described would be another test, so each by chance."""
        if case.path_parameters:
            case.path_parameters["id"] = chosen(self.ids, data)
        # Copies: a strategy may give the same object again, and what is drawn next depends on its names.
        case.query, case.body = copy(case.query), copy(case.body)
        for held, known in ((case.query, KNOWN_TEXTS), (case.body, KNOWN)):
            for name in list(held) if isinstance(held, dict) else ():
                values: list[Any] = [*known.get(name, ()), *self.learned.get(name, ())]
                value = chosen([*values, *values, None], data)
                if value is not None:
                    held[name] = value
            self._leave_some_out(held, known, data)

    def _leave_some_out(self, held: Any, known: Collection[str], data: st.DataObject) -> None:
        """With all parameters nothing is answered: keep those that fit these results, and now and then others."""
        is_plain = data.draw(st.booleans())
        for name in list(held) if isinstance(held, dict) else ():
            is_odd = name in SELDOM or (is_plain and name not in known)
            if is_odd and data.draw(st.integers(0, 3)) != 0:
                del held[name]

    async def _send(self, case: Any, data: st.DataObject) -> httpx.Response:
        keywords = case.as_transport_kwargs(base_url=BASE_URL)
        headers = {
            name: value for name, value in keywords["headers"].items() if name.lower() != "accept-encoding"
        }
        headers["Accept-Encoding"] = data.draw(st.sampled_from(["gzip", "identity"]))  # what httpx can read
        owner = self.owners.get((case.path_parameters or {}).get("id", ""), next(iter(TOKENS)))
        token = data.draw(st.sampled_from([None, "c" * 20, *TOKENS, *[owner] * 8]))
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        accepted = data.draw(
            st.sampled_from([*[None] * 6, "text/html", "text/csv", "application/vnd.vegalite+json"])
        )
        if accepted is not None:
            headers["Accept"] = accepted
        body = (
            {"json": keywords["json"]}
            if keywords.get("json") is not None
            else {"content": keywords.get("data")}
        )
        if isinstance(keywords.get("data"), dict):
            body = {"data": keywords["data"]}
        encoded = {name: value.encode("latin-1", "replace") for name, value in headers.items()}
        request = self.application.http.build_request(
            keywords["method"], keywords["url"], params=keywords.get("params"), headers=encoded, **body
        )
        return await self.application.http.send(request)

    @classmethod
    def check(cls, case: Any, response: httpx.Response, checks: list[Any]) -> None:
        """Compare an answer with its description."""
        case.validate_response(response, checks=checks)
        known = described_headers(cls.document, case.method, case.path, response.status_code)
        assert set(response.headers) <= known, (case.method, case.path, response.status_code)

    def _learn(self, response: httpx.Response) -> None:
        text = response.text if "json" in response.headers.get("content-type", "") else ""
        for name, pattern in LEARNED.items():
            self.learned.setdefault(name, []).extend(re.findall(pattern, text)[:2])
        if "dualsql-resume" in response.headers:
            self.learned.setdefault("resume", []).append(response.headers["dualsql-resume"])
        if response.status_code == 201:
            self.ids.append(response.headers["location"].rpartition("/")[2])


async def ask_each(machine: type[Fuzzed]) -> None:
    """Ask each operation for what it answers with success, of a new result each time."""
    server, http = machine.application.server, machine.application.http
    token, owner = next(iter(TOKENS.items()))
    headers = {"Authorization": f"Bearer {token}"}
    for operation in machine.operations:
        keep = operation.path == "/{id}/refresh"
        resource_id = (await server.create_response(ALL, name="All", principal=owner, keep=keep)).resource_id
        if operation.path == "/{id}/chart":
            resource_id = (await server.charts.create(resource_id, CHART, principal=owner)).resource_id
        path, method = f"/resources{operation.path.format(id=resource_id)}", operation.method.upper()
        if (method, operation.path) == ("POST", "/{id}/view"):
            link = await server.links.create(resource_id, owner)
            response = await open_link(http, path.removesuffix("/view"), link.partition("link=")[2])
            http.cookies.clear()
        else:
            body = FITTING.get(operation.path) if method == "POST" else None
            response = await http.request(method, path, json=body, headers=headers)
        assert response.status_code < 400, (method, operation.path, response.text)
        case = operation.Case(path_parameters={"id": resource_id} if "{id}" in operation.path else None)
        machine.check(case, response, CHECKS)


def described_headers(document: dict[str, Any], method: str, path: str, status: int) -> set[str]:
    """The headers that an answer may have."""
    answer = document["paths"][path][method.lower()]["responses"][str(status)]
    if "$ref" in answer:
        answer = document["components"]["responses"][answer["$ref"].rpartition("/")[2]]
    return {name.lower() for name in answer.get("headers", ())} | OF_ANY_ANSWER


@pytest.mark.parametrize("path", ["/{id}", "/{id}/view"])
async def test_the_headers_of_the_page_of_a_signed_link_are_described(sqlite_url: str, path: str) -> None:
    """It has a form, and so a cookie, which no other page has."""
    async with opened(sqlite_url) as engine:
        await fill(engine)
    options: Any = {"pages": True, "signed_links": True, "secrets": ["s" * 40]}
    async with running(sqlite_url, authenticate=static_tokens(TOKENS), **options) as application:
        owner = next(iter(TOKENS.values()))
        response = await application.server.create_response(ALL, name="All", principal=owner)
        signed = await application.server.links.create(response.resource_id, owner)
        address = f"/resources{path.format(id=response.resource_id)}?link={signed.partition('link=')[2]}"
        answer = await application.http.get(address, headers={"Accept": "text/html"})
        document = application.server.features.get(OpenAPI).document()
    assert answer.status_code == 200 and "set-cookie" in answer.headers
    assert set(answer.headers) <= described_headers(document, "GET", path, 200)


def closed(document: dict[str, Any]) -> dict[str, Any]:
    """The document, by which no answer has a member that is not described."""
    for schema in document["components"]["schemas"].values():
        if "properties" in schema and schema.get("type") == "object":
            schema.setdefault("additionalProperties", False)
    return document


@contextmanager
def serving(url: str) -> Iterator[type[Fuzzed]]:
    """The machine, for a server on an empty database."""
    loop = asyncio.new_event_loop()
    engine = create_async_engine(url)
    loop.run_until_complete(fill(engine))
    folder = tempfile.TemporaryDirectory()
    running_application = running(
        engine,
        storage=LocalResultStorage(folder.name),
        keep=False,
        pages=True,
        signed_links=True,
        secrets=["s" * 40],
        authenticate=static_tokens(TOKENS),
        quota_resources=None,
    )
    application = loop.run_until_complete(running_application.__aenter__())
    try:
        document = closed(json.loads(json.dumps(application.server.features.get(OpenAPI).document())))
        # What lists methods or describes the service is the same every time: it is asked in the other tests.
        schema = (
            schemathesis.openapi.from_dict(document)
            .exclude(method="OPTIONS")
            .exclude(path=[WELL_KNOWN, OPENAPI])
        )
        described = [each.ok() for each in schema.get_all_operations() if isinstance(each, Ok)]
        as_described, otherwise = (
            [one.as_strategy(generation_mode=mode) for one in described]
            for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE)
        )
        named = {
            "application": application, "loop": loop, "operations": described, "as_described": as_described,
            "otherwise": otherwise, "document": document, "answered": Counter(),
        }  # fmt: skip
        yield type("Session", (Fuzzed,), named)
    finally:
        loop.run_until_complete(running_application.__aexit__(None, None, None))
        loop.run_until_complete(engine.dispose())
        loop.close()
        folder.cleanup()


@pytest.mark.long
@pytest.mark.timeout(0 if CASES > 300 else 600)
def test_answers_are_as_described(database_url: str) -> None:
    with serving(database_url) as machine:
        machine.loop.run_until_complete(ask_each(machine))
        run_state_machine_as_test(
            machine,
            settings=settings(
                max_examples=max(1, CASES // STEPS * 2),
                stateful_step_count=STEPS,
                deadline=None,
                derandomize=CASES <= 300,
                database=None,
                phases=[Phase.generate],
                suppress_health_check=list(HealthCheck),
            ),
        )
    answered = machine.answered
    assert sum(answered.values()) > CASES * 0.7, "an example may end early"
    served = sum(count for (_, _, status), count in answered.items() if status < 400)
    assert served > sum(answered.values()) * 0.1, "nearly all were refused"
