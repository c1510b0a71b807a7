"""Who the client says it is; the rule: a token is asked for when it is needed, and once more when it is refused."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol, cast

from dualsql_client.errors import NotConfiguredError

_LONGEST_TOKEN = 16 * 1024


class HTTPAuth(Protocol):
    """What is used of an httpx.Auth or httpx2.Auth: it is handed to the library it comes from."""

    @property
    def auth_flow(self) -> Callable[..., Any]: ...


TokenProvider = Callable[[], Awaitable[str]]
"""Called without arguments for a bearer token: at the first request, and again when the server refused the last one."""

Auth = HTTPAuth | TokenProvider | tuple[str, str]


class Credentials:
    """What `auth=` means for a request."""

    def __init__(self, auth: Auth | None) -> None:
        is_httpx = auth is None or isinstance(auth, tuple) or hasattr(auth, "auth_flow")
        self._provide = None if is_httpx else cast(TokenProvider, auth)
        # Without the option, and not with None, which would take the HTTP client's own auth away.
        self.options: Mapping[str, Any] = {"auth": auth} if is_httpx and auth is not None else {}
        self._token: str | None = None
        self._lock = asyncio.Lock()

    async def headers(self) -> Mapping[str, str]:
        """The headers of a request that has not been refused.

        Raises:
            NotConfiguredError: the provider gave no token.
        """
        if self._provide is None:
            return {}
        if self._token is None:
            await self._renew(None)
        return {"authorization": f"Bearer {self._token}"}

    async def renewed_headers(self, refused: Mapping[str, str]) -> Mapping[str, str] | None:
        """The headers to try once more with; None where there are no others.

        Raises:
            NotConfiguredError: the provider gave no token.
        """
        if self._provide is None:
            return None
        await self._renew(refused["authorization"].removeprefix("Bearer "))
        headers = await self.headers()
        return None if headers == refused else headers

    async def _renew(self, refused: str | None) -> None:
        # Many requests may be refused at once; the first of them asks for all.
        async with self._lock:
            if self._token == refused and self._provide is not None:
                self._token = _checked(await self._provide())


def _checked(token: object) -> str:
    is_one = isinstance(token, str) and 0 < len(token) <= _LONGEST_TOKEN
    if (
        not is_one
        or not cast(str, token).isascii()
        or not cast(str, token).isprintable()
        or " " in cast(str, token)
    ):
        # Not told what it is: it may be a good one with a line break at its end.
        raise NotConfiguredError(
            "The token provider given as auth= returned no token.", hint="Return the token alone, as a str."
        )
    return cast(str, token)
