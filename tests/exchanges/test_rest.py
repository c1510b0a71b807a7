"""The REST resources: every route, parameter, format and refusal."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote

import pytest
from sqlalchemy import func, literal, select, text

from dualsql.errors import DualResponseError
from dualsql.features import DualResponseServer
from dualsql.identity.authenticate import static_tokens
from dualsql.response import DualResponse
from dualsql.settings import ALL_ACTIONS
from dualsql.tenancy.rules import Shared, TenantFilter
from dualsql_client.wire import row_digest
from tests.exchanges.asking import Rest, error_of
from tests.exchanges.recording import Exchanges
from tests.exchanges.subject import ANA, AS_ANA, AS_BOB, BOB, TOKENS, chart_of, delete, link_to, pin, serving
from tests.schools import Program, School, visits
from tests.waiting import until

PLAIN = select(
    School.id, School.name, School.state, School.enrollment, School.tuition, School.founded
).order_by(School.id)
EVERY_TYPE = select(School).order_by(School.id)
UNKEYED = select(visits)
WIDE = "?columns=id,name,state,enrollment,tuition,founded"

_forever = select(literal(1).label("n")).cte("forever", recursive=True)
FOREVER = select(func.count().label("n")).select_from(_forever.union_all(select(_forever.c.n)))


class Asker:
    """A server, its client, and a result's path."""

    def __init__(self, dual: DualResponseServer, rest: Rest) -> None:
        self.dual, self.rest = dual, rest

    async def create(self, statement: Any = PLAIN, **options: Any) -> DualResponse:
        return await self.dual.create_response(statement, **{"name": "Schools", "sample_size": 2, **options})

    async def path(self, statement: Any = PLAIN, **options: Any) -> str:
        return f"/resources/{(await self.create(statement, **options)).resource_id}"


@pytest.fixture
async def asker(schools: str, exchanges: Exchanges) -> AsyncIterator[Asker]:
    """A server as it is set up by default, but that anonymous callers may do everything."""
    async with serving(schools, anonymous_actions=ALL_ACTIONS, count_budget=timedelta(seconds=60)) as (
        dual,
        http,
    ):
        yield Asker(dual, Rest(http, exchanges))


async def test_metadata_and_life(asker: Asker) -> None:
    rest, path = asker.rest, await asker.path(metadata={"from": "a test"}, profile="full")
    await rest.all(
        path,
        """
        GET -
        HEAD -
        OPTIONS -
        GET ?count=exact
        HEAD ?count=exact
        GET ?count=estimated
        GET ?count=capped:5
        GET ?count=none
        GET ?count=auto
        GET ?count=many
        GET ?count=exact&limit=1
        PUT -
        GET -
        PUT /pin
        PUT /pin?x=1
        DELETE /pin
        DELETE /pin?x=1
        GET /pin
        OPTIONS /pin
        POST /refresh
        POST /refresh?x=1
        GET /refresh
        OPTIONS /refresh
        PATCH -
        PUT ?x=1
        DELETE ?x=1
        TRACE /rows
        PUT /rows
        GET /nothing
        GET /rows/
        DELETE -
        DELETE -
        GET -
        PUT -
        GET ?limit=1
        POST - {"limit": 1}
        GET /rows
        GET /profile
        GET /chart
        POST /query {"aggregates": ["count"]}
        POST /sql {"sql": "SELECT 1 FROM data"}
        POST /refine {"limit": 1}
        """,
    )


async def test_conditional_requests(asker: Asker) -> None:
    path = await asker.path()
    etag = (await asker.rest.ask("GET", path)).headers["etag"]
    for words, value in {
        "the etag": etag,
        "the strong etag": etag.removeprefix("W/"),
        "one of two": f'"other", {etag}',
        "another": '"other"',
        "any": "*",
    }.items():
        await asker.rest.ask("GET", path, told=f"{path} if not {words}", headers={"if-none-match": value})


async def test_the_service_and_the_collection(asker: Asker) -> None:
    await asker.rest.all(
        "",
        """
        GET /.well-known/resource-link-service
        HEAD /.well-known/resource-link-service
        GET /resources/.well-known/resource-link-service
        POST /resources/.well-known/resource-link-service
        GET /resources/openapi.json?pretty=1
        HEAD /resources/openapi.json
        POST /resources/openapi.json
        OPTIONS /resources/openapi.json
        OPTIONS /resources/.well-known/resource-link-service
        GET /resources/
        POST /resources/ {}
        DELETE /resources/
        OPTIONS /resources/
        GET /resources/abc
        GET /resources/q4T-9_hXv2ZkLwPmB7sYd1RcE0a
        GET /resources/a/b/c
        GET /resources/%00
        """,
    )


