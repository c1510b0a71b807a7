"""Mapped classes whose rows are not what `selected_columns` says: eager loads, deferred columns, inheritance.

`fill` puts them on any engine.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Column, Connection, ForeignKey, Integer, String, Table, func, select
from sqlalchemy.ext.hybrid import hybrid_property
from sqlalchemy.orm import (
    DeclarativeBase,
    Mapped,
    Session,
    column_property,
    composite,
    mapped_column,
    query_expression,
    relationship,
    synonym,
)
from sqlalchemy.types import DateTime, TypeDecorator


class Base(DeclarativeBase):
    """All of it."""


class Moment(TypeDecorator[dt.datetime]):
    """A type with code of its own."""

    impl = DateTime
    cache_ok = True

    def process_result_value(self, value: Any, dialect: Any) -> Any:
        return value


class Account(Base):
    __tablename__ = "account"
    id: Mapped[int] = mapped_column(primary_key=True)
    email: Mapped[str]
    password_hash: Mapped[str]
    at: Mapped[dt.datetime] = mapped_column(Moment)
    houses: Mapped[list[House]] = relationship(back_populates="owner", lazy="joined")


class House(Base):
    """Eager loads of a class and of a collection, and deferred columns."""

    __tablename__ = "house"
    id: Mapped[int] = mapped_column(primary_key=True)
    plan: Mapped[str] = mapped_column(deferred=True)
    name: Mapped[str]
    photo: Mapped[str] = mapped_column(deferred=True, deferred_group="large")
    size: Mapped[int | None]
    at: Mapped[dt.datetime] = mapped_column(Moment)
    owner_id: Mapped[int | None] = mapped_column(ForeignKey("account.id"))
    owner: Mapped[Account | None] = relationship(back_populates="houses", lazy="joined")
    rooms: Mapped[list[Room]] = relationship(back_populates="house", lazy="joined")


class Room(Base):
    """An eager load that leaves rooms of no house out. Its columns have other names than its attributes."""

    __tablename__ = "room"
    id: Mapped[int] = mapped_column("room_no", primary_key=True)
    title: Mapped[str] = mapped_column("room_title")
    house_id: Mapped[int | None] = mapped_column(ForeignKey("house.id"))
    house: Mapped[House | None] = relationship(back_populates="rooms", lazy="joined", innerjoin=True)


class Node(Base):
    """A tree that loads two levels of itself, with columns that are computed."""

    __tablename__ = "node"
    id: Mapped[int] = mapped_column(primary_key=True)
    parent_id: Mapped[int | None] = mapped_column(ForeignKey("node.id"))
    label: Mapped[str]
    weight: Mapped[int]
    children: Mapped[list[Node]] = relationship(lazy="joined", join_depth=2)
    calculated: Mapped[int] = query_expression()
    caption: Mapped[str] = synonym("label")

    @hybrid_property
    def heavy(self) -> bool:
        return self.weight > 5


_other = Node.__table__.alias()
Node.double = column_property(Node.weight * 2)
Node.siblings = column_property(
    select(func.count(_other.c.id)).where(_other.c.parent_id == Node.parent_id).scalar_subquery()
)


@dataclass
class Point:
    x: int
    y: int


class Animal(Base):
    """Joined inheritance that loads all of its classes."""

    __tablename__ = "animal"
    id: Mapped[int] = mapped_column(primary_key=True)
    kind: Mapped[str]
    name: Mapped[str]
    home: Mapped[Point] = composite(mapped_column("home_x"), mapped_column("home_y"))
    __mapper_args__ = {"polymorphic_on": "kind", "polymorphic_identity": "animal", "with_polymorphic": "*"}


class Dog(Animal):
    __tablename__ = "dog"
    id: Mapped[int] = mapped_column(ForeignKey("animal.id"), primary_key=True)
    tricks: Mapped[int]
    diary: Mapped[str] = mapped_column(deferred=True)
    __mapper_args__ = {"polymorphic_identity": "dog"}


class Cat(Animal):
    __tablename__ = "cat"
    id: Mapped[int] = mapped_column(ForeignKey("animal.id"), primary_key=True)
    lives: Mapped[int]
    __mapper_args__ = {"polymorphic_identity": "cat"}


class Bill(Base):
    """Single inheritance: one table, three classes."""

    __tablename__ = "bill"
    id: Mapped[int] = mapped_column(primary_key=True)
    kind: Mapped[str] = mapped_column(String(9))
    total: Mapped[int]
    __mapper_args__ = {"polymorphic_on": "kind", "polymorphic_identity": "bill"}


class Invoice(Bill):
    due: Mapped[int | None]
    __mapper_args__ = {"polymorphic_identity": "invoice", "polymorphic_load": "inline"}


class Refund(Bill):
    reason: Mapped[str | None]
    __mapper_args__ = {"polymorphic_identity": "refund"}


plain = Table("plain", Base.metadata, Column("id", Integer, primary_key=True), Column("name", String(9)))


def fill(connection: Connection) -> None:
    """All tables, and a few rows of each."""
    Base.metadata.create_all(connection)
    day = dt.datetime(2024, 5, 1)  # noqa: DTZ001 - the column has no zone
    ann = Account(id=1, email="ann@x", password_hash="HASH1", at=day)
    bob = Account(id=2, email="bob@x", password_hash="HASH2", at=day.replace(day=2))
    with Session(connection) as session:
        session.add_all([ann, bob])
        for number, (name, owner) in enumerate(
            [("a", 1), ("b", 1), ("c", 2), ("d", None), ("a", 2)], start=1
        ):
            session.add(
                House(
                    id=number,
                    name=name,
                    plan=f"P{number}",
                    photo="F",
                    size=number % 3,
                    at=day,
                    owner_id=owner,
                )
            )
        session.flush()
        for number, house in enumerate([1, 1, 2, None, 5, None], start=1):
            session.add(Room(id=number, title=f"r{number}", house_id=house))
        for number, parent in enumerate([None, 1, 1, 2, 4, None], start=1):
            session.add(Node(id=number, parent_id=parent, label=f"n{number}", weight=number * 2))
            session.flush()
        session.add_all(
            [
                Animal(name="it", home=Point(1, 2)),
                Dog(name="rex", home=Point(3, 4), tricks=3, diary="woof"),
                Cat(name="tom", home=Point(5, 6), lives=9),
                Dog(name="fido", home=Point(7, 8), tricks=1, diary="yap"),
                Bill(total=1),
                Invoice(total=2, due=3),
                Refund(total=3, reason="late"),
                Invoice(total=4, due=None),
            ]
        )
        session.flush()
        session.execute(plain.insert().values(id=1, name="x"))
        session.commit()
