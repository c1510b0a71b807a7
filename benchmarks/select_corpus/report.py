"""Sum up runs of the corpus: `python report.py OUT...` prints results.json, writes it, and allow_lists.json."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

PARTS = {
    "test/sql + test/base": ("test/sql", "test/base"),
    "test/dialect": ("test/dialect",),
    "test/orm + test/ext": ("test/orm", "test/ext"),
}
MOST_REASONS = 25
STANDING = {
    "text": "allowed",
    "tables": "those of the statement, and of the registries of its mapped classes",
}
Row = dict[str, Any]


def rows(folder: Path) -> Iterator[Row]:
    """The harness' records with the adapter's notes; both have one line for each statement."""
    records = (folder / "rt-main.jsonl").read_text().splitlines()
    notes = (folder / "adapter.jsonl").read_text().splitlines()
    for record, note in zip(records, notes, strict=True):
        row = {**json.loads(record), **json.loads(note)}
        if "1" in row["comp"]:
            yield row


def counted(rows: Iterable[Row]) -> dict[str, Any]:
    """How many were ok, refused and wrong."""
    kinds = Counter("refused" if row.get("fail") else "wrong" if row["bad"] else "ok" for row in rows)
    total = sum(kinds.values())
    share = round(100 * kinds["ok"] / total, 2) if total else None
    return {
        "statements": total,
        **{kind: kinds[kind] for kind in ("ok", "refused", "wrong")},
        "percent": share,
    }


def allowed(folders: list[Path]) -> dict[str, list[str]]:
    """What the statements of all runs needed besides the allow-lists of dualsql."""
    lists: dict[str, set[str]] = {}
    for folder in folders:
        for kind, names in json.loads((folder / "allow_lists.json").read_text()).items():
            lists.setdefault(kind, set()).update(names)
    return {kind: sorted(names) for kind, names in lists.items()}


def _keep(name: str, content: Any) -> str:
    text = json.dumps(content, indent=1)
    Path(__file__).with_name(name).write_text(f"{text}\n")
    return text


def main(folders: list[Path]) -> None:
    """Print and keep the result."""
    corpus = [row for folder in folders for row in rows(folder)]
    result: dict[str, Any] = {}
    for name, prefixes in PARTS.items():
        part = [row for row in corpus if row["id"].startswith(prefixes)]
        result[name] = counted(part)
        result[f"{name}, user-level"] = counted(row for row in part if not row["internal"])
    reasons = Counter(row["why"].removeprefix("Unsupported: ")[:100] for row in corpus if row.get("fail"))
    result["reasons"] = dict(reasons.most_common(MOST_REASONS))
    print(_keep("results.json", result))
    _keep("allow_lists.json", {**STANDING, **allowed(folders)})


if __name__ == "__main__":
    main([Path(argument) for argument in sys.argv[1:]])