async def test_pages(asker: Asker) -> None:
    path = await asker.path()
    await asker.rest.all(
        path,
        """
        GET ?limit=2
        HEAD ?limit=2
        GET ?offset=2&limit=2
        GET ?skip=22&limit=2
        GET ?skip=2&offset=2&limit=1
        GET ?skip=2&offset=3
        GET ?offset=100
        GET ?limit=3&sort=-enrollment,name
        GET ?limit=3&sort=state
        GET ?limit=2&big_integers=string
        GET ?limit=2&cell_limit=3
        GET ?cell_limit=0
        GET ?limit=0
        GET ?limit=-1
        GET ?limit=x
        GET ?limit=1000000
        GET ?limit=1&limit=2
        GET ?offset=-1
        GET ?offset=99999999999
        GET ?sort=nam
        GET ?sort=
        GET ?sort=name,name
        GET ?sort=id,id,id,id,id,id,id,id,id,id,id,id,id,id,id,id,id,id
        GET ?big_integers=maybe
        GET ?cursor=nonsense
        GET ?cursor=nonsense&offset=1
        GET ?limits=2
        GET ?link=abc
        POST - {}
        POST - {"offset": 1, "limit": 2}
        POST - {"limit": 2, "sort": {"field": "enrollment", "order": "desc"}}
        POST - {"limit": 2, "sort": [{"field": "state"}, {"field": "name", "order": "desc"}]}
        POST - {"limit": 2, "sort": null, "big_integers": "string"}
        POST - {"limit": 2, "cell_limit": 3}
        POST - {"cell_limit": "3"}
        POST - {"limit": "2"}
        POST - {"limit": 2.5}
        POST - {"limit": true}
        POST - {"sort": "name"}
        POST - {"sort": [{"field": "name", "order": "up"}]}
        POST - {"sort": [{"fields": "name"}]}
        POST - {"sort": [{"field": "nonsense"}]}
        POST - {"cursor": 1}
        POST - {"cursor": "x", "offset": 0}
        POST - {"page": 2}
        POST - [1]
        POST ?limit=2 {}
        """,
    )


async def test_bodies(asker: Asker) -> None:
    path, json = await asker.path(), {"content-type": "application/json"}
    for content, headers in (
        (b"{", json),
        (b"", json),
        (b"\xff", json),
        (b'{"limit": 1, "limit": 2}', json),
        (b'{"limit": NaN}', json),
        (b"[" * 2_000, json),
        (b"{}" + b" " * 70_000, json),
        (b"{}", {"content-type": "text/plain"}),
        (b"{}", {"content-type": "application/json; charset=utf-16"}),
        (b"{}", {**json, "content-encoding": "gzip"}),
        (b'{"limit": 1}', {"content-type": "application/json; charset=utf-8"}),
    ):
        await asker.rest.ask("POST", path, content=content, headers=headers)
        if headers is json and len(content) < 100:
            await asker.rest.ask("POST", f"{path}/query", content=content, headers=headers)


@pytest.mark.parametrize("sort", ["", "&sort=-enrollment,state"])
async def test_pages_by_cursor(asker: Asker, sort: str) -> None:
    path = await asker.path()
    page = (await asker.rest.ask("GET", f"{path}?limit=10{sort}")).json()
    first = page["next_cursor"]
    while page["next_cursor"]:
        page = (await asker.rest.ask("GET", f"{path}?limit=10{sort}&cursor={page['next_cursor']}")).json()
    back = page["previous_cursor"]
    await asker.rest.ask("GET", f"{path}?limit=3{sort}&cursor={back}")
    await asker.rest.ask("GET", f"{path}?limit=3&sort=name&cursor={first}")
    await asker.rest.ask("GET", f"{await asker.path()}?limit=3{sort}&cursor={first}")
    await asker.rest.ask("GET", f"{path}/rows?format=csv&columns=id{sort}&cursor={first}")


SELECTS: dict[str, Any] = {
    "every type": EVERY_TYPE,
    "no key": UNKEYED,
    "joined": select(School.name, Program.field, Program.earnings).join(School.programs),
    "entities": select(School.id, Program).join(School.programs),
    "figures": select(School.state, func.count().label("schools"), func.avg(School.enrollment)).group_by(
        School.state
    ),
    "distinct": select(School.state).distinct(),
    "limit": select(School.id, School.state).order_by(School.state).limit(13).offset(2),
    "window": select(
        School.id, func.rank().over(partition_by=School.state, order_by=School.id).label("place")
    ),
    "union": select(School.state).union(select(Program.field)),
    "nothing": select(School.id).where(School.id < 0),
}


@pytest.mark.parametrize("name", SELECTS)
async def test_results_of_every_kind(asker: Asker, name: str) -> None:
    response = await asker.create(SELECTS[name], count="exact")
    asker.rest.exchanges.add(f"create {name}", response.to_mcp_tool_result())
    path = f"/resources/{response.resource_id}"
    await asker.rest.all(path, "GET -\nGET ?limit=2&offset=1\nGET /rows?limit=2\nGET /profile?kind=full")


