"""Rate limits of principals and addresses, over REST and MCP; a flood of callers neither fills memory nor lifts one."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from dualsql.databases.slots import network_of
from dualsql.errors import ConfigurationError, RateLimitedError
from dualsql.rates import MOST_BUCKETS, Buckets, Rate, RateLimiter, RateLimits
from dualsql.resource import Principal
from tests.http.application import ALL, Application, problem_of, running
from tests.http.test_request_log import calling
from tests.identity.people import ANA, AS_ANA, AS_BOB, people

TWICE = Rate(per_minute=1, burst=2)


class Clock:
    def __init__(self) -> None:
        self.now = 1e9

    def __call__(self) -> float:
        return self.now


def test_a_bucket_has_its_burst_and_then_its_rate() -> None:
    clock = Clock()
    buckets, rate = Buckets(clock=clock), Rate(per_minute=6, burst=3)
    assert [buckets.take(("a",), rate) for _ in range(3)] == [0, 0, 0]
    assert buckets.take(("a",), rate) == pytest.approx(10)
    assert buckets.take(("b",), rate) == 0
    clock.now += 9
    assert buckets.take(("a",), rate) == pytest.approx(1)
    served = 0
    for _ in range(600):
        clock.now += 1
        served += not buckets.take(("a",), rate)
    assert 60 <= served <= 61  # of ten minutes
    clock.now += 3600
    assert [bool(buckets.take(("a",), rate)) for _ in range(4)] == [False, False, False, True]


def test_a_flood_of_callers_is_bounded_and_lifts_no_limit() -> None:
    clock, rate = Clock(), TWICE
    buckets = Buckets(clock=clock)
    assert [buckets.take(("attacker",), rate) for _ in range(2)] == [0, 0]
    most = 0
    for number in range(3 * MOST_BUCKETS):
        clock.now += 1e-4
        buckets.take((str(number),), rate)
        most = max(most, len(buckets))
    assert most <= MOST_BUCKETS
    assert buckets.take(("attacker",), rate) > 0, "was forgotten"
    clock.now += 3600
    buckets.take(("x",), rate)
    clock.now += 3600
    for number in range(MOST_BUCKETS):
        buckets.take((f"later {number}",), rate)
    assert len(buckets) <= MOST_BUCKETS


def test_a_flood_of_addresses_forgets_no_principal() -> None:
    limiter = RateLimiter(RateLimits(principal={"ask": TWICE}, address={"ask": Rate(6)}))
    for number in range(2):
        limiter.require("ask", ANA, f"192.0.2.{number}")
    for number in range(2 * MOST_BUCKETS):
        limiter.require("ask", None, f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}")
    with pytest.raises(RateLimitedError):
        limiter.require("ask", ANA, "192.0.2.9")


def test_a_flood_of_links_forgets_no_principal() -> None:
    limiter = RateLimiter(RateLimits(principal={"ask": TWICE}))
    for _ in range(2):
        limiter.require("ask", ANA)
    for number in range(2 * MOST_BUCKETS):
        limiter.require("ask", ANA, link_id=str(number))
    with pytest.raises(RateLimitedError):
        limiter.require("ask", ANA)


def test_a_refused_request_takes_no_token() -> None:
    limiter = RateLimiter(RateLimits(principal={"ask": TWICE}, address={"ask": Rate(1, burst=1)}))
    limiter.require("ask", None, "10.0.0.1")
    for _ in range(5):
        with pytest.raises(RateLimitedError):
            limiter.require("ask", ANA, "10.0.0.1")
    for address in ("10.0.0.2", "10.0.0.3"):
        limiter.require("ask", ANA, address)


def test_principals_are_told_apart_as_they_are() -> None:
    """Nothing that a name or a tenant may hold makes two of them one, or one of them two."""
    limiter = RateLimiter(RateLimits(principal={"ask": Rate(1, burst=1)}))
    for principal in (
        Principal(id="a"), Principal(id="a", tenant="b"), Principal(id="a=b"),
        Principal(id="a", tenant="=b"), Principal(id="A"),
    ):  # fmt: skip
        limiter.require("ask", principal, None)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("2001:db8::1", "2001:db8::ffff:ffff:ffff:ffff"),
        ("2001:db8::1", "2001:0DB8:0:0::2"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("fe80::1%eth0", "fe80::2%eth1"),
    ],
)
def test_addresses_of_one_host_share_a_bucket(one: str, other: str) -> None:
    assert network_of(one) == network_of(other)


def test_other_addresses_have_their_own() -> None:
    found = [
        "2001:db8::1",
        "2001:db8:0:1::1",
        "192.0.2.1",
        "192.0.2.2",
        "::1",
        "not an address",
        "x" * 65,
        "unix:",
    ]
    assert len({network_of(address) for address in found}) == len(found)
    assert len(network_of("x" * 10**6)) == 64


@pytest.mark.parametrize(
    "wrong", [{"per_minute": 0}, {"per_minute": -1}, {"per_minute": 1, "burst": -1}, {"per_minute": 1.5}]
)
def test_a_rate_that_allows_nothing_is_refused(wrong: Any) -> None:
    with pytest.raises(ConfigurationError):
        Rate(**wrong)
    limits: Any = [{"principal": {"read": Rate(1)}}, {"address": {"ask": 5}}]
    for each in limits:
        with pytest.raises(ConfigurationError):
            RateLimits(**each)


def refused(answer: httpx.Response, does: str) -> None:
    problem = problem_of(answer, 429)
    assert (problem["code"], problem["error"]) == ("RATE_LIMITED", "rate_limited")
    assert problem["message"] == f"This caller {does} too often."
    seconds = int(answer.headers["retry-after"])
    assert 0 < seconds <= 60 and problem["details"] == {"retry_after": seconds}
    assert f"Wait {seconds} second" in problem["hint"]


async def ask_all(application: Application, path: str, headers: dict[str, str]) -> dict[str, list[int]]:
    """The statuses of each kind of request, three times each."""
    http = application.http
    found: dict[str, list[int]] = {}
    for _ in range(3):
        for kind, answer in {
            "page": await http.get(f"{path}?limit=1", headers=headers),
            "rows": await http.get(f"{path}/rows", headers=headers),
            "refine": await http.post(f"{path}/refine", json={"limit": 3}, headers=headers),
            "metadata": await http.get(path, headers=headers),
        }.items():
            found.setdefault(kind, []).append(answer.status_code)
            if answer.status_code == 429:
                does = {"page": "asks for rows", "rows": "opens streams", "refine": "creates results"}
                refused(answer, does[kind])
    return found


async def test_each_kind_of_request_of_a_principal_has_its_rate(institutions_url: str) -> None:
    limits = RateLimits(principal={"create": Rate(1, burst=3), "ask": TWICE, "stream": TWICE})
    async with people(institutions_url, rate_limits=limits) as application:
        path = await application.create(principal=ANA)
        expected = {
            "page": [200, 200, 429],
            "rows": [200, 200, 429],
            "refine": [201, 201, 429],
            "metadata": [200] * 3,
        }
        assert await ask_all(application, path, AS_ANA) == expected
        with pytest.raises(RateLimitedError):
            await application.create(principal=ANA)
        refused(await application.http.get(f"{path}/profile", headers=AS_ANA), "asks for rows")
        for suffix in ("", "/query"):
            response = await application.http.post(path + suffix, json={"limit": 1}, headers=AS_ANA)
            refused(response, "asks for rows")
        answer = await application.http.get(f"{path}?limit=1", headers=AS_BOB)
        assert answer.status_code == 404, "a stranger's request is counted for nobody else"


@pytest.mark.parametrize(
    "forged", ["X-Forwarded-For", "Forwarded", "X-Real-IP", "X-Client-IP", "CF-Connecting-IP"]
)
async def test_an_address_is_not_what_a_header_says(institutions_url: str, forged: str) -> None:
    async with running(institutions_url, rate_limits=RateLimits(address={"ask": TWICE})) as application:
        path = await application.create()
        asked = [
            await application.http.get(f"{path}?limit=1", headers={forged: f"198.51.100.{number}"})
            for number in range(3)
        ]
    assert [answer.status_code for answer in asked] == [200, 200, 429]


async def test_principals_at_one_address_share_its_rate(institutions_url: str) -> None:
    async with people(institutions_url, rate_limits=RateLimits(address={"ask": TWICE})) as application:
        path = await application.create(principal=ANA)
        other = await application.create(principal=Principal(id="bob", tenant="acme"))
        statuses = [
            (await application.http.get(f"{each}?limit=1", headers=headers)).status_code
            for each, headers in ((path, AS_ANA), (other, AS_BOB), (path, AS_ANA), (other, AS_BOB))
        ]
    assert statuses == [200, 200, 429, 429]


@pytest.mark.parametrize(
    ("trusted", "expected"), [("127.0.0.1", [200] * 4), ("10.9.9.9", [200, 200, 429, 429])]
)
async def test_a_trusted_proxy_names_the_address(
    institutions_url: str, trusted: str, expected: list[int]
) -> None:
    """As uvicorn's --forwarded-allow-ips says; what another peer writes is its own invention."""
    async with running(institutions_url, rate_limits=RateLimits(address={"ask": TWICE})) as application:
        path = await application.create()
        inner = Starlette(routes=[Mount("/resources", application.server.router())])
        transport = httpx.ASGITransport(ProxyHeadersMiddleware(inner, trusted))  # type: ignore[arg-type]
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8000") as http:
            actual = [
                await http.get(f"{path}?limit=1", headers={"X-Forwarded-For": address})
                for address in ("2001:db8:0:1::1", "2001:db8:0:2::1", "2001:db8:0:1::9", "198.51.100.7")
            ]
    assert [answer.status_code for answer in actual] == expected


