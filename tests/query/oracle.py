"""What a question's answer has to be, by polars over the full rows. Nothing here knows any SQL."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from operator import and_, or_
from typing import Any

import polars as pl

from tests.query.readings import READINGS

_TYPES: Mapping[str, Any] = {
    "id": pl.Int64, "small": pl.Int64, "big": pl.Int64, "price": pl.Decimal(20, 2), "ratio": pl.Float64,
    "flag": pl.Boolean, "day": pl.Date, "moment": pl.Datetime("us"), "clock": pl.Time,
    "span": pl.Duration("us"), "code": pl.String, "blob": pl.Binary,
}  # fmt: skip
_EVERY = {"year": "1y", "quarter": "1q", "month": "1mo", "week": "1w", "day": "1d", "hour": "1h"}

Rows = list[dict[str, Any]]


def lower_by_letter(text: str) -> str:
    """The text with each letter in lower case by itself, as PostgreSQL, MariaDB and DuckDB have it."""
    return "".join(letter.lower()[0] for letter in text)


def lower_ascii(text: str) -> str:
    """The text with the letters A to Z in lower case, as SQLite has it."""
    return "".join(letter.lower() if letter.isascii() else letter for letter in text)


Lower = Callable[[str], str]


def answer(
    spec: Mapping[str, Any], rows: Sequence[Mapping[str, Any]], *, lower: Lower = lower_by_letter
) -> Rows:
    """The rows that answer `spec`, whose values are Python's, in order; `lower` as the database has it."""
    frame = _frame(rows)
    if spec.get("filters"):
        frame = frame.filter(reduce(and_, (_condition(part, lower) for part in spec["filters"])))
    grouped = bool(spec.get("group_by") or spec.get("aggregates"))
    frame = _grouped(frame, spec) if grouped else frame
    keys = [(key["column"], key["order"] == "desc") for key in spec.get("order_by", ())]
    if grouped:
        keys += [(name, False) for name in map(_name, spec.get("group_by", ())) if name not in dict(keys)]
    if keys:
        frame = frame.sort(
            [name for name, _ in keys],
            descending=[down for _, down in keys],
            nulls_last=True,
            maintain_order=True,
        )
    if spec.get("columns"):
        frame = frame.select(spec["columns"])
    return frame.to_dicts()


def _frame(rows: Sequence[Mapping[str, Any]]) -> pl.DataFrame:
    schema = {column.name: _TYPES.get(column.name, pl.String) for column in READINGS.c}
    plain = [row | {"code": None if row["code"] is None else str(row["code"])} for row in map(dict, rows)]
    return pl.DataFrame(plain, schema=schema, orient="row")


def _condition(part: Mapping[str, Any], lower: Lower = lower_by_letter) -> Any:
    for word, combine in (("and", and_), ("or", or_)):
        if word in part:
            return reduce(combine, (_condition(one, lower) for one in part[word]))
    if "not" in part:
        return ~_condition(part["not"], lower)
    return _compared(pl.col(part["column"]), part["op"], part.get("value"), lower)


def _small(column: pl.Expr, lower: Lower) -> pl.Expr:
    return column.map_elements(lower, return_dtype=pl.String)


def _compared(column: pl.Expr, operator: str, value: Any, lower: Lower) -> Any:
    match operator:
        case "is_null":
            return column.is_null() if value is not False else column.is_not_null()
        case "in":
            return reduce(or_, (column == one for one in value))
        case "between":
            return (column >= value[0]) & (column <= value[1])
        case "contains":
            return column.str.contains(value, literal=True)
        case "contains_any_case":
            return column.str.contains(value, literal=True) | _small(column, lower).str.contains(
                lower(value), literal=True
            )
        case "starts_with":
            return column.str.starts_with(value)
        case _:
            return getattr(column, f"__{operator}__")(value)


def _grouped(frame: pl.DataFrame, spec: Mapping[str, Any]) -> pl.DataFrame:
    figures = [_figure(part).alias(_figure_name(part)) for part in spec.get("aggregates", ())]
    groups = [_group(part).alias(_name(part)) for part in spec.get("group_by", ())]
    if not groups:
        answer = frame.select(figures)
    elif not figures:
        answer = frame.select(groups).unique()
    else:
        answer = frame.group_by(groups).agg(figures)
    if spec.get("having"):
        answer = answer.filter(reduce(and_, map(_condition, spec["having"])))
    return answer


def _group(part: Mapping[str, Any]) -> pl.Expr:
    column = pl.col(part["column"])
    if "bucket" not in part:
        return column
    cut = column.dt.truncate(_EVERY[part["bucket"]])
    return cut if part["bucket"] == "hour" else cut.cast(pl.Date)


def _name(part: Mapping[str, Any]) -> str:
    return f"{part['column']}_{part['bucket']}" if "bucket" in part else str(part["column"])


def _figure_name(part: Mapping[str, Any]) -> str:
    if part["function"] == "percentile":
        return f"p{part['fraction'] * 100:g}_{part['column']}"
    return f"{part['function']}_{part['column']}" if "column" in part else str(part["function"])


def _figure(part: Mapping[str, Any]) -> pl.Expr:
    if "column" not in part:
        return pl.len()
    column = pl.col(part["column"])
    match part["function"]:
        case "count":
            return column.count()
        case "count_distinct":
            return column.drop_nulls().n_unique()
        case "sum":
            # Of 64-bit numbers, beyond 64 bits: polars would go round.
            wide = column.cast(pl.Decimal(38, 0)) if part["column"] == "big" else column
            return pl.when(column.count() > 0).then(wide.sum())
        case "avg":
            return column.cast(pl.Float64).mean()
        case "median":
            return column.cast(pl.Float64).quantile(0.5, "linear")
        case "percentile":
            return column.cast(pl.Float64).quantile(part["fraction"], "linear")
        case extreme:
            actual: pl.Expr = getattr(column, extreme)()
            return actual
