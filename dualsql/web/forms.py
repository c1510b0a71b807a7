"""The forms of the pages, and what keeps other sites from sending them."""

from __future__ import annotations

import binascii
import re
import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

from starlette.requests import Request
from starlette.responses import Response

from dualsql.errors import BadParameterError
from dualsql.http.parameters import read_body
from dualsql.http.problems import ForeignRequestError, UnsupportedBodyError
from dualsql.resource import Principal
from dualsql.web.assets import render

if TYPE_CHECKING:
    from dualsql.server import ResultServer

COOKIE = "dualsql_form"
"""A random text of this browser. A form has a MAC of it, which other sites can neither read nor make."""
FIELD = "form_token"

_LABEL = "dualsql.form/1"
_MOST_COOKIES = 200
_NONCE = re.compile(r"[A-Za-z0-9_-]{27}", re.ASCII)


def render_form(
    server: ResultServer,
    request: Request,
    template: str,
    values: Mapping[str, Any],
    *,
    principal: Principal | None = None,
    root: str | None = None,
    status: int = 200,
) -> Response:
    """A page with forms: `render`, with the token for `read_form` and the cookie that it belongs to.

    Args:
        principal: the caller, for a form that acts in the caller's name.
    """
    earlier = next(_nonces(request), None)
    nonce = earlier or secrets.token_urlsafe(20)
    token = urlsafe_b64encode(server.parts.seal.sign(*_parts(nonce, principal))).decode()
    response = render(template, request, {**values, FIELD: token}, root=root, status=status)
    if earlier is None:
        # Not "strict": a click in a chat would come without the cookie, and end the forms of other tabs.
        is_secure = server.base_url.startswith("https:")
        response.set_cookie(COOKIE, nonce, path=None, secure=is_secure, httponly=True, samesite="lax")
    return response


async def read_form(
    request: Request, server: ResultServer, *, principal: Principal | None = None
) -> Mapping[str, str]:
    """The fields of a form of these pages, which `render_form` gave to this browser for this caller.

    Raises:
        ForeignRequestError: a page of another site sends it, one that `cors_origins` allows to read included; or it
            has no token, or one of another browser or caller.
        BadParameterError: it is not UTF-8.
        UnsupportedBodyError: it is no form.
    """
    origin = request.headers.get("origin")
    own = {request.headers.get("host"), urlsplit(server.base_url).netloc}
    is_own = origin is None or origin.partition("://")[2] in own
    if not is_own or request.headers.get("sec-fetch-site", "same-origin") not in {"same-origin", "none"}:
        raise ForeignRequestError(
            "Another site sends this form.", hint="Open the page of this server, and send it there."
        )
    if request.headers.get("content-type", "").partition(";")[0] != "application/x-www-form-urlencoded":
        raise UnsupportedBodyError("The body is not a form.", hint="Open the page and use its button.")
    body = await read_body(request, server.settings)
    try:
        fields = {name: values[-1] for name, values in parse_qs(body.decode(), errors="strict").items()}
    except ValueError:
        raise BadParameterError("The form is not UTF-8.") from None
    signature = _decode(fields.get(FIELD, ""))
    seal = server.parts.seal
    if not any(seal.verify(signature, *_parts(nonce, principal)) for nonce in _nonces(request)):
        raise ForeignRequestError(
            "This form does not come from a page that was opened here, or the page is old.",
            hint="Open the page again, with cookies allowed, and send its form.",
        )
    return fields


def _parts(nonce: str, principal: Principal | None) -> tuple[str | None, ...]:
    who = (None, None) if principal is None else (principal.id, principal.tenant)
    return (_LABEL, nonce, *who)


def _nonces(request: Request) -> Iterator[str]:
    """The values of the cookie, of which a browser sends one for each path that it was set for."""
    for header in request.headers.getlist("cookie"):
        for pair in header.split(";")[:_MOST_COOKIES]:
            name, _, value = pair.strip().partition("=")
            if name == COOKIE and _NONCE.fullmatch(value):
                yield value


def _decode(text: str) -> bytes:
    try:
        return urlsafe_b64decode(text)
    except (binascii.Error, ValueError):
        return b""