async def test_rows_in_every_format(asker: Asker) -> None:
    path = await asker.path(EVERY_TYPE)
    for wanted in ("ndjson", "csv", "json", "arrow", "parquet", "xlsx", "xml", ""):
        await asker.rest.ask("GET", f"{path}/rows?limit=2&format={wanted}")
    for accepted in (
        "text/csv",
        "application/x-ndjson",
        "application/json",
        "application/vnd.apache.arrow.stream",
        "application/vnd.apache.parquet",
        "text/html",
        "text/csv;q=0.5, application/json;q=0.9",
        "text/*",
        "*/*",
        "nonsense;q=x",
    ):
        await asker.rest.ask("GET", f"{path}/rows?limit=1&columns=id,name", headers={"accept": accepted})


async def test_rows_with_every_parameter(asker: Asker) -> None:
    path = await asker.path(EVERY_TYPE)
    await asker.rest.all(
        path,
        """
        GET /rows?columns=id,name&format=csv
        HEAD /rows?columns=id,name&format=csv
        OPTIONS /rows
        GET /rows?columns=name,id&limit=3
        GET /rows?columns=id&sort=-enrollment,name&limit=4
        GET /rows?columns=endowment&big_integers=string&limit=1
        GET /rows?columns=endowment&big_integers=number&limit=1
        GET /rows?columns=id,extra&text_columns=id,extra&limit=2&format=arrow
        GET /rows?columns=name&guard_formulas=true&limit=1&format=csv
        GET /rows?guard_formulas=maybe
        GET /rows?columns=name&excel=true&limit=1&format=csv
        GET /rows?columns=id,name&limit=2&summary=false
        GET /rows?summary=0
        GET /rows?limit=0&columns=id&format=json
        GET /rows?limit=-1
        GET /rows?limit=x
        GET /rows?columns=nonsense
        GET /rows?columns=id,id
        GET /rows?columns=
        GET /rows?text_columns=nonsense
        GET /rows?sort=nonsense
        GET /rows?offset=1
        GET /rows?cursor=nonsense
        GET /rows?after=1
        GET /rows?last=00000000000000000000000000000000
        GET /rows?resume=nonsense&after=1
        GET /rows?resume=nonsense
        POST /rows {"columns": ["id", "name"], "limit": 2, "sort": {"field": "id", "order": "desc"}}
        POST /rows {"format": "csv", "columns": ["id"], "limit": 2, "guard_formulas": true}
        POST /rows {"format": 1}
        POST /rows {"columns": "id"}
        POST /rows {"columns": []}
        POST /rows {"guard_formulas": "yes"}
        POST /rows {"format": "csv", "columns": ["id"], "limit": 1, "excel": true}
        POST /rows {"columns": ["id"], "limit": 2, "summary": false}
        POST /rows {"summary": "no"}
        POST /rows {"text_columns": ["tuition"], "columns": ["tuition"], "limit": 1}
        POST /rows {"nonsense": 1}
        POST /rows?limit=1 {}
        """,
    )


async def test_streams_are_compressed_if_that_is_accepted(asker: Asker) -> None:
    path = await asker.path(EVERY_TYPE)
    for coding in (
        "gzip",
        "zstd",
        "identity",
        "br",
        "gzip;q=0, zstd;q=0, identity;q=0",
        "*;q=0",
        "zstd, gzip",
    ):
        await asker.rest.ask(
            "GET", f"{path}/rows?columns=id,name&format=csv", headers={"accept-encoding": coding}
        )
    await asker.rest.ask("GET", f"{path}?limit=1", headers={"accept-encoding": "gzip"})
    await asker.rest.ask("GET", f"{path}/rows?limit=1", headers={"range": "bytes=0-10"})


async def test_a_broken_stream_goes_on(asker: Asker) -> None:
    path = f"{await asker.path()}/rows?columns=id,name"
    whole = await asker.rest.ask("GET", path)
    token, digest = whole.headers["dualsql-resume"], row_digest(whole.content.splitlines(keepends=True)[4])
    for rest in (
        f"&resume={token}&after=5",
        f"&resume={token}&after=0",
        f"&resume={token}&after=5&last={digest}",
        f"&resume={token}&after=5&last={'0' * 32}",
        f"&resume={token}&after=1000",
        f"&resume={token}&after=5&sort=name",
        f"&resume={token}&after=x",
    ):
        await asker.rest.ask("GET", f"{path}{rest}")
    parameters = {"columns": ["id", "name"], "resume": token, "after": 5, "last": digest}
    await asker.rest.ask("POST", path.partition("?")[0], json=parameters)
    forged = f"{path}&resume={'B' if token[0] == 'A' else 'A'}{token[1:]}&after=5"
    await asker.rest.ask("GET", forged, told=f"{path}, forged")
    for wanted in ("json", "parquet", "arrow", "csv"):
        await asker.rest.ask("HEAD", f"{path}&format={wanted}")


