"""Refuses a Host or Origin that is not on the list."""

from __future__ import annotations

import re
from collections.abc import Collection
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from dualsql.http.problems import ForeignRequestError, problem_response

LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "[::1]"})

_HOST = re.compile(r"(?P<name>[a-z0-9._-]{1,255}|\[[0-9a-f:.]{2,45}\])(?::(?P<port>[0-9]{1,5}))?", re.ASCII)
_DEFAULT_PORTS = {"http": 80, "https": 443}


class HostCheck:
    """Answer 403 unless the request is addressed to one of `hosts` and comes from one of `origins`."""

    def __init__(self, app: ASGIApp, *, hosts: Collection[str], origins: Collection[str]) -> None:
        self.app = app
        self.hosts = frozenset(host.lower() for host in hosts)
        self.origins = frozenset(origins)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        refusal = self.refuse(Headers(scope=scope)) if scope["type"] == "http" else None
        await (problem_response(refusal) if refusal else self.app)(scope, receive, send)

    def refuse(self, headers: Headers) -> ForeignRequestError | None:
        """Why a request with these headers is not served, if it is not."""
        hosts, origins = headers.getlist("host"), headers.getlist("origin")
        if len(hosts) != 1 or not self.serves(hosts[0]):
            return ForeignRequestError(
                "The Host header names a host that this server does not serve.",
                hint="Ask the operator to add the host name to allowed_hosts.",
            )
        if "*" not in self.origins and not self.origins.issuperset(origins):
            return ForeignRequestError(
                "The Origin header names an origin that may not read this server.",
                hint="Ask the operator to add the origin to cors_origins.",
            )
        return None

    def serves(self, host: str) -> bool:
        """Whether a Host header is ours: `name` in the list covers every port, `name:port` only that one."""
        match = _HOST.fullmatch(host.lower())
        return match is not None and not self.hosts.isdisjoint({match["name"], match.group()})


def own_hosts(base_url: str) -> frozenset[str]:
    """Names a server at `base_url` answers to; the loopback names are one when it is on loopback."""
    name = _host_name(base_url)
    return LOOPBACK_NAMES if name in LOOPBACK_NAMES else frozenset({name})


def origin_of(url: str) -> str:
    """The origin of `url` as browsers write it (RFC 6454, section 6.2). "*" and "null" stay as they are."""
    parts = urlsplit(url)
    if not parts.scheme or not parts.hostname:
        return url
    port = "" if parts.port in (None, _DEFAULT_PORTS.get(parts.scheme)) else f":{parts.port}"
    return f"{parts.scheme}://{_host_name(url)}{port}"


def _host_name(url: str) -> str:
    name = urlsplit(url).hostname or ""
    return f"[{name}]" if ":" in name else name
