"""Which Host and Origin headers are ours; hostile spellings of a name must not slip through."""

from __future__ import annotations

import tracemalloc

import pytest
from starlette.datastructures import Headers
from starlette.types import Message

from dualsql.http.problems import problem_response
from dualsql.http.router import HostCheck, origin_of, own_hosts

NOTHING_BEHIND = problem_response(LookupError("the guard let a request through"))

LOOPBACK = "http://127.0.0.1:8000/resources"
PUBLIC = "https://API.example.com/resources"


def guard(base_url: str, *, hosts: tuple[str, ...] = (), origins: tuple[str, ...] = ()) -> HostCheck:
    return HostCheck(
        NOTHING_BEHIND, hosts=own_hosts(base_url) | set(hosts), origins=[origin_of(base_url), *origins]
    )


def admits(checked: HostCheck, host: str, *origins: str) -> bool:
    raw = [(b"host", host.encode("latin-1")), *((b"origin", origin.encode("latin-1")) for origin in origins)]
    return checked.refuse(raw) is None


@pytest.mark.parametrize("base_url", [LOOPBACK, "http://localhost/resources", "http://[::1]:9/resources"])
@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:8000", "127.0.0.1:1", "[::1]", "[::1]:8000"])
def test_a_loopback_server_answers_to_every_loopback_name(base_url: str, host: str) -> None:
    assert admits(guard(base_url), host)


@pytest.mark.parametrize("host", ["api.example.com", "API.EXAMPLE.COM", "api.example.com:8443"])
def test_a_public_server_answers_to_its_own_name(host: str) -> None:
    assert admits(guard(PUBLIC), host)


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "[::1]", "localhost:8000"])
def test_a_public_server_does_not_answer_to_loopback_names(host: str) -> None:
    assert not admits(guard(PUBLIC), host)


@pytest.mark.parametrize(
    "host",
    [
        "",
        "evil.example",
        "evil.example:8000",
        "localhost.evil.example",
        "evil-localhost",
        "127.0.0.1.nip.io",
        "127.0.0.1:8000@evil.example",
        "evil.example#@127.0.0.1",
        "127.0.0.1/../evil.example",
        "127.0.0.1, evil.example",
        "127.0.0.1 ",
        "127.0.0.1:",
        "127.0.0.1:8000:8000",
        "127.0.0.1:999999",
        "127.1",
        "2130706433",
        "0.0.0.0",
        "[::ffff:127.0.0.1]",
        "::1",
        "[::1",
        "localhost.",
        "localhost\x00",
        "l\xf6calhost",
        "a" * 10_000,
    ],
)
def test_a_foreign_host_is_refused(host: str) -> None:
    assert not admits(guard(LOOPBACK), host)


def test_no_host_and_two_hosts_are_refused() -> None:
    checked = guard(LOOPBACK)
    assert checked.refuse([]) is not None
    assert checked.refuse([(b"host", b"localhost"), (b"host", b"evil.example")]) is not None


def test_further_hosts_may_be_listed_with_or_without_a_port() -> None:
    checked = guard(LOOPBACK, hosts=("Gateway.internal", "proxy.internal:81"))
    assert admits(checked, "gateway.internal:99")
    assert admits(checked, "proxy.internal:81")
    assert not admits(checked, "proxy.internal:82")
    assert not admits(checked, "proxy.internal")


@pytest.mark.parametrize("origin", ["http://127.0.0.1:8000", "https://app.example.com"])
def test_own_and_listed_origins_are_admitted(origin: str) -> None:
    assert admits(guard(LOOPBACK, origins=("https://app.example.com",)), "127.0.0.1:8000", origin)


@pytest.mark.parametrize(
    "origin",
    [
        "null",
        "",
        "http://127.0.0.1",
        "https://127.0.0.1:8000",
        "http://127.0.0.1:8001",
        "http://localhost:8000",
        "http://127.0.0.1:8000/",
        "http://127.0.0.1:8000.evil.example",
        "http://evil.example",
        "https://app.example.com.evil.example",
        "file://",
    ],
)
def test_a_foreign_origin_is_refused(origin: str) -> None:
    assert not admits(guard(LOOPBACK, origins=("https://app.example.com",)), "127.0.0.1:8000", origin)


def test_a_foreign_origin_beside_our_own_is_refused() -> None:
    assert not admits(guard(LOOPBACK), "127.0.0.1:8000", "http://127.0.0.1:8000", "http://evil.example")


