"""A library whose tables have all that a catalogue can tell: comments, keys, views, schemas, enumerations."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from sqlalchemy import (
    JSON,
    Column,
    Enum,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    Numeric,
    String,
    Table,
    UniqueConstraint,
    false,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import Dialect

from dualsql import Principal, SavedQuery
from dualsql.catalogue import Catalogue, Visible
from dualsql.freeze import Registry
from dualsql.tenancy import Hook, Mask, Policy, RowFilter, Shared, TenantFilter
from dualsql.tenancy.visibility import visible_names

ANA = Principal(id="ana", tenant="acme")
BOB = Principal(id="bob", tenant="globex")

metadata = MetaData()
authors = Table(
    "authors",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("name", String(60), nullable=False, comment="As printed on the cover"),
    Column("salary", Numeric(10, 2), info={"description": "What the house pays, in euros"}),
    Column("tenant", String(20)),
    comment="People who write",
)
books = Table(
    "books",
    metadata,
    Column("isbn", String(13), primary_key=True),
    Column("author_id", ForeignKey("authors.id")),
    Column("genre", Enum("crime", "verse", name="genre")),
    Column("shelf", String(4)),
    Column("place", Integer),
    Column("extra", JSON),
    UniqueConstraint("shelf", "place"),
    Index("by_author", "author_id", unique=True),
    info={"description": "One row for each edition"},
)
best = Table("best sellers", metadata, Column("isbn", String(13)), info={"is_view": True}, schema="reports")
wages = Table(
    "wages", metadata, Column("author_id", ForeignKey("authors.id"), primary_key=True), schema="staff"
)
notes = Table(
    "notes",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("wage", ForeignKey("staff.wages.author_id")),
)
registry = Registry(metadata)

SQLITE = sqlite.dialect()
POSTGRESQL = postgresql.dialect()


RULES: tuple[Hook, ...] = (
    TenantFilter(column="tenant", value=lambda principal: principal.tenant),
    RowFilter(wages, lambda principal: wages.c.author_id > 0 if principal.tenant == "acme" else false()),
    Mask(authors.c.salary, unless=lambda principal: principal.id == "ana"),
    Shared(books, best, notes),
)


def catalogue(
    hooks: Sequence[Hook] = (),
    *,
    sources: dict[str, Dialect] | None = None,
    visible: Visible | None = None,
    queries: Sequence[SavedQuery] = (),
    of: Registry = registry,
) -> Catalogue:
    names = partial(visible_names, Policy(of, hooks))
    return Catalogue(of, sources or {"main": SQLITE}, names, visible=visible, queries=queries)


def names_of(found: Catalogue, principal: Principal | None) -> list[str]:
    return sorted(at.name for at in found.view_for(principal).tables)
