"""Requests of every route, format and tool, made of a seed; what they name may be there on one of the twins only."""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random
from typing import Any
from urllib.parse import quote, urlencode

from dualsql.formats.table import FORMATS
from tests.query.readings import READINGS
from tests.sql.attacks import ATTACKS
from tests.twins.twins import HIDDEN, OTHERS, Asked

COLUMNS = [column.name for column in READINGS.c]
JSON = {"Content-Type": "application/json"}
OF_MCP = {**JSON, "Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-06-18"}
OWN = 6
"""Results of the caller that requests are about; the last is a chart."""

QUESTIONS: tuple[dict[str, Any], ...] = (
    {"filters": [{"column": "text", "op": "eq", "value": "a"}], "order_by": ["-id"], "limit": 5},
    {"filters": [{"column": "text", "op": "starts_with", "value": "south"}]},
    {"filters": [{"column": "small", "op": "gt", "value": 3}], "order_by": ["id"]},
    {"filters": [{"column": "secret", "op": "is_null"}], "aggregates": ["count"]},
    {
        "group_by": ["word"],
        "aggregates": ["count", {"function": "avg", "column": "price"}],
        "order_by": ["word"],
    },
    {"group_by": [{"column": "moment", "bucket": "month"}], "aggregates": ["count"]},
    {"aggregates": [{"function": "percentile", "column": "ratio", "fraction": 0.5}]},
    {
        "aggregates": [
            {"function": name, "column": "small"} for name in ("min", "max", "sum", "avg", "count_distinct")
        ]
    },
    {"aggregates": [{"function": "min", "column": "secret"}]},
    {"columns": ["id", "text"], "limit": 4, "offset": 3, "order_by": ["id"]},
    {"columns": ["nonsense"]},
    {"filters": [{"column": "wages", "op": "eq", "value": 1}]},
)
TEXTS = (
    "SELECT id, text FROM {table} ORDER BY id",
    "SELECT count(*) AS n, min(id) AS a, max(id) AS b, max(small) AS c FROM {table}",
    "SELECT word, count(*) AS n, sum(price) AS p FROM {table} GROUP BY word ORDER BY word",
    "SELECT DISTINCT tenant FROM {table} ORDER BY tenant",
    "SELECT count(DISTINCT secret) AS n FROM {table}",
    "SELECT count(*) AS n FROM {table} WHERE tenant = 'south' OR secret IS NOT NULL",
    "SELECT r.id, s.place FROM {table} r JOIN stations s ON r.id = s.id ORDER BY r.id",
    "SELECT id, rank() OVER (ORDER BY id) AS place FROM {table} ORDER BY id LIMIT 9",
    "SELECT max(id) AS a FROM {table} WHERE EXISTS (SELECT 1 FROM readings WHERE tenant = 'south')",
    "WITH {hidden} AS (SELECT id FROM {table}) SELECT count(*) AS n FROM {hidden}",
    "SELECT {hidden}.id FROM {table} AS {hidden} ORDER BY 1 LIMIT 3",
    "SELECT * FROM {hidden}",
    "SELECT id FROM {hidden} JOIN {table} USING (id)",
    "SELECT {hidden} FROM {table}",
    "SELECT {hidden}(id) FROM {table}",
    "SELECT nonsense FROM {table}",
    "SELECT * FROM reading",
    "SELECT id FROM {table} WHERE id IN (SELECT id FROM {hidden})",
    "SELECT CASE WHEN 1 / (SELECT count(*) FROM readings WHERE tenant = 'south') = 0 THEN 1 END AS n FROM {table}",
    "SELEC id FROM {table}",
)
CHARTS: tuple[dict[str, Any], ...] = (
    {"mark": "bar", "x": "word", "y": {"aggregate": "count"}},
    {"mark": "histogram", "x": "small"},
)


