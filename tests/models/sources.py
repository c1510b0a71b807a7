"""Mapped classes over sources that are no tables: unions of concrete tables, a subquery, a join, a ranked alias."""

from __future__ import annotations

from decimal import Decimal
from typing import Any, ClassVar

from sqlalchemy import ForeignKey, Numeric, String, and_, func, join, select
from sqlalchemy.ext.declarative import AbstractConcreteBase, ConcreteBase
from sqlalchemy.orm import Mapped, aliased, column_property, mapped_column, relationship

from tests.models.models import Base


class Employee(ConcreteBase, Base):
    """Every class has a table of its own; those of all are read as one."""

    __tablename__ = "employee"

    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(String(40))
    __mapper_args__ = {"polymorphic_identity": "employee", "concrete": True}


class Chief(Employee):
    __tablename__ = "chief"

    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(String(40))
    bonus: Mapped[Decimal | None] = mapped_column(Numeric(8, 2))
    __mapper_args__ = {"polymorphic_identity": "chief", "concrete": True}


class Vehicle(AbstractConcreteBase, Base):
    """No table at all."""

    strict_attrs = True
    label: Mapped[str] = mapped_column(String(20))


class Car(Vehicle):
    __tablename__ = "car"

    id: Mapped[int] = mapped_column(primary_key=True)
    doors: Mapped[int | None]
    __mapper_args__ = {"polymorphic_identity": "car", "concrete": True}


class Boat(Vehicle):
    __tablename__ = "boat"

    id: Mapped[int] = mapped_column(primary_key=True)
    mast: Mapped[str | None] = mapped_column(String(10))
    __mapper_args__ = {"polymorphic_identity": "boat", "concrete": True}


class Shelf(Base):
    __tablename__ = "shelf"

    id: Mapped[int] = mapped_column(primary_key=True)
    room: Mapped[str] = mapped_column(String(10))
    books: Mapped[list[Book]] = relationship(back_populates="shelf")
    newest: ClassVar[Any]


class Book(Base):
    __tablename__ = "book"

    id: Mapped[int] = mapped_column(primary_key=True)
    shelf_id: Mapped[int | None] = mapped_column(ForeignKey("shelf.id"))
    title: Mapped[str] = mapped_column(String(20))
    year: Mapped[int]
    shelf: Mapped[Shelf | None] = relationship(back_populates="books")


_ranked = select(
    Book, func.row_number().over(partition_by=Book.shelf_id, order_by=Book.year.desc()).label("rank")
).subquery()
Newest = aliased(Book, _ranked)
# A relationship to an alias.
Shelf.newest = relationship(
    Newest,
    primaryjoin=and_(Shelf.id == _ranked.c.shelf_id, _ranked.c.rank == 1),
    viewonly=True,
    uselist=False,
)

_years = (
    select(Book.shelf_id, func.count().label("books"), func.max(Book.year).label("last"))
    .where(Book.shelf_id.is_not(None))
    .group_by(Book.shelf_id)
    .subquery("years")
)


class Years(Base):
    """A subquery."""

    __table__ = _years
    __mapper_args__ = {"primary_key": [_years.c.shelf_id]}


_shelves, _books = Shelf.__table__, Book.__table__


class Placed(Base):
    """A join."""

    __table__ = join(_shelves, _books, _shelves.c.id == _books.c.shelf_id)
    shelf_id = column_property(_shelves.c.id, _books.c.shelf_id)
    book_id = _books.c.id
