"""One page of a result, by offset or by cursor, and cursors, sealed for one resource, order and principal."""

from __future__ import annotations

import hmac
import json as plain_json
from base64 import urlsafe_b64decode
from binascii import b2a_base64
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache
from hashlib import sha512
from typing import Any, NamedTuple
from uuid import UUID

import orjson
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESSIV

from dualsql import plan
from dualsql.errors import (
    BadCursorError,
    BadParameterError,
    DualResponseError,
    NotFreezableError,
    QueryTimeoutError,
)
from dualsql.formats import json
from dualsql.formats.cells import are_heavy, integer_columns, run_heavy
from dualsql.formats.writer import PlainPage, Rows, WrittenRows
from dualsql.freeze import Seal
from dualsql.freeze.values import Values
from dualsql.plan import KeyedSelect, KeysetPosition, Ordered
from dualsql.resource import Total, instant, within
from dualsql.results.access import AccessControl
from dualsql.results.view import CursorScope, ReadTarget
from dualsql.settings import Settings
from dualsql_client.wire import Column, CutCell, Page, PageOrder, Row, SortKey, TotalCountKind

_LONGEST_CURSOR = 16 * 1024
"""Characters of a cursor."""

_PURPOSE = b"dualsql.cursors/1"
_VERSION = b"\x01"
_VALUES = Values({})


class Cursor(NamedTuple):
    """A keyset position, and what the page that gave the cursor knew about it.

    Attributes:
        row: the number of rows before the position.
        has_rows_behind: there were rows on the other side of it.
    """

    position: KeysetPosition
    row: int
    has_rows_behind: bool = True


class Cursors:
    """Writes cursors with the first secret of a seal, and reads them with any of its secrets."""

    def __init__(self, seal: Seal) -> None:
        self._seal = seal

    def write(self, cursor: Cursor | None, scope: CursorScope) -> str | None:
        """The cursor as text. None for no cursor, for one that is too long, and for values without an exact text."""
        if cursor is None:
            return None
        try:
            payload = _packed(cursor)
        except NotFreezableError:
            return None
        cipher = _cipher(self._seal.subkeys(_PURPOSE)[0], scope)
        text = _encoded(_VERSION + cipher.encrypt(payload, [_VERSION]))
        return text if len(text) <= _LONGEST_CURSOR else None

    def read(self, text: str, scope: CursorScope) -> Cursor:
        """Read a cursor that `write` made for the same scope; raises BadCursorError for any other text."""
        sealed = _decoded(text)
        if sealed[:1] != _VERSION:
            raise BadCursorError
        for key in self._seal.subkeys(_PURPOSE):
            try:
                return _unpacked(_cipher(key, scope).decrypt(sealed[1:], [_VERSION]))
            except InvalidTag:
                continue
        raise BadCursorError


@lru_cache(1_000)
def _cipher(subkey: bytes, scope: CursorScope) -> AESSIV:
    """The cipher of a scope, with a key of 64 bytes. Each part has its length before it: no two scopes are equal."""
    texts = (scope.key, scope.reader, scope.tenant)
    fields = [scope.order, *(b"" if text is None else b"=" + text.encode() for text in texts)]
    key = hmac.digest(subkey, b"".join(len(part).to_bytes(8, "big") + part for part in fields), sha512)
    return AESSIV(key)


def _packed(cursor: Cursor) -> bytes:
    position = cursor.position
    # In a standard class: asyncpg has a UUID class of its own.
    values = [
        _VALUES.write(UUID(int=value.int) if isinstance(value, UUID) else value) for value in position.values
    ]
    document = [
        cursor.row, cursor.has_rows_behind, position.is_backward, position.equal_before, position.equal_after, values
    ]  # fmt: skip
    try:
        return orjson.dumps(document)
    except TypeError:
        # PostgreSQL and SQLite may hold text that is not valid Unicode. It comes back unchanged.
        return _JSON.encode(document).encode("utf-8", "surrogatepass")


_JSON = plain_json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


def _unpacked(payload: bytes) -> Cursor:
    row, has_rows_behind, is_backward, equal_before, equal_after, values = plain_json.loads(
        payload.decode("utf-8", "surrogatepass")
    )
    position = KeysetPosition(
        values=tuple(map(_VALUES.read, values)),
        is_backward=is_backward,
        equal_before=equal_before,
        equal_after=equal_after,
    )
    return Cursor(position, row, has_rows_behind)


