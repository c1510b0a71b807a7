"""What a stranger learns: the answer, the headers and the work of an unknown id, whatever is really there."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest

from dualsql import DualResponseError, DualResponseServer, Extension, Kept, LocalResultStorage, Profiles
from dualsql.errors import ForbiddenError
from dualsql.resource import Principal, Resource, new_resource_id
from dualsql.results.access import require_signature
from dualsql.settings import Action
from dualsql.store import MemoryStore, SQLResourceStore
from dualsql.store.protocol import Requester
from dualsql.store.rows import from_row
from tests.http.application import Application, by_header, problem_of, running
from tests.identity.conftest import SECRETS
from tests.identity.people import ANA, AS_ANA, AS_BOB, AS_EVE, BOB, EVE, STRANGERS, every_verb, people, same

MOMENT = timedelta(microseconds=1)


class Counting:
    """Counts what a store is asked, by method."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self.asked: list[str] = []

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._store, name)

        async def asking(*arguments: Any, **options: Any) -> Any:
            self.asked.append(name)
            return await method(*arguments, **options)

        return asking


async def _resources(application: Application) -> dict[str, str]:
    """A resource of every kind that a stranger might probe for."""
    return {
        "unknown": f"/resources/{new_resource_id()}",
        "of somebody": await application.create(principal=ANA),
        "of somebody without a tenant": await application.create(principal=Principal(id="ana")),
        "expired": await application.create(principal=ANA, expiration=MOMENT),
        "never an id": "/resources/%00",
    }


class UnfilteredStore(MemoryStore):
    """A store that gives each row to whoever asks, as one of somebody else's may."""

    async def get(self, resource_id: str, viewer: Requester | None = None) -> Resource | None:
        return await super().get(resource_id)


@pytest.mark.parametrize("store", [MemoryStore, UnfilteredStore])
async def test_a_stranger_gets_the_very_answer_of_an_unknown_id(
    institutions_url: str, store: type[MemoryStore]
) -> None:
    async with people(institutions_url, store=store()) as application:
        for path in (await _resources(application)).values():
            for headers in STRANGERS:
                expected = await every_verb(
                    application.http, f"/resources/{new_resource_id()}", headers=headers
                )
                answers = await every_verb(application.http, path, headers=headers)
                assert same(answers, expected), path
                assert all(problem_of(answer, 404) for answer in answers)


@pytest.mark.parametrize("store", [MemoryStore, UnfilteredStore])
async def test_what_expired_long_ago_was_never_there(institutions_url: str, store: type[MemoryStore]) -> None:
    async with people(institutions_url, store=store(), gone_retention=timedelta()) as application:
        path = await application.create(principal=ANA, expiration=MOMENT)
        unknown = await every_verb(application.http, f"/resources/{new_resource_id()}", headers=AS_ANA)
        assert same(await every_verb(application.http, path, headers=AS_ANA), unknown)
    async with people(institutions_url, store=store()) as application:
        path = await application.create(principal=ANA, expiration=MOMENT)
        answers = await every_verb(application.http, path, headers=AS_ANA)
        assert [answer.status_code for answer in answers] == [410] * 5


@pytest.mark.quick(4)
@pytest.mark.parametrize(
    "caller",
    [
        {"X-User": "ana"},
        {"X-User": "ana", "X-Tenant": "Acme"},
        {"X-User": "Ana", "X-Tenant": "acme"},
        {"X-User": "ana ", "X-Tenant": "acme"},
        {"X-User": "acme", "X-Tenant": "ana"},
        {"X-User": "\u0430na", "X-Tenant": "acme"},  # the first letter is Cyrillic
        {"X-User": "an\u0101", "X-Tenant": "acme"},
        {"X-User": "\uff41na", "X-Tenant": "acme"},  # full width, equal after NFKC
    ],
)
async def test_names_are_compared_character_by_character(
    institutions_url: str, caller: dict[str, str]
) -> None:
    async with running(institutions_url, authenticate=by_header) as application:
        path = await application.create(principal=ANA)
        headers = {name: value.encode() for name, value in caller.items()}
        answers = await every_verb(application.http, path, headers=headers)
        assert [answer.status_code for answer in answers] == [404] * 5


async def test_no_tenant_is_not_the_tenant_of_nobody(institutions_url: str) -> None:
    async with running(institutions_url, authenticate=by_header) as application:
        free = await application.create(principal=Principal(id="ana"))
        assert (await application.http.get(free, headers={"X-User": "ana"})).status_code == 200
        problem_of(await application.http.get(free, headers={"X-User": "ana", "X-Tenant": "None"}), 404)
        # An empty header names nobody: whoever maps it so is stopped before it can match a stored NULL.
        problem_of(await application.http.get(free, headers={"X-User": "ana", "X-Tenant": ""}), 500)


