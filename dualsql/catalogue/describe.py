"""A table or saved query as JSON: types, keys, comments."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal, NotRequired

from sqlalchemy import Enum, ForeignKeyConstraint, Table, UniqueConstraint
from sqlalchemy.engine import Dialect
from sqlalchemy.exc import CompileError, NoReferenceError
from sqlalchemy.types import TypeEngine
from typing_extensions import TypedDict

from dualsql.formats.text import single_line
from dualsql.saved_queries import SavedQuery

MOST_COLUMNS = 300
"""Columns of one table that are described. The description states the number of all columns."""

_LONGEST_COMMENT = 1_000
_MOST_VALUES = 50


class ColumnDefinition(TypedDict):
    """One column. `values` are those of an enumeration; of a `masked` one the caller sees no real value."""

    name: str
    type: str
    nullable: bool
    comment: str | None
    values: NotRequired[list[str]]
    masked: NotRequired[bool]


class ForeignKeyForModel(TypedDict):
    """Columns that refer to columns of another table."""

    columns: list[str]
    target_table: str
    target_columns: list[str]


class ForeignKey(ForeignKeyForModel):
    """The same, with what identifies the other table. Flat, so that it is a row of a table in texts."""

    target_schema: str
    target_uri: str


class TableDefinition(TypedDict):
    """A table or view as one principal sees it.

    `sql_name` is how SQL names it; `rows` says whether the caller sees all of them. Foreign keys to what the caller
    does not see are left out.
    """

    kind: Literal["table", "view"]
    source: str
    schema: str
    name: str
    sql_name: str
    comment: str | None
    rows: Literal["all", "filtered"]
    column_count: int
    columns: list[ColumnDefinition]
    primary_key: list[str]
    unique: list[list[str]]
    foreign_keys: list[ForeignKey]


class QueryDefinition(TypedDict):
    """A saved query; `parameters` is a JSON Schema of what it takes."""

    kind: Literal["query"]
    source: str
    name: str
    comment: str | None
    parameters: dict[str, Any]
    reads: list[str]


@dataclass(frozen=True, slots=True)
class TableLink:
    """A foreign key: columns of this table, and the ones of the other."""

    columns: list[str]
    target: Any
    target_columns: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFacts:
    """The facts about a table that are the same for every caller.

    Attributes:
        columns: by their keys in `table.c`.
    """

    sql_name: str
    comment: str | None
    columns: dict[str, ColumnDefinition]
    primary_key: list[str]
    unique: list[list[str]]
    links: Sequence[TableLink]


def facts_of(table: Any, dialect: Dialect) -> TableFacts:
    """Describe a registered table, with names and types as a database of `dialect` writes them."""
    constraints = list(table.constraints) if isinstance(table, Table) else []
    return TableFacts(
        sql_name=dialect.identifier_preparer.format_table(table),
        comment=comment_of(table),
        columns={str(key): _column(column, dialect) for key, column in table.c.items()},
        primary_key=_names(table.primary_key),
        unique=_unique(table, constraints),
        links=_links(constraints),
    )


def comment_of(item: Any) -> str | None:
    """The comment of a table or column, else the "description" in its `info`."""
    return _words_or_none(getattr(item, "comment", None) or getattr(item, "info", {}).get("description"))


def brief(query: SavedQuery) -> str | None:
    """A short description of a saved query."""
    return _words_or_none(query.description)


def _words_or_none(words: object) -> str | None:
    return single_line(words, _LONGEST_COMMENT) if isinstance(words, str) and words.strip() else None


def is_view(table: Any) -> bool:
    """Whether a Table is a view: SQLAlchemy made it with CREATE VIEW, or its `info` has "is_view"."""
    return bool(getattr(table, "is_view", False) or getattr(table, "info", {}).get("is_view"))


def declared_type(type_: TypeEngine[Any], dialect: Dialect) -> str:
    """The database's name of the type."""
    try:
        return single_line(type_.compile(dialect=dialect), 200)
    except (CompileError, NotImplementedError):  # a type of another database or of the application
        return type(type_).__name__


def _column(column: Any, dialect: Dialect) -> ColumnDefinition:
    definition = ColumnDefinition(
        name=str(column.name),
        type=declared_type(column.type, dialect),
        # Some databases allow a primary key without NOT NULL.
        nullable=bool(column.nullable) and not column.primary_key,
        comment=comment_of(column),
    )
    if isinstance(column.type, Enum) and column.type.enums:
        definition["values"] = [single_line(str(value), 200) for value in column.type.enums[:_MOST_VALUES]]
    return definition


def _links(constraints: Iterable[Any]) -> list[TableLink]:
    links = []
    for constraint in constraints:
        if isinstance(constraint, ForeignKeyConstraint):
            with suppress(NoReferenceError):  # to a table that was never defined
                targets = [str(key.column.name) for key in constraint.elements]
                links.append(TableLink(_names(constraint.columns), constraint.referred_table, targets))
    return sorted(links, key=lambda link: link.columns)


def _unique(table: Any, constraints: Iterable[Any]) -> list[list[str]]:
    """The unique sets of columns besides the primary key."""
    uniques = [item for item in constraints if isinstance(item, UniqueConstraint)]
    indexed = [item for item in getattr(table, "indexes", ()) if item.unique]
    return sorted(
        {tuple(names): names for item in [*uniques, *indexed] if (names := _names(item.columns))}.values()
    )


def _names(columns: Any) -> list[str]:
    return [str(column.name) for column in columns]
