"""Query strings and JSON bodies to a request for a stream; the rule: what pages may say, streams say alike."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dualsql.errors import BadCursorError, BadParameterError
from dualsql.formats.writer import Options
from dualsql.http.fields import (
    MAXIMUM_NAME_LENGTH,
    flag_value,
    integer_form,
    integer_text,
    integer_value,
    json_object,
    sort_text,
    sort_value,
    split_query,
)
from dualsql.reading.resuming import TOKEN_LENGTH, Resumption
from dualsql.suggesting import refuse_unknown
from dualsql_client.wire import SortKey

ROWS_NAMES = (
    "format", "columns", "text_columns", "sort", "limit", "cursor", "big_integers", "guard_formulas", "resume",
    "after", "last",
)  # fmt: skip
_MOST_COLUMNS = 10_000
_TOKEN = re.compile(rf"[A-Za-z0-9_-]{{{TOKEN_LENGTH}}}", re.ASCII)
_DIGEST = re.compile(r"[0-9a-f]{32}", re.ASCII)
_FLAGS = {"true": True, "false": False}


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsParameters:
    """Which rows are asked for, and how; `format` None leaves it to Accept."""

    format: str | None = None
    columns: tuple[str, ...] | None = None
    sort: tuple[SortKey, ...] = ()
    limit: int | None = None
    cursor: str | None = None
    options: Options = field(default_factory=Options)
    resumption: Resumption | None = None


def parse_rows_query(query_string: bytes) -> RowsParameters:
    """Read `?format=csv&columns=name,city&sort=-enrollment&limit=10&guard_formulas=true`.

    A column whose name holds a comma cannot be written here; POST can name it.

    Raises:
        BadParameterError: a name is unknown or repeated, or a value is malformed.
    """
    texts = split_query(query_string)
    refuse_unknown(texts, ROWS_NAMES, "query parameter")
    values: dict[str, Any] = dict(texts)
    for name in ("limit", "after"):
        if name in values:
            values[name] = integer_text(name, texts[name])
    for name in ("columns", "text_columns"):
        if name in values:
            values[name] = texts[name].split(",")
    if "guard_formulas" in values:
        values["guard_formulas"] = _FLAGS.get(texts["guard_formulas"])
    return _read(values, sort_text(texts["sort"]) if "sort" in texts else ())


def parse_rows_body(body: bytes) -> RowsParameters:
    """Read `{"format": "csv", "columns": ["a,b"], "sort": [...], "limit": 10}`; see `wire.RowsRequest`.

    Raises:
        BadParameterError: not JSON, not an object, an unknown key, or a value of a wrong type.
    """
    values = json_object(body)
    refuse_unknown(values, ROWS_NAMES, "key")
    return _read(values, sort_value(values.get("sort")))


def _read(values: Mapping[str, Any], sort: tuple[SortKey, ...]) -> RowsParameters:
    return RowsParameters(
        format=_format(values.get("format")),
        columns=column_names("columns", values["columns"]) if "columns" in values else None,
        sort=sort,
        limit=integer_value("limit", values["limit"]) if "limit" in values else None,
        cursor=_cursor(values.get("cursor")),
        options=Options(
            integer_strings=integer_form(values.get("big_integers", "number")),
            guard_formulas=flag_value("guard_formulas", values.get("guard_formulas", False)),
            text_columns=column_names("text_columns", values["text_columns"])
            if "text_columns" in values
            else (),
        ),
        resumption=_resumption(values),
    )


def _format(value: Any) -> str | None:
    if value is not None and not isinstance(value, str):
        raise BadParameterError("format is a text.", details={"name": "format"})
    return value


def _cursor(value: Any) -> str | None:
    """As opaque as it came; null is none."""
    if value is not None and not isinstance(value, str):
        raise BadCursorError
    return value


def column_names(name: str, value: Any) -> tuple[str, ...]:
    """The names of columns that a parameter of this name lists.

    Raises:
        BadParameterError: it is no list of names, or one of them is there twice.
    """
    if not isinstance(value, list) or not 0 < len(value) <= _MOST_COLUMNS:
        raise _bad_columns(name, f"{name} takes names, one at least.")
    if not all(isinstance(one, str) and 0 < len(one) <= MAXIMUM_NAME_LENGTH for one in value):
        raise _bad_columns(name, f"A column's name has 1 to {MAXIMUM_NAME_LENGTH} characters.")
    if len(set(value)) != len(value):
        raise _bad_columns(name, f"A column appears twice in {name}.")
    return tuple(value)


def _bad_columns(name: str, message: str) -> BadParameterError:
    hint = f'Write {name}=name,city in a URL, ["name", "city"] in a body.'
    return BadParameterError(message, hint=hint, details={"name": name})


def _resumption(values: Mapping[str, Any]) -> Resumption | None:
    if "resume" not in values:
        alone = next((name for name in ("after", "last") if name in values), None)
        if alone:
            raise BadParameterError(f"{alone} means nothing without resume.", details={"name": alone})
        return None
    if "after" not in values:
        raise BadParameterError("resume needs after: how many rows there are.", details={"name": "after"})
    return Resumption(
        token=_matching("resume", values["resume"], _TOKEN),
        after=integer_value("after", values["after"]),
        last=_matching("last", values["last"], _DIGEST) if "last" in values else None,
    )


def _matching(name: str, value: Any, form: re.Pattern[str]) -> str:
    if not isinstance(value, str) or not form.fullmatch(value):
        raise BadParameterError(
            f"{name} is not as a stream announced it, or as its rows give it.", details={"name": name}
        )
    return value
