"""Tables in Markdown (GFM 4.10) as rows; the rule: a table whose rows do not fit its head is none."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from dualsql_client.wire import Row

_MAXIMUM_ROWS = 10_000
_DELIMITER = re.compile(r"\s*\|?\s*:?-+:?\s*(?:\|\s*:?-+:?\s*)*\|?\s*")
_BETWEEN = re.compile(r"(?<!\\)\|")


def read_tables(lines: Sequence[str]) -> list[list[Row]]:
    """All tables among these lines. Cells are text; an empty one is None."""
    return [rows for start in _heads(lines) if (rows := _rows(lines, start)) is not None]


def _heads(lines: Sequence[str]) -> Iterator[int]:
    for number in range(1, len(lines)):
        if "|" in lines[number - 1] and "-" in lines[number] and _DELIMITER.fullmatch(lines[number][:2_000]):
            yield number - 1


def _rows(lines: Sequence[str], start: int) -> list[Row] | None:
    names = _cells(lines[start])
    if not all(names) or len(set(names)) < len(names) or len(_cells(lines[start + 1])) != len(names):
        return None
    rows: list[Row] = []
    for line in lines[start + 2 : start + 2 + _MAXIMUM_ROWS]:
        if "|" not in line:
            break
        cells = _cells(line)
        if len(cells) != len(names):
            return None
        rows.append({name: cell or None for name, cell in zip(names, cells, strict=True)})
    return rows


def _cells(line: str) -> list[str]:
    inner = line.strip()
    inner = inner.removeprefix("|")
    inner = inner[:-1] if inner.endswith("|") and not inner.endswith("\\|") else inner
    return [cell.replace("\\|", "|").strip().strip("*`").strip() for cell in _BETWEEN.split(inner)]
