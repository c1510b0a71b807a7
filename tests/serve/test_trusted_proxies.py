"""`dualsql serve` believes what a proxy says of the caller's address only if it was told to."""

from __future__ import annotations

import httpx
import pytest

from dualsql.errors import ConfigurationError
from dualsql.serve.sockets import proxies_in
from tests.serve.conftest import TOKEN, calling, serving_process, shop

__all__ = ["shop"]

HEADERS = ["X-Forwarded-For", "Forwarded", "X-Real-IP", "True-Client-IP"]
LIMITED = ("--address-rate-limits", "ask=1/2")


async def statuses(shop: str, *options: str, **variables: str) -> list[int]:
    """Of pages that one caller asks for, each of which says that it comes from elsewhere."""
    bearer = {"Authorization": f"Bearer {TOKEN}"}
    served = serving_process(
        "--database", shop, "--all", *LIMITED, *options, DUALSQL_TOKEN=TOKEN, **variables
    )
    async with served as serving:
        async with calling(serving.origin, bearer) as model:
            result = await model.call_tool("execute_query", {"query": "SELECT * FROM makers"})
        url = result.structured_content["resource"]["url"]
        async with httpx.AsyncClient(headers=bearer) as http:
            found = []
            for number in range(4):
                forged = dict.fromkeys(HEADERS, f"203.0.113.{number}")
                found.append((await http.get(url, params={"limit": number + 1}, headers=forged)).status_code)
    return found


@pytest.mark.quick(1)
@pytest.mark.parametrize("variables", [{}, {"FORWARDED_ALLOW_IPS": "*"}], ids=["plain", "uvicorn's variable"])
async def test_no_peer_is_believed_unless_named(shop: str, variables: dict[str, str]) -> None:
    assert await statuses(shop, **variables) == [200, 200, 429, 429]


@pytest.mark.long
@pytest.mark.parametrize("named", ["127.0.0.1", "10.1.2.3, 127.0.0.0/8"])
async def test_a_proxy_that_is_named_is_believed(shop: str, named: str) -> None:
    assert await statuses(shop, "--trusted-proxies", named) == [200] * 4


@pytest.mark.long
async def test_another_proxy_is_not(shop: str) -> None:
    assert await statuses(shop, "--trusted-proxies", "10.1.2.3,::1") == [200, 200, 429, 429]


WRONG = ["*", "localhost", "127.0.0.1/8", "0.0.0.0/0", "::/0", "10.0.0.1;10.0.0.2", "300.1.1.1"]


@pytest.mark.parametrize("wrong", WRONG)
def test_what_is_no_proxy_is_refused(wrong: str) -> None:
    with pytest.raises(ConfigurationError, match="--trusted-proxies"):
        proxies_in(f"10.0.0.1,{wrong}")
