"""What `data_manager` answers clients of seeds/001; the rule: their names for what is ours."""

from __future__ import annotations

from typing import Any, Literal

from typing_extensions import TypedDict

Operation = Literal["query", "schema", "list"]


class Managed(TypedDict, total=False):
    """The answer of one operation.

    `rows`, `columns` and `rowCount` are those of the query; of a schema, `rowCount` is the whole result's, null when
    nobody counted. `schema` says of each column its type and how it is written. `resources` are a listing's, each as
    its schema.
    """

    operation: Operation
    dataAccessId: str
    name: str
    uri: str
    table: str
    columns: list[str]
    schema: list[dict[str, Any]]
    rows: list[dict[str, Any]]
    rowCount: int | None
    hasMore: bool
    expiresAt: str | None
    resources: list[dict[str, Any]]
