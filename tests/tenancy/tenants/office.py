"""What an application's own models add to TPC-H's tables: keys of their own, inheritance, views, odd names.

Rows point across tenants here and there, as rows do after years of care; `office_rows` plants them. What points
to another tenant's row must find nothing.
"""

from __future__ import annotations

from datetime import date
from typing import Any

from sqlalchemy import Column, Date, ForeignKey, Integer, String, Table, func, select
from sqlalchemy.ext.declarative import AbstractConcreteBase
from sqlalchemy.ext.hybrid import hybrid_property
from sqlalchemy.orm import Mapped, column_property, mapped_column, relationship

from tests.tenancy.tenants.tpch import Base, orders

metadata = Base.metadata

# No column says whose: a pair belongs to its document's tenant.
document_tags = Table(
    "document_tags",
    metadata,
    Column("document_id", ForeignKey("documents.id"), primary_key=True),
    Column("tag_id", ForeignKey("tags.id"), primary_key=True),
)


class Person(Base):
    """Joined-table inheritance, and a reference to itself."""

    __tablename__ = "people"
    __mapper_args__ = {"polymorphic_on": "kind", "polymorphic_identity": "person"}

    id: Mapped[int] = mapped_column(primary_key=True)
    tenant_id: Mapped[int | None]
    kind: Mapped[str]
    name: Mapped[str]
    salary: Mapped[int | None]
    joined: Mapped[date]
    manager_id: Mapped[int | None] = mapped_column(ForeignKey("people.id"))
    manager: Mapped[Person | None] = relationship(remote_side="Person.id", back_populates="reports")
    reports: Mapped[list[Person]] = relationship(back_populates="manager")
    documents: Mapped[list[Document]] = relationship(back_populates="author")
    devices: Mapped[list[Device]] = relationship()


class Employee(Person):
    """Its table has a tenant column of its own."""

    __tablename__ = "employees"
    __mapper_args__ = {"polymorphic_identity": "employee"}

    id: Mapped[int] = mapped_column(ForeignKey("people.id"), primary_key=True)
    employer_id: Mapped[int | None] = mapped_column("tenant_id")
    badge: Mapped[str]


class Contractor(Person):
    """Its table has none: a row belongs to its person's tenant."""

    __tablename__ = "contractors"
    __mapper_args__ = {"polymorphic_identity": "contractor"}

    id: Mapped[int] = mapped_column(ForeignKey("people.id"), primary_key=True)
    agency: Mapped[str]


class Document(Base):
    __tablename__ = "documents"

    id: Mapped[int] = mapped_column(primary_key=True)
    tenant_id: Mapped[int | None]
    author_id: Mapped[int | None] = mapped_column(ForeignKey("people.id"))
    title: Mapped[str]
    body: Mapped[str | None]
    pages: Mapped[int]
    author: Mapped[Person | None] = relationship(back_populates="documents")
    tags: Mapped[list[Tag]] = relationship(secondary=document_tags, back_populates="documents")

    @hybrid_property
    def is_long(self) -> bool:
        return self.pages > 5


class Tag(Base):
    __tablename__ = "tags"

    id: Mapped[int] = mapped_column(primary_key=True)
    tenant_id: Mapped[int | None]
    label: Mapped[str]
    documents: Mapped[list[Document]] = relationship(secondary=document_tags, back_populates="tags")


Person.document_count = column_property(
    select(func.count(Document.id))
    .where(Document.author_id == Person.id)
    .correlate_except(Document)
    .scalar_subquery()
)


class Device(Base):
    """Single-table inheritance."""

    __tablename__ = "devices"
    __mapper_args__ = {"polymorphic_on": "kind", "polymorphic_identity": "device"}

    id: Mapped[int] = mapped_column(primary_key=True)
    tenant_id: Mapped[int | None]
    kind: Mapped[str]
    serial: Mapped[str]
    owner_id: Mapped[int | None] = mapped_column(ForeignKey("people.id"))


class Laptop(Device):
    __mapper_args__ = {"polymorphic_identity": "laptop"}

    memory: Mapped[int | None]


