"""Keep what is derived of documents; the rule: it is found by the document itself, and holds nothing of a principal.

A row that was replaced has another document, so nothing that is kept here is ever taken for it. Whoever asks comes
in later: rules are written into the SQL by the compiler (`dualsql.narrowing`), values are bound when it is executed.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence

from dualsql import plan
from dualsql.columns import driver_names
from dualsql.dialects import Capabilities
from dualsql.meanings import STANDARD, Meanings
from dualsql.narrowing.form import Form
from dualsql.plan import Ordered, Shape
from dualsql.statement import Statement
from dualsql_client.wire import SortKey

_MOST_BYTES = 512 * 1024
"""Of documents; a thawed statement takes some hundred times as much memory."""

_MOST_ORDERS = 16
"""Of one document: its own, and those that readers sort by."""


class Derived:
    """What is derived of one statement: its shape, and the orders that it is read in.

    Attributes:
        shape: as `plan.shape` gives it.
        names: of its columns, as a driver tells them.
    """

    def __init__(self, statement: Statement, meanings: Meanings = STANDARD) -> None:
        self.shape: Shape = plan.shape(statement, meanings)
        self.names = driver_names(self.shape.columns)
        self._orders: OrderedDict[object, Ordered] = OrderedDict()

    def ordered(self, capabilities: Capabilities, form: Form, sort: Sequence[SortKey]) -> Ordered:
        """The statement in the order asked for, where `form` hides columns.

        Raises:
            UnknownColumnError: a sort key names no column of the result.
        """
        # A form is the same for all whom the same rules hold for, whoever they are.
        key = (form, tuple((part["field"], part.get("order")) for part in sort))
        found = self._orders.get(key)
        if found is None:
            found = plan.ordered(self.shape, capabilities, sort=sort, is_masked=form.hides)
            self._orders[key] = found
            if len(self._orders) > _MOST_ORDERS:
                self._orders.popitem(last=False)
        return found


class Plans:
    """What was derived of the documents that were read last, at most `most_bytes` of them."""

    def __init__(self, most_bytes: int = _MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self._bytes = 0
        self._found: OrderedDict[tuple[str, bytes], Derived] = OrderedDict()

    def __len__(self) -> int:
        return len(self._found)

    def derived(
        self,
        source: str,
        document: bytes,
        thaw: Callable[[bytes], Statement],
        meanings: Meanings = STANDARD,
    ) -> Derived:
        """What is derived of a document on a source; `thaw` reads it when it is not known yet."""
        key = (source, document)
        found = self._found.get(key)
        if found is not None:
            self._found.move_to_end(key)
            return found
        found = Derived(thaw(document), meanings)
        if len(document) <= self._most_bytes:
            self._found[key] = found
            self._bytes += len(document)
            self._forget()
        return found

    def _forget(self) -> None:
        while self._bytes > self._most_bytes:
            (_, document), _ = self._found.popitem(last=False)
            self._bytes -= len(document)