def _encoded(sealed: bytes) -> str:
    return b2a_base64(sealed).translate(_URL_SAFE, b"=\n").decode()


_URL_SAFE = bytes.maketrans(b"+/", b"-_")


def _decoded(text: str) -> bytes:
    if len(text) > _LONGEST_CURSOR or not text.isascii():
        raise BadCursorError
    try:
        sealed = urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except ValueError:
        raise BadCursorError from None
    if _encoded(sealed) != text:  # Python skips characters outside the alphabet
        raise BadCursorError
    return sealed


_START, _WITHOUT_ROWS = b'{"data":', b'{"data":[]'
"""What a page begins with in JSON, with rows and without."""


@dataclass(slots=True, kw_only=True, eq=False)  # frozen ones take three times as long to make
class ResultPage:
    """Rows `offset` to `offset + len(rows)` of a result.

    Attributes:
        rows: objects by column name; values are what `formats.json.dumps` takes.
        text, columns_text: in place of `rows` and `columns`, these in JSON, see `PageRequest.takes_text`.
        total_count, total_count_kind: as of creation or of a later count, corrected by what this page shows.
        offset: for a page by cursor, counted from the page that gave the cursor.
        cached: the rows come from the cache, see `Settings.result_cache`.
        order: "partial" if the rows may have another order at the next read.
        next_cursor, previous_cursor: None at the ends, and for results that can be paged only by offset.
        as_of: when the run began that the rows are of, if they are kept.
        is_heavy: the rows are written in a thread; see `formats.cells.are_heavy`.
        has_odd_times: see `formats.row_objects.are_odd_times`.
        cut: the cells that `PageRequest.cell_limit` cut; None if none was asked for.
    """

    columns: Sequence[Column]
    rows: Sequence[Row]
    row_count: int
    total_count: int | None
    total_count_kind: TotalCountKind
    offset: int
    has_next: bool
    has_previous: bool
    order: PageOrder
    cached: bool
    next_cursor: str | None
    previous_cursor: str | None
    expires_at: datetime | None
    as_of: datetime | None = None
    notes: Sequence[str] = ()
    is_heavy: bool = False
    has_odd_times: bool = True
    cut: Sequence[CutCell] | None = None
    text: bytes | None = None
    columns_text: orjson.Fragment | None = None

    def to_json(self) -> bytes:
        """The page as the REST endpoints answer."""
        page = self.to_wire()
        if self.text is None:
            return json.dumps(page, has_odd_times=self.has_odd_times)
        # orjson would copy a Fragment of the rows twice.
        page["data"] = []
        envelope = json.dumps(page, has_odd_times=self.has_odd_times)
        return b"".join((_START, self.text, envelope[len(_WITHOUT_ROWS) :]))

    def to_wire(self) -> Page:
        """The page as JSON."""
        following = self.offset + self.row_count
        data: Any = list(self.rows) if self.text is None else orjson.Fragment(self.text)
        columns: Any = list(self.columns) if self.columns_text is None else self.columns_text
        page: Page = {
            "data": data,
            "columns": columns,
            "total_count": self.total_count,
            "total_count_kind": self.total_count_kind,
            "returned_count": self.row_count,
            "offset": self.offset,
            "skip": self.offset,
            "has_next": self.has_next,
            "has_previous": self.has_previous,
            "has_prev": self.has_previous,
            "next_offset": following if self.has_next else None,
            "order": self.order,
            "cached": self.cached,
            "next_cursor": self.next_cursor,
            "previous_cursor": self.previous_cursor,
            "expires_at": None if self.expires_at is None else instant(self.expires_at),
        }
        if self.notes:
            page["notes"] = list(self.notes)
        if self.cut is not None:
            page["cut"] = list(self.cut)
        return page


