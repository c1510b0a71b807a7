"""The pages of a result as someone leafs through them; the rule: only the last few are held."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import NamedTuple

from dualsql_client.answers import FetchResult
from dualsql_client.glance import cell
from dualsql_client.parsed import ParsedDualResponse
from dualsql_client.wire import SortKey, TotalCountKind

ROWS_OF_A_PAGE = 100
PAGES_HELD = 20


class Place(NamedTuple):
    """A cell: the number of its page, its row there and its column, all from 0."""

    page: int
    row: int
    column: int


@dataclass(slots=True)
class Pages:
    """One result in one order.

    Attributes:
        sort: the order asked for; None for the result's own.
        number: of the page that is open, from 0.
        total: rows, worth what `kind` says, as the last page told it.
    """

    parsed: ParsedDualResponse
    sort: SortKey | None = None
    number: int = 0
    total: int | None = None
    kind: TotalCountKind = "none"
    _held: OrderedDict[int, FetchResult] = field(default_factory=OrderedDict)

    @property
    def open(self) -> FetchResult | None:
        """The page at `number`; None before the first one."""
        return self._held.get(self.number)

    @property
    def held(self) -> int:
        """How many pages are in memory."""
        return len(self._held)

    @property
    def last(self) -> int | None:
        """The number of the last page, where that is known."""
        if self.kind != "exact" or self.total is None:
            return None
        return max(0, self.total - 1) // ROWS_OF_A_PAGE

    async def turn_to(self, number: int) -> FetchResult | None:
        """Open a page, the last one for a number beyond it; None when nobody knows the last, and that is none.

        Raises:
            FetchError: see `dualsql_client.errors`; the page that was open still is.
        """
        if self.last is not None:
            number = min(number, self.last)
        page = self._held.get(number) or await self._fetch(number)
        if number and not page.data:
            return None
        self.number, self.total, self.kind = number, page.total_count, page.total_count_kind
        self._hold(number, page)
        return page

    async def sort_by(self, sort: SortKey | None) -> FetchResult | None:
        """Begin anew in another order.

        Raises:
            FetchError: it cannot be had; the order stays.
        """
        other = Pages(self.parsed, sort)
        page = await other.turn_to(0)
        self.sort, self.number, self._held = sort, 0, other._held
        return page

    def find(self, text: str, after: Place) -> Place | None:
        """The next cell that holds `text`, in capitals or not, on the pages held; from the last on to the first."""
        wanted = text.casefold()
        places = [place for place, words in self._cells() if wanted in words.casefold()]
        return next((place for place in places if place > after), places[0] if places else None)

    def _cells(self) -> list[tuple[Place, str]]:
        return [
            (Place(number, at, column), words)
            for number, page in sorted(self._held.items())
            for at, row in enumerate(page.data)
            for column, described in enumerate(page.columns)
            if (words := cell(row.get(described["name"]), 100_000)) is not None
        ]

    async def _fetch(self, number: int) -> FetchResult:
        before, after = self._held.get(number - 1), self._held.get(number + 1)
        cursor = (before and before.next_cursor) or (after and after.previous_cursor)
        if cursor:
            return await self.parsed.fetch(cursor=cursor, limit=ROWS_OF_A_PAGE, sort=self.sort)
        return await self.parsed.fetch(offset=number * ROWS_OF_A_PAGE, limit=ROWS_OF_A_PAGE, sort=self.sort)

    def _hold(self, number: int, page: FetchResult) -> None:
        self._held[number] = page
        self._held.move_to_end(number)
        while len(self._held) > PAGES_HELD:
            self._held.popitem(last=False)
