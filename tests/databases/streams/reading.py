"""What a stream's bytes say, as plain values. Only what the format and its announced columns tell is used."""

from __future__ import annotations

import csv
import datetime as dt
import io
import json
import math
from base64 import b64decode
from collections.abc import AsyncGenerator, Callable, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
from openpyxl import load_workbook
from openpyxl.utils.escape import unescape
from pyarrow import parquet

from dualsql.columns.result import ResultColumn, driver_names
from dualsql.databases.source import Source
from dualsql.databases.streams import StreamJob, stream_rows
from dualsql.formats.json import dumps
from dualsql.formats.table import FORMATS
from dualsql.formats.writer import Chunk, StreamEnd, Writer, WriterOptions
from dualsql.tenancy import ActiveRules

Table = dict[str, list[Any]]


def stream_chunks(
    source: Source,
    statement: Any,
    rules: ActiveRules,
    columns: Sequence[ResultColumn],
    writer: Writer,
    places: Sequence[int] | None = None,
    expected_rows: int | None = None,
) -> AsyncGenerator[Chunk, None]:
    """What is between the head and the end of a stream."""
    return stream_rows(
        StreamJob(
            source=source,
            statement=statement,
            rules=rules,
            columns=columns,
            described=driver_names(columns),
            subset=places,
            writer=writer,
            expected_rows=expected_rows,
        )
    )


async def streamed(
    source: Source,
    statement: Any,
    rules: ActiveRules,
    columns: Sequence[ResultColumn],
    format_name: str,
    places: Sequence[int] | None = None,
    options: WriterOptions | None = None,
    expected_rows: int | None = None,
) -> bytes:
    """The whole stream, from head to end."""
    chosen = columns if places is None else [columns[place] for place in places]
    writer: Writer = FORMATS[format_name].writer(chosen, source.engine.dialect, options or WriterOptions())
    pieces, count = [writer.head()], 0
    async for chunk in stream_chunks(source, statement, rules, columns, writer, places, expected_rows):
        pieces.append(chunk.data)
        count += chunk.rows
    pieces.append(writer.end(StreamEnd(count)))
    return b"".join(pieces)


def read(format_name: str, data: bytes, columns: Sequence[ResultColumn]) -> Table:
    """The cells by column, in a form that is the same for every format."""
    if format_name == "ndjson":
        lines = [json.loads(line) for line in data.splitlines()]
        assert lines.pop() == {"$summary": {"rows": len(lines), "complete": True}}
        actual = {column.name: [line[column.name] for line in lines] for column in columns}
    elif format_name == "json":
        actual = {column.name: [line[column.name] for line in json.loads(data)] for column in columns}
    elif format_name == "csv":
        actual = read_csv(data)
    elif format_name == "xlsx":
        actual = read_xlsx(data)
    else:
        actual = read_arrow(format_name, data)
    encodings = {column.name: column.describe()["encoding"] for column in columns}
    return {name: [_plain(value, encodings[name]) for value in values] for name, values in actual.items()}


def read_csv(data: bytes) -> Table:
    """Fields as text; NULL, which is an empty field without quotes, as None."""
    text = data.decode()
    assert text.endswith("\r\n")
    rows, row, field, quoted, was_quoted = [], [], io.StringIO(), False, False
    at = 0
    while at < len(text):
        letter = text[at]
        if quoted and letter == '"' and text[at + 1] == '"':
            field.write('"')
            at += 1
        elif letter == '"':
            quoted, was_quoted = not quoted, True
        elif not quoted and letter in ",\r":
            row.append(field.getvalue() if was_quoted or field.getvalue() else None)
            field, was_quoted = io.StringIO(), False
            if letter == "\r":
                assert text[at + 1] == "\n"
                at += 1
                rows.append(row)
                row = []
        else:
            field.write(letter)
        at += 1
    names = [name or "" for name in rows.pop(0)]
    plain = [[cell or "" for cell in one] for one in rows]
    # To that reader, an empty line has no field at all.
    assert len(names) == 1 or list(csv.reader(io.StringIO(text, newline="")))[1:] == plain
    return {name: [one[place] for one in rows] for place, name in enumerate(names)}


def read_xlsx(data: bytes) -> Table:
    """Cells of a sheet: texts, booleans, dates, datetimes, times, and numbers as their text."""
    names, *rows = load_workbook(io.BytesIO(data))["Rows"].iter_rows()
    return {
        unescape(str(name.value)): [_of_sheet(row[place]) for row in rows] for place, name in enumerate(names)
    }


def _of_sheet(cell: Any) -> Any:
    value = cell.value
    if cell.data_type == "s":
        return unescape(value)
    if isinstance(value, dt.datetime) and "hh" not in cell.number_format:
        return value.date()
    return repr(value) if type(value) in {int, float} else value


def read_arrow(format_name: str, data: bytes) -> Table:
    """Arrow's own Python values; text that holds JSON is read."""
    if format_name == "parquet":
        file = parquet.ParquetFile(io.BytesIO(data))
        table = file.read()
        assert json.loads(file.metadata.metadata[b"dualsql.rows"]) == table.num_rows
    else:
        batches = list(pa.ipc.open_stream(data).iter_batches_with_custom_metadata())
        last, said = batches.pop()
        table = pa.Table.from_batches([batch for batch, _ in batches], schema=last.schema)
        assert json.loads(said[b"rows"]) == table.num_rows
        assert json.loads(said[b"complete"]) is True
    return {field.name: table.column(field.name).to_pylist() for field in table.schema}


def _plain(value: Any, encoding: str) -> Any:
    """One cell, whatever it came as."""
    return value if value is None else _READERS.get(encoding, _as_it_is)(value)


def _as_it_is(value: Any) -> Any:
    return value


def _float(value: Any) -> Any:
    number = float(value)
    return number if math.isfinite(number) else str(number)


def _structure(value: Any) -> Any:
    read = json.loads(value) if isinstance(value, str) and _is_json(value) else value
    return [str(one) if isinstance(one, dt.date) else one for one in read] if isinstance(read, list) else read


def _iso(kind: Any) -> Callable[[Any], Any]:
    return lambda value: value if isinstance(value, kind) else kind.fromisoformat(value)


_READERS: dict[str, Callable[[Any], Any]] = {
    "boolean": lambda value: value in {True, "true"},
    "integer": int,
    "float": _float,
    "decimal": Decimal,
    "datetime": _iso(dt.datetime),
    "date": _iso(dt.date),
    "time": _iso(dt.time),
    "base64": lambda value: value if isinstance(value, bytes) else b64decode(value),
    "json": _structure,
    "array": _structure,
    "interval": lambda value: json.loads(dumps(value)) if isinstance(value, dt.timedelta) else value,
}


def _is_json(value: str) -> bool:
    try:
        json.loads(value)
    except ValueError:
        return False
    return True
