"""Which formats a stream may have. One table, which requests, answers and documentation go by."""

from __future__ import annotations

from collections.abc import Mapping

from dualsql.errors import BadParameterError
from dualsql.formats.arrow import ArrowWriter, ParquetWriter
from dualsql.formats.csv import csv_writer
from dualsql.formats.ndjson import JSONArrayWriter, NDJSONWriter
from dualsql.formats.writer import Format

FORMATS: Mapping[str, Format] = {
    found.name: found
    for found in (
        Format(name="ndjson", media_type="application/x-ndjson", extension="ndjson", writer=NDJSONWriter),
        Format(name="json", media_type="application/json", extension="json", writer=JSONArrayWriter),
        Format(name="csv", media_type="text/csv", extension="csv", writer=csv_writer),
        # These two need the extra dualsql[arrow]; without it, their writers say so.
        Format(
            name="arrow",
            media_type="application/vnd.apache.arrow.stream",
            extension="arrows",
            writer=ArrowWriter,
        ),
        Format(
            name="parquet",
            media_type="application/vnd.apache.parquet",
            extension="parquet",
            writer=ParquetWriter,
        ),
    )
}


def format_named(name: str) -> Format:
    """The format of that name.

    Raises:
        BadParameterError: there is none.
    """
    if name not in FORMATS:
        raise BadParameterError(
            f"There is no format {name[:40]!r}.", hint=f"Known here: {', '.join(FORMATS)}."
        )
    return FORMATS[name]
