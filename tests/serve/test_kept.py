"""`dualsql serve --keep`: whoever reaches a server without authentication may wait for a page that takes too long."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest

from dualsql.cli.checks import settings_of
from dualsql.cli.options import ServeOptions
from tests.serve.conftest import serving_process
from tests.serve.test_stopping import stored
from tests.waiting import until

SLOW_TO_SORT = """
SELECT one.id, (SELECT count(*) FROM parts AS other WHERE other.id <= one.id % 300) AS n
FROM parts AS one JOIN parts AS two ON two.id <= 20
"""
SORTED: dict[str, Any] = {"limit": 3, "sort": [{"field": "n", "order": "desc"}]}
AT_ONCE = {"prefer": "respond-async, wait=0"}


@pytest.mark.long
async def test_a_page_may_be_waited_for(shop: str, tmp_path: Path) -> None:
    arguments = ("--database", shop, "--all", "--keep", str(tmp_path / "kept"))
    async with serving_process(*arguments) as served, httpx.AsyncClient(timeout=60) as http:
        url = f"{served.origin}{await stored(served, SLOW_TO_SORT)}"
        live = (await http.post(url, json=SORTED)).json()
        late = await http.post(url, json=SORTED, headers=AT_ONCE)
        assert (late.status_code, late.headers["preference-applied"]) == (202, "respond-async")

        async def is_kept() -> bool:
            kept: dict[str, Any] = (await http.get(url)).json()["kept"]
            return kept["kept"] and "rows_so_far" not in kept

        await until(is_kept)
        assert (await http.post(url, json=SORTED)).json()["data"] == live["data"]


@pytest.mark.parametrize(
    "options", [ServeOptions(token="t" * 32), ServeOptions(authenticate="module:function")]
)
def test_an_anonymous_caller_of_a_server_that_others_reach_may_not(options: ServeOptions) -> None:
    """`authenticate` may let some call anonymously, from any machine."""
    assert "refresh" in settings_of(ServeOptions()).anonymous_actions
    assert "refresh" not in settings_of(options).anonymous_actions