async def test_profiles(asker: Asker) -> None:
    path = await asker.path(EVERY_TYPE)
    await asker.rest.all(
        path,
        """
        GET /profile?columns=id,state,enrollment
        GET /profile?kind=sample&columns=tuition
        GET /profile?kind=full&columns=founded,rating,updated
        GET /profile?kind=full&columns=extra,crest,is_open,control
        HEAD /profile
        OPTIONS /profile
        POST /profile {}
        POST /profile {"filters": [{"column": "state", "op": "eq", "value": "NJ"}], "columns": ["state", "tuition"]}
        POST /profile {"group_by": ["state"], "aggregates": ["count"], "order_by": ["state"], "kind": "full"}
        POST /profile {"kind": "deep"}
        POST /profile {"budget": 60, "columns": ["id"]}
        POST /profile {"budget": "long"}
        POST /profile {"limit": 1}
        GET /profile?kind=deep
        GET /profile?columns=nonsense
        GET /profile?columns=
        GET /profile?nonsense=1
        """,
    )


QUESTIONS = """
    POST /query {"aggregates": ["count"]}
    POST /query {}
    POST /query {"columns": ["id", "name"], "limit": 2}
    POST /query {"columns": ["id"], "offset": 20}
    POST /query {"filters": [{"column": "state", "op": "eq", "value": "NJ"}], "columns": ["id", "state"]}
    POST /query {"filters": [{"column": "state", "op": "ne", "value": "NJ"}], "aggregates": ["count"]}
    POST /query {"filters": [{"column": "id", "op": "lt", "value": 3}], "columns": ["id"]}
    POST /query {"filters": [{"column": "id", "op": "<=", "value": 3}], "columns": ["id"]}
    POST /query {"filters": [{"column": "tuition", "op": "gt", "value": "21.10"}], "columns": ["tuition"]}
    POST /query {"filters": [{"column": "founded", "op": "ge", "value": "1820-01-31"}], "columns": ["founded"]}
    POST /query {"filters": [{"column": "id", "op": "in", "value": [1, 2, 99]}], "columns": ["id"]}
    POST /query {"filters": [{"column": "id", "op": "between", "value": [2, 4]}], "columns": ["id"]}
    POST /query {"filters": [{"column": "name", "op": "contains", "value": "l 3"}], "columns": ["id"]}
    POST /query {"filters": [{"column": "name", "op": "starts_with", "value": "School 1"}], "columns": ["id"]}
    POST /query {"filters": [{"column": "state", "op": "is_null"}], "columns": ["id"]}
    POST /query {"filters": [{"column": "state", "op": "is_null", "value": false}], "aggregates": ["count"]}
    POST /query {"filters": [{"or": [{"column": "id", "op": "eq", "value": 1}, {"not": {"column": "id", "op": "gt", "value": 2}}]}], "columns": ["id"]}
    POST /query {"filters": [{"and": []}]}
    POST /query {"group_by": ["state"], "aggregates": ["count", {"function": "sum", "column": "enrollment"}]}
    POST /query {"group_by": [{"column": "founded", "bucket": "year"}], "aggregates": ["count"], "limit": 2}
    POST /query {"group_by": [{"column": "founded", "bucket": "quarter", "as": "q"}], "aggregates": ["count"], "limit": 2}
    POST /query {"group_by": ["state"], "aggregates": [{"function": "avg", "column": "enrollment", "as": "mean"}], "having": [{"column": "mean", "op": "gt", "value": 90}], "order_by": [{"column": "mean", "order": "desc"}]}
    POST /query {"aggregates": [{"function": "min", "column": "founded"}, {"function": "max", "column": "name"}, {"function": "count_distinct", "column": "state"}, {"function": "sum", "column": "tuition"}]}
    POST /query {"aggregates": [{"function": "median", "column": "enrollment"}]}
    POST /query {"aggregates": [{"function": "percentile", "column": "enrollment", "fraction": 0.9}]}
    POST /query {"aggregates": [{"function": "percentile", "column": "enrollment"}]}
    POST /query {"aggregates": [{"function": "mode", "column": "enrollment"}]}
    POST /query {"aggregates": [{"function": "sum", "column": "name"}]}
    POST /query {"aggregates": ["count"], "columns": ["id"]}
    POST /query {"group_by": ["nonsense"], "aggregates": ["count"]}
    POST /query {"group_by": ["state"]}
    POST /query {"order_by": ["-id"], "columns": ["id"], "limit": 1}
    POST /query {"order_by": [{"column": "id", "order": "desc"}], "columns": ["id"], "limit": 2}
    POST /query {"order_by": [{"column": "id", "order": "up"}]}
    POST /query {"filters": [{"column": "id", "op": "like", "value": 1}]}
    POST /query {"filters": [{"column": "id", "op": "eq", "value": "one"}]}
    POST /query {"filters": [{"column": "id", "op": "eq"}]}
    POST /query {"filters": [{"column": "names", "op": "eq", "value": "x"}]}
    POST /query {"filters": {"column": "id"}}
    POST /query {"filter": []}
    POST /query {"having": [{"column": "id", "op": "eq", "value": 1}]}
    POST /query {"limit": -1}
    POST /query {"columns": ["tuition"], "format": "csv", "limit": 2, "guard_formulas": true}
    POST /query {"columns": ["tuition"], "format": "csv", "limit": 1, "excel": true}
    POST /query {"columns": ["id"], "format": "ndjson", "limit": 2, "big_integers": "string"}
    POST /query {"columns": ["id"], "format": "ndjson", "limit": 2, "summary": false}
    POST /query {"columns": ["name"], "limit": 2, "cell_limit": 3}
    POST /query {"columns": ["name"], "limit": 2, "cell_limit": 3, "format": "csv"}
    POST /query {"columns": ["id"], "format": "arrow", "limit": 1, "text_columns": ["id"]}
    POST /query {"columns": ["id"], "format": "xml"}
    POST /query {"cursor": "nonsense"}
    POST /query?x=1 {}
    GET /query
    OPTIONS /query
    POST /sql {"sql": "SELECT state, count(*) AS n FROM data GROUP BY state ORDER BY n DESC, state"}
    POST /sql {"sql": "SELECT id FROM data WHERE id > :least ORDER BY id", "parameters": {"least": 20}}
    POST /sql {"sql": "SELECT id, name FROM data ORDER BY id", "limit": 2, "offset": 1}
    POST /sql {"sql": "SELECT id FROM data ORDER BY id", "limit": 2, "format": "csv"}
    POST /sql {"sql": "SELECT id FROM data ORDER BY id", "limit": 1, "format": "csv", "excel": true}
    POST /sql {"sql": "SELECT id FROM data ORDER BY id", "limit": 2, "format": "ndjson", "summary": false}
    POST /sql {"sql": "SELECT id FROM schools"}
    POST /sql {"sql": "SELECT id FROM secrets"}
    POST /sql {"sql": "SELECT nonsense FROM data"}
    POST /sql {"sql": "SELECT id FROM data; DROP TABLE schools"}
    POST /sql {"sql": "DELETE FROM data"}
    POST /sql {"sql": "SELEC id FROM data"}
    POST /sql {"sql": "SELECT load_extension('x') FROM data"}
    POST /sql {"sql": "SELECT id FROM data WHERE id > :least"}
    POST /sql {"sql": 1}
    POST /sql {"sql": ""}
    POST /sql {"query": "SELECT 1"}
    GET /sql
    OPTIONS /sql
    POST /refine {"filters": [{"column": "state", "op": "eq", "value": "NJ"}], "name": "In NJ"}
    POST /refine {"columns": ["id"], "order_by": ["id"], "limit": 3}
    POST /refine {"limit": 3, "offset": 1}
    POST /refine {"sql": "SELECT state, count(*) AS n FROM data GROUP BY state", "name": "States"}
    POST /refine {"group_by": ["state"], "aggregates": ["count"]}
    POST /refine {"sql": "SELECT nonsense FROM data"}
    POST /refine {"filters": [{"column": "x", "op": "eq", "value": 1}]}
    POST /refine {"name": 1}
    POST /refine {"name": ""}
    POST /refine {"nonsense": 1}
    GET /refine
    OPTIONS /refine
"""  # noqa: E501 - a line is a request


