"""Signed links: what one opens, what it does not, how it ends; and that no model ever sees one."""

from __future__ import annotations

import asyncio
import json
import logging
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from time import thread_time
from typing import Any

import httpx
import pytest
from sqlalchemy import select

from dualsql.errors import BadParameterError, ConfigurationError, ResourceNotFoundError
from dualsql.freeze import Seal
from dualsql.links import MAXIMUM_LENGTH, read_token
from dualsql.resource import Principal, new_resource_id
from dualsql.results.access import seal_for
from dualsql.store import SQLResourceStore
from dualsql.tenancy import TenantFilter
from tests.http.application import INSTITUTIONS, Application, assert_private, problem_of
from tests.identity.conftest import SECRETS
from tests.identity.people import ANA, AS_ANA, AS_BOB, AS_EVE, BOB, Trail, people, same, several

ORIGIN = "http://127.0.0.1:8000"
MOMENT = timedelta(microseconds=1)


@pytest.fixture
async def linking(institutions_url: str) -> AsyncIterator[Application]:
    """A server that allows links."""
    async with people(institutions_url, signed_links=True, secrets=SECRETS) as application:
        yield application


async def link_to(
    application: Application, path: str, principal: Principal | None = ANA, **options: Any
) -> str:
    """A link as a path with its query."""
    url = await application.server.links.create(path.rpartition("/")[2], principal, **options)
    return url.removeprefix(ORIGIN)


async def statuses(http: httpx.AsyncClient, link: str) -> list[int]:
    """Metadata, a page, and a page by POST."""
    return [
        (await http.get(link)).status_code,
        (await http.get(f"{link}&limit=1")).status_code,
        (await http.post(link, json={"limit": 1})).status_code,
    ]


class TestReading:
    async def test_whoever_has_it_reads(self, linking: Application) -> None:
        link = await link_to(linking, await linking.create(principal=ANA))
        assert await statuses(linking.http, link) == [200, 200, 200]
        page = await linking.http.get(f"{link}&limit=2&offset=1&sort=-id")
        assert [row["id"] for row in page.json()["data"]] == [59, 58]
        assert_private(page)

    async def test_it_reads_as_the_one_it_was_made_for(self, institutions_url: str) -> None:
        """Hooks narrow what it shows to its maker, whoever carries it."""

        states = {ANA: "NJ", BOB: "NY"}
        rule = TenantFilter(column="state", value=lambda principal: states[principal])
        async with people(institutions_url, signed_links=True, hooks=[rule]) as application:
            link = await link_to(application, await application.create(principal=ANA))
            for headers in ({}, AS_BOB, AS_EVE):
                page = await application.http.get(f"{link}&limit=60", headers=headers)
                assert {row["state"] for row in page.json()["data"]} == {"NJ"}

    async def test_one_without_a_principal_reads_what_nobody_owns(self, linking: Application) -> None:
        link = await link_to(linking, await linking.create(), None)
        assert await statuses(linking.http, link) == [200, 200, 200]

    async def test_only_reads(self, linking: Application) -> None:
        link = await link_to(linking, await linking.create(principal=ANA))
        for method in ("PUT", "DELETE"):
            problem = problem_of(await linking.http.request(method, link), 400)
            assert "link=" not in json.dumps(problem)
            problem_of(await linking.http.request(method, link, headers=AS_ANA), 400)
        assert await statuses(linking.http, link) == [200, 200, 200]

    async def test_it_lists_nothing(self, linking: Application) -> None:
        link = await link_to(linking, await linking.create(principal=ANA))
        problem_of(await linking.http.get("/resources/?link=" + link.partition("=")[2]), 400)

    async def test_only_once(self, linking: Application) -> None:
        link = await link_to(linking, await linking.create(principal=ANA), single_use=True)
        assert (await linking.http.get(link)).status_code == 200  # metadata is no row
        assert (await linking.http.head(f"{link}&limit=1")).status_code == 200  # nor is a preview
        assert (await linking.http.get(f"{link}&limit=1")).status_code == 200
        assert await statuses(linking.http, link) == [404, 404, 404]

    @pytest.mark.quick(1, "sqlite")
    async def test_of_32_at_once_one_reads(
        self, institutions_url: str, make_store: Callable[[], SQLResourceStore]
    ) -> None:
        async with several(
            2, institutions_url, store=make_store, secrets=SECRETS, signed_links=True
        ) as servers:
            path = await servers[0].create(principal=ANA)
            link = await link_to(servers[0], path, single_use=True)
            answers = await asyncio.gather(
                *(servers[number % 2].http.get(f"{link}&limit=1") for number in range(32))
            )
            assert sorted(answer.status_code for answer in answers) == [200] + [404] * 31


