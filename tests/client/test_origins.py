"""With several servers, each is called at its own address with its own credentials, and no other is called."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as st
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response

from dualsql_client import (
    DualResponseClient,
    NotConfiguredError,
    Origin,
    ParseError,
    UntrustedOriginError,
)
from dualsql_client.origins import is_same_address
from tests.client.hosting import RESOURCE_ID, Host, structured


class Recorder:
    """Answers a page and remembers who asked for it."""

    def __init__(self) -> None:
        self.requests: list[Request] = []

    async def __call__(self, request: Request) -> Response:
        self.requests.append(request)
        return JSONResponse({"data": [{"id": 1}], "has_next": False})

    @property
    def credentials(self) -> list[str | None]:
        return [request.headers.get("authorization") for request in self.requests]


async def test_each_result_is_fetched_where_it_says_with_that_origins_credentials(
    host: Host, http: Any
) -> None:
    one, two = Recorder(), Recorder()
    first, second = host.serve(one), host.serve(two, origin=1)
    origins = [
        Origin(base_url=first, headers={"authorization": "one"}),
        Origin(base_url=second + "/", auth=("ana", "secret")),
    ]
    client = DualResponseClient(http=http, origins=origins)
    for base_url in (second, first, second):
        parsed = client.parse(structured(url=f"{base_url}/{RESOURCE_ID}"), strict=True)
        assert parsed.resource_url == f"{base_url}/{RESOURCE_ID}"
        assert (await parsed.fetch()).data == [{"id": 1}]
    assert one.credentials == ["one"]
    assert two.credentials == ["Basic YW5hOnNlY3JldA=="] * 2
    assert "secret" not in repr(origins)


async def test_an_origin_beside_the_base_url(host: Host, http: Any) -> None:
    ours, theirs = Recorder(), Recorder()
    base_url, other = host.serve(ours), host.serve(theirs, origin=1)
    client = DualResponseClient(base_url, http=http, headers={"authorization": "ours"}, origins=[other])
    for url in (f"{other}/{RESOURCE_ID}", "", f"{other}/another", "http://169.254.169.254/latest/meta-data"):
        await client.parse(structured(url=url), strict=True).fetch()
    assert theirs.credentials == [None]
    assert ours.credentials == ["ours"] * 3


@pytest.mark.parametrize(
    ("url", "named"),
    [
        ("http://169.254.169.254/latest/meta-data/iam", "'169.254.169.254', a link-local address"),
        ("http://[fe80::1]/x", "'fe80::1', a link-local address"),
        ("http://10.0.0.7/resources/x", "'10.0.0.7', a private address"),
        ("http://127.0.0.1:22/", "'127.0.0.1', a private address"),
        ("http://[::1]:8000/x", "'::1', a private address"),
        ("http://[::ffff:169.254.169.254]/x", "a private address"),
        ("http://localhost:6379/", "'localhost', a private address"),
        ("http://metadata.google.internal/x", "'metadata.google.internal', a private address"),
        ("https://evil.example/resources/x", "'evil.example'"),
        ("file:///etc/passwd", "an address that cannot be read"),
        ("http://[::1", "an address that cannot be read"),
        ("javascript:alert(1)", "an address that cannot be read"),
    ],
)
async def test_an_address_that_was_not_configured_is_told_and_not_fetched(
    host: Host, http: Any, url: str, named: str
) -> None:
    recorder = Recorder()
    client = DualResponseClient(http=http, origins=[host.serve(recorder)])
    parsed = client.parse(structured(url=url), strict=True)
    for call in (
        parsed.fetch,
        parsed.fetch_all,
        parsed.get_metadata,
        parsed.pin,
        parsed.unpin,
        parsed.delete,
    ):
        with pytest.raises(UntrustedOriginError, match=r"origins=") as error:
            await call()
        assert named in error.value.message
        assert (error.value.code, error.value.status) == ("UNTRUSTED_ORIGIN", None)
    assert recorder.requests == []


async def test_a_link_without_an_address_goes_to_the_only_origin(host: Host, http: Any) -> None:
    recorder = Recorder()
    base_url = host.serve(recorder)
    link = {"type": "resource_link", "uri": f"resource://{RESOURCE_ID}", "mimeType": "application/json"}
    client = DualResponseClient(http=http, origins=[base_url])
    assert (await client.parse(link, strict=True).fetch()).data == [{"id": 1}]
    several = DualResponseClient(http=http, origins=[base_url, host.serve(Recorder())])
    with pytest.raises(NotConfiguredError):
        await several.parse(link, strict=True).fetch()


async def test_one_origin_s_redirect_to_another_is_not_followed(host: Host, http: Any) -> None:
    theirs = Recorder()
    target = host.serve(theirs, origin=1)

    async def redirect(request: Request) -> Response:
        return RedirectResponse(f"{target}/{RESOURCE_ID}", 307)

    base_url = host.serve(redirect)
    origins: list[Origin | str] = [Origin(base_url=base_url, auth=("ana", "secret")), target]
    client = DualResponseClient(http=http, origins=origins)
    parsed = client.parse(structured(url=f"{base_url}/{RESOURCE_ID}"), strict=True)
    with pytest.raises(UntrustedOriginError, match="another host"):
        await parsed.fetch()
    assert theirs.requests == []


@pytest.mark.parametrize("origin", ["", "ftp://x/y", "https://ana:secret@x/y", "https://x/y?z"])
def test_an_origin_that_is_no_plain_address_is_refused(origin: str) -> None:
    with pytest.raises(NotConfiguredError):
        DualResponseClient(origins=["https://api.example.com/resources", origin])


OURS = f"https://api.example.com/resources/{RESOURCE_ID}"


@pytest.mark.parametrize(
    "url",
    [
        OURS,
        f"HTTPS://API.example.com/resources/{RESOURCE_ID}",
        f"https://api.example.com:443/resources/{RESOURCE_ID}",
    ],
)
def test_one_place_has_several_spellings(url: str) -> None:
    assert is_same_address(OURS, url)


@pytest.mark.parametrize(
    "url",
    [
        f"http://api.example.com/resources/{RESOURCE_ID}",
        f"https://api.example.com:8443/resources/{RESOURCE_ID}",
        f"https://api.example.com.evil.example/resources/{RESOURCE_ID}",
        f"https://api.example.com@evil.example/resources/{RESOURCE_ID}",
        f"https://ana@api.example.com/resources/{RESOURCE_ID}",
        f"https://api.example.com/resources/../admin/{RESOURCE_ID}",
        f"https://api.example.com/admin/{RESOURCE_ID}",
        f"https://api.example.com/resources/{RESOURCE_ID}?x=1",
        f"https://api.example.com\\@evil.example/resources/{RESOURCE_ID}",
        f"https://аpi.example.com/resources/{RESOURCE_ID}",
        "https://api.example.com/resources/",
        "//api.example.com",
    ],
)
def test_what_only_looks_like_it_is_another(url: str) -> None:
    assert not is_same_address(OURS, url)


CONFIGURED = DualResponseClient(origins=["https://api.example.com/resources"])


@given(st.text(st.sampled_from("https:/@.[]\\?#%0aé resourcpimlx-"), max_size=60))
def test_no_address_raises_or_is_fetched(url: str) -> None:
    assert CONFIGURED.parse(structured(url=url), strict=True)._transport is None


class Described(Recorder):
    """Answers the metadata of any result."""

    async def __call__(self, request: Request) -> Response:
        self.requests.append(request)
        return JSONResponse(
            {
                "status": "ready",
                "name": "Schools",
                "uri": f"resource://{RESOURCE_ID}",
                "total_count": 1,
                "total_count_kind": "exact",
                "columns": [],
                "created_at": "2026-11-21T06:03:00Z",
                "expires_at": None,
                "access_count": 0,
                "last_accessed_at": None,
                "metadata": {},
            }
        )


@pytest.mark.parametrize("form", ["{id}", "resource://{id}", "dualsql://results/{id}", "{base_url}/{id}"])
async def test_a_result_is_opened_by_its_id_its_uri_and_its_url(host: Host, http: Any, form: str) -> None:
    ours, theirs = Described(), Described()
    base_url, other = host.serve(ours), host.serve(theirs, origin=1)
    client = DualResponseClient(base_url, http=http, headers={"authorization": "ours"}, origins=[other])
    response = await client.open(form.format(id=RESOURCE_ID, base_url=base_url))
    assert (response.name, response.total_count, response.sample) == ("Schools", 1, [])
    assert response.resource_url == f"{base_url}/{RESOURCE_ID}"
    elsewhere = await client.open(f"{other}/{RESOURCE_ID}")
    assert elsewhere.resource_url == f"{other}/{RESOURCE_ID}"
    assert (ours.credentials, theirs.credentials) == (["ours"], [None])


@pytest.mark.parametrize(
    "url",
    [
        "http://169.254.169.254/{id}",
        "https://evil.example/resources/{id}",
        "{base_url}/nested/{id}",
        "{base_url}@evil.example/{id}",
        "{base_url}.evil.example/{id}",
    ],
)
async def test_a_url_elsewhere_is_not_opened(host: Host, http: Any, url: str) -> None:
    recorder = Described()
    base_url = host.serve(recorder)
    client = DualResponseClient(base_url, http=http, headers={"authorization": "ours"})
    with pytest.raises(UntrustedOriginError, match="base_url="):
        await client.open(url.format(id=RESOURCE_ID, base_url=base_url))
    assert recorder.requests == []
    with pytest.raises(NotConfiguredError, match="base_url"):
        await DualResponseClient().open(url.format(id=RESOURCE_ID, base_url=base_url))


@pytest.mark.parametrize(
    "text",
    ["", "a b", "../x", "resource://", "{base_url}/{id}?link=x", "{base_url}/{id}#x", "{base_url}/", "é"],
)
async def test_what_names_no_result_is_not_opened(host: Host, http: Any, text: str) -> None:
    recorder = Described()
    base_url = host.serve(recorder)
    with pytest.raises(ParseError):
        await DualResponseClient(base_url, http=http).open(text.format(id=RESOURCE_ID, base_url=base_url))
    assert recorder.requests == []