@pytest.mark.parametrize("kind", ["query", "sql", "refine"])
async def test_questions(asker: Asker, kind: str) -> None:
    path = await asker.path()
    await asker.rest.all(path, "\n".join(line for line in QUESTIONS.splitlines() if f" /{kind}" in line))


async def test_a_refined_result_is_a_result(asker: Asker) -> None:
    path = await asker.path()
    question = {"filters": [{"column": "enrollment", "op": "ge", "value": 100}], "name": "Large"}
    body = (await asker.rest.ask("POST", f"{path}/refine", json=question)).json()
    refined = "/resources" + body["resource"]["url"].partition("/resources")[2]
    await asker.rest.all(
        refined, 'GET -\nGET ?limit=2\nGET /rows?limit=2\nPOST /query {"aggregates": ["count"]}'
    )
    again = (await asker.rest.ask("POST", f"{refined}/refine", json={"limit": 2})).json()
    await asker.rest.ask("GET", "/resources" + again["resource"]["url"].partition("/resources")[2])
    await asker.rest.ask("POST", f"{path}/query", json={}, headers={"accept": "text/csv"})


async def test_charts(asker: Asker) -> None:
    response = await asker.create()
    for specification in (
        {"mark": "bar", "x": "state", "y": {"aggregate": "count"}, "sort": "-y", "title": "Schools"},
        {
            "mark": "line",
            "x": {"field": "founded", "bucket": "year"},
            "y": {"aggregate": "avg", "field": "enrollment"},
        },
        {"mark": "point", "x": "enrollment", "y": "tuition", "color": "state"},
        {"mark": "histogram", "x": "enrollment"},
    ):
        chart = await chart_of(asker.dual, response, specification)
        asker.rest.exchanges.add(f"create chart {specification['mark']}", chart.to_mcp_tool_result())
        path = f"/resources/{chart.resource_id}"
        await asker.rest.all(path, "GET /chart\nGET -\nGET ?limit=2")
    await asker.rest.all(
        path,
        """
        HEAD /chart
        OPTIONS /chart
        POST /chart {}
        GET /chart?format=vegalite
        GET /chart?format=svg
        GET /chart?format=jpeg
        GET /chart?nonsense=1
        GET /chart?x=state
        """,
    )
    filters = quote('[{"column": "state", "op": "eq", "value": "NJ"}]')
    await asker.rest.all(
        f"/resources/{response.resource_id}",
        f"""
        GET /chart
        GET /chart?mark=bar&x=state&aggregate=count&sort=-y&title=Schools
        GET /chart?mark=line&x=founded&bucket=year&aggregate=avg&y=enrollment&filters={filters}
        GET /chart?mark=histogram&x=enrollment&scale=log
        GET /chart?mark=histogram&x=enrollment&theme=dark
        GET /chart?mark=histogram&x=enrollment&width=400
        GET /chart?mark=histogram&x=enrollment&width=1
        GET /chart?mark=heatmap&x=state&y=founded&y_bucket=year&aggregate=max&color=enrollment
        HEAD /chart?mark=bar&x=state&aggregate=count
        GET /chart?mark=bar&x=state
        """,
    )
    for accepted in ("application/vnd.vegalite+json", "image/gif", "text/html"):
        await asker.rest.ask("GET", path, headers={"accept": accepted})
        await asker.rest.ask("GET", f"{path}/chart", headers={"accept": accepted})
    await asker.rest.ask("GET", f"/resources/{response.resource_id}/chart")