class Phone(Device):
    __mapper_args__ = {"polymorphic_identity": "phone"}

    number: Mapped[str | None]


class Asset(AbstractConcreteBase, Base):
    """Concrete-table inheritance: the base is a UNION of its tables."""

    strict_attrs = True

    id: Mapped[int] = mapped_column(primary_key=True)
    tenant_id: Mapped[int | None]
    label: Mapped[str]


class Vehicle(Asset):
    __tablename__ = "vehicles"
    __mapper_args__ = {"polymorphic_identity": "vehicle", "concrete": True}

    id: Mapped[int] = mapped_column(primary_key=True)
    tenant_id: Mapped[int | None]
    label: Mapped[str]
    plate: Mapped[str]


class Room(Asset):
    __tablename__ = "rooms"
    __mapper_args__ = {"polymorphic_identity": "room", "concrete": True}

    id: Mapped[int] = mapped_column(primary_key=True)
    tenant_id: Mapped[int | None]
    label: Mapped[str]
    seats: Mapped[int]


# No key at all, and rows that are equal.
visits = Table("visits", metadata, Column("tenant_id", Integer), Column("day", Date), Column("note", String))

calendar = Table(
    "calendar", metadata, Column("day", Date, primary_key=True), Column("season", String, nullable=False)
)

# Names that must be quoted, and keys that are not the names; the tenant's column too.
oddities = Table(
    'odd "table" %(x)s:y',
    metadata,
    Column("select", Integer, primary_key=True),
    Column("tenant_id", Integer, key="whose"),
    Column("Mixed Case", String, key="mixed"),
    Column("per%cent", Integer, key="percent"),
    Column('quote"d', String, key="quoted"),
    Column("dot.ted (and) :bound", String, key="dotted"),
    Column("ünï", String, key="unicode"),
)

NORTH, SOUTH = "north", "South East"


def _ledger(schema: str | None) -> Table:
    return Table(
        "ledger",
        metadata,
        Column("id", Integer, primary_key=True),
        Column("tenant_id", Integer),
        Column("entry", String, nullable=False),
        Column("amount", Integer, nullable=False),
        schema=schema,
    )


ledger = _ledger(None)
north_ledger, south_ledger = _ledger(NORTH), _ledger(SOUTH)

_author_pages = Table(
    "author_pages",
    metadata,
    Column("tenant_id", Integer, primary_key=True),
    Column("author_id", Integer, primary_key=True),
    Column("documents", Integer, nullable=False),
    Column("pages", Integer, nullable=False),
)
urgent_orders = Table(
    "urgent_orders",
    metadata,
    *(
        Column(column.name, column.type, primary_key=column.primary_key)
        for column in orders.c
        if column.name in {"tenant_id", "o_orderkey", "o_custkey", "o_totalprice", "o_comment"}
    ),
)


class AuthorPages(Base):
    """A class that is mapped on a view."""

    __table__ = _author_pages


VIEWS: dict[Table, Any] = {
    _author_pages: select(
        Document.tenant_id,
        Document.author_id,
        func.count().label("documents"),
        func.sum(Document.pages).label("pages"),
    )
    .where(Document.author_id.is_not(None))
    .group_by(Document.tenant_id, Document.author_id),
    urgent_orders: select(*(orders.c[column.name] for column in urgent_orders.c)).where(
        orders.c.o_orderpriority == "1-URGENT"
    ),
}
IN_SCHEMAS = (north_ledger, south_ledger)
"""Only where a database has schemas."""


def create_schema(connection: Any) -> None:
    """Every table and view that the connection's database can have."""
    has_schemas = connection.dialect.name == "postgresql"
    if has_schemas:
        for schema in (NORTH, SOUTH):
            connection.exec_driver_sql(f'CREATE SCHEMA "{schema}"')
    tables = [
        table
        for table in metadata.tables.values()
        if table not in VIEWS and (has_schemas or table not in IN_SCHEMAS)
    ]
    metadata.create_all(connection, tables=tables)
    for view, query in VIEWS.items():
        written = query.compile(connection, compile_kwargs={"literal_binds": True})
        connection.exec_driver_sql(f"CREATE VIEW {view.name} AS {written}")
