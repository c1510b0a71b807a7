"""Reading a request's body; the rule: never more bytes, nor longer, than the settings allow."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect, Request

from dualsql.http.problems import BodyTooLargeError, CallerGoneError, SlowBodyError, UnsupportedBodyError
from dualsql.settings import Settings

_CHARSETS = ("", "charset=utf-8", 'charset="utf-8"')


async def read_json_body(request: Request, settings: Settings) -> bytes:
    """The bytes of a body that says it is JSON; whether it is, the parser decides.

    Raises:
        UnsupportedBodyError: another media type, another charset than UTF-8, or compressed.
        BodyTooLargeError: announced or arriving beyond `maximum_body_size`; the rest is not read.
        SlowBodyError: not complete within `body_timeout`.
        CallerGoneError: the caller hung up before the end.
    """
    _require_json(request.headers)
    limit = settings.maximum_body_size
    announced = request.headers.get("content-length", "")
    if announced.isdecimal() and int(announced[:20]) > limit:
        raise _too_large(limit)
    try:
        async with asyncio.timeout(settings.body_timeout.total_seconds()):
            return await _read(request, limit)
    except TimeoutError:
        raise SlowBodyError("The body did not arrive in time.") from None
    except ClientDisconnect:
        raise CallerGoneError("The connection closed before the body was complete.") from None


async def _read(request: Request, limit: int) -> bytes:
    body = bytearray()
    async with aclosing(request.stream()) as chunks:
        async for chunk in chunks:
            body += chunk
            if len(body) > limit:
                raise _too_large(limit)
    return bytes(body)


def _too_large(limit: int) -> BodyTooLargeError:
    return BodyTooLargeError(f"The body is larger than {limit} bytes.", details={"maximum_body_size": limit})


def _require_json(headers: Headers) -> None:
    media_type, _, parameters = headers.get("content-type", "").lower().replace(" ", "").partition(";")
    if media_type != "application/json" or parameters not in _CHARSETS:
        raise UnsupportedBodyError("The body is not declared as JSON in UTF-8.")
    if headers.get("content-encoding", "identity").lower() != "identity":
        raise UnsupportedBodyError("The body is compressed.")
