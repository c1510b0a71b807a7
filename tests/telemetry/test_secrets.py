"""No export tells a value, an id, a URL, a link, SQL or a message. Secrets are planted, and all exports searched."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import Select, func, insert, select
from starlette.requests import Request

from dualsql.errors import DualResponseError, UnauthenticatedError
from dualsql.identity import static_tokens
from dualsql.resource import Principal
from dualsql.store import MemoryStore, SQLResourceStore
from dualsql.telemetry import ATTRIBUTES, INSTRUMENTS
from tests.engines import opened
from tests.http.application import INSTITUTIONS, ROWS
from tests.telemetry.exporting import exporting
from tests.telemetry.live import MISSING, SDKS, SECRETS, SLOW, TRACEPARENT, live

PLANTED = "hunter2"
ANA = Principal(id=f"ana-{PLANTED}", tenant=f"acme-{PLANTED}")
TOKEN = f"token-of-ana-{PLANTED}-of-more-than-sixteen"
AS_ANA = {"Authorization": f"Bearer {TOKEN}"}


class SecretError(Exception):
    """What an application raises, with data in its message, and a telling name."""


class FailingStore(MemoryStore):
    """A store whose driver tells what it was asked."""

    async def get(self, resource_id: str, viewer: Any = None) -> Any:
        if resource_id.startswith("fail"):
            raise SecretError(f"no row for {resource_id} {PLANTED}")
        return await super().get(resource_id, viewer)


async def authenticate(request: Request) -> Principal | None:
    if "x-fail" in request.headers:
        raise SecretError(PLANTED)
    if "x-refuse" in request.headers:
        raise UnauthenticatedError(f"no {PLANTED}")
    return await static_tokens({TOKEN: ANA})(request)


def statements() -> list[Any]:
    """Statements with secrets as values, as labels, in what the database answers, and in what fails."""
    name = INSTITUTIONS.c.name
    return [
        select(INSTITUTIONS).where(name != f"value {PLANTED}"),
        select(name.label(f"label {PLANTED}")).where(name.like(f"%{PLANTED}%")),
        select(INSTITUTIONS).where(func.lower(name) == f"'); {PLANTED} --"),
        select(func.count()).select_from(INSTITUTIONS).where(name == PLANTED),
        select(MISSING),
        SLOW,
    ]


@pytest.mark.quick(1, "sqlite")
@pytest.mark.parametrize("sdk", SDKS)
async def test_no_export_tells_anything_of_a_request(institutions_url: str, sdk: str) -> None:
    planted = {**ROWS[0], "id": 1_000, "name": f"cell {PLANTED}"}
    async with opened(institutions_url) as engine, engine.begin() as connection:
        await connection.execute(insert(INSTITUTIONS).values(planted))
    secrets = {PLANTED, TOKEN}
    options = {"authenticate": authenticate, "signed_links": True, "pages": True, "store": FailingStore()}
    with exporting(of_process=True) as exports:
        async with live(
            institutions_url, sdk, query_timeout=timedelta(milliseconds=500), **options
        ) as server:
            for statement in statements():
                await _attack(server, statement, secrets)
            for arguments in ({"state": PLANTED}, {"state": 7}, {PLANTED: "NJ"}, {}):
                await server.call("institutions", arguments, traceparent=TRACEPARENT)
            await server.call("broken", {})
        spans = exports.all_spans if sdk == "official" else exports.spans
        text = json.dumps([json.loads(span.to_json()) for span in spans]) + exports.metrics_text()
        assert len(exports.spans) > 150 and len(exports.points()) > 40
        keys = {name for span in exports.spans for name in span.attributes or {}}
        keys |= {name for point in exports.points() for name in point.attributes}
    assert not {secret for secret in secrets if secret in text}
    for word in (
        "SELECT ",
        "institutions WHERE",
        "FROM",
        "link=",
        "127.0.0.1",
        "Traceback",
        "SecretError",
        ".sqlite",
    ):
        assert word not in text, word
    assert keys <= ATTRIBUTES.keys()
    assert {point.metric for point in exports.points()} <= {instrument.name for instrument in INSTRUMENTS}


async def _attack(server: Any, statement: Select[Any], secrets: set[str]) -> None:
    """Everything that a caller can send, for one result; what opens it is a secret too."""
    try:
        response = await server.dual.create_response(
            statement, name=f"Name {PLANTED}", principal=ANA, metadata={"note": PLANTED}, count="none"
        )
    except DualResponseError:
        return  # it can only be asked of the database
    own = response.resource_id
    link = (await server.dual.links.create(own, ANA)).partition("link=")[2]
    secrets |= {own, link, link[:24]}
    path = f"/resources/{own}"
    headers: list[dict[str, str]] = [
        {},
        AS_ANA,
        {**AS_ANA, "Traceparent": TRACEPARENT, "Tracestate": f"v={PLANTED}", "Baggage": f"user={PLANTED}"},
        {
            **AS_ANA,
            "User-Agent": PLANTED,
            "X-Request-Id": PLANTED,
            "Referer": f"http://{PLANTED}/",
            "X-User": PLANTED,
        },
        {"Cookie": f"dualsql_link={link}", "Accept": "text/html"},
        {"X-Fail": PLANTED},
        {"X-Refuse": PLANTED},
        {**AS_ANA, "Host": f"{PLANTED}.example"},
    ]
    addresses = [
        path, f"{path}?limit=5", f"{path}?link={link}&limit=1", f"{path}/rows?format=csv",
        f"{path}/rows?format={PLANTED}",
        f"{path}?sort={PLANTED}", f"{path}?cursor={PLANTED}", f"{path}/{PLANTED}", f"/resources/{PLANTED}",
        f"/resources/fail-{PLANTED}", f"{path}?count={PLANTED}", f"{path}/profile?columns={PLANTED}", f"/{own}",
        f"{path}/rows?link={link}", f"/resources//{own}",
    ]  # fmt: skip
    for header in headers:
        for address in addresses:
            await server.http.get(address, headers=header)
    await server.http.request(PLANTED.upper(), path, headers=AS_ANA)
    for body in (
        {"filters": [{"column": "name", "op": "eq", "value": PLANTED}]},
        {"filters": [{"column": PLANTED, "op": "eq", "value": 1}]},
        {"sql": f"SELECT * FROM result WHERE name = '{PLANTED}'"},
        {"sql": f"SELECT {PLANTED} FROM {PLANTED}"},
    ):
        await server.http.post(f"{path}/query", json=body, headers=AS_ANA)
    await server.http.post(path, content=f"{PLANTED}{{".encode(), headers=AS_ANA)


@pytest.mark.long
async def test_the_store_tells_nothing(institutions_url: str, store: SQLResourceStore) -> None:
    """Its statements have ids, owners and documents in them."""
    with exporting() as exports:
        options: dict[str, Any] = {"authenticate": authenticate, "signed_links": True, "quota_resources": 2}
        async with live(institutions_url, store=store, secrets=SECRETS, **options) as server:
            secrets = {PLANTED}
            for statement in statements()[:4]:
                await _attack(server, statement, secrets)
        text = exports.text()
        assert exports.value("dualsql.store.duration") > 50
    assert not {secret for secret in secrets if secret in text}