async def test_a_chart_as_a_picture(asker: Asker) -> None:
    chart = await chart_of(
        asker.dual, await asker.create(), {"mark": "bar", "x": "state", "y": {"aggregate": "count"}}
    )
    await asker.rest.ask("GET", f"/resources/{chart.resource_id}/chart?format=png")


async def test_dual_mode_answers(asker: Asker) -> None:
    path = await asker.path()
    for headers in (
        {"x-response-format": "json"},
        {"x-response-format": "markdown"},
        {"x-response-format": "json", "x-execution-context": "chat"},
        {"x-response-format": "markdown", "x-execution-context": "code"},
        {"x-execution-context": "code"},
        {"x-response-format": "nonsense"},
    ):
        await asker.rest.all(
            path,
            'GET -\nGET ?limit=2\nPOST - {"limit": 1}\nGET ?sort=nonsense\nHEAD ?limit=1',
            headers=headers,
        )
    unknown = "/resources/q4T-9_hXv2ZkLwPmB7sYd1RcE0a"
    await asker.rest.ask("GET", unknown, headers={"x-response-format": "json"})


async def test_foreign_hosts_and_origins(schools: str, exchanges: Exchanges) -> None:
    async with serving(schools, cors_origins=["https://app.example"], allowed_hosts=["api.example"]) as (
        dual,
        http,
    ):
        asker = Asker(dual, Rest(http, exchanges))
        path = await asker.path()
        preflight = {"access-control-request-method": "POST", "access-control-request-headers": "x-a"}
        for headers in (
            {"host": "evil.example"},
            {"host": "api.example"},
            {"host": "api.example:8000"},
            {"origin": "https://evil.example"},
            {"origin": "https://app.example"},
            {"origin": "null"},
        ):
            await asker.rest.ask("GET", f"{path}?limit=1", headers=headers)
            await asker.rest.ask("OPTIONS", path, headers={**headers, **preflight})


async def test_people(schools: str, exchanges: Exchanges) -> None:
    trail: list[Any] = []
    async with serving(
        schools, authenticate=static_tokens(TOKENS), audit=trail.append, quota_resources=4
    ) as (dual, http):
        asker = Asker(dual, Rest(http, exchanges))
        mine, open_to_all = await asker.path(principal=ANA), await asker.path()
        lines = 'GET -\nGET ?limit=1\nGET /rows?limit=1\nPOST /query {"aggregates": ["count"]}\nPUT -\nDELETE /pin'
        for headers in (
            AS_ANA,
            AS_BOB,
            {},
            {"authorization": "Bearer nonsense"},
            {"authorization": "Basic eA=="},
        ):
            await asker.rest.all(mine, lines, headers=headers)
            await asker.rest.all(open_to_all, "GET -\nPUT -\nDELETE -", headers=headers)
            await asker.rest.ask("GET", "/resources/", headers=headers)
        await asker.rest.ask("POST", f"{mine}/refine", json={"limit": 2}, headers=AS_ANA)
        for number in range(4):
            await asker.create(principal=ANA, name=f"Schools {number}")
        page = (await asker.rest.ask("GET", "/resources/?limit=2", headers=AS_ANA)).json()
        await asker.rest.ask("GET", f"/resources/?limit=2&cursor={page['next_cursor']}", headers=AS_ANA)
        for query in ("limit=0", "limit=x", "cursor=x", "limit=1000", "nonsense=1"):
            await asker.rest.ask("GET", f"/resources/?{query}", headers=AS_ANA)
        await asker.rest.ask("HEAD", "/resources/", headers=AS_ANA)
        await asker.rest.ask("DELETE", mine, headers=AS_BOB)
        await asker.rest.ask("DELETE", mine, headers=AS_ANA)
        for event in trail:
            fields = {name: getattr(event, name) for name in type(event).__dataclass_fields__}
            del fields["request_id"]  # random
            exchanges.add("audit", fields)


