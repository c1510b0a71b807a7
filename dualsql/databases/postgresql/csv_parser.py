"""Parses the CSV that COPY writes into Arrow batches."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable
from datetime import date
from typing import Any, cast

import orjson

from dualsql.databases.streams import StreamJob
from dualsql.errors import ValueNotRepresentableError
from dualsql.formats.arrow import ArrowSchema, is_list
from dualsql.formats.writer import BatchWriter, Chunk


class CSVParser:
    """Converts complete lines of CSV to chunks of the format of a stream."""

    def __init__(self, job: StreamJob) -> None:
        import pyarrow as pa
        from pyarrow import csv

        self._writer = cast("BatchWriter", job.writer)
        self._arrow: ArrowSchema = self._writer.arrow
        fields, texts = list(self._arrow.schema), self._arrow.texts
        self._names = [str(number) for number in range(len(fields))]
        self._converters = [
            None if number in texts else _converter_after_parsing(job, position)
            for number, position in enumerate(job.positions)
        ]
        as_text = {pa.duration("us"): pa.int64()}
        self._types = [
            pa.string() if converter else as_text.get(field.type, field.type)
            for field, converter in zip(fields, self._converters, strict=True)
        ]
        self._conversion = csv.ConvertOptions(
            null_values=[""],
            # COPY writes NULL as nothing and an empty text as "".
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        )
        self._layout = csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=False)

    def parse(self, lines: bytes) -> Chunk:
        """The rows of these lines.

        Raises:
            ValueNotRepresentableError: a value has no Arrow type.
        """
        from pyarrow import ArrowInvalid

        try:
            table = self._read(lines, dict(zip(self._names, self._types, strict=True)))
        except ArrowInvalid as error:
            raise self._unfit(lines) or error from error
        columns = []
        for number, (column, converter) in enumerate(zip(table.columns, self._converters, strict=True)):
            try:
                columns.append(_converted(column, converter))
            except ValueError as error:
                raise self._arrow.unfit(number) from error
        return self._writer.batch(self._arrow.batch_of_columns(columns))

    def _read(self, lines: bytes, types: dict[str, Any]) -> Any:
        import pyarrow as pa
        from pyarrow import csv

        whole = csv.ReadOptions(column_names=self._names, use_threads=False, block_size=len(lines) + 1)
        self._conversion.column_types = types
        return csv.read_csv(
            pa.BufferReader(lines),
            read_options=whole,
            parse_options=self._layout,
            convert_options=self._conversion,
        )

    def _unfit(self, lines: bytes) -> ValueNotRepresentableError | None:
        """The error for the first column that cannot be parsed, without the parser's message: it contains a value."""
        import pyarrow as pa

        as_texts = dict.fromkeys(self._names, pa.string())
        # Column by column, only once parsing has failed: the message of pyarrow does not name the column.
        for number, type_ in enumerate(self._types):
            try:
                self._read(lines, {**as_texts, self._names[number]: type_})
            except pa.ArrowInvalid:
                return self._arrow.unfit(number)
        return None


def _converted(column: Any, converter: Callable[[str], Any] | None) -> Any:
    if converter is None:
        return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    return [None if value is None else converter(value) for value in column.to_pylist()]


def _converter_after_parsing(job: StreamJob, position: int) -> Callable[[str], Any] | None:
    """The function that converts a text for which pyarrow has no parser."""
    column = job.columns[position]
    if column.encoding == "base64":
        return b64decode
    if not is_list(column):
        return None
    return _dates if column.describe()["items"] == "date" else orjson.loads


def _dates(text: str) -> list[date | None]:
    return [None if day is None else date.fromisoformat(day) for day in orjson.loads(text)]
