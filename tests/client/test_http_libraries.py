"""Every error of httpx and httpx2 is mapped, also errors of later releases."""

from __future__ import annotations

import inspect
import ssl
from collections.abc import Iterator
from typing import Any

import httpx
import httpx2
import pytest

from dualsql_client import DualResponseClient, FetchError, FetchTimeoutError, Retry, UntrustedOriginError
from dualsql_client.transport import _errors_of
from tests.client.hosting import structured


def public_errors(library: Any) -> list[type[Exception]]:
    return [
        member
        for member in vars(library).values()
        if inspect.isclass(member) and issubclass(member, Exception) and not issubclass(member, Warning)
    ]


def raisable() -> Iterator[Any]:
    for library in (httpx, httpx2):
        for kind in public_errors(library):
            yield pytest.param(library, kind, id=f"{library.__name__}.{kind.__name__}")


def instance(library: Any, kind: type[Exception]) -> Exception:
    """An error of that kind, made as its library makes it."""
    available = {
        "message": "secret detail",
        "request": library.Request("GET", "http://user:secret@host/"),
        "response": library.Response(500),
    }
    required = [
        parameter.name
        for parameter in inspect.signature(kind).parameters.values()
        if parameter.default is parameter.empty
        and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    ]
    return kind(**{name: available[name] for name in required})


@pytest.mark.quick(30)
@pytest.mark.parametrize(("library", "kind"), list(raisable()))
async def test_every_error_of_the_library_becomes_ours(library: Any, kind: type[Exception]) -> None:
    error = instance(library, kind)

    def fail(request: Any) -> Any:
        raise error

    async with library.AsyncClient(transport=library.MockTransport(fail)) as http:
        client = DualResponseClient("http://host/resources", http=http, retry=Retry(times=0))
        with pytest.raises(FetchError) as refusal:
            await client.parse(structured(), strict=True).fetch()
    is_timeout = issubclass(kind, library.TimeoutException)
    assert isinstance(refusal.value, FetchTimeoutError) is is_timeout
    assert refusal.value.code == ("TIMEOUT" if is_timeout else "FETCH_ERROR")
    assert "secret" not in str(refusal.value)
    assert not isinstance(refusal.value, UntrustedOriginError)
    assert refusal.value.__cause__ is error


def test_both_libraries_have_errors_to_map() -> None:
    assert len(list(raisable())) > 50


async def test_a_subclass_of_a_client_is_that_client(library: Any) -> None:
    class AuditedClient(library.AsyncClient):  # type: ignore[misc]
        pass

    async with AuditedClient(verify=ssl.create_default_context()) as http:
        timeouts, failures = _errors_of(http)
    assert library.TimeoutException in timeouts
    assert library.HTTPError in failures


def test_anything_else_is_refused() -> None:
    with pytest.raises(TypeError, match="AsyncClient"):
        DualResponseClient("http://host/resources", http=httpx.Client())  # type: ignore[arg-type]
