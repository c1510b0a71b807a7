"""The parameters of GET /{id}/profile."""

from __future__ import annotations

from collections.abc import Sequence

from dualsql.errors import BadParameterError, refuse_unknown
from dualsql.http.parameters import MAXIMUM_NAME_LENGTH, split_query

PROFILE_METHODS = ("GET", "HEAD", "OPTIONS")
PROFILE_QUERY = ("kind", "columns")


def parse_profile(query_string: bytes) -> tuple[str, Sequence[str] | None]:
    """The kind and the columns, of `?kind=full&columns=state,name`; None where no columns are named.

    Raises:
        BadParameterError: a name is unknown or repeated, or a value is malformed.
    """
    values = split_query(query_string)
    refuse_unknown(values, PROFILE_QUERY, "query parameter")
    names = values["columns"].split(",") if "columns" in values else None
    if names is not None and (len(set(names)) != len(names) or not all(map(_is_name, names))):
        raise BadParameterError(
            "columns names each column once, joined by commas.", details={"name": "columns"}
        )
    return values.get("kind", "sample"), names


def _is_name(name: str) -> bool:
    return 0 < len(name) <= MAXIMUM_NAME_LENGTH
