"""ETags: of descriptions, and of rows where the operator says that data stands still."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import select
from starlette.datastructures import Headers

from dualsql.errors import ConfigurationError
from dualsql.http.conditional import is_current
from dualsql.resource import Principal
from dualsql.tenancy import RowFilter
from tests.http.application import INSTITUTIONS, Application, by_header, running


class TestDescriptions:
    async def test_reading_rows_or_asking_changes_nothing(self, application: Application) -> None:
        path = await application.create()
        etag = (await application.http.get(path)).headers["etag"]
        assert etag.startswith('W/"')
        await application.http.get(path, params={"limit": 1})
        described = await application.http.get(path)
        assert described.json()["access_count"] == 1 and described.headers["etag"] == etag

    async def test_what_is_current_is_not_sent(self, application: Application) -> None:
        path = await application.create()
        etag = (await application.http.get(path)).headers["etag"]
        again = await application.http.get(path, headers={"if-none-match": f'"other", {etag}'})
        assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", etag)

    async def test_pinning_is_seen(self, application: Application) -> None:
        path = await application.create()
        etag = (await application.http.get(path)).headers["etag"]
        await application.server.unchecked.pin(path.rpartition("/")[2])
        assert (await application.http.get(path, headers={"if-none-match": etag})).status_code == 200

    async def test_a_stranger_learns_nothing_by_it(self, institutions_url: str) -> None:
        async with running(institutions_url, authenticate=by_header) as application:
            path = await application.create(principal=Principal(id="ana"))
            headers = {"x-user": "eve", "if-none-match": "*"}
            assert (await application.http.get(path, headers=headers)).status_code == 404


class TestRows:
    async def test_data_that_may_move_has_none(self, application: Application) -> None:
        path = f"{await application.create()}/rows"
        answered = await application.http.get(path, headers={"if-none-match": "*"})
        assert answered.status_code == 200 and "etag" not in answered.headers

    async def test_data_that_stands_still_is_sent_once(self, institutions_url: str) -> None:
        async with running(institutions_url, snapshot_tags={"default": "2026-11"}) as application:
            path = f"{await application.create()}/rows"
            etag = (await application.http.get(path)).headers["etag"]
            again = await application.http.get(path, headers={"if-none-match": etag})
            assert (again.status_code, again.content) == (304, b"")
            assert again.headers["vary"] == "Accept, Accept-Encoding"

    async def test_whoever_would_see_something_else_has_another(self, institutions_url: str) -> None:
        async with running(institutions_url, snapshot_tags={"default": "2026-11"}) as application:
            path = f"{await application.create()}/rows"
            other = f"{await application.create(select(INSTITUTIONS).where(INSTITUTIONS.c.id > 1))}/rows"
            asked = [
                (path, ""),
                (other, ""),
                (path, "?columns=id"),
                (path, "?columns=name"),
                (path, "?sort=-id"),
                (path, "?limit=1"),
                (path, "?format=csv"),
                (path, "?format=csv&guard_formulas=true"),
                (path, "?big_integers=string"),
            ]
            tags = [(await application.http.get(where + query)).headers["etag"] for where, query in asked]
        assert len(set(tags)) == len(asked)

    async def test_so_does_whoever_sees_other_rows(self, institutions_url: str) -> None:
        rule = RowFilter(INSTITUTIONS, lambda principal: INSTITUTIONS.c.state == principal.tenant)
        options: dict[str, Any] = {"hooks": [rule], "authenticate": by_header}
        async with running(institutions_url, snapshot_tags={"default": "1"}, **options) as application:
            path = await application.create(principal=Principal(id="ana", tenant="NY"))
            # The same resource, opened to its reader alone: its tenant's value is in the tag.
            own = {"x-user": "ana", "x-tenant": "NY"}
            ours = (await application.http.get(f"{path}/rows", headers=own)).headers["etag"]
            other = await application.create(principal=Principal(id="ana", tenant="NJ"))
            theirs = {"x-user": "ana", "x-tenant": "NJ", "if-none-match": ours}
            assert (await application.http.get(f"{other}/rows", headers=theirs)).status_code == 200

    async def test_the_operator_may_say_that_it_moves_again(self, institutions_url: str) -> None:
        states: Iterator[str | None] = iter(["1", "1", "2", None])
        async with running(institutions_url, snapshot_tags={"default": lambda: next(states)}) as application:
            path = f"{await application.create()}/rows"
            tags = [(await application.http.get(path)).headers.get("etag") for _ in range(4)]
        assert tags[0] == tags[1] != tags[2] and tags[3] is None

    async def test_a_tag_of_no_source_is_a_mistake(self, institutions_url: str) -> None:
        with pytest.raises(ConfigurationError):
            async with running(institutions_url, snapshot_tags={"warehouse": "1"}):
                pass


@pytest.mark.parametrize(
    ("given", "known"),
    [
        (['W/"a"'], True),
        (['"a"'], True),
        (['"b", W/"a"'], True),
        (['"b"', '"a"'], True),
        (["*"], True),
        ([], False),
        (["a"], False),
        (['"A"'], False),
        (['W/"ab"'], False),
        (['"b,W/"'], False),
        (['"'], False),
    ],
)
def test_tags_are_compared_weakly(given: list[str], known: bool) -> None:
    headers = Headers(raw=[(b"if-none-match", value.encode()) for value in given])
    assert is_current(headers, 'W/"a"') is known
