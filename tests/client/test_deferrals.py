"""A page that takes too long: the client waits where the server says that it keeps the rows."""

from __future__ import annotations

from typing import Any

import pytest

from dualsql_client import FetchError
from tests.client.conftest import Open
from tests.client.deferrals import CASES, ROWS, WAITED, Deferring
from tests.client.hosting import Host


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
async def test_the_client_waits_where_the_preference_was_applied(
    host: Host, open_at: Open, case: dict[str, Any]
) -> None:
    server = Deferring(case)
    parsed = open_at(host.serve(server), timeout=30)
    if case["isDeferred"]:
        assert (await parsed.fetch()).data == ROWS
        assert server.seen == WAITED
    else:
        with pytest.raises(FetchError, match="cannot be used"):
            await parsed.fetch()
        assert server.seen == WAITED[:1]