class Asking:
    """Makes requests, one after the other."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        self._first = [Asked(method, path) for method in ("GET", "HEAD") for path in _FIXED]
        self._kinds: tuple[tuple[int, Callable[[], Asked]], ...] = (
            (6, self._page),
            (8, self._rows),
            (6, self._query),
            (8, self._sql),
            (3, self._refine),
            (4, self._profile),
            (2, self._chart),
            (3, self._view),
            (4, self._verb),
            (4, self._fixed),
            (14, self._tool),
            (6, self._protocol),
        )

    def __next__(self) -> Asked:
        if self._first:
            return self._first.pop()
        weights = [weight for weight, _ in self._kinds]
        make = self._random.choices([make for _, make in self._kinds], weights)[0]
        return make()

    def __iter__(self) -> Asking:
        return self

    def _one(self, values: Any) -> Any:
        return self._random.choice(list(values))

    def _id(self) -> str:
        """Mostly of a result of the caller, else of another's, or of nothing."""
        draw = self._random.random()
        if draw < 0.72:
            return f"{{id{self._random.randrange(OWN)}}}"
        return (
            f"{{other{self._random.randrange(OTHERS)}}}"
            if draw < 0.95
            else self._one(("nonsense", "%00", "a" * 27))
        )

    def _at(self, below: str = "", **parameters: Any) -> str:
        query = urlencode({name: str(value) for name, value in parameters.items()}, safe="{}")
        return f"/resources/{self._id()}{below}{f'?{query}' if query else ''}"

    def _some(self, **values: Any) -> dict[str, Any]:
        """Some of the parameters, each with one of its values."""
        return {name: self._one(given) for name, given in values.items() if self._random.random() < 0.4}

    def _page(self) -> Asked:
        parameters = self._some(
            limit=(1, 5, 500, 0, "x"),
            offset=(0, 3, 143, 144, 500),
            sort=("id", "-small", "text,-id", "secret", "tenant", "nonsense"),
            count=("exact", "estimate", "none"),
            big_integers=("string", "number"),
            cell_limit=(0, 1, 3),
            cursor=("{cursor}",),
        )
        method = self._one(("GET", "GET", "HEAD", "POST"))
        if method != "POST":
            return Asked(method, self._at(**parameters), headers=self._accepting())
        body = {"limit": 4, **self._some(sort=([{"field": "id", "order": "desc"}], [{"field": "wages"}]))}
        return Asked(method, self._at(), json.dumps(body), JSON)

    def _accepting(self) -> dict[str, str]:
        """Mostly no headers; else a media type, or a dual-mode answer."""
        draw = self._random.random()
        if draw < 0.2:
            return {
                "Accept": self._one(("*/*", "text/html", *(each.media_type for each in FORMATS.values())))
            }
        if draw < 0.3:
            return {"X-Response-Format": self._one(("json", "markdown")), "X-Execution-Context": "agent"}
        return {}

    def _rows(self) -> Asked:
        parameters = self._some(
            limit=(1, 7, 1000),
            columns=("id,text", "secret", "tenant,id", "wages"),
            sort=("id", "-text,id", "secret"),
            big_integers=("string",),
            guard_formulas=("true",),
            summary=("false",),
            text_columns=("id",),
            cursor=("{cursor}",),
        )
        method, name = self._one(("GET", "GET", "POST", "HEAD")), self._one((*FORMATS, "xml"))
        if method != "POST":
            return Asked(method, self._at("/rows", format=name, **parameters), headers=self._accepting())
        return Asked(method, self._at("/rows"), json.dumps({"format": name, "limit": 9}), JSON)

    def _query(self) -> Asked:
        body = {**self._one(QUESTIONS), **self._some(format=FORMATS, count=("exact", "estimate", "none"))}
        return Asked("POST", self._at("/query"), json.dumps(body), {**JSON, **self._accepting()})

    def _text(self, table: str) -> str:
        text: str = self._one(ATTACKS if self._random.random() < 0.15 else TEXTS)
        hidden = self._one((*HIDDEN, "nonsense"))
        return text.replace("{table}", table).replace("{hidden}", hidden).replace("{", "").replace("}", "")

    def _sql(self) -> Asked:
        body = {
            "sql": self._text(self._one(("data", "data", "readings"))),
            **self._some(format=FORMATS, limit=(3,)),
        }
        return Asked("POST", self._at("/sql"), json.dumps(body), JSON)

    def _refine(self) -> Asked:
        body = self._one(
            (
                {"sql": self._text("data"), "name": "Refined"},
                *({**each, "name": "Refined"} for each in QUESTIONS),
            )
        )
        return Asked("POST", self._at("/refine"), json.dumps(body), JSON)

    def _profile(self) -> Asked:
        if self._random.random() < 0.3:
            return Asked("POST", self._at("/profile"), json.dumps(self._one(QUESTIONS)), JSON)
        below = self._one(("/profile", "/profile", "/view/profile"))
        parameters = self._some(
            kind=("exact", "estimate", "x"), columns=("small", "id,text", "secret", "wages")
        )
        return Asked(self._one(("GET", "GET", "HEAD")), self._at(below, **parameters))

    def _chart(self) -> Asked:
        path = self._one((f"/resources/{{id{OWN - 1}}}/chart", self._at("/chart")))
        return Asked(self._one(("GET", "HEAD")), f"{path}{self._one(('', '?format=vegalite', '?format=x'))}")

    def _view(self) -> Asked:
        if self._random.random() < 0.2:
            form = {"Content-Type": "application/x-www-form-urlencoded"}
            return Asked("POST", self._at("/view"), urlencode({"format": self._one(FORMATS)}), form)
        parameters = self._some(limit=(2, 50), offset=(0, 100), sort=("id", "wages"))
        return Asked(self._one(("GET", "GET", "HEAD")), self._at("/view", **parameters))

    def _verb(self) -> Asked:
        method, below = self._one(
            (
                ("PUT", ""),
                ("PUT", "/pin"),
                ("DELETE", "/pin"),
                ("POST", "/refresh"),
                ("DELETE", ""),
                ("PATCH", ""),
            ),
        )
        path = self._at(below)
        if (method, below) == ("DELETE", ""):
            path = f"/resources/{{other{self._random.randrange(OTHERS)}}}"
        return Asked(method, path)

    def _fixed(self) -> Asked:
        method, path = self._one(
            (
                *(("GET", path) for path in _FIXED),
                *(("OPTIONS", f"/resources/{below.replace('id0', '{id0}')}") for below in _WITH_OPTIONS),
                ("GET", "/resources/?limit=3"),
                ("GET", "/resources/?limit=3&cursor={cursor}"),
            )
        )
        return Asked(method, path)

    def _call(self, method: str, parameters: dict[str, Any]) -> Asked:
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": parameters}
        return Asked("POST", "/mcp", json.dumps(message), OF_MCP)

    def _tool(self) -> Asked:
        result, hidden = f"resource://{self._id()}", self._one((*HIDDEN, "nonsense"))
        calls: dict[str, tuple[dict[str, Any], ...]] = {
            "execute_query": (
                {"query": self._text("readings"), **self._some(limit=(1, 20))},
                {"query": "of_a_word"},
                {"query": hidden},
            ),
            "query": ({"sql": self._text("readings")},),
            "list_tables": ({}, {"limit": 1}, {"schema_name": hidden}, {"limit": 1, "cursor": "{cursor}"}),
            "describe_table": ({"table": ["readings"]}, {"table": ["stations", hidden]}, {"table": [hidden]}),
            "search_catalog": (
                {"terms": [hidden]},
                {"terms": ["reading", "id", "south"]},
                {"terms": ["place"]},
            ),
            "query_result": tuple({"resource": result, **question} for question in QUESTIONS),
            "refine_result": tuple({"resource": result, **question} for question in QUESTIONS),
            "data_manager": (
                {"operation": "list"},
                {"operation": "schema", "data_access_id": result},
                {"operation": "query", "data_access_id": result, "sql": self._text("data")},
            ),
            "chart_result": (
                {"resource": result, "mark": "bar", "x": "small", "y": {"aggregate": "count"}},
                {"resource": result, "mark": "bar", "x": "wages", "y": {"aggregate": "count"}},
            ),
            "dualsql_app_rows": (
                {"resource": result, "request": {"limit": 3}},
                {"resource": result, "request": self._one(QUESTIONS)},
            ),
            hidden: ({},),
        }
        name = self._one(calls)
        return self._call("tools/call", {"name": name, "arguments": self._one(calls[name])})

    def _protocol(self) -> Asked:
        hidden = self._one((*HIDDEN, "nonsense"))
        initialize = {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "a", "version": "1"},
        }
        uris = (
            f"resource://{self._id()}",
            *(f"catalog://default/{rest}" for rest in _CATALOG),
            f"catalog://default/schema/default/table/{quote(hidden)}",
            "skill://dual-responses/SKILL.md",
            "ui://dualsql/result.html",
        )
        table = {"type": "ref/resource", "uri": "catalog://{source}/schema/{schema}/table/{table}"}
        argument = {"name": "table", "value": self._one(("", hidden[:3], "r"))}
        within = {"arguments": {"source": "default", "schema": self._one(("default", "main", "public"))}}
        return self._call(
            *self._one(
                (
                    ("initialize", initialize),
                    *(
                        (f"{kind}/list", {})
                        for kind in ("tools", "resources", "resources/templates", "prompts")
                    ),
                    ("prompts/get", {"name": self._one(("use_dual_responses", hidden))}),
                    *(("resources/read", {"uri": self._one(uris)}) for _ in range(8)),
                    ("completion/complete", {"ref": table, "argument": argument, "context": within}),
                    ("nonsense", {}),
                )
            )
        )


_FIXED = (
    "/", "/ask", "/nothing", "/mcp", "/mcp/", "/resources/", "/resources/openapi.json", "/resources/openapi.html",
    "/resources/.well-known/resource-link-service", "/.well-known/dualsql.json",
)  # fmt: skip
_WITH_OPTIONS = (
    *(
        "id0",
        "id0/rows",
        "id0/query",
        "id0/sql",
        "id0/refine",
        "id0/profile",
        "id0/chart",
        "id0/pin",
        "id0/refresh",
    ),
    *(
        "id0/view",
        "id0/view/profile",
        "",
        "openapi.json",
        "openapi.html",
        ".well-known/resource-link-service",
    ),
)
_CATALOG = (
    "catalog", "catalog/contents", "schema/default", "schema/default/contents", "schema/main/contents",
    "schema/public/contents", "schema/default/table/readings", "schema/default/table/stations", "query/of_a_word",
    "query/wages", "nonsense",
)  # fmt: skip