class PageRequest(NamedTuple):
    """A request for a page of a result.

    Attributes:
        offset: the number of rows before the page.
        limit: the maximum number of rows; None for `Settings.default_page_size`.
        sort: the order of the rows; empty for the result's own.
        cursor: `next_cursor` or `previous_cursor` of another page with the same sort, instead of an offset.
        integer_strings: write whole numbers as strings, for readers that store numbers as doubles.
        cell_limit: cut texts, bytes and documents after so many characters.
        takes_text: the page is only written as JSON, so that its rows may be JSON already.
    """

    offset: int = 0
    limit: int | None = None
    sort: Sequence[SortKey] = ()
    cursor: str | None = None
    integer_strings: bool = False
    cell_limit: int | None = None
    takes_text: bool = False

    def checked(self, settings: Settings) -> PageRequest:
        """The request with its `size` as the limit."""
        return self if (size := self.size(settings)) == self.limit else self._replace(limit=size)

    def size(self, settings: Settings) -> int:
        """The maximum number of rows of the page; raises BadParameterError for a request that is not valid."""
        if self.cursor is not None and self.offset:
            raise BadParameterError("cursor and offset cannot be combined.", hint="Give one of them.")
        within("offset", self.offset, 0, settings.maximum_offset)
        within("the number of sort keys", len(self.sort), 0, settings.maximum_sort_keys)
        if self.cell_limit is not None:
            within("cell_limit", self.cell_limit, 1, LONGEST_CELL)
        default = min(settings.default_page_size, settings.maximum_page_size)
        return within("limit", default if self.limit is None else self.limit, 1, settings.maximum_page_size)


FIRST_PAGE = PageRequest()

LONGEST_CELL = 2**31 - 1
"""The largest `cell_limit`."""


class ResultPages:
    """Reads the pages of one server's results."""

    def __init__(self, cursors: Cursors, access: AccessControl) -> None:
        self._cursors = cursors
        self._access = access

    async def read(self, target: ReadTarget, request: PageRequest) -> ResultPage:
        """Read the page. It is recorded in the audit, and a sliding expiry starts again.

        Args:
            request: as `PageRequest.checked` gave it.

        Raises:
            RateLimitedError: see `AccessControl.admit`. The others: see `ResultServer.read_page`.
        """
        self._access.admit("ask", target.principal)
        page = None
        while page is None:
            try:
                page = await self._read(target, request)
            except DualResponseError as error:
                if target.instead is None:
                    from dualsql.databases.failures import raise_for_input

                    raise_for_input(error, target.input_kind, target.reads_conversions)
                    hint = target.late_hint
                    if hint and isinstance(error, QueryTimeoutError):
                        raise QueryTimeoutError(error.message, hint=hint, details=error.details) from error
                    raise
                target = await target.instead(error)
        await self._access.note("read", target.principal, resource=target.resource, rows=page.row_count)
        expires_at = await self._access.note_access(target.resource)
        return page if expires_at == page.expires_at else replace(page, expires_at=expires_at)

    def query(
        self, target: ReadTarget, request: PageRequest
    ) -> tuple[Ordered, CursorScope, Cursor | None, KeyedSelect]:
        """The rows in order, the scope of their cursors, the cursor of the request, the Select; raises as `read`."""
        assert request.limit is not None, "PageRequest.checked gives it one"
        # One row more than the limit tells whether there is a next page: a count could not, once rows change.
        rows, limit = target.view.ordered(request.sort), request.limit + 1
        scope = target.scope(rows)
        if request.cursor is None:
            return rows, scope, None, plan.windowed(rows.keyed_window, rows, request.offset, limit)
        plan.require_keyset(rows)
        start = self._cursors.read(request.cursor, scope)
        return rows, scope, start, plan.page_beside(rows, start.position, limit=limit)

    async def _read(self, target: ReadTarget, request: PageRequest) -> ResultPage:
        view = target.view
        rows, scope, start, select = self.query(target, request)
        maker = view.record_maker(integer_columns(view.columns) if request.integer_strings else ())
        page = None
        # Cursors of other orders need all rows.
        if request.takes_text and request.cell_limit is None and maker.plain and rows.order.is_unique:
            page = PlainPage(maker.plain, request.limit or 0, _is_backward(start))
        fetched, is_cached = await view.page(select, page)
        page_rows = _page_rows(fetched, request, start)
        following, preceding = _cursors(page_rows, select, rows, start)
        total = _corrected_total(target.total, page_rows, is_counted=start is None)
        text = fetched.text if isinstance(fetched, WrittenRows) else None
        # After the columns of the result come the keys of the cursor that are not among them.
        unwritten = page_rows.rows if text is None else ()
        values = [row[: len(view.columns)] for row in unwritten] if select.added else unwritten
        is_heavy = bool(values) and are_heavy(view.columns, values)

        def make_records() -> tuple[list[Row], bool, Sequence[CutCell] | None]:
            records = maker.page_records(values) if values else ([], False)
            if request.cell_limit is None:
                return *records, None
            from dualsql.formats.cell_limit import cut_cells

            return *records, cut_cells(records[0], request.cell_limit)

        records, has_odd_times, cut = await run_heavy(make_records) if is_heavy else make_records()
        return ResultPage(
            columns=maker.describe() if text is None else (),
            rows=records,
            text=text,
            columns_text=None if text is None else maker.described_text,
            row_count=page_rows.row_count,
            is_heavy=is_heavy,
            has_odd_times=has_odd_times,
            cut=cut,
            total_count=total.rows,
            total_count_kind=total.kind,
            offset=page_rows.offset,
            has_next=page_rows.has_next,
            has_previous=page_rows.has_previous,
            order="total" if rows.order.is_total else "partial",
            cached=is_cached,
            next_cursor=self._cursors.write(following, scope) if page_rows.has_next else None,
            previous_cursor=self._cursors.write(preceding, scope) if page_rows.has_previous else None,
            expires_at=target.resource.expires_at,
            as_of=view.as_of,
            notes=[*view.output.notes, *target.notes],
        )


