"""What is remembered of each deed, by whom, in which order; never a value, never a secret, never a gap."""

from __future__ import annotations

import logging
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import select

from dualsql.errors import ResourceNotFoundError, StorageError
from dualsql.identity import AuditEvent, log_audit
from dualsql.resource import Principal
from tests.http.application import INSTITUTIONS, ROWS, problem_of
from tests.identity.people import ANA, AS_ANA, AS_BOB, BOB, Trail, every_verb, people


async def test_every_deed_is_remembered_in_order(institutions_url: str) -> None:
    trail = Trail()
    async with people(institutions_url, audit=trail) as application:
        path = await application.create(principal=ANA, sample_size=7)
        await every_verb(application.http, path, headers=AS_ANA)
        await application.http.get("/resources/", headers=AS_ANA)
        assert trail.actions == ["create", "describe", "read", "read", "pin", "delete", "list"]
        assert {event.principal for event in trail} == {ANA}
        assert {event.resource_id for event in trail[:-1]} == {path.rpartition("/")[2]}
        assert [event.rows for event in trail] == [7, None, 1, 1, None, None, 0]
        assert {event.source for event in trail[:4]} == {"default"}
        assert all(datetime.now(UTC) - event.at < timedelta(minutes=1) for event in trail)


async def test_an_event_cannot_be_changed() -> None:
    event = AuditEvent(action="read", principal=ANA)
    with pytest.raises(AttributeError):
        event.principal = BOB  # type: ignore[misc]


async def test_refusals_are_told_apart_here_and_nowhere_else(institutions_url: str) -> None:
    trail = Trail()

    async def denies(principal: Principal | None, resource: Any, action: str) -> bool:
        return resource.name != "Denied" and action != "delete"

    options = {"audit": trail, "authorize": denies, "signed_links": True, "anonymous_actions": {"read"}}
    async with people(institutions_url, **options) as application:
        mine = await application.create(principal=ANA)
        dead = await application.create(principal=ANA, expiration=timedelta(microseconds=1))
        denied = await application.server.create_response(select(INSTITUTIONS), name="Denied", principal=ANA)
        free = await application.create()
        trail.clear()
        await application.http.get("/resources/unknown", headers=AS_ANA)
        await application.http.get(mine, headers=AS_BOB)
        await application.http.get(mine)
        await application.http.get(dead, headers=AS_ANA)
        await application.http.get(f"/resources/{denied.resource_id}", headers=AS_ANA)
        await application.http.delete(mine, headers=AS_ANA)
        await application.http.put(free)
        await application.http.get(mine, headers={"Authorization": "Bearer guess"})
        await application.http.get(f"{mine}?link=x.y")
        assert trail.actions == ["refuse"] * 9
        assert [(event.code, event.reason) for event in trail] == [
            ("RESOURCE_NOT_FOUND", "unknown"),
            ("RESOURCE_NOT_FOUND", "unknown"),
            ("RESOURCE_NOT_FOUND", "unknown"),
            ("RESOURCE_EXPIRED", "expired"),
            ("RESOURCE_NOT_FOUND", "denied"),
            ("FORBIDDEN", "denied"),
            ("FORBIDDEN", "not anonymously"),
            ("UNAUTHENTICATED", "not authenticated"),
            ("RESOURCE_NOT_FOUND", "not a link"),
        ]
        assert [event.principal for event in trail][:3] == [ANA, BOB, None]