async def test_a_signed_link_is_a_caller_of_its_own(institutions_url: str) -> None:
    """Its holder, who may have it from anyone, uses up neither the rate of its owner nor that of another link."""
    limits = RateLimits(principal={"ask": TWICE, "stream": TWICE})
    async with people(institutions_url, rate_limits=limits, signed_links=True, pages=True) as application:
        http, path = application.http, await application.create(principal=ANA)
        resource_id, formats = path.rpartition("/")[2], ["json", "csv"]
        one, other = [
            (await application.server.links.create(resource_id, ANA, formats=formats)).partition("?")[2]
            for _ in range(2)
        ]
        once = await application.server.links.create(resource_id, ANA, single_use=True)
        opened = await application.server.links.exchange(resource_id, once.partition("link=")[2])
        callers: list[tuple[str, dict[str, str]]] = [
            (f"&{one}", {}),
            (f"&{other}", {}),
            ("", AS_ANA),
            ("", {"Cookie": f"dualsql_link={opened.token}"}),
        ]
        for link, headers in callers:
            for rows in ("?limit=1", "/rows?format=csv" if link else "/rows?format=json"):
                actual = [
                    (await http.get(f"{path}{rows}{link}", headers=headers)).status_code for _ in range(4)
                ]
                assert actual == [200, 200, 429, 429], (link, headers, rows)


@pytest.mark.parametrize("framework", ["official", "fastmcp"])
@pytest.mark.parametrize("limits", [{"principal": {"create": TWICE}}, {"address": {"create": TWICE}}])
async def test_tools_are_limited(institutions_url: str, framework: str, limits: Any) -> None:
    async with (
        running(institutions_url, rate_limits=RateLimits(**limits)) as application,
        calling(application, framework, headers={"X-Forwarded-For": "198.51.100.7"}) as model,
    ):
        results = [await model.call_tool("institutions", {"state": "NJ"}) for _ in range(3)]
    limited = "address" in limits  # nobody has signed in
    assert [bool(result.is_error) for result in results] == [False, False, limited]
    if limited:
        text = results[2].content[0].text
        assert "RATE_LIMITED" in str(results[2].structured_content) or "too often" in text
        assert "Wait" in text


async def test_without_limits_nothing_is_counted(institutions_url: str) -> None:
    async with running(institutions_url) as application:
        for _ in range(30):
            await application.create(ALL)