async def test_tenants(schools: str, exchanges: Exchanges) -> None:
    hooks = [
        TenantFilter(column="state", value=lambda principal: principal.tenant),
        Shared(Program, visits),
    ]
    async with serving(schools, authenticate=static_tokens(TOKENS), hooks=hooks) as (dual, http):
        asker = Asker(dual, Rest(http, exchanges))
        for principal, headers in ((ANA, AS_ANA), (BOB, AS_BOB)):
            path = await asker.path(principal=principal)
            await asker.rest.all(
                path,
                """
                GET -
                GET ?limit=2
                GET ?count=exact
                GET /rows?columns=id,state&format=csv
                GET /profile?columns=state
                POST /query {"group_by": ["state"], "aggregates": ["count"]}
                """,
                headers=headers,
            )


async def test_signed_links(schools: str, exchanges: Exchanges) -> None:
    async with serving(schools, authenticate=static_tokens(TOKENS), signed_links=True) as (dual, http):
        asker = Asker(dual, Rest(http, exchanges))
        response = await asker.create(principal=ANA)
        link = await link_to(dual, response, ANA)
        await asker.rest.all(
            link,
            """
            GET -
            GET &limit=2
            GET &limit=2&sort=-id
            POST - {"limit": 1}
            POST - {"limit": 1, "sort": {"field": "name"}}
            PUT -
            DELETE -
            GET &count=exact
            GET &link=other
            """,
        )
        base, _, token = link.partition("?")
        await asker.rest.ask("GET", f"{base}/rows?{token}&limit=1&format=json")
        await asker.rest.ask("GET", f"{base}/rows?{token}&format=csv")
        await asker.rest.ask("GET", f"{base}/profile?{token}")
        await asker.rest.ask("POST", f"{base}/query?{token}", json={})
        await asker.rest.ask("GET", f"{base}?{token[:-4]}AAAA&limit=1", told=f"{base}, forged")
        await asker.rest.ask("GET", f"/resources/q4T-9_hXv2ZkLwPmB7sYd1RcE0a?{token}&limit=1")
        csv = await link_to(dual, response, ANA, formats=["csv", "parquet"])
        await asker.rest.ask("GET", f"{csv}&columns=id,name&limit=2")
        await asker.rest.ask("HEAD", csv)
        once = await link_to(dual, response, ANA, single_use=True)
        for _ in range(3):
            await asker.rest.ask("GET", f"{once}&limit=1")
        await delete(dual, response)
        await asker.rest.ask("GET", f"{link}&limit=1")


async def wait_for_status(asker: Asker, path: str, status: str) -> None:
    """Wait until the resource is in that state."""
    await until(lambda: asker.rest.http.get(path), lambda answer: answer.json()["status"] == status)


NOT_READY = """
    GET -
    GET ?limit=1
    GET /rows
    GET /profile
    GET ?count=exact
    POST /query {"aggregates": ["count"]}
    POST /refine {"limit": 1}
    """


async def test_pending(schools: str, exchanges: Exchanges) -> None:
    async with serving(schools, anonymous_actions=ALL_ACTIONS, maximum_pending=1) as (dual, http):
        asker = Asker(dual, Rest(http, exchanges))
        response = await asker.create(FOREVER, wait=timedelta(milliseconds=10))
        exchanges.add("create", response.to_mcp_tool_result())
        path = f"/resources/{response.resource_id}"
        await asker.rest.all(path, NOT_READY)
        with pytest.raises(DualResponseError) as refused:
            await asker.create(FOREVER, name="Another", wait=timedelta(milliseconds=10))
        exchanges.add("create one too many", error_of(refused.value))
        await asker.rest.all(path, "PUT -\nDELETE -\nGET -")


async def test_failed(schools: str, exchanges: Exchanges) -> None:
    options: dict[str, Any] = {
        "pending_timeout": timedelta(milliseconds=300),
        "query_timeout": timedelta(seconds=1),
    }
    async with serving(schools, anonymous_actions=ALL_ACTIONS, **options) as (dual, http):
        asker = Asker(dual, Rest(http, exchanges))
        path = await asker.path(FOREVER, wait=timedelta(milliseconds=10))
        await wait_for_status(asker, path, "failed")
        await asker.rest.all(path, f"{NOT_READY}\nPUT -\nDELETE -\nGET -")


async def test_of_a_server_that_died(schools: str, exchanges: Exchanges) -> None:
    """It renews no lease. Here a lease is over before the next renewal, which is ten seconds away."""
    async with serving(schools, anonymous_actions=ALL_ACTIONS) as (dual, http):
        asker = Asker(dual, Rest(http, exchanges))
        response = await asker.create(FOREVER, wait=timedelta(milliseconds=10))
        await dual.store.prolong([response.resource_id], until=datetime.now(UTC) - timedelta(seconds=1))
        await asker.rest.all(f"/resources/{response.resource_id}", f"{NOT_READY}\nPUT -\nDELETE -\nGET -")


