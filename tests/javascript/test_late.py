"""Pages that take too long: the JavaScript client waits until the server has kept the rows."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from dualsql.settings import ALL_ACTIONS
from tests.client.deferrals import CASES, WAITED, Deferring
from tests.client.hosting import Host, listening_socket, origin_of, serving
from tests.javascript.running import node, run
from tests.kept.test_late_pages import SLOW_TO_SORT
from tests.kept.test_refresh import mounted
from tests.kept.test_results import ROWS, KeptServer, kept_server


@asynccontextmanager
async def _served(folder: Path, **options: Any) -> AsyncIterator[tuple[str, KeptServer]]:
    folder.mkdir()  # noqa: ASYNC240
    options = {"anonymous_actions": ALL_ACTIONS, "query_timeout": timedelta(seconds=1), **options}
    with listening_socket() as bound:
        async with kept_server(folder, **options) as kept, serving(mounted(kept.dual), bound):
            yield f"{origin_of(bound)}/resources", kept


@pytest.mark.long
async def test_the_client_waits_for_kept_rows(tmp_path: Path) -> None:
    async with (
        _served(tmp_path / "one") as (url, kept),
        _served(tmp_path / "two", keep_rows=10) as (small_url, small),
        Host().listening() as host,
    ):
        deferrals = [(case, Deferring(case)) for case in CASES]
        values = {
            "baseUrl": url,
            "smallUrl": small_url,
            "late": (await kept.make(None, **SLOW_TO_SORT)).resource_id,
            "early": (await kept.make(None, **SLOW_TO_SORT)).resource_id,
            "unkept": (await small.make(None, **SLOW_TO_SORT)).resource_id,
            "rows": ROWS,
            "deferrals": [{**case, "url": host.serve(answer)} for case, answer in deferrals],
        }
        await run(node(), "late.test.mjs", given=values)
        for case, answer in deferrals:
            assert answer.seen == (WAITED if case["isDeferred"] else WAITED[:1]), case["name"]
        assert (len(kept.files()), len(small.files())) == (2, 0)