def _is_backward(start: Cursor | None) -> bool:
    return start is not None and start.position.is_backward


class _PageRows(NamedTuple):
    """The rows of a page in the result's order, without the extra row that was read.

    Attributes:
        rows: the first and the last only, if they were written.
    """

    rows: Rows
    row_count: int
    offset: int
    has_previous: bool
    has_next: bool


def _page_rows(fetched: Rows | WrittenRows, request: PageRequest, start: Cursor | None) -> _PageRows:
    limit = request.limit or 0
    count, has_more = min(len(fetched), limit), len(fetched) > limit
    is_backward = _is_backward(start)
    if isinstance(fetched, WrittenRows):
        rows = fetched.edges
    else:
        rows = fetched[limit - 1 :: -1] if is_backward else fetched[:limit]
    if start is None:
        return _PageRows(rows, count, request.offset, has_previous=request.offset > 0, has_next=has_more)
    if not is_backward:
        return _PageRows(rows, count, start.row, has_previous=start.has_rows_behind, has_next=has_more)
    # Rows inserted since then would make the number negative.
    offset = max(start.row - count, 0) if has_more else 0
    return _PageRows(rows, count, offset, has_previous=has_more, has_next=start.has_rows_behind)


def _corrected_total(total: Total, page_rows: _PageRows, *, is_counted: bool) -> Total:
    """The total, corrected by the rows of the page: rows may have been inserted or deleted since the count.

    Args:
        is_counted: this read counted the offset from the first row.
    """
    end = page_rows.offset + page_rows.row_count
    if page_rows.has_next or not is_counted:
        return total.at_least(end + page_rows.has_next)
    if page_rows.row_count or not page_rows.offset:
        return Total(end, "exact")
    return total.at_most(page_rows.offset)


def _cursors(
    page_rows: _PageRows, select: KeyedSelect, rows: Ordered, start: Cursor | None
) -> tuple[Cursor | None, Cursor | None]:
    """The cursors of the next and the previous page, if there are any."""
    if not (page_rows.has_next or page_rows.has_previous):
        return None, None
    position = None if start is None else start.position
    is_backward, is_unique = _is_backward(start), rows.order.is_unique
    # In the direction of reading, the rows begin at `near` and end at `far`.
    near, far, in_direction = page_rows.offset, page_rows.offset + page_rows.row_count, page_rows.rows
    if is_backward:
        near, far, in_direction = far, near, in_direction[::-1]
    if is_unique:
        in_direction = [*in_direction[:1], *in_direction[-1:]]
    keys = [values for values in map(select.values_of, in_direction) if values is not None]
    ahead = behind = None
    if not in_direction:
        # The row of the cursor and all rows after it were deleted.
        behind = None if position is None else Cursor(position.reversed(), near, has_rows_behind=False)
    elif len(keys) == len(in_direction):
        if is_unique:
            # No other row has their values: a position is behind its row.
            ahead = Cursor(KeysetPosition(keys[-1], is_backward), far)
            behind = Cursor(KeysetPosition(keys[0], not is_backward), near)
        else:
            is_begun = page_rows.offset == 0
            last = plan.position_ahead(keys, position, is_begun=is_begun)
            first = plan.position_behind(keys, position, is_begun=is_begun)
            ahead, behind = last and Cursor(last, far), first and Cursor(first, near)
    return (behind, ahead) if is_backward else (ahead, behind)