class TestEnding:
    async def test_what_it_was_exchanged_for_ends_with_it(self, linking: Application) -> None:
        path = await linking.create(principal=ANA)
        link = await link_to(linking, path, single_use=True)
        opened = await linking.server.links.exchange(path.rpartition("/")[2], link.partition("=")[2])
        assert (await linking.http.get(f"{path}?link={opened.token}&limit=1")).status_code == 200
        assert await linking.server.links.revoke(ORIGIN + link)
        assert (await linking.http.get(f"{path}?link={opened.token}&limit=1")).status_code == 404

    async def test_it_expires(self, linking: Application) -> None:
        path = await linking.create(principal=ANA)
        link = await link_to(linking, path, expires_in=MOMENT)
        assert await statuses(linking.http, link) == [404, 404, 404]
        assert (await linking.http.get(path, headers=AS_ANA)).status_code == 200

    async def test_it_is_revoked(self, linking: Application) -> None:
        path = await linking.create(principal=ANA)
        link, other = [await link_to(linking, path) for _ in range(2)]
        assert await linking.server.links.revoke(ORIGIN + link)
        assert await statuses(linking.http, link) == [404, 404, 404]
        assert await statuses(linking.http, other) == [200, 200, 200]
        assert not await linking.server.links.revoke(ORIGIN + link)

    async def test_all_of_a_resource_are_revoked(self, linking: Application) -> None:
        path, another = await linking.create(principal=ANA), await linking.create(principal=ANA)
        links = [await link_to(linking, path) for _ in range(3)]
        kept = await link_to(linking, another)
        resource_id = path.rpartition("/")[2]
        for stranger in (BOB, None):
            with pytest.raises(ResourceNotFoundError):
                await linking.server.links.revoke_all(resource_id, stranger)
        assert await linking.server.links.revoke_all(resource_id, ANA) == 3
        for link in links:
            assert await statuses(linking.http, link) == [404, 404, 404]
        assert await statuses(linking.http, kept) == [200, 200, 200]

    async def test_it_ends_with_its_resource(self, linking: Application) -> None:
        path = await linking.create(principal=ANA)
        link = await link_to(linking, path)
        assert (await linking.http.delete(path, headers=AS_ANA)).status_code == 204
        assert await statuses(linking.http, link) == [404, 404, 404]

    async def test_revoking_what_is_no_link(self, linking: Application) -> None:
        for text in ("", "x", "http://127.0.0.1:8000/resources/a?link=b.c"):
            assert not await linking.server.links.revoke(text)

    async def test_it_is_off_unless_it_is_on(self, institutions_url: str) -> None:
        async with people(institutions_url, signed_links=True, secrets=SECRETS) as on:
            link = await link_to(on, await on.create(principal=ANA))
            async with people(institutions_url, secrets=SECRETS, store=on.server.store) as off:
                with pytest.raises(ConfigurationError):
                    await link_to(off, await off.create(principal=ANA))
                for answer in (await off.http.get(link), await off.http.get(f"{link}&limit=1")):
                    assert answer.status_code in {400, 404}


class TestForging:
    async def test_a_link_opens_its_own_resource(self, linking: Application) -> None:
        token = (await link_to(linking, await linking.create(principal=ANA))).partition("=")[2]
        for path in (
            await linking.create(principal=ANA),
            await linking.create(principal=BOB),
            await linking.create(),
        ):
            assert await statuses(linking.http, f"{path}?link={token}") == [404, 404, 404]

    async def test_every_changed_bit_closes_it(self, linking: Application) -> None:
        path = await linking.create(principal=ANA)
        token = (await link_to(linking, path)).partition("=")[2]
        body, _, mac = token.partition(".")
        document = json.loads(_decoded(body))
        forgeries = [_encoded(json.dumps({**document, **change}).encode()) for change in CHANGES]
        flipped = [byte ^ 1 if at == 9 else byte for at, byte in enumerate(_decoded(body))]
        forgeries += [_encoded(bytes(flipped))]
        tokens = [f"{forgery}.{mac}" for forgery in forgeries]
        other_mac = _encoded(bytes(32))
        tokens += [body, f"{body}.", f".{mac}", f"{body}.{mac[:-2]}", f"{body}.{other_mac}", f"{body}.{mac}."]
        tokens += ["", ".", "a" * 10_000, "%FF", "{}", f"{_encoded(b'{}')}.{_encoded(b'')}", "\u0430.\u0430"]
        for forged in tokens:
            answer = await linking.http.get(path, params={"link": forged})
            assert answer.status_code in {404, 414}, forged

    async def test_a_link_of_other_secrets_is_none(self, linking: Application) -> None:
        path = await linking.create(principal=ANA)
        token = (await link_to(linking, path)).partition("=")[2]
        assert read_token(token, Seal(SECRETS)) is not None
        assert read_token(token, Seal(["another secret of more than thirty-two characters"])) is None

    async def test_the_signature_of_a_row_signs_no_link(self, linking: Application) -> None:
        """One secret signs both, each under its own label."""
        path = await linking.create(principal=ANA)
        resource = await linking.server.unchecked.get(path.rpartition("/")[2])
        assert resource is not None
        token = f"{_encoded(resource.document)}.{_encoded(resource.signature)}"
        assert read_token(token, seal_for(linking.server.store, SECRETS)) is None

    async def test_a_false_link_answers_like_an_unknown_resource(self, linking: Application) -> None:
        path = await linking.create(principal=ANA)
        good = (await link_to(linking, path)).partition("=")[2]
        unknown = await linking.http.get(f"/resources/{new_resource_id()}")
        spent = await link_to(linking, path, expires_in=MOMENT)
        for link in (
            f"{path}?link=x.y",
            f"{path}?link=",
            f"/resources/{new_resource_id()}?link={good}",
            spent,
        ):
            # Not even the right credential helps: a request is made by one of the two.
            for headers in ({}, AS_ANA):
                assert same([await linking.http.get(link, headers=headers)], [unknown])

    async def test_two_links_are_too_many(self, linking: Application) -> None:
        link = await link_to(linking, await linking.create(principal=ANA))
        problem_of(await linking.http.get(f"{link}&{link.partition('?')[2]}"), 400)

    def test_a_long_token_is_not_looked_at(self) -> None:
        assert read_token("a" * (MAXIMUM_LENGTH + 1), Seal(SECRETS)) is None
        token = "a" * LONG
        begun = thread_time()
        assert read_token(token, Seal(SECRETS)) is None
        assert thread_time() - begun < 0.005


