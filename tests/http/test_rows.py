"""All rows as one answer: forms, headers, parameters and what is refused before a byte is sent."""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import httpx
import orjson
import pytest
from sqlalchemy import select

from dualsql.resource import Principal
from dualsql.results.audit import AuditEvent
from dualsql_client.wire import NO_RESUME_HEADER, RESUME_HEADER
from tests.http.application import (
    INSTITUTIONS,
    ROWS,
    Application,
    assert_private,
    by_header,
    headers_of,
    problem_of,
    running,
)

IDS = [row["id"] for row in ROWS]
NAMES = [row["name"] for row in ROWS]


@pytest.fixture
def events() -> list[AuditEvent]:
    return []


@pytest.fixture
async def streaming(institutions_url: str, events: list[AuditEvent]) -> AsyncIterator[Application]:
    """A server that writes down what it does."""
    async with running(institutions_url, audit=events.append) as application:
        yield application


async def rows_of(application: Application, query: str = "", **headers: str) -> httpx.Response:
    path = await application.create()
    return await application.http.get(f"{path}/rows{query}", headers=headers)


def records(response: httpx.Response) -> list[dict[str, Any]]:
    """The rows of an NDJSON answer, after its summary was checked."""
    assert response.status_code == 200, response.text
    *rows, last = map(orjson.loads, response.content.splitlines())
    assert last == {"$summary": {"rows": len(rows), "complete": True}}
    return rows


class TestForms:
    async def test_ndjson_ends_with_a_summary(self, streaming: Application) -> None:
        response = await rows_of(streaming)
        assert [row["id"] for row in records(response)] == IDS
        assert response.headers["content-type"] == "application/x-ndjson"
        assert_private(response)

    async def test_ndjson_without_a_summary_is_a_row_a_line(self, streaming: Application) -> None:
        """For readers that take every line for a row: pandas.read_json(url, lines=True)."""
        path = await streaming.create()
        whole = (await streaming.http.get(f"{path}/rows")).content
        rows, summary = whole.rsplit(b"\n", 2)[0] + b"\n", whole.splitlines()[-1]
        assert b"$summary" in summary
        for answer in (
            await streaming.http.get(f"{path}/rows?summary=false"),
            await streaming.http.post(f"{path}/rows", json={"summary": False}),
            await streaming.http.post(f"{path}/query", json={"format": "ndjson", "summary": False}),
            await streaming.http.post(
                f"{path}/sql", json={"sql": "SELECT * FROM data", "format": "ndjson", "summary": False}
            ),
        ):
            assert answer.status_code == 200, answer.text
            assert answer.content == rows
        assert (await streaming.http.get(f"{path}/rows?summary=true")).content == whole
        assert not (await streaming.http.get(f"{path}/rows?summary=false&limit=0")).content

    async def test_what_was_cut_off_is_resumed_without_a_summary(self, streaming: Application) -> None:
        path = await streaming.create()
        whole = await streaming.http.get(f"{path}/rows?summary=false")
        had = b"".join(whole.content.splitlines(keepends=True)[:3])
        token = whole.headers[RESUME_HEADER]
        rest = await streaming.http.get(f"{path}/rows?summary=false&resume={token}&after=3")
        assert had + rest.content == whole.content

    async def test_rows_are_those_of_pages(self, streaming: Application) -> None:
        path = await streaming.create()
        page = (await streaming.http.get(path, params={"limit": 100})).json()
        assert records(await streaming.http.get(f"{path}/rows")) == page["data"]

    @pytest.mark.parametrize("asked", [("?format=csv", ""), ("", "text/csv")])
    async def test_csv(self, streaming: Application, asked: tuple[str, str]) -> None:
        query, accept = asked
        response = await rows_of(streaming, query, **({"accept": accept} if accept else {}))
        assert response.headers["content-type"] == "text/csv; charset=utf-8; header=present"
        names, *rows = csv.reader(io.StringIO(response.text, newline=""))
        assert names == [column.name for column in INSTITUTIONS.c]
        assert [row[1] for row in rows] == NAMES

    async def test_json_is_one_array(self, streaming: Application) -> None:
        response = await rows_of(streaming, accept="application/json")
        assert [row["id"] for row in response.json()] == IDS

    async def test_arrow(self, streaming: Application) -> None:
        ipc = pytest.importorskip("pyarrow.ipc", reason="the extra dualsql[arrow] is not installed")
        response = await rows_of(streaming, "?format=arrow")
        assert ipc.open_stream(response.content).read_all()["id"].to_pylist() == IDS

    async def test_the_parameter_is_stronger_than_accept(self, streaming: Application) -> None:
        response = await rows_of(streaming, "?format=json", accept="text/csv")
        assert response.headers["content-type"] == "application/json"

    async def test_what_is_not_there_is_not_acceptable(self, streaming: Application) -> None:
        problem = problem_of(await rows_of(streaming, accept="image/png"), 406)
        assert problem["code"] == "NOT_ACCEPTABLE"
        assert problem["details"]["formats"]["csv"] == "text/csv"
        assert problem_of(await rows_of(streaming, "?format=ods"), 400)["code"] == "BAD_PARAMETER"

    @pytest.mark.parametrize("coding", ["gzip", "zstd"])
    async def test_codings(self, streaming: Application, coding: str) -> None:
        path = await streaming.create()
        request = streaming.http.build_request("GET", f"{path}/rows", headers={"accept-encoding": coding})
        response = await streaming.http.send(request, stream=True)
        packed = b"".join([piece async for piece in response.aiter_raw()])
        assert response.headers["content-encoding"] == coding
        plain = gzip.decompress(packed) if coding == "gzip" else unzstd(packed)
        assert plain.count(b"\n") == len(ROWS) + 1

    async def test_what_the_answer_varies_by(self, streaming: Application) -> None:
        assert (await rows_of(streaming)).headers["vary"] == "Accept, Accept-Encoding"

    async def test_parquet_is_not_compressed_again(self, streaming: Application) -> None:
        pytest.importorskip("pyarrow", reason="the extra dualsql[arrow] is not installed")
        response = await rows_of(streaming, "?format=parquet", **{"accept-encoding": "gzip"})
        assert "content-encoding" not in response.headers
        assert response.headers[NO_RESUME_HEADER] == "FORMAT"

    async def test_a_result_s_name_is_the_file_s(self, streaming: Application) -> None:
        name = 'Größe"\r\nSet-Cookie: a=b'
        response = await streaming.server.create_response(select(INSTITUTIONS), name=name)
        answered = await streaming.http.get(f"/resources/{response.resource_id}/rows?format=csv")
        disposition = answered.headers["content-disposition"]
        assert disposition.startswith('attachment; filename="Groe Set-Cookie a=b.csv"')
        assert "set-cookie" not in answered.headers

    @pytest.mark.parametrize("name", ["$summary", "$problem"])
    async def test_no_row_looks_like_the_end(self, streaming: Application, name: str) -> None:
        path = await streaming.create(select(INSTITUTIONS.c.id.label(name), INSTITUTIONS.c.name))
        refused = await streaming.http.get(f"{path}/rows", params={"columns": name})
        assert problem_of(refused, 400)["details"] == {"name": "format"}
        assert len(records(await streaming.http.get(f"{path}/rows"))) == len(ROWS)
        assert (await streaming.http.get(f"{path}/rows?format=csv&columns={name}")).status_code == 200
        alone = await streaming.http.get(f"{path}/rows?columns={name}&summary=false")
        assert [orjson.loads(line) for line in alone.content.splitlines()] == [{name: each} for each in IDS]


