# ruff: noqa: E501 - a table
"""Files as they are found, and what is read of each, or why it is not."""

from __future__ import annotations

import datetime as dt
import gzip
import json
import sqlite3
from collections.abc import Callable, Collection, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import pyarrow as pa
from backports import zstd
from openpyxl import Workbook
from pyarrow import parquet


class Right(NamedTuple):
    """What is read: types, rows, and a note."""

    types: dict[str, str]
    rows: list[tuple[Any, ...]]
    note: str = ""


ZONE = dt.UTC
BASIC = {"id": "BIGINT", "city": "VARCHAR"}
TOWNS = [(1, "Zürich"), (2, "Genève")]
TEXT = "id,city\n1,Zürich\n2,Genève\n"


def workbook(path: Path) -> None:
    book = Workbook()
    sheet = book.active
    assert sheet is not None
    sheet.append(["a", None, "sum"])
    sheet.append([1, 2, "=A2+B2"])
    sheet.append(["#N/A", 3, None])
    sheet["A3"].data_type = "e"
    hidden = book.create_sheet("costs")
    hidden.append(["x"])
    hidden.append([7])
    hidden.sheet_state = "hidden"
    book.create_sheet("later")
    book.create_chartsheet("picture")
    book.save(path)


def sqlite(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.executescript(
        "CREATE TABLE t (id INTEGER, city, raw, mixed); INSERT INTO t VALUES (1, 'Zürich', x'00ff', 1), "
        "(2, '', NULL, 'a\"b,\n')"
    )
    connection.close()


def bytes_among_texts(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.executescript("CREATE TABLE t (mixed); INSERT INTO t VALUES ('x'), (x'ff')")
    connection.close()


def generated(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.executescript("CREATE TABLE t (a INTEGER, b AS (a * 2)); INSERT INTO t VALUES (21)")
    connection.close()


def database(path: Path) -> None:
    with duckdb.connect(str(path)) as connection:
        connection.execute("CREATE TABLE t AS SELECT 1 AS id, {'a': [1, 2]} AS nested, '10:00'::TIME AS at")
        # A view that would read any file of the machine, had it access to files.
        connection.execute("CREATE VIEW v AS SELECT 1 AS root FROM t")
        connection.execute(f"CREATE VIEW u AS FROM read_text('{__file__}')")


def struct(path: Path) -> None:
    values = pa.array([{"x": 1, "y": ["a"]}, None], pa.struct({"x": pa.int64(), "y": pa.list_(pa.string())}))
    instants = pa.array([1_709_287_200, None], pa.timestamp("s", "UTC"))
    parquet.write_table(pa.table({"nested": values, "at": instants, "tags": [["a"], None]}), path)


def kinds(path: Path) -> None:
    parquet.write_table(
        pa.table(
            {
                "wide": pa.array([Decimal("1" * 38)], pa.decimal128(38, 0)),
                "wider": pa.array([Decimal(10**60)], pa.decimal256(76, 0)),
                "nothing": pa.nulls(1),
                "amounts": pa.array([[Decimal("1.50")]], pa.list_(pa.decimal128(5, 2))),
                "key": pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64())),
                "large": pa.array([2**64 - 1], pa.uint64()),
                "rowid": [5],
            }
        ),
        path,
    )


def integers(path: Path) -> None:
    with duckdb.connect(str(path)) as connection:
        connection.execute(
            f"CREATE TABLE t AS SELECT {2**127 - 1}::HUGEINT AS huge, [1, 2]::INTEGER[2] AS fixed"
        )


def packed(path: Path) -> None:
    with zstd.open(path, "wb") as file:
        file.write(b"id\tcity\n1,\tx\n")


INSTANTS = (
    "at,local\n2024-03-01T10:00:00Z,2024-03-01T10:00:00\n2024-03-01 12:00:00.5+02:00,2024-03-01 10:00\n"
)
LOCAL = dt.datetime.fromisoformat("2024-03-01T10:00:00")
DIRTY: dict[str, tuple[bytes | Callable[[Path], None], Right | str]] = {
    "cp1252.csv": (TEXT.encode("cp1252"), Right(BASIC, TOWNS, "read as cp1252")),
    "latin1.csv": ("n;note\n1;Genève, été\n".encode("latin-1"), Right({"n": "BIGINT", "note": "VARCHAR"}, [(1, "Genève, été")], "cp1252")),
    "late_cp1252.csv": (b"id,city\n" + b"1,x\n" * 90_000 + "2,Zürich\n".encode("cp1252"), Right(BASIC, [(1, "x")] * 90_000 + [(2, "Zürich")], "cp1252")),
    "utf16.csv": (TEXT.encode("utf-16"), Right(BASIC, TOWNS, "read as utf-16")),
    "utf16le.csv": (TEXT.encode("utf-16-le"), Right(BASIC, TOWNS, "read as utf-16-le")),
    "utf8_mark.csv": (TEXT.encode("utf-8-sig"), Right(BASIC, TOWNS)),
    "cp1250.csv": ("id,note\n1,załącznik żółty\n".encode("cp1250"), r"not UTF-8: Line 2 has the byte 0xB3.*--encoding"),
    "mac_roman.csv": ("id,city\n1,Zürich\n2,Café\n".encode("mac_roman"), r"not UTF-8: Line 2 has the byte 0x9F.*--encoding"),
    "cp850.csv": ("id,city\n1,Café\n2,Köln\n".encode("cp850"), r"not UTF-8: Line 2 has the byte 0x82.*--encoding"),
    "archive.csv": (b"PK\x03\x04\x14\0\x06\0", "It is a workbook, or another archive"),
    "old_word.csv": (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\0" * 504, "It is a document of an older office program"),
    "shift_jis.csv": ("id,note\n1,日本語の説明\n".encode("shift_jis"), r"not UTF-8: Line 2.*--encoding"),
    "one_bad_byte.csv": ("id,note\n1,日本語\n2,".encode() + b"\xff\n", r"not UTF-8: Line 3 has the byte 0xFF"),
    "long_row.csv": (b"a,b\n1,2\n3,4,5\n", r"Line: 3 .*Expected Number of Columns: 2 Found: 3\. Each line"),
    "short_row.csv": (b"a,b,c\n1,2,3\n4,5\n", r"Line: 3 .*Expected Number of Columns: 3 Found: 2"),
    "preamble.csv": (b"Report of May\n\na,b\n1,2\n", r"first line has one field, and record 2 has 2 fields"),
    "semicolons.csv": (b"a;b\n1,5;2\n2,5;3\n", Right({"a": "VARCHAR", "b": "BIGINT"}, [("1,5", 2), ("2,5", 3)])),
    "pipes.csv": (b"a|b\n1|x,y\n2|z\n", Right({"a": "BIGINT", "b": "VARCHAR"}, [(1, "x,y"), (2, "z")])),
    "excel_hint.csv": (b"sep=;\r\na;b\r\n1;2\r\n", "first line is 'sep=;', which only Excel reads. Remove it"),
    "commas.tsv": (b"a,b\n1,2\n", Right({"a,b": "VARCHAR"}, [("1,2",)], "no tab is in its first line: read as one column")),
    "open_quote.csv": (b'a,b\n1,"x\n2,y\n', r"Line: 2 .*unterminated quote"),
    "new_lines.csv": (b'a,b\r\n1,"x\r\ny"\r\n', Right({"a": "BIGINT", "b": "VARCHAR"}, [(1, "x\r\ny")])),
    "old_mac.csv": (b"a,b\r1,2\r3,4\r", Right({"a": "BIGINT", "b": "BIGINT"}, [(1, 2), (3, 4)])),
    "not_available.csv": (b"a,b\n1.5,#N/A\n#N/A,x\n", Right({"a": "DECIMAL(2,1)", "b": "VARCHAR"}, [(Decimal("1.5"), "#N/A"), (None, "x")], "a: 1 of #N/A and other errors are NULL")),
    "nameless.csv": (b"a,,b,A\n1,2,3,4\n", Right(dict.fromkeys(["a", "column2", "b", "A_2"], "BIGINT"), [(1, 2, 3, 4)], "1 column without a name")),
    "no_names.csv": (b"1,2.5\n3,4.5\n", Right({"1": "BIGINT", "2.5": "DECIMAL(2,1)"}, [(3, Decimal("4.5"))], "looks like values")),
    "only_names.csv": (b"a,b\n", Right({"a": "VARCHAR", "b": "VARCHAR"}, [])),
    "empty.csv": (b"", "It is empty"),
    "empty_first_lines.csv": (b"\n\r\na\n1\n", "Its first line is empty"),
    "blank.csv": (b"   \n\n", "It is empty"),
    "long_field.csv": (b"a," + b"x" * 200_000 + b"\n1,2\n", "Its first line has .* a field with more than 131,072 characters"),
    "many_names.csv": (",".join(f"column{n}" for n in range(30_000)).encode() + b"\n1\n", "Its first line has more than 256 KiB"),
    "many_columns.csv": (",".join(f"c{n}" for n in range(2_001)).encode() + b"\n", "It has more than 2,000 columns"),
    "one_long_line.csv": (",".join(f"{n}" * 2_000 for n in "abcdefghijklmnopqrstuvwxyzåäöüéèàç").encode(), Right(dict.fromkeys((n * 2_000 for n in "abcdefghijklmnopqrstuvwxyzåäöüéèàç"), "VARCHAR"), [])),
    "long_cell.csv": (b"a,b\n1," + b"x" * 3_000_000 + b"\n", r"Line: 2 Original Line: 1,x{100,200} \.\.\. .*Split the file"),
    "nul.csv": (b"a,b\n1,x\0y\n", "bytes that are NUL.* Remove them, or name its encoding"),
    "dates.csv": (b"iso,us,de\n2024-03-01,03/01/2024,01.03.2024\n", Right({"iso": "DATE", "us": "VARCHAR", "de": "VARCHAR"}, [(dt.date(2024, 3, 1), "03/01/2024", "01.03.2024")])),
    "words.csv": (b'when,select,"a ""b""",rowid\n1,2,3,4\n', Right(dict.fromkeys(["when", "select", 'a "b"', "rowid_2"], "BIGINT"), [(1, 2, 3, 4)])),
    "lines_of_two_kinds.csv": (b"a,b\n1,2\r\n3,4\n", "CSV"),
    "empty.json": (b"[]", "It is empty"),
    "one_column.csv": (b"name\nAnn\nBob", Right({"name": "VARCHAR"}, [("Ann",), ("Bob",)])),
    "instants.csv": (INSTANTS.encode(), Right({"at": "TIMESTAMP WITH TIME ZONE", "local": "TIMESTAMP"}, [(LOCAL.replace(tzinfo=ZONE), LOCAL), (LOCAL.replace(microsecond=500_000, tzinfo=ZONE), LOCAL)])),
    "mixed_zones.csv": (b"at\n2024-03-01T10:00:00Z\n2024-03-01T10:00:00\n", Right({"at": "VARCHAR"}, [("2024-03-01T10:00:00Z",), ("2024-03-01T10:00:00",)])),
    "zipped.csv.gz": (gzip.compress(TEXT.encode("cp1252")), Right(BASIC, TOWNS, "cp1252")),
    "cut.csv.gz": (gzip.compress(TEXT.encode())[:-12], "damaged|gzip|GZIP"),
    "packed.tsv.zst": (packed, Right({"id": "VARCHAR", "city": "VARCHAR"}, [("1,", "x")])),
    "rows.jsonl": (
        b'{"id": 12345678901234567890123, "at": "2024-03-01T10:00:00Z", "code": "007", "ok": true}\n{"id": 1, "in": {"x": [1]}}\n',
        Right(
            {"id": "DECIMAL(23,0)", "at": "TIMESTAMP WITH TIME ZONE", "code": "VARCHAR", "ok": "BOOLEAN", "in": "JSON"},
            [(Decimal(12345678901234567890123), LOCAL.replace(tzinfo=ZONE), "007", True, None), (Decimal(1), None, None, None, '{"x":[1]}')],
        ),
    ),
    "array.json": (json.dumps([{"a": 1.5, "A": "x"}, {"a": 2}]).encode(), Right({"a": "DECIMAL(2,1)", "A_2": "VARCHAR"}, [(Decimal("1.5"), "x"), (Decimal(2), None)])),
    "nulls.json": (b'[{"a": {"x": null}}, {"a": null}, {}]', Right({"a": "JSON"}, [('{"x":null}',), (None,), (None,)])),
    "broken.jsonl": (b'{"a": 1}\n{"a": 2\n', r"Malformed JSON .*line"),
    "struct.parquet": (struct, Right({"nested": "JSON", "at": "TIMESTAMP WITH TIME ZONE", "tags": "VARCHAR[]"}, [('{"x":1,"y":["a"]}', LOCAL.replace(tzinfo=ZONE), ["a"]), (None, None, None)])),
    "types.parquet": (
        kinds,
        Right(
            {"wide": "DECIMAL(38,0)", "wider": "DOUBLE", "nothing": "VARCHAR", "amounts": "DECIMAL(5,2)[]", "key": "JSON", "large": "UBIGINT", "rowid_2": "BIGINT"},
            [(Decimal("1" * 38), 1e60, None, [Decimal("1.50")], '{"a":1}', 2**64 - 1, 5)],
            "wider: decimals of more than 38 digits are read as DOUBLE",
        ),
    ),
    "broken.parquet": (b"PAR1 and nothing", "It is no Parquet file, or was cut off"),
    "broken.xlsx": (b"PK\x03\x04 and nothing", "."),
    "shop.sqlite": (sqlite, Right({"id": "BIGINT", "city": "VARCHAR", "raw": "BLOB", "mixed": "VARCHAR"}, [(1, "Zürich", b"\x00\xff", "1"), (2, "", None, 'a"b,\n')])),
    "bytes.sqlite": (bytes_among_texts, "Row 2 of its table 't' has a text, or bytes among texts"),
    "empty.sqlite": (b"", "It has no tables"),
    "huge.duckdb": (integers, Right({"huge": "HUGEINT", "fixed": "INTEGER[]"}, [(2**127 - 1, [1, 2])])),
    "generated.db": (generated, Right({"a": "BIGINT", "b": "BIGINT"}, [(21, 42)])),
    "broken.db": (b"SQLite format 3\0 and nothing", "SQLite cannot read it"),
    "own.duckdb": (database, Right({"id": "INTEGER", "nested": "JSON", "at": "TIME"}, [(1, '{"a":[1,2]}', dt.time(10))])),
    "broken.duckdb": (b"nothing", "DuckDB database file|not a valid"),
}  # fmt: skip


LARGE = (
    "late_cp1252.csv",
    "long_cell.csv",
    "long_field.csv",
    "many_names.csv",
    "many_columns.csv",
    "one_long_line.csv",
)


def write_dirty_files(
    folder: Path, without: Sequence[str] = (), names: Collection[str] = DIRTY.keys()
) -> None:
    """All of them, or those of these names, and a workbook."""
    for name in names:
        content = DIRTY[name][0]
        if callable(content):
            content(folder / name)
        elif name not in without:
            (folder / name).write_bytes(content)
    workbook(folder / "budget.xlsx")


ONE_OF_EACH = (
    *("semicolons.csv", "commas.tsv", "zipped.csv.gz", "packed.tsv.zst", "array.json", "rows.jsonl"),
    *("struct.parquet", "shop.sqlite", "generated.db", "own.duckdb"),
    *("cp1252.csv", "utf16.csv", "not_available.csv", "nameless.csv"),
    *("shift_jis.csv", "long_row.csv", "preamble.csv", "empty.csv", "nul.csv", "cut.csv.gz"),
    *("broken.jsonl", "broken.parquet"),
)
"""With the workbook, a small file of each kind and each fault."""
