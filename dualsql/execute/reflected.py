"""Tables made of what an inspector tells; the rule: types that any process can read, and no SQL text.

Types of a driver's own become the nearest of SQLAlchemy's.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import ARRAY, Column, ForeignKeyConstraint, MetaData, PrimaryKeyConstraint, Table
from sqlalchemy.dialects.postgresql import DOMAIN
from sqlalchemy.types import NULLTYPE, Double, Float, NullType, TypeEngine

from dualsql.freeze.types import is_safe

Place = tuple[str | None, str]
"""Schema and name of a table."""


class Description(NamedTuple):
    """What an inspector tells of one table."""

    columns: Sequence[Any]
    key: Any
    references: Sequence[Any]
    comment: str | None


def written(place: Place) -> str:
    """The name, after that of its schema."""
    schema, name = place
    return name if schema is None else f"{schema}.{name}"


def without_strangers(described: Mapping[Place, Description]) -> tuple[dict[Place, Description], list[str]]:
    """The descriptions without columns of types that nobody here knows how to read, and the names of those."""
    kept: dict[Place, Description] = {}
    strangers: list[str] = []
    for place, description in described.items():
        known = [column for column in description.columns if _plain(column["type"]) is not NULLTYPE]
        names = {column["name"] for column in description.columns} - {column["name"] for column in known}
        strangers += [f"{written(place)}.{name}" for name in sorted(names)]
        if known:
            kept[place] = description._replace(columns=known)
    return kept, strangers


def made_tables(described: Mapping[Place, Description], *, views: Collection[Place]) -> dict[Place, Table]:
    """A Table for each description, with references to one another alone."""
    metadata = MetaData()
    made = {
        place: _made(metadata, place, description, is_view=place in views)
        for place, description in described.items()
    }
    for (schema, name), description in described.items():
        for reference in description.references:
            _relate(made, (schema, name), reference)
    return made


def _made(metadata: MetaData, place: Place, description: Description, *, is_view: bool) -> Table:
    columns = [
        Column(
            found["name"],
            _plain(found["type"]),
            nullable=found.get("nullable", True),
            comment=found.get("comment"),
        )
        for found in description.columns
    ]
    table = Table(
        place[1],
        metadata,
        *columns,
        schema=place[0],
        comment=description.comment,
        info={"is_view": True} if is_view else {},
    )
    key = (description.key or {}).get("constrained_columns") or []
    if key and all(name in table.c for name in key):
        table.append_constraint(PrimaryKeyConstraint(*(table.c[name] for name in key)))
    return table


def _plain(type_: TypeEngine[Any]) -> TypeEngine[Any]:
    if isinstance(type_, NullType) or (isinstance(type_, ARRAY) and isinstance(type_.item_type, NullType)):
        return NULLTYPE
    if isinstance(type_, Float) and type_.asdecimal:
        return Double()  # MySQL's dialects would cut its digits at the tenth
    if isinstance(type_, DOMAIN):
        return _plain(type_.data_type)
    if is_safe(type_):
        return type_
    try:
        generic = type_.as_generic()
    except NotImplementedError:
        return NULLTYPE
    return generic if is_safe(generic) else NULLTYPE


def _relate(made: Mapping[Place, Table], place: Place, reference: Mapping[str, Any]) -> None:
    """Add a foreign key whose other end is there too."""
    table = made[place]
    schema, name = reference["referred_schema"], reference["referred_table"]
    other = made.get((schema, name))
    if other is None:
        other = made.get((place[0], name)) if schema is None else None
    near, far = reference["constrained_columns"], reference["referred_columns"]
    if other is None or not all(column in other.c for column in far) or not all(c in table.c for c in near):
        return
    table.append_constraint(ForeignKeyConstraint(near, [other.c[column] for column in far]))