def unzstd(packed: bytes) -> bytes:
    zstd = pytest.importorskip("backports.zstd", reason="the extra dualsql[zstd] is not installed")
    plain: bytes = zstd.decompress(packed)
    return plain


class TestParameters:
    async def test_columns_in_the_order_wanted(self, streaming: Application) -> None:
        rows = records(await rows_of(streaming, "?columns=name,id&limit=1"))
        assert [list(row.items()) for row in rows] == [[("name", NAMES[0]), ("id", 1)]]

    async def test_sort_and_limit(self, streaming: Application) -> None:
        rows = records(await rows_of(streaming, "?sort=state,-id&limit=2&columns=id,state"))
        assert rows == [{"id": 60, "state": "NJ"}, {"id": 57, "state": "NJ"}]

    async def test_no_rows_at_all(self, streaming: Application) -> None:
        assert records(await rows_of(streaming, "?limit=0")) == []
        assert (await rows_of(streaming, "?limit=0&format=json")).json() == []

    async def test_big_integers(self, streaming: Application) -> None:
        rows = records(await rows_of(streaming, "?big_integers=string&columns=budget&limit=1"))
        assert rows == [{"budget": str(ROWS[0]["budget"])}]

    async def test_a_body_says_the_same(self, streaming: Application) -> None:
        path = await streaming.create()
        body = {"format": "ndjson", "columns": ["id"], "sort": {"field": "id", "order": "desc"}, "limit": 2}
        rows = records(await streaming.http.post(f"{path}/rows", json=body))
        assert rows == [{"id": 60}, {"id": 59}]

    async def test_a_body_names_what_a_url_cannot(self, streaming: Application) -> None:
        path = await streaming.create(select(INSTITUTIONS.c.id.label("a,b")).limit(1))
        rows = records(await streaming.http.post(f"{path}/rows", json={"columns": ["a,b"]}))
        assert rows == [{"a,b": 1}]

    async def test_formulas_are_guarded_when_asked(self, streaming: Application) -> None:
        path = await streaming.create(select(INSTITUTIONS.c.name.label("=name")).limit(1))
        plain = await streaming.http.get(f"{path}/rows?format=csv")
        guarded = await streaming.http.get(f"{path}/rows?format=csv&guard_formulas=true")
        assert plain.text.startswith('"=name"') and guarded.text.startswith('"\'=name"')

    @pytest.mark.quick(4)
    @pytest.mark.parametrize(
        "query",
        [
            "?colums=id",
            "?columns=",
            "?columns=id,",
            "?columns=id,id",
            f"?columns={'x' * 300}",
            "?limit=-1",
            "?limit=1e3",
            f"?limit={10**15}",
            "?limit=1&limit=2",
            "?guard_formulas=yes",
            "?summary=no",
            "?summary=",
            "?text_columns=",
            "?text_columns=id,id",
            "?big_integers=float",
            "?offset=1",
            "?format=",
            "?format=../../etc",
            "?sort=",
            "?after=1",
            "?last=" + "0" * 32,
            "?resume=" + "A" * 43,
            "?resume=short&after=1",
            "?resume=" + "A" * 43 + "&after=-1",
            "?resume=" + "A" * 43 + "&after=1&last=xyz",
            "?link=x",
        ],
    )
    async def test_malformed_ones(self, streaming: Application, query: str) -> None:
        assert problem_of(await rows_of(streaming, query), 400)["code"] == "BAD_PARAMETER"

    @pytest.mark.quick(4)
    @pytest.mark.parametrize(
        "body",
        [
            [],
            {"columns": "id"},
            {"columns": []},
            {"columns": [1]},
            {"columns": [["id"]]},
            {"limit": True},
            {"guard_formulas": "true"},
            {"summary": "false"},
            {"summary": 0},
            {"text_columns": "id"},
            {"format": 1},
            {"resume": 1, "after": 1},
            {"resume": "A" * 43, "after": "1"},
            {"last": "0" * 32},
            {"rows": 1},
        ],
    )
    async def test_malformed_bodies(self, streaming: Application, body: Any) -> None:
        path = await streaming.create()
        response = await streaming.http.post(f"{path}/rows", json=body)
        assert problem_of(response, 400)["code"] == "BAD_PARAMETER"

    async def test_unknown_columns(self, streaming: Application) -> None:
        for query in ("?columns=nam", "?sort=nam"):
            problem = problem_of(await rows_of(streaming, query), 422)
            assert problem["code"] == "UNKNOWN_COLUMN" and "name" in problem["hint"]