def test_every_origin_is_admitted_only_when_the_operator_wrote_so() -> None:
    assert admits(guard(LOOPBACK, origins=("*",)), "127.0.0.1:8000", "http://evil.example")


@pytest.mark.parametrize(
    ("url", "origin"),
    [
        ("https://API.example.com:443/resources?x#y", "https://api.example.com"),
        ("http://api.example.com:80", "http://api.example.com"),
        ("http://[::1]:8000/", "http://[::1]:8000"),
        ("https://api.example.com:8443", "https://api.example.com:8443"),
        ("null", "null"),
        ("*", "*"),
    ],
)
def test_an_origin_is_written_as_browsers_write_it(url: str, origin: str) -> None:
    assert origin_of(url) == origin


async def test_what_was_admitted_once_admits_nothing_else() -> None:
    """A Host is admitted with its Origins, and never one without the other."""
    checked = guard(PUBLIC)
    ours, own_origin = (b"host", b"api.example.com"), (b"origin", b"https://api.example.com")
    foreign_host, foreign_origin = (b"host", b"evil.example"), (b"origin", b"https://evil.example")
    admitted = [[ours], [ours, own_origin]]
    refused = [
        [foreign_host], [ours, foreign_origin], [foreign_host, own_origin], [ours, ours], [own_origin],
        [ours, own_origin, foreign_origin], [],
    ]  # fmt: skip
    for _ in range(2):
        assert [await status(checked, headers) for headers in admitted] == [500, 500]  # NOTHING_BEHIND
        assert [await status(checked, headers) for headers in refused] == [403] * len(refused)
    for port in range(1_000):
        assert await status(checked, [(b"host", f"api.example.com:{port}".encode())]) == 500


async def status(checked: HostCheck, headers: list[tuple[bytes, bytes]]) -> int:
    answered: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        answered.append(message)

    await checked({"type": "http", "method": "GET", "path": "/", "headers": headers}, receive, send)
    actual: int = answered[0]["status"]
    return actual


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
@pytest.mark.parametrize(
    ("mode", "destination", "opens"),
    [
        ("navigate", "document", True),
        ("navigate", "iframe", False),
        ("navigate", "object", False),
        ("no-cors", "image", False),
        ("no-cors", "script", False),
        ("no-cors", "empty", False),
        ("cors", "empty", False),
        ("websocket", "empty", False),
    ],
)
def test_on_loopback_other_sites_link_to_it_and_load_nothing(
    site: str, mode: str, destination: str, *, opens: bool
) -> None:
    fetched = {"sec-fetch-site": site, "sec-fetch-mode": mode, "sec-fetch-dest": destination}
    local = HostCheck(NOTHING_BEHIND, hosts=own_hosts(LOOPBACK), origins=[APP], is_local=True)
    parameters = {"host": "127.0.0.1:8000", **fetched}
    assert (local.refuse(Headers(parameters).raw) is None) == opens
    assert local.refuse(Headers({**parameters, "origin": APP}).raw) is None, "cors_origins names it"
    for own in ("same-origin", "none"):
        assert local.refuse(Headers({**parameters, "sec-fetch-site": own}).raw) is None
    elsewhere = HostCheck(NOTHING_BEHIND, hosts=["api.example.com"], origins=[])
    assert elsewhere.refuse(Headers({"host": "api.example.com", **fetched}).raw) is None


APP = "https://app.example"


async def test_hosts_of_any_length_are_refused_and_little_is_kept() -> None:
    checked = guard("https://data.example.com/resources")
    tracemalloc.start()
    try:
        for number in range(300):
            assert await status(checked, [(b"host", str(number).encode() + b"a" * 100_000)]) == 403
        assert tracemalloc.get_traced_memory()[0] < 1_000_000
    finally:
        tracemalloc.stop()


async def test_many_headers_of_one_name_are_not_kept() -> None:
    checked = guard("https://data.example.com/resources")
    tracemalloc.start()
    try:
        for number in range(30):
            origins = [(b"origin", b"%d.%d" % (number, other)) for other in range(1_000)]
            assert await status(checked, [(b"host", b"data.example.com"), *origins]) == 403
        assert tracemalloc.get_traced_memory()[0] < 1_000_000
    finally:
        tracemalloc.stop()