LONG = 50_000_000
"""Characters, whose decoding takes more than 50 ms."""

CHANGES: list[dict[str, Any]] = [
    {"expires": 99_999_999_999.0},
    {"once": False, "x": 1},
    {"principal": ["bob", "acme"]},
    {"principal": None},
    {"formats": ["json", "csv"]},
    {"link": "other"},
]


class TestMaking:
    @pytest.mark.parametrize("stranger", [None, BOB, Principal(id="ana"), Principal(id="ana", tenant="evil")])
    async def test_only_of_what_one_may_read(self, linking: Application, stranger: Principal | None) -> None:
        path = await linking.create(principal=ANA)
        with pytest.raises(ResourceNotFoundError):
            await link_to(linking, path, stranger)

    @pytest.mark.parametrize(
        "options",
        [
            {"expires_in": timedelta(0)},
            {"expires_in": timedelta(seconds=-1)},
            {"expires_in": timedelta(days=8)},
            {"formats": []},
            {"formats": ["exe"]},
            {"formats": ["json", "ods"]},
        ],
    )
    async def test_within_bounds(self, linking: Application, options: dict[str, Any]) -> None:
        path = await linking.create(principal=ANA)
        with pytest.raises(BadParameterError):
            await link_to(linking, path, **options)

    async def test_as_long_as_the_operator_allows(self, institutions_url: str) -> None:
        hour = timedelta(hours=1)
        async with people(
            institutions_url, signed_links=True, secrets=SECRETS, maximum_link_lifetime=hour
        ) as application:
            path = await application.create(principal=ANA)
            assert await statuses(application.http, await link_to(application, path, expires_in=hour)) == [
                200,
                200,
                200,
            ]
            with pytest.raises(BadParameterError, match="lifetime") as refusal:
                await link_to(application, path, expires_in=hour + MOMENT)
            assert refusal.value.hint == "It must be at most 1:00:00."


async def test_no_model_and_no_log_ever_sees_a_link(
    institutions_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    logging.getLogger("httpx").setLevel(logging.WARNING)  # the caller's own log, not ours
    trail = Trail()
    async with people(institutions_url, signed_links=True, secrets=SECRETS, audit=trail) as application:
        response = await application.server.create_response(
            select(INSTITUTIONS), name="Institutions", principal=ANA
        )
        path = f"/resources/{response.resource_id}"
        link = await link_to(application, path)
        token = link.partition("=")[2]
        answers = [
            await application.http.get(path, headers=AS_ANA),
            await application.http.get(link),
            await application.http.get(f"{link}&limit=1"),
            await application.http.get(f"{link}&limt=1"),
            await application.http.put(link),
            await application.http.get("/resources/", headers=AS_ANA),
            await application.http.get(f"/resources/unknown?link={token}"),
        ]
        await application.server.links.revoke(ORIGIN + link)
        shown = [
            *(answer.text for answer in answers),
            *(str(answer.headers) for answer in answers),
            json.dumps(response.to_mcp_tool_result()),
            repr(response.to_call_tool_result()),
            repr(response),
            repr(application.server),
            repr(await application.server.unchecked.get(response.resource_id)),
            repr(read_token(token, Seal(SECRETS))),
            repr(list(trail)),
            caplog.text,
        ]
    mac = token.partition(".")[2]
    assert not [text for text in shown if token in text or mac in text]


def _encoded(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()


def _decoded(text: str) -> bytes:
    return urlsafe_b64decode(text + "=" * (-len(text) % 4))