class TestMethods:
    async def test_head_says_what_get_would_and_runs_nothing(
        self, streaming: Application, events: list[AuditEvent]
    ) -> None:
        path = await streaming.create()
        head = await streaming.http.head(f"{path}/rows?format=csv")
        assert [event.action for event in events] == ["create", "describe"]
        get = await streaming.http.get(f"{path}/rows?format=csv")
        assert (head.status_code, head.content) == (200, b"")
        assert headers_of(head) == headers_of(get)
        assert "content-length" not in head.headers

    async def test_options_and_the_rest(self, streaming: Application) -> None:
        path = f"{await streaming.create()}/rows"
        known = "GET, HEAD, OPTIONS, POST"
        options = await streaming.http.options(path)
        assert (options.status_code, options.headers["allow"]) == (204, known)
        for method in ("PUT", "DELETE", "PATCH"):
            refused = await streaming.http.request(method, path)
            assert problem_of(refused, 405)["code"] == "METHOD_NOT_ALLOWED"
            assert refused.headers["allow"] == known

    async def test_strangers_get_one_answer(self, institutions_url: str) -> None:
        async with running(institutions_url, authenticate=by_header) as application:
            path = await application.create(principal=Principal(id="ana"))
            foreign = await application.http.get(f"{path}/rows", headers={"x-user": "eve"})
            unknown = await application.http.get("/resources/unknown/rows", headers={"x-user": "eve"})
            assert problem_of(foreign, 404) == problem_of(unknown, 404)
            own = await application.http.get(f"{path}/rows", headers={"x-user": "ana"})
            assert len(records(own)) == len(ROWS)

    async def test_pages_of_other_sites_see_the_headers(self, institutions_url: str) -> None:
        origin = "https://app.example"
        async with running(institutions_url, cors_origins=[origin]) as application:
            path = await application.create()
            response = await application.http.get(f"{path}/rows", headers={"origin": origin})
        assert response.headers["access-control-expose-headers"] == "*"
        assert "access-control-allow-credentials" not in response.headers, (
            "a browser would expose nothing then"
        )
        assert "Origin" in response.headers["vary"] and "Accept" in response.headers["vary"]


