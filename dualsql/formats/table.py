"""The formats of streams, with all their traits: a new format is a writer in a file of its own and a row here."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from dualsql.errors import BadParameterError
from dualsql.formats.writer import ARRAY_SEPARATOR, Format, Resuming
from dualsql_client.wire import PROBLEM_KEY, SUMMARY_KEY


def _of(module: str, name: str) -> Callable[..., Any]:
    """The function of a module of `dualsql.formats` that is loaded when the first caller asks for the format."""

    def call(*arguments: Any) -> Any:
        return getattr(import_module(f"dualsql.formats.{module}"), name)(*arguments)

    return call


class Formats(dict[str, Format]):
    """Formats by name. An unknown name raises BadParameterError."""

    def __missing__(self, name: str) -> Format:
        raise BadParameterError(f"format must not be {name[:40]!r}.", hint=f"Use one of: {', '.join(self)}.")


FORMATS = Formats(
    (each.name, each)
    for each in (
        Format(
            name="ndjson",
            media_type="application/x-ndjson",
            suffix="ndjson",
            writer=_of("ndjson", "NDJSONWriter"),
            title="NDJSON, a row on each line",
            resuming=Resuming(first_row=_of("ndjson", "first_line")),
            is_stateless=True,
            end_keys=frozenset({SUMMARY_KEY, PROBLEM_KEY}),
        ),
        Format(
            name="json",
            media_type="application/json",
            suffix="json",
            writer=_of("json_array", "JSONArrayWriter"),
            title="JSON",
            resuming=Resuming(first_row=_of("json_array", "first_object"), separator=ARRAY_SEPARATOR),
        ),
        Format(
            name="csv",
            media_type="text/csv",
            suffix="csv",
            writer=_of("csv", "csv_writer"),
            title="CSV, for spreadsheets",
            is_for_spreadsheets=True,
            guards_formulas=True,
            excel_title="CSV for Excel",
            parameters="; charset=utf-8; header=present",
            resuming=Resuming(first_row=_of("csv", "first_record")),
            is_stateless=True,
            has_end=False,
        ),
        # These two need the extra dualsql[arrow]. Without it, their writers raise an error that names it.
        Format(
            name="arrow",
            media_type="application/vnd.apache.arrow.stream",
            suffix="arrows",
            writer=_of("arrow", "ArrowWriter"),
            title="Arrow",
            resuming=Resuming(),
        ),
        Format(
            name="parquet",
            media_type="application/vnd.apache.parquet",
            suffix="parquet",
            writer=_of("arrow", "ParquetWriter"),
            title="Parquet",
            is_compressed=True,
        ),
        Format(
            name="xlsx",
            media_type="application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
            suffix="xlsx",
            writer=_of("xlsx", "XLSXWriter"),
            title="Excel",
            is_for_spreadsheets=True,
            is_compressed=True,
        ),
    )
)
"""By name, in order of preference for callers that accept several. The first is the default."""

DEFAULT_FORMAT = next(iter(FORMATS))
