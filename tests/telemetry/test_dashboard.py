"""The dashboard and the alert rules ask only for what `/metrics` has."""

from __future__ import annotations

import asyncio
import json
import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import promql_parser
import pytest
import yaml  # type: ignore[import-untyped]
from prometheus_client.parser import text_string_to_metric_families
from starlette.applications import Starlette

from dualsql import Health, LocalResultStorage
from dualsql.errors import QueryTimeoutError
from dualsql.extension import _logged
from dualsql.store import SQLResourceStore, upgrade
from dualsql.telemetry import INSTRUMENTS, TELEMETRY, metrics_route
from tests.engines import opened, sqlite_url_in
from tests.http.application import ALL, ROWS, fill
from tests.telemetry.exporting import served
from tests.telemetry.live import SECRETS, SLOW, Live, live

EXAMPLES = Path(__file__).parents[2] / "examples" / "operations"
OF_PROMETHEUS = {"job", "instance", "le"}
"""Labels that Prometheus sets."""


async def everything(server: Live) -> None:
    """What gives each metric a value."""
    await server.call("institutions", {"state": "NJ"})
    await server.call("broken", {})
    response = await server.dual.create_response(
        ALL, name="Institutions", expiration=timedelta(milliseconds=1)
    )
    for path in ("?limit=5", "?limit=0"):
        await server.http.get(f"/resources/{response.resource_id}{path}")
    kept = await server.dual.create_response(ALL, name="Institutions")
    for path in ("/rows?format=csv&limit=7", "?limit=5", "/rows?format=ndjson"):
        assert (await server.http.get(f"/resources/{kept.resource_id}{path}")).status_code == 200
    await server.http.get("/resources/unknown")

    async def slow() -> None:
        with pytest.raises(QueryTimeoutError):
            await server.dual.create_response(SLOW, name="Slow", count="none")

    await asyncio.gather(slow(), slow())
    await server.dual.maintenance.sweep()
    await server.dual.features.get(Health)._checks.readiness()
    with _logged(server.dual.features.get(Health), "sweep"):
        raise OSError


@pytest.fixture(scope="module")
async def exported(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    """The names of samples of `/metrics`, and the labels of each."""
    folder = tmp_path_factory.mktemp("telemetry")
    url, store = sqlite_url_in(folder), sqlite_url_in(folder)
    async with opened(url) as engine:
        await fill(engine, [{**ROWS[number % 60], "id": number} for number in range(20_000)])
    await asyncio.to_thread(upgrade, store)
    options: dict[str, Any] = {
        "maximum_concurrent_queries": 1,
        "maximum_stream_rows": 15_000,  # a stream of all rows is cut
        "gone_retention": timedelta(0),
        "query_timeout": timedelta(milliseconds=300),
        "store": SQLResourceStore(store),
        "secrets": SECRETS,
        "storage": LocalResultStorage(tmp_path_factory.mktemp("kept")),
    }
    metrics = metrics_route()
    try:
        async with live(url, **options) as server, served(Starlette(routes=[metrics])) as admin:
            await everything(server)
            async with httpx.AsyncClient() as http:
                answer = await http.get(f"{admin}/metrics")
    finally:
        TELEMETRY.stop()
    assert answer.status_code == 200 and answer.headers["content-type"].startswith("text/plain")
    found: dict[str, set[str]] = {}
    for family in text_string_to_metric_families(answer.text):
        for sample in family.samples:
            found.setdefault(sample.name, set()).update(sample.labels)
    return found


def dashboard_expressions() -> list[str]:
    board = json.loads((EXAMPLES / "grafana-dashboard.json").read_text(encoding="utf-8"))
    targets = [target for panel in board["panels"] for target in panel.get("targets", ())]
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])
    return [target["expr"].replace("$__rate_interval", "5m") for target in targets]


def alert_rules() -> list[dict[str, Any]]:
    rules = yaml.safe_load((EXAMPLES / "prometheus-alerts.yml").read_text(encoding="utf-8"))
    return [rule for group in rules["groups"] for rule in group["rules"]]


def selectors(expression: Any) -> list[Any]:
    """The metrics that an expression reads."""
    if isinstance(expression, promql_parser.VectorSelector):
        return [expression]
    parts = [getattr(expression, name, None) for name in ("lhs", "rhs", "expr", "vector_selector")]
    parts += getattr(expression, "args", None) or []
    return [each for part in parts if part is not None for each in selectors(part)]


EXPRESSIONS = [*dashboard_expressions(), *(rule["expr"] for rule in alert_rules())]


@pytest.mark.quick(8)
@pytest.mark.parametrize("expression", EXPRESSIONS)
async def test_an_expression_reads_what_is_exported(expression: str, exported: dict[str, set[str]]) -> None:
    read = selectors(promql_parser.parse(expression))
    assert read
    for selector in read:
        assert selector.name in {*exported, "up"}, selector.name
        labels = {matcher.name for matcher in selector.matchers.matchers}
        assert labels <= exported.get(selector.name, set()) | OF_PROMETHEUS, selector.name
    told = {name for selector in read for name in exported.get(selector.name, ())} | OF_PROMETHEUS
    grouped = re.findall(r"\bby \(([^)]*)\)", expression)
    assert {name.strip() for names in grouped for name in names.split(",")} <= told


async def test_every_metric_is_exported_and_on_the_dashboard(exported: dict[str, set[str]]) -> None:
    written = " ".join(dashboard_expressions())
    for instrument in INSTRUMENTS:
        name = instrument.name.replace(".", "_")
        assert any(sample.startswith(name) for sample in exported), name
        assert name in written, name


def test_each_alert_says_what_to_do() -> None:
    rules = alert_rules()
    assert len({rule["alert"] for rule in rules}) == len(rules)
    for rule in rules:
        assert rule.keys() == {"alert", "expr", "for", "labels", "annotations"}
        assert rule["annotations"].keys() == {"summary", "action"}
        assert rule["labels"]["severity"] in {"critical", "warning"}
