"""Content negotiation, codings, conditional requests, file names, and the dual-mode form of answers."""

from __future__ import annotations

import asyncio
import re
import sys
import time
import unicodedata
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from importlib import import_module
from typing import Any, Protocol
from urllib.parse import quote

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response

from dualsql.envelope import (
    VARY,
    Bounds,
    Display,
    Wanted,
    create_dual_mode_error,
    create_dual_mode_response,
    display,
    present,
    wanted,
)
from dualsql.formats import json
from dualsql.formats.table import FORMATS, format_named
from dualsql.formats.writer import Format
from dualsql.http.problems import Endpoint, JSONAnswer, NotAcceptableError
from dualsql_client.wire import ResourceDescription

_MOST_RANGES = 100
_IDENTITY = "identity"


def preferred_media_type(accepted: Sequence[str], offered: Sequence[str]) -> str | None:
    """The media type of `offered` that the values of Accept weigh most; the first one without any such header."""
    ranges = dict(_ranges(accepted))
    if not ranges:
        return offered[0]
    return _heaviest(offered, lambda offer: _weight(ranges, (offer, f"{offer.partition('/')[0]}/*", "*/*")))


def preferred_coding(accepted: Sequence[str], offered: Iterable[str]) -> str | None:
    """The content coding of `offered` for these values of Accept-Encoding; None for no coding at all.

    Raises:
        NotAcceptableError: the caller takes neither a coding we have nor its absence.
    """
    codings = dict(_ranges(accepted))
    weights = {coding: _weight(codings, (coding, "*")) for coding in offered}
    plain = codings.get(_IDENTITY, codings.get("*"))
    found = _heaviest(weights, weights.__getitem__)
    if found is not None and weights[found] >= (plain or 0):
        return found
    if plain == 0:
        raise NotAcceptableError(
            "The server supports no content coding that Accept-Encoding allows.",
            hint="Send Accept-Encoding: gzip.",
        )
    return None


def _heaviest(offered: Iterable[str], weight: Callable[[str], float]) -> str | None:
    best = max(offered, key=weight, default=None)  # the first one of equal weight
    return best if best is not None and weight(best) > 0 else None


def _weight(ranges: Mapping[str, float], by_precision: Sequence[str]) -> float:
    return next((ranges[name] for name in by_precision if name in ranges), 0.0)


def _ranges(values: Sequence[str]) -> Iterator[tuple[str, float]]:
    """Each range of a header and its weight. Parameters but `q` are not looked at."""
    for item in ",".join(values).lower().split(",", _MOST_RANGES)[:_MOST_RANGES]:
        name, *parameters = [part.strip() for part in item.split(";")]
        weight = next((part[2:] for part in parameters if part.startswith("q=")), "1")
        if name:
            yield name, _number(weight)


def _number(text: str) -> float:
    try:
        weight = float(text[:8])
    except ValueError:
        return 0.0
    return weight if 0 <= weight <= 1 else 0.0


_IN_PLACE = 8 * 1024
"""Bytes that are compressed faster than a thread is woken."""

_GZIP_LEVEL = 1
_GZIP_WINDOW = 16 + zlib.MAX_WBITS


class Compressor(Protocol):
    """One stream's compression."""

    def compress(self, data: bytes) -> bytes:
        """All of `data`, so that whoever reads can decompress it at once."""
        ...

    def finish(self) -> bytes:
        """What the coding needs at its end."""
        ...


class _Gzip:
    def __init__(self) -> None:
        self._stream = zlib.compressobj(_GZIP_LEVEL, zlib.DEFLATED, _GZIP_WINDOW)

    def compress(self, data: bytes) -> bytes:
        return self._stream.compress(data) + self._stream.flush(zlib.Z_SYNC_FLUSH)

    def finish(self) -> bytes:
        return self._stream.flush()


class _Zstd:
    def __init__(self) -> None:
        self._stream = _ZSTD.ZstdCompressor()

    def compress(self, data: bytes) -> bytes:
        flushed: bytes = self._stream.compress(data, self._stream.FLUSH_BLOCK)
        return flushed

    def finish(self) -> bytes:
        end: bytes = self._stream.flush()
        return end


def _zstd_module() -> Any:
    try:
        return import_module("compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd")
    except ImportError:
        return None


_ZSTD = _zstd_module()

CODINGS: Mapping[str, Callable[[], Compressor]] = {"zstd": _Zstd, "gzip": _Gzip} if _ZSTD else {"gzip": _Gzip}
"""What there is, the best first."""


async def compressed(compressor: Compressor | None, data: bytes) -> bytes:
    """`data` in its coding; longer pieces in a thread, because the event loop serves others meanwhile."""
    if compressor is None or not data:
        return data
    if len(data) <= _IN_PLACE:
        return compressor.compress(data)
    return await asyncio.to_thread(compressor.compress, data)


def chosen_format(named: str | None, headers: Headers) -> Format:
    """The format that the request names, or the one that its Accept weighs most.

    Raises:
        BadParameterError: no format has that name.
        NotAcceptableError: none is acceptable.
    """
    if named is not None:
        return format_named(named)
    offered = {found.media_type: found for found in FORMATS.values()}
    media_type = preferred_media_type(headers.getlist("accept"), list(offered))
    if media_type is None:
        raise NotAcceptableError(
            "The server has no row format that Accept allows.",
            hint=f"Accept one of: {', '.join(offered)}.",
            details={"formats": {found.name: found.media_type for found in FORMATS.values()}},
        )
    return offered[media_type]


