"""The checks that are more than requests with expected answers, by the name that standard.json gives them."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from itertools import pairwise
from typing import Any
from urllib.parse import urlsplit

from mcp import MCPError
from mcp.client import advertise

from dualsql.conformance.probe import Exchange, Probe, Untestable, Violation, connected, require
from dualsql.conformance.standard import Row, standard

_LONGEST_RESULT = 32_768
# A sentence may begin with "Select", and a body has a line 1, too.
_DATABASE_WORDS = re.compile(
    r"(?i:\bSELECT\b.+\bFROM\b|syntax error|no such column:|sqlite|psycopg|asyncpg|SQLSTATE)|Traceback|LINE 1:|near \"",
    re.DOTALL,
)


# The tool result.


async def structure(probe: Probe) -> None:
    probe.valid("StructuredContent", (await probe.shared()).structured)


async def sample(probe: Probe) -> None:
    result = await probe.shared()
    if "sample" in result.metadata or "cells_cut_to" in result.metadata:
        raise Untestable("the tool shows other rows than the first, or cut cells")
    first = (await probe.rows())[: len(result.sample)]
    first_cells = [
        {name: row.get(name) for name in cells} for row, cells in zip(first, result.sample, strict=False)
    ]
    require(first_cells == list(result.sample), "results are not the first rows of the result")


async def total(probe: Probe) -> None:
    await _check_total((await probe.shared()).metadata, probe)


async def _check_total(stated: Mapping[str, Any], probe: Probe) -> None:
    require("total_count" in stated, "there is no total_count")
    if stated.get("total_count_kind", "exact") in ("estimated", "capped"):
        raise Untestable("the total is no exact one")
    rows = len(await probe.rows())
    require(stated["total_count"] in (None, rows), f"the total is {stated['total_count']} of {rows} rows")


async def sample_count(probe: Probe) -> None:
    result = await probe.shared()
    count = result.metadata.get("sample_count")
    require(count == len(result.sample), f"sample_count is {count}, of {len(result.sample)} rows")


async def text(probe: Probe) -> None:
    result = await probe.shared()
    require(result.id in result.text, "the text has neither the URI nor the URL")
    count = result.metadata.get("total_count")
    plain = result.text.replace(",", "")
    require(count is None or str(count) in plain, "the text does not have the total")
    for value in result.sample[0].values() if result.sample else ():
        is_plain = isinstance(value, str | int) and not isinstance(value, bool)
        shown = str(value)[:8]
        require(not is_plain or shown in result.text or shown in plain, "the text does not show the rows")


async def bound(probe: Probe) -> None:
    result = await (probe.create(rows=1_000) if probe.target.is_documented else probe.shared())
    for part, length in (("text", len(result.text)), ("structure", len(json.dumps(result.structured)))):
        require(length <= _LONGEST_RESULT, f"the {part} has {length} characters")


async def expiry(probe: Probe) -> None:
    metadata = (await probe.shared()).metadata
    require("expires_at" in metadata, "metadata has no expires_at")
    until = _instant(metadata["expires_at"])
    require(
        until is None or until > datetime.now(UTC) - timedelta(minutes=5), "it has expired before it began"
    )


def _instant(text: Any) -> datetime | None:
    if text is None:
        return None
    try:
        instant = datetime.fromisoformat(text)
    except (TypeError, ValueError) as error:
        raise Violation(f"{text!r} is no instant in ISO 8601") from error
    require(instant.tzinfo is not None, f"{text!r} has no zone")
    return instant


async def failure(probe: Probe) -> None:
    try:
        result = await probe.call(**_failing(probe))
    except MCPError:
        return  # an error of the protocol is none of a tool
    require(result.is_error, "a call that fails has no isError")
    require("resource" not in (result.structured_content or {}), "a failed call has a resource")


def _failing(probe: Probe) -> dict[str, Any]:
    if probe.target.is_documented:
        return {"rows": -1}
    names = probe.schema.get("required") or probe.target.arguments
    if not names:
        raise Untestable("the tool takes no argument that could be wrong")
    return dict.fromkeys(names)


async def link_blocks(probe: Probe) -> None:
    for block in (await probe.shared()).blocks:
        if block.type == "resource_link":
            require(not str(block.uri).startswith("http"), "a resource_link has an http address")


async def tool_code(probe: Probe) -> None:
    if not probe.target.is_documented:
        raise Untestable("it needs the documented tool: others may be refused before they are reached")
    try:
        result = await probe.call(**_failing(probe))
    except MCPError as error:
        raise Untestable("the call was refused before it reached the tool") from error
    content = result.structured_content
    problem = probe.valid("ProblemContent", content)["error"]
    block = result.content[0]
    require(block.type == "text" and problem["code"] in block.text, "the text does not have the code")


# The link.


async def uri(probe: Probe) -> None:
    result = await probe.shared()
    match = re.fullmatch(r"([a-z][a-z0-9+.-]*)://([A-Za-z0-9_-]{22,128})", result.link("uri"))
    require(match and match[1] not in ("http", "https"), "resource.uri is not scheme://ID")
    require(match and match[2] == result.id, "resource.uri and resource.url have different IDs")


async def url(probe: Probe) -> None:
    result = await probe.shared()
    parts = urlsplit(result.link("url"))
    require(parts.scheme in ("http", "https") and parts.hostname, "resource.url is no http address")
    identity = result.link("uri").rpartition("/")[2]
    require(parts.path.endswith(f"/{identity}"), "the path of resource.url does not end with the ID")


async def secret(probe: Probe) -> None:
    parts = urlsplit((await probe.shared()).link("url"))
    require(not (parts.query or parts.fragment or "@" in parts.netloc), "resource.url has more than a path")


async def random(probe: Probe) -> None:
    ids = [(await probe.create()).id for _ in range(3)]
    for one, other in (ids[:2], ids[1:]):
        different = sum(a != b for a, b in zip(one, other, strict=False))
        require(min(len(one), len(other)) >= 22, "an ID has fewer than 22 characters")
        require(different >= 12, "IDs of two results differ in few characters")


# Pages.


async def _ends(probe: Probe) -> AsyncIterator[tuple[Mapping[str, Any], bool]]:
    """Pages at both ends of the result and beyond it, by POST and by GET, and whether rows follow."""
    rows = len(await probe.rows())
    for by_get in (False, True):
        for offset in (0, rows - 6, rows - 5, rows - 3, rows + 5):
            start: dict[str, Any] = {"skip" if by_get else "offset": offset}
            page = await probe.page(by_get=by_get, **start, limit=5)
            yield page, offset + len(page["data"]) < rows


async def returned_count(probe: Probe) -> None:
    async for page, _ in _ends(probe):
        stated, has = page["returned_count"], len(page["data"])
        require(stated == has, f"returned_count is {stated}, of {has} rows")


async def has_next(probe: Probe) -> None:
    async for page, follows in _ends(probe):
        require(page["has_next"] is follows, f"has_next is not {follows}")


async def page_total(probe: Probe) -> None:
    async for page, _ in _ends(probe):
        await _check_total(page, probe)


async def joined(probe: Probe) -> None:
    rows = await probe.rows()
    for size, by_get in ((4, False), (7, False), (5, True)):
        is_same = await probe.walk(size, by_get=by_get) == rows
        how = "GET" if by_get else "POST"
        require(is_same, f"pages of {size} by {how}, joined, are not the {len(rows)} rows of the result")


async def largest(probe: Probe) -> None:
    answer = await probe.send("POST", body={"limit": 10**9})
    if 400 <= answer.status < 500:
        return
    require(answer.status == 200, f"it was answered {answer.status}")
    page, rows = answer.json(), await probe.rows()
    require(page["data"] == rows[: len(page["data"])], "the rows are not the first")
    require(page["has_next"] is (len(page["data"]) < len(rows)), "has_next is wrong")


async def _sorted_rows(
    probe: Probe, *, by_cursor: bool = False, with_nulls: bool = False
) -> AsyncIterator[tuple[str, str, list[Row]]]:
    """A column of numbers, an order, and the pages of the result in this order, joined."""
    rows = await probe.rows()
    names = [
        name for name in await probe.numbers() if not with_nulls or any(row[name] is None for row in rows)
    ]
    if not names:
        raise Untestable("no column of numbers has NULLs")
    keys = [{"field": names[0]}, *({"field": names[0], "order": order} for order in ("asc", "desc"))]
    for key in keys:
        yield names[0], key.get("order", "asc"), await probe.walk(by_cursor=by_cursor, sort=key)


async def sort_order(probe: Probe) -> None:
    async for name, order, rows in _sorted_rows(probe):
        expected = sorted(row[name] for row in await probe.rows() if row[name] is not None)
        values = [row[name] for row in rows if row[name] is not None]
        require(
            values == (expected[::-1] if order == "desc" else expected),
            f"the rows are not sorted by {name} {order}",
        )


async def sorted_joined(probe: Probe) -> None:
    async for name, _, rows in _sorted_rows(probe):
        require(_bag(rows) == _bag(await probe.rows()), f"pages sorted by {name} lose or repeat rows")


def _bag(rows: Sequence[Any]) -> list[str]:
    return sorted(json.dumps(row, sort_keys=True) for row in rows)


async def nulls(probe: Probe) -> None:
    async for name, _, rows in _sorted_rows(probe, with_nulls=True):
        changes = sum((one[name] is None) != (other[name] is None) for one, other in pairwise(rows))
        require(changes == 1, "NULLs come among other values")


async def nulls_last(probe: Probe) -> None:
    async for name, _, rows in _sorted_rows(probe, with_nulls=True):
        require(rows[-1][name] is None, "NULLs come first")


async def several_keys(probe: Probe) -> None:
    names = await probe.numbers()
    rows = await probe.rows()
    complete = [name for name in names if all(row[name] is not None for row in rows)]
    if len(names) < 2 or not complete:
        raise Untestable("the result has not two columns of numbers")
    first, second = next(name for name in names if name != complete[-1]), complete[-1]
    keys = [{"field": first}, {"field": second, "order": "desc"}]
    require((await probe.page(sort=keys)).get("order") == "total", "order is not total")
    walked = await probe.walk(sort=keys)
    values = [(row[first], row[second]) for row in walked]
    pairs = [pair for pair in values if pair[0] is not None]
    require(pairs == sorted(pairs, key=lambda pair: (pair[0], -pair[1])), "it is not sorted by both keys")
    require(_bag(walked) == _bag(rows), "the pages lose or repeat rows")


# The life of a resource, and errors.


async def expired(probe: Probe) -> None:
    if "lifetime" not in probe.schema.get("properties", {}):
        raise Untestable("the tool has no argument `lifetime`, in seconds")
    result = await probe.create(lifetime=1)
    until = _instant(result.metadata.get("expires_at"))
    require(until is not None, "a lifetime of a second has no expires_at")
    assert until is not None
    # It is the passing of time that is tested.
    await asyncio.sleep(min(10.0, max(0.0, (until - datetime.now(UTC)).total_seconds()) + 1.2))
    for method, parameters in (("POST", {"body": {}}), ("GET", {"query": {"skip": "0", "limit": "1"}})):
        answer = await probe.send(method, result=result, **parameters)
        require(answer.status in (404, 410), f"an expired resource was answered {answer.status}")


async def bounded_life(probe: Probe) -> None:
    require((await probe.shared()).metadata.get("expires_at") is not None, "the resource does not expire")


async def unrevealing(probe: Probe) -> None:
    bodies: list[dict[str, Any]] = [
        {"sort": {"field": 'no"such'}},
        {"limit": "1; DROP"},
        {"offset": 2**70},
        {"sort": 1},
        {"limit": None, "sort": [[]]},
    ]
    answers = [await probe.send("POST", body=body) for body in bodies]
    answers.append(await probe.send("GET", query={"limit": "1'"}))
    for answer in answers:
        probe.last = answer
        if answer.status >= 400:
            match = _DATABASE_WORDS.search(answer.text)
            require(not match, f"an error has the words {match and match[0]!r}")


# Discovery and metadata.


async def base_url(probe: Probe) -> None:
    document, result = await probe.service(), await probe.shared()
    require(document.get("baseUrl") == result.base, "baseUrl is not where the results are")
    version = document.get("version")
    require(version == standard()["version"], f"the version is {version}")
    parts = document.get("parts")
    require(isinstance(parts, list) and set(parts) & set(standard()["optional"]), "parts names none of them")


async def capability(probe: Probe) -> None:
    extensions = probe.model.server_capabilities.extensions
    if extensions is None and probe.model.protocol_version < "2026":
        raise Untestable(f"protocol {probe.model.protocol_version} has no extensions")
    entry, document = (extensions or {}).get(standard()["extension"], {}), await probe.service()
    for name in ("baseUrl", "version", "parts"):
        require(
            entry.get(name) == document.get(name), f"{name} of the capability is not that of the document"
        )


async def undeclared(probe: Probe) -> None:
    async with connected(probe.target, [advertise(standard()["extension"])]) as model:
        declared, plain = await probe.create(model), await probe.shared()
    require(declared.structured.keys() == plain.structured.keys(), "the structure depends on the declaration")
    require((await probe.page(plain, limit=1))["data"], "without a declaration there are no rows")


async def description_total(probe: Probe) -> None:
    await _check_total((await probe.send("GET")).json(), probe)


async def description_expiry(probe: Probe) -> None:
    description, metadata = (await probe.send("GET")).json(), (await probe.shared()).metadata
    one, other = _instant(description.get("expires_at")), _instant(metadata.get("expires_at"))
    is_same = one == other or (one and other and abs(one - other) < timedelta(seconds=2))
    require(is_same, f"expires_at is {one} in the metadata and {other} in the tool result")


# Cursors, totals, columns.


async def cursors_joined(probe: Probe) -> None:
    rows = await probe.rows()
    require(await probe.walk(by_cursor=True) == rows, "the pages by cursor, joined, are not the result")
    async for name, _, walked in _sorted_rows(probe, by_cursor=True):
        require(_bag(walked) == _bag(rows), f"the pages by cursor, sorted by {name}, lose or repeat rows")


async def foreign_cursor(probe: Probe) -> None:
    cursor = (await probe.page(limit=4)).get("next_cursor")
    answer = await probe.send("POST", result=await probe.create(), body={"cursor": cursor, "limit": 4})
    require(400 <= answer.status < 500, f"a cursor of another resource was answered {answer.status}")


async def exact_total(probe: Probe) -> None:
    rows, result = len(await probe.rows()), await probe.shared()
    for stated in (await probe.page(limit=5), result.metadata):
        kind, count = stated.get("total_count_kind", "exact"), stated["total_count"]
        require((kind == "none") is (count is None), f"the total is {count} and {kind}")
        require(kind != "exact" or count == rows, f"the exact total is {count}, of {rows} rows")
        require(kind != "capped" or count <= rows, f"the lower bound is {count}, of {rows} rows")


async def columns(probe: Probe) -> Sequence[Mapping[str, Any]]:
    page = await probe.page(limit=5)
    require(page.get("columns"), "a page has no columns")
    described = [probe.valid("Column", column) for column in page["columns"]]
    names = [column["name"] for column in described]
    require(len(set(names)) == len(names), "names of columns repeat")
    # The names of a JSON object have no order, so that of other tools is not known.
    first = (await probe.rows())[0]
    is_same = names == list(first) if probe.target.is_documented else set(names) == first.keys()
    require(is_same, "the columns are not those of the result, in their order")
    return described


_WHOLE = r"-?\d+"
_JSON_FORMS: Mapping[str, tuple[type | tuple[type, ...], str]] = {
    "text": (str, ""),
    "integer": (int, ""),
    "integer-string": (str, rf"{_WHOLE}$"),
    "float": ((int, float), ""),
    "decimal": (str, rf"{_WHOLE}(\.\d+)?([eE][+-]?\d+)?$|-?(NaN|Infinity)$"),
    "boolean": (bool, ""),
    "date": (str, r"-?\d{4,}-\d\d-\d\d$|-?infinity$"),
    "time": (str, r"\d\d:\d\d"),
    "datetime": (str, r"-?\d{4,}-\d\d-\d\dT\d\d:\d\d|-?infinity$"),
    "interval": (str, r"-?P"),
    "uuid": (str, r"[0-9a-fA-F-]{36}$"),
    "base64": (str, r"[A-Za-z0-9+/]*={0,2}$"),
    "array": (list, ""),
}
"""The type of a value in JSON by encoding, and how a text begins."""


async def encodings(probe: Probe) -> None:
    rows = await probe.rows()
    for column in await columns(probe):
        kind, form = _JSON_FORMS.get(column.get("encoding", "any"), (object, ""))
        for row in rows:
            value = row[column["name"]]
            is_right = value is None or isinstance(value, kind)
            is_right = is_right and (type(value) is not bool or kind in (bool, object))
            is_right = is_right and (not isinstance(value, str) or re.match(form, value) is not None)
            require(is_right, f"{value!r} in {column['name']} is no {column.get('encoding')}")


# Streams.


async def _lines(probe: Probe, **query: str) -> tuple[Exchange, list[bytes]]:
    answer = await probe.send("GET", "/rows", query=query)
    require(answer.status == 200, f"the stream was answered {answer.status}")
    return answer, answer.content.splitlines(keepends=True)


def _decode(lines: Sequence[bytes]) -> list[Any]:
    try:
        return [json.loads(line) for line in lines]
    except (ValueError, RecursionError) as error:
        raise Violation("a line of the stream is not JSON") from error


async def stream(probe: Probe) -> None:
    answer, lines = await _lines(probe)
    kind = answer.headers.get("content-type", "")
    require(kind.startswith("application/x-ndjson"), f"the stream is {kind}")
    rows = [row for row in _decode(lines) if "$summary" not in row]
    require(rows == await probe.rows(), "the lines are not the rows of the result")


async def summary(probe: Probe) -> None:
    *rows, last = _decode((await _lines(probe))[1]) or [None]
    require(isinstance(last, dict) and last.keys() == {"$summary"}, "the last line is no $summary")
    stated = probe.valid("StreamSummary", last["$summary"])
    require(stated == {"rows": len(rows), "complete": True}, f"the summary is {stated}, of {len(rows)} rows")


async def stream_sort(probe: Probe) -> None:
    (name, *_), rows = await probe.numbers(), await probe.rows()
    values = [row[name] for row in rows if row[name] is not None]
    for prefix, expected in (("", sorted(values)), ("-", sorted(values, reverse=True))):
        lines = _decode((await _lines(probe, sort=f"{prefix}{name}"))[1])
        sorted_values = [row[name] for row in lines if row.get(name) is not None]
        require(sorted_values == expected, f"sort={prefix}{name} does not sort the stream")
    limited = _decode((await _lines(probe, limit="5"))[1])
    require(len([row for row in limited if "$summary" not in row]) == 5, "limit=5 does not give five rows")


async def resume_token(probe: Probe) -> tuple[str, list[bytes]]:
    answer, lines = await _lines(probe)
    token = answer.headers.get("dualsql-resume", "")
    if not token and answer.headers.get("dualsql-no-resume"):
        raise Untestable("the server says that this stream cannot be resumed")
    require(token, "the stream has no header Dualsql-Resume")
    return token, lines


async def resumed(probe: Probe) -> None:
    token, lines = await resume_token(probe)
    for after in (0, 7, len(lines) - 1):
        _, rest = await _lines(probe, resume=token, after=str(after))
        require(lines[:after] + rest == lines, f"after {after} rows, the rest is another")


async def changed(probe: Probe) -> None:
    token, lines = await resume_token(probe)
    for row, status in ((lines[6], 200), (lines[5], 409)):
        digest = sha256(row.rstrip(b"\n")).hexdigest()[:32]
        query = {"resume": token, "after": "7", "last": digest}
        answer = await probe.send("GET", "/rows", query=query)
        require(answer.status == status, f"it was answered {answer.status} in place of {status}")
