"""Cuts the long cells of a page. Loaded with the first page that is asked for with `cell_limit`."""

from __future__ import annotations

from collections.abc import Sequence

from dualsql.formats.json import text
from dualsql_client.wire import UNFIT_KEY, CutCell, Row

_LONG = (str, bytes, bytearray, memoryview, list, tuple, dict)
"""Classes whose values may be long; those of a column of documents are the last three."""


def cut_cells(records: Sequence[Row], limit: int) -> list[CutCell]:
    """Cut cells of more than `limit` characters, in place. A document or a list is cut as a text: its JSON."""
    cells: list[CutCell] = []
    for number, record in enumerate(records):
        for name, value in record.items():
            if isinstance(value, _LONG) and name != UNFIT_KEY:
                whole = text(value)
                if len(whole) > limit:
                    cells.append(CutCell(row=number, column=name, characters=len(whole)))
                    record[name] = whole[:limit]
    return cells