def chosen_coding(written: Format, headers: Headers) -> str | None:
    """The content coding for this format; None for none.

    Raises:
        NotAcceptableError: neither is acceptable.
    """
    offered = () if written.is_compressed else CODINGS
    return preferred_coding(headers.getlist("accept-encoding"), offered)


_TAG = re.compile(r'(?:W/)?("[\x21\x23-\x7e\x80-\xff]*")')
_COUNTED = ("access_count", "last_accessed_at")


def metadata_etag(metadata: ResourceDescription) -> str:
    """A weak tag of all that is said of a resource, but how often it was read: asking would change that."""
    said: Mapping[str, Any] = {key: value for key, value in metadata.items() if key not in _COUNTED}
    return f'W/"{sha256(json.dumps(said)).hexdigest()[:32]}"'


def is_known(headers: Headers, etag: str) -> bool:
    """Whether If-None-Match names this tag, as weak tags are compared."""
    given = ",".join(headers.getlist("if-none-match"))
    return given.strip() == "*" or etag.removeprefix("W/") in _TAG.findall(given)


def not_modified(etag: str, *, vary: str | None = None) -> Response:
    """304: the caller has it already."""
    return Response(status_code=304, headers={"ETag": etag} | ({"Vary": vary} if vary else {}))


_LONGEST = 80
_UNSAFE = re.compile(r'[\\/:*?"<>|%;\s]+')
# Devices on Windows, whatever their extension.
_RESERVED = re.compile(r"(con|prn|aux|nul|com[0-9¹²³]|lpt[0-9¹²³])(\..*)?", re.IGNORECASE)
_NAMELESS = "rows"


def content_disposition(name: str, extension: str) -> str:
    """The header that saves `name` as a file of `extension`; ASCII, without line breaks, whatever the name is."""
    stem = file_stem(name)
    plain = file_stem(unicodedata.normalize("NFKD", stem).encode("ascii", "ignore").decode())
    exact = quote(f"{stem}.{extension}", safe="")
    return f"attachment; filename=\"{plain}.{extension}\"; filename*=UTF-8''{exact}"


def file_stem(name: str) -> str:
    """A file's name without an extension, that is one on every system: no path, no device, nothing invisible."""
    # A slice first: a name is as long as its maker liked.
    visible = "".join(map(_visible, unicodedata.normalize("NFC", name[: _LONGEST * 4])))
    stem = _UNSAFE.sub(" ", visible).strip(" .'-")[:_LONGEST].rstrip(" .'-")
    return _NAMELESS if not stem or _RESERVED.fullmatch(stem) else stem


def _visible(character: str) -> str:
    # Cc control, Cf format (bidirectional overrides, zero-width), Co private, Cs surrogate, Cn unassigned.
    category = unicodedata.category(character)
    return character if not category.startswith("C") else " " if character.isspace() else ""


_FORMAT = "x-response-format"
_KEPT = ("allow", "retry-after", "www-authenticate")

# What is answered was bounded by the settings of the server: this is no second opinion on it.
_BOUNDS = Bounds(values=100_000_000, characters=2**31)


def negotiating(endpoint: Endpoint) -> Endpoint:
    """The endpoint, whose JSON is a dual-mode answer for callers who ask for one."""

    async def answer(request: Request) -> Response:
        started = time.perf_counter()
        response = await endpoint(request)
        response.headers.add_vary_header(VARY)
        asked = _asked(request.headers)
        if asked is None or request.method == "HEAD" or not isinstance(response, JSONAnswer):
            return response
        return _enveloped(response, asked, time.perf_counter() - started)

    return answer


def _asked(headers: Headers) -> Wanted | None:
    """What is asked for; None where no format is, and X-Execution-Context alone asks for none: JSON is for code."""
    named = {value.strip().lower() for value in headers.getlist(_FORMAT)}
    return wanted(headers) if named in ({"json"}, {"markdown"}) else None


def _enveloped(response: JSONAnswer, asked: Wanted, seconds: float) -> JSONAnswer:
    said = json.loads(bytes(response.body))
    if response.status_code < 400:
        answer = create_dual_mode_response(
            said,
            operation="page" if "data" in said else "describe",
            shown=_shown(said, asked),
            seconds=seconds,
            cached=said.get("cached") is True,
            bounds=_BOUNDS,
        )
    else:
        answer = create_dual_mode_error(
            said["message"],
            said["code"],
            operation="read",
            suggestion=said["hint"] or None,
            details=said["details"],
            seconds=seconds,
        )
    headers = {"Vary": response.headers["vary"]}
    headers |= {name: response.headers[name] for name in _KEPT if name in response.headers}
    return JSONAnswer(present(answer, asked), response.status_code, headers)


def _shown(said: dict[str, Any], asked: Wanted) -> Display:
    """A page's rows, or all that is said of the resource."""
    if asked.is_structured:
        return Display(type="markdown", content="")
    rows = said.get("data")
    seen = said if rows is None else {"rows": rows, "total_count": said.get("total_count")}
    return display(seen, "markdown", bounds=_BOUNDS)