async def test_whatever_is_asked_for_stays_one_short_line(
    institutions_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A tool hands on what its model wrote."""
    caplog.set_level(logging.INFO, logger="dualsql.audit")
    trail = Trail()
    for sink in (trail, log_audit):
        async with people(institutions_url, audit=sink) as application:
            with pytest.raises(ResourceNotFoundError):
                await application.server.open_resource("a\nb\u2028" + "c" * 100_000, ANA, "read")
    assert [len(str(event.resource_id)) for event in trail] == [64]
    [line] = [record.getMessage() for record in caplog.records]
    assert len(line.splitlines()) == 1 and len(line) < 300


async def test_links_are_remembered_by_their_name(institutions_url: str) -> None:
    trail = Trail()
    async with people(institutions_url, audit=trail, signed_links=True) as application:
        path = await application.create(principal=ANA)
        link = await application.server.links.create(path.rpartition("/")[2], ANA, single_use=True)
        trail.clear()
        for _ in range(2):
            await application.http.get(f"{link}&limit=1")
        another = await application.server.links.create(path.rpartition("/")[2], ANA)
        await application.server.links.revoke(another)
        assert trail.actions == ["follow", "read", "refuse", "link", "revoke"]
        follow, read, refuse, made, revoked = trail
        assert follow.principal == read.principal == ANA
        assert follow.link_id == refuse.link_id != made.link_id == revoked.link_id
        assert (read.rows, refuse.reason) == (1, "link ended")


async def test_what_makes_room_is_remembered(institutions_url: str) -> None:
    trail = Trail()
    async with people(institutions_url, audit=trail, quota_resources=1) as application:
        first, second = [await application.create(principal=ANA) for _ in range(2)]
        assert [(event.action, event.resource_id) for event in trail] == [
            ("create", first.rpartition("/")[2]),
            ("evict", first.rpartition("/")[2]),
            ("create", second.rpartition("/")[2]),
        ]


async def test_no_value_is_remembered(institutions_url: str) -> None:
    trail = Trail()
    async with people(institutions_url, audit=trail) as application:
        path = await application.create(principal=ANA, metadata={"asked": "hunter2"})
        await every_verb(application.http, path, headers=AS_ANA)
    text = repr(list(trail))
    assert "hunter2" not in text and "token-of-ana" not in text
    assert not [row["name"] for row in ROWS if row["name"] in text]


class Failing(Trail):
    """A sink that breaks on one action."""

    def __init__(self, action: str) -> None:
        super().__init__()
        self.action = action

    def __call__(self, event: AuditEvent) -> None:
        super().__call__(event)
        if event.action == self.action:
            raise ConnectionError("https://admin:hunter2@audit.example.com")


class TestAFailingSink:
    """What cannot be recorded is not done."""

    @pytest.mark.quick(2)
    @pytest.mark.parametrize(
        ("action", "verb"), [("describe", 0), ("read", 1), ("read", 2), ("pin", 3), ("delete", 4)]
    )
    async def test_stops_the_request(self, institutions_url: str, action: str, verb: int) -> None:
        async with people(institutions_url, audit=Failing(action)) as application:
            path = await application.create(principal=ANA)
            answers = await every_verb(application.http, path, headers=AS_ANA)
            assert problem_of(answers[verb], 503)["code"] == "STORAGE_ERROR"
            assert "hunter2" not in answers[verb].text
            resource = await application.server.unchecked.get(path.rpartition("/")[2])
            assert (resource is None) is (action != "delete")
            if resource is not None:
                assert resource.is_pinned

    async def test_keeps_nothing(self, institutions_url: str) -> None:
        trail = Failing("create")
        async with people(institutions_url, audit=trail) as application:
            with pytest.raises(StorageError):
                await application.create(principal=ANA)
            resource_id = trail[0].resource_id
            assert resource_id is not None
            assert await application.server.unchecked.get(resource_id) is None

    async def test_evicts_nothing(self, institutions_url: str) -> None:
        async with people(institutions_url, audit=Failing("evict"), quota_resources=1) as application:
            path = await application.create(principal=ANA)
            with pytest.raises(StorageError):
                await application.create(principal=ANA)
            assert (await application.http.get(path, headers=AS_ANA)).status_code == 200

    async def test_tells_a_stranger_and_a_probe_the_same(self, institutions_url: str) -> None:
        async with people(institutions_url, audit=Failing("refuse")) as application:
            path = await application.create(principal=ANA)
            for url in (path, "/resources/unknown"):
                assert problem_of(await application.http.get(url), 503)["code"] == "STORAGE_ERROR"


async def test_a_sink_may_be_a_coroutine_function(institutions_url: str) -> None:
    trail = Trail()

    async def sink(event: AuditEvent) -> None:
        trail.append(event)

    async with people(institutions_url, audit=sink) as application:
        await application.create(principal=ANA)
    assert trail.actions == ["create"]


async def test_the_ready_made_sink_logs_no_whole_id(
    institutions_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="dualsql.audit")
    async with people(institutions_url, audit=log_audit) as application:
        path = await application.create(principal=Principal(id="ana\nforged line", tenant="acme"))
        await application.http.get(path, headers=AS_BOB)
    assert path.rpartition("/")[2] not in caplog.text
    assert [record.getMessage().split()[0] for record in caplog.records] == ["create", "refuse"]
    assert all("\n" not in record.getMessage() for record in caplog.records)