@contextmanager
def counted(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """What is done with a row that was read, as it happens; each step is really taken."""
    work: list[str] = []

    def signature(*arguments: Any) -> None:
        work.append("signature")
        require_signature(*arguments)

    def row(*arguments: Any) -> Resource:
        work.append("row")
        return from_row(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr("dualsql.results.access.require_signature", signature)
        patch.setattr("dualsql.store.sql.from_row", row)
        patch.setattr("dualsql.store.rows.from_row", row)
        yield work


async def test_nothing_of_a_foreign_resource_is_read(
    institutions_url: str, make_store: Callable[[], SQLResourceStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    for kept in (MemoryStore(), make_store()):
        store: Any = Counting(kept)
        async with people(institutions_url, store=store, secrets=SECRETS) as application:
            for name, path in (await _resources(application)).items():
                for headers in STRANGERS:
                    store.asked.clear()
                    with counted(monkeypatch) as work:
                        await application.http.get(path, headers=headers)
                    assert (store.asked, work) == (["get"], []), name
            # The owner's own request does cost something, or this counts nothing.
            with counted(monkeypatch) as work:
                await application.http.get(await application.create(principal=ANA), headers=AS_ANA)
            assert sorted(set(work)) == ["row", "signature"]


class TestAuthorize:
    """The operator's own say, once a resource is found to be the caller's."""

    async def test_it_can_deny_and_not_grant(self, institutions_url: str) -> None:
        async def yes(principal: Principal | None, resource: Resource, action: Action) -> bool:
            return True

        allowed: frozenset[Action] = frozenset({"read"})
        async with people(institutions_url, authorize=yes, anonymous_actions=allowed) as application:
            path = await application.create(principal=ANA)
            problem_of(await application.http.get(path, headers=AS_BOB), 404)
            anonymous = await application.create()
            problem_of(await application.http.put(anonymous), 403)

    async def test_who_may_not_read_sees_nothing(self, institutions_url: str) -> None:
        async def no(principal: Principal | None, resource: Resource, action: Action) -> bool:
            return action != "read"

        async with people(institutions_url, authorize=no) as application:
            for expiration in (None, MOMENT):
                path = await application.create(principal=ANA, expiration=expiration)
                expected = await every_verb(application.http, "/resources/unknown", headers=AS_ANA)
                assert same(await every_verb(application.http, path, headers=AS_ANA), expected)

    async def test_who_may_read_is_told_what_else_it_may_not(self, institutions_url: str) -> None:
        async def reading(principal: Principal | None, resource: Resource, action: Action) -> bool:
            return action == "read"

        async with people(institutions_url, authorize=reading) as application:
            path = await application.create(principal=ANA)
            answers = await every_verb(application.http, path, headers=AS_ANA)
            assert [answer.status_code for answer in answers] == [200, 200, 200, 403, 403]
            assert problem_of(answers[3], 403)["code"] == "FORBIDDEN"

    @pytest.mark.long
    async def test_it_is_not_asked_of_what_is_not_there_or_foreign(self, institutions_url: str) -> None:
        requests: list[tuple[Any, ...]] = []

        async def note(principal: Principal | None, resource: Resource, action: Action) -> bool:
            requests.append((principal, resource.id, action))
            return True

        async with people(institutions_url, authorize=note) as application:
            path = await application.create(principal=ANA)
            for headers in STRANGERS:
                await every_verb(application.http, path, headers=headers)
                await every_verb(application.http, "/resources/unknown", headers=headers)
            assert requests == []
            await application.http.delete(path, headers=AS_ANA)
            assert requests == [(ANA, path.rpartition("/")[2], action) for action in ("read", "delete")]

    async def test_when_it_breaks_nothing_opens(self, institutions_url: str) -> None:
        async def broken(principal: Principal | None, resource: Resource, action: Action) -> bool:
            raise ConnectionError("ldap://admin:hunter2@directory")

        async with people(institutions_url, authorize=broken) as application:
            path = await application.create(principal=ANA)
            for answer in await every_verb(application.http, path, headers=AS_ANA):
                assert problem_of(answer, 500) and "hunter2" not in answer.text


async def test_the_operator_decides_what_is_done_with_what_nobody_owns(institutions_url: str) -> None:
    """Reading, pinning, renewing and deleting are alike unless the operator says otherwise."""
    async with people(institutions_url) as application:
        for headers in STRANGERS:
            path = await application.create()
            assert (await application.http.put(path, headers=headers)).json()["status"] == "pinned"
            assert (await application.http.delete(f"{path}/pin", headers=headers)).json()["status"] == "ready"
            assert (await application.http.delete(path, headers=headers)).status_code == 204
    reading: frozenset[Action] = frozenset({"read"})
    async with people(institutions_url, anonymous_actions=reading) as application:
        path = await application.create(expiration=timedelta(hours=24))
        for headers in STRANGERS:
            assert (await application.http.get(path, headers=headers)).status_code == 200
            for verb, below in (("PUT", ""), ("PUT", "/pin"), ("DELETE", "/pin"), ("DELETE", "")):
                refused = problem_of(await application.http.request(verb, path + below, headers=headers), 403)
                assert (refused["code"], refused["details"]) == ("FORBIDDEN", {"allowed": ["read"]})
                assert refused["hint"].startswith("Allowed: read.")
        resource = await application.server.unchecked.get(path.rpartition("/")[2])
        assert resource is not None and resource.expires_at is not None
        assert resource.expires_at - resource.created_at == application.server.settings.maximum_lifetime


SHORT_METHODS: dict[str, tuple[str, str]] = {
    "read_page": ("GET", "?limit=1"),
    "stream": ("GET", "/rows"),
    "describe": ("GET", ""),
    "profiles.profile": ("GET", "/profile"),
    "kept.refresh": ("POST", "/refresh"),
}
"""Methods of a server and of its features that take an id and a principal, each with the request that does the same."""


async def refusal_of(call: Awaitable[object]) -> tuple[str, str]:
    """The code and the message that a call is refused with."""
    with pytest.raises(DualResponseError) as refused:
        await call
    return refused.value.code, refused.value.message


@pytest.mark.parametrize("name", SHORT_METHODS)
async def test_a_method_refuses_as_its_route_does(institutions_url: str, name: str, tmp_path: Path) -> None:
    async with people(institutions_url, storage=LocalResultStorage(tmp_path / "kept")) as application:
        server, (verb, below) = application.server, SHORT_METHODS[name]
        method = attrgetter(name)(server)
        paths = await _resources(application)
        paths["anybody's"] = await application.create()
        for path in paths.values():
            resource_id = path.rpartition("/")[2]
            for headers, stranger in ((AS_BOB, BOB), (AS_EVE, EVE), ({}, None)):
                is_open = path == paths["anybody's"] and name != "kept.refresh"
                if is_open:
                    continue
                answer = await application.http.request(verb, path + below, headers=headers)
                body = answer.json()
                assert await refusal_of(method(resource_id, stranger)) == (body["code"], body["message"])
        left = await server.unchecked.get(paths["of somebody"].rpartition("/")[2])
        assert left is not None
        assert not left.is_pinned
        await method(left.id, ANA)  # whose it is


async def test_the_server_s_own_code_pins_whatever_callers_may_do(institutions_url: str) -> None:
    reading: frozenset[Action] = frozenset({"read"})
    async with people(institutions_url, anonymous_actions=reading, quota_resources=1) as application:
        server = application.server
        for owner in (None, None, ANA):
            resource_id = (await application.create(principal=owner)).rpartition("/")[2]
            if owner is None:
                with pytest.raises(ForbiddenError):
                    await server.pin_resource(resource_id)
            else:
                assert await server.pin_resource(resource_id) is False
            assert await server.unchecked.pin(resource_id) is True
            resource = await server.unchecked.get(resource_id)
            assert resource is not None
            assert (resource.is_pinned, resource.pinned_by) == (True, None)
        assert await server.unchecked.pin("unknown") is False


async def test_the_names_of_the_specification_check_rights_too(institutions_url: str) -> None:
    async with people(institutions_url) as application:
        server = application.server
        resource_id = (await application.create(principal=ANA)).rpartition("/")[2]
        for stranger in (BOB, EVE, None):
            assert await server.get_resource(resource_id, stranger) is None
            assert await server.pin_resource(resource_id, stranger) is False
            assert await server.delete_resource(resource_id, stranger) is False
        resource = await server.get_resource(resource_id, ANA)
        assert resource is not None
        assert not resource.is_pinned
        assert await server.pin_resource(resource_id, ANA) is True
        assert await server.delete_resource(resource_id, ANA) is True
        assert await server.get_resource(resource_id, ANA) is None


def test_every_method_that_takes_an_id_or_a_resource_checks_or_says_that_it_does_not() -> None:
    """A new method of the server belongs into the tests above, or to `UncheckedResults`, which says what it skips."""
    kinds: dict[str, type] = {"": DualResponseServer, "profiles.": Profiles, "kept.": Kept}
    taking = {
        f"{prefix}{name}"
        for prefix, kind in kinds.items()
        for name, method in inspect.getmembers(kind, inspect.isfunction)
        if not name.startswith("_")
        and not hasattr(Extension, name)  # what a server calls
        and {"resource_id", "resource"} & set(inspect.signature(method).parameters)
    }
    checked = {*SHORT_METHODS, "open_resource", "get_resource", "pin_resource", "delete_resource"}
    assert taking - checked == set()
    assert {*SHORT_METHODS} <= taking