async def test_expired(schools: str, exchanges: Exchanges) -> None:
    async with serving(schools) as (dual, http):
        asker = Asker(dual, Rest(http, exchanges))
        response = await asker.create(expiration=timedelta(milliseconds=1))
        path = f"/resources/{response.resource_id}"
        await until(lambda: http.get(path), lambda answer: answer.status_code != 200)
        await asker.rest.all(
            path, "GET -\nGET ?limit=1\nGET /rows\nPUT -\nDELETE -\nGET /profile\nGET /chart"
        )


async def test_pinned_and_sliding(schools: str, exchanges: Exchanges) -> None:
    async with serving(schools, sliding_expiration=True, default_expiration=timedelta(minutes=90)) as (
        dual,
        http,
    ):
        asker = Asker(dual, Rest(http, exchanges))
        response = await asker.create()
        path = f"/resources/{response.resource_id}"
        await asker.rest.all(path, "GET -\nGET ?limit=1\nGET ?limit=1&offset=1\nPUT -\nDELETE -")
        await pin(dual, response)
        await asker.rest.all(path, "GET -\nGET ?limit=1\nHEAD ?limit=1")


async def test_bounds_and_failures(schools: str, exchanges: Exchanges) -> None:
    options: dict[str, Any] = {
        "maximum_page_size": 5, "default_page_size": 3, "maximum_offset": 10, "maximum_stream_rows": 4,
        "maximum_body_size": 64, "maximum_groups": 2, "maximum_refinement_depth": 1, "maximum_refinements": 1,
        "query_timeout": timedelta(seconds=1), "allow_text": True, "anonymous_actions": ALL_ACTIONS,
    }  # fmt: skip
    async with serving(schools, **options) as (dual, http):
        asker = Asker(dual, Rest(http, exchanges))
        path = await asker.path()
        await asker.rest.all(
            path,
            """
            GET ?limit=6
            GET ?offset=0
            GET ?offset=11
            GET /rows?columns=id
            GET /rows?columns=id&format=csv&limit=4
            GET /rows?columns=id&limit=5
            POST - {"sort": [{"field": "enrollment", "order": "desc"}, {"field": "id", "order": "asc"}]}
            POST /query {"group_by": ["state"], "aggregates": ["count"]}
            POST /query {"group_by": ["id"], "aggregates": ["count"]}
            POST /refine {"limit": 9}
            POST /refine {"limit": 8}
            """,
        )
        failing = select((literal(1) / (School.id - 1)).label("x"))
        broken = await asker.path(
            select(School.id, (School.id / (School.id - 1)).label("x")).where(School.id > 1)
        )
        await asker.rest.all(broken, "GET ?limit=2\nGET /rows?limit=2")
        for name, statement, more in (
            ("division by zero", failing, {}),
            ("too slow", FOREVER, {}),
            ("no columns", text("SELECT 1"), {}),
            ("a string", "SELECT 1", {}),
            ("an unknown source", PLAIN, {"source": "other"}),
            ("a large sample", PLAIN, {"sample_size": 100_000}),
            ("an unknown sample", PLAIN, {"sample": "middle"}),
            ("an unknown count", PLAIN, {"count": "all"}),
            ("an unknown profile", PLAIN, {"profile": "deep"}),
            ("no name", PLAIN, {"name": ""}),
            ("no lifetime", PLAIN, {"expiration": timedelta(0)}),
            ("odd metadata", PLAIN, {"metadata": {"x": object()}}),
            ("an unknown parent", None, {"parent": "resource://nothing", "refinement": {"limit": 1}}),
            ("a misspelt option", PLAIN, {"sample_sice": 3}),
        ):
            try:
                answer: Any = (await asker.create(statement, **more)).to_structured_content()
            except Exception as error:  # noqa: BLE001 - what is raised is what is recorded
                answer = error_of(error)
            exchanges.add(f"create with {name}", answer)


@pytest.mark.parametrize("sample", ["head", "tail", "spread", "random:7"])
async def test_samples_counts_and_forms(asker: Asker, sample: str) -> None:
    for count in ("auto", "exact", "capped:5", "none"):
        response = await asker.create(sample=sample, count=count, sample_size=3, metadata={"a": [1, None]})
        asker.rest.exchanges.add(
            f"create with a sample {sample}, count {count}", response.to_mcp_tool_result()
        )
    for results_format in ("rows", "columnar"):
        asker.rest.exchanges.add(
            f"as {results_format}",
            response.to_structured_content(results_format=results_format),
        )
    for text_format in ("markdown", "json", "csv"):
        try:
            text: Any = response.to_text(text_format=text_format)
        except Exception as error:  # noqa: BLE001 - what is raised is what is recorded
            text = error_of(error)
        asker.rest.exchanges.add(f"told as {text_format}", {"text": text})