class TestBounds:
    async def test_rows_end_with_limit_exceeded(self, institutions_url: str) -> None:
        async with running(institutions_url, maximum_stream_rows=10) as application:
            problem = problem_of(await rows_of(application), 413)
        # Sixty rows are one piece, which was too much before a byte was sent.
        assert (problem["code"], problem["details"]) == ("LIMIT_EXCEEDED", {"limit": "rows"})

    async def test_bytes_do_too(self, institutions_url: str) -> None:
        async with running(institutions_url, maximum_stream_bytes=100) as application:
            problem = problem_of(await rows_of(application, "?format=csv"), 413)
        assert problem["details"] == {"limit": "bytes"}

    async def test_time_does_too(self, institutions_url: str) -> None:
        moment = timedelta(microseconds=1)
        async with running(institutions_url, maximum_stream_duration=moment) as application:
            problem = problem_of(await rows_of(application), 413)
        assert problem["details"] == {"limit": "seconds"}

    async def test_none_begins_while_the_server_stops(self, institutions_url: str) -> None:
        async with running(institutions_url) as application:
            path = await application.create()
            await application.server.drain(timedelta())
            problem = problem_of(await application.http.get(f"{path}/rows"), 503)
        assert problem["code"] == "SERVER_UNAVAILABLE"


class TestRemembering:
    async def test_a_stream_is_two_events_and_one_access(
        self, streaming: Application, events: list[AuditEvent]
    ) -> None:
        path = await streaming.create()
        await streaming.http.get(f"{path}/rows?limit=7")
        _, began, ended = events
        assert (began.action, began.rows, began.is_complete) == ("stream", None, None)
        assert (ended.action, ended.rows, ended.is_complete, ended.code) == ("read", 7, True, None)
        assert (await streaming.http.get(path)).json()["access_count"] == 1

    async def test_an_audit_that_fails_refuses_the_stream(self, institutions_url: str) -> None:
        def refuse(event: AuditEvent) -> None:
            if event.action == "stream":
                raise OSError("disk full")

        async with running(institutions_url, audit=refuse) as application:
            assert problem_of(await rows_of(application), 503)["code"] == "STORAGE_ERROR"

    async def test_an_audit_that_fails_at_the_end_lets_no_stream_look_whole(
        self, institutions_url: str
    ) -> None:
        def refuse(event: AuditEvent) -> None:
            if event.action == "read":
                raise OSError("disk full")

        async with running(institutions_url, audit=refuse) as application:
            with pytest.raises(Exception, match="STORAGE_ERROR"):
                await rows_of(application)


class TestLinks:
    @pytest.fixture
    async def linking(self, institutions_url: str) -> AsyncIterator[Application]:
        async with running(institutions_url, signed_links=True) as application:
            yield application

    async def link(self, application: Application, **options: Any) -> str:
        path = await application.create()
        url = await application.server.links.create(path.rpartition("/")[2], None, **options)
        return url.removeprefix("http://127.0.0.1:8000")

    async def test_a_link_to_a_file_is_what_one_clicks_on(self, linking: Application) -> None:
        link = await self.link(linking, formats=["csv"])
        response = await linking.http.get(link, headers={"accept": "text/html,*/*;q=0.8"})
        assert response.status_code == 200
        assert response.headers["content-type"].startswith("text/csv")

    async def test_it_is_good_for_its_formats_alone(self, linking: Application) -> None:
        link = await self.link(linking, formats=["csv", "ndjson"])
        assert (await linking.http.get(link.replace("format=csv", "format=ndjson"))).status_code == 200
        assert problem_of(await linking.http.get(link.replace("format=csv", "format=json")), 404)
        assert problem_of(await linking.http.get(link.replace("/rows?format=csv&", "?")), 404)

    async def test_a_link_for_pages_streams_json_and_nothing_else(self, linking: Application) -> None:
        link = (await self.link(linking)).replace("?link", "/rows?link")
        assert (await linking.http.get(f"{link}&format=json")).status_code == 200
        assert problem_of(await linking.http.get(f"{link}&format=csv"), 404)
        assert problem_of(await linking.http.get(link), 404)

    async def test_a_single_use_ends_with_the_first_stream(self, linking: Application) -> None:
        link = await self.link(linking, formats=["csv"], single_use=True)
        assert (await linking.http.head(link)).status_code == 200
        assert (await linking.http.get(link)).status_code == 200
        assert problem_of(await linking.http.get(link), 404)

    async def test_it_is_revoked_as_it_was_given(self, linking: Application) -> None:
        link = await self.link(linking, formats=["csv"])
        assert await linking.server.links.revoke(f"http://127.0.0.1:8000{link}")
        assert problem_of(await linking.http.get(link), 404)
