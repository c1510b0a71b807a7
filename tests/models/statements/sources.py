"""Statements over mapped classes whose sources are no tables."""

from __future__ import annotations

from typing import Any

from sqlalchemy import func, literal, select, union_all
from sqlalchemy.orm import aliased, joinedload, with_polymorphic

from tests.models import sources
from tests.models.sources import Boat, Car, Chief, Employee, Newest, Shelf, Vehicle

# Their attributes are those of their sources.
Placed: Any = sources.Placed
Years: Any = sources.Years

_other = aliased(Employee)
_everyone = with_polymorphic(Employee, [Chief])
_union = with_polymorphic(Employee, "*", flat=True)
_years = aliased(Years)
_placed = aliased(Placed)
_cars = select(Car.id, Car.label).where(Car.doors > 2).subquery()

STATEMENTS: dict[str, Any] = {
    "staff: all": select(Employee),
    "staff: all in order": select(Employee).order_by(Employee.name.desc(), Employee.id),
    "staff: chiefs": select(Chief).where(Chief.bonus > 1),
    "staff: alias": select(_other).where(_other.name != "Ada"),
    "staff: columns": select(Employee.name, Employee.id),
    "staff: count": select(func.count()).select_from(Employee),
    "staff: by name": select(Employee.name, func.count()).group_by(Employee.name),
    "staff: class and alias": select(Employee, _other).where(Employee.name == _other.name),
    "staff: with polymorphic": select(_everyone),
    "staff: with polymorphic, flat": select(_union.name, _union.id),
    "staff: subquery": select(select(Employee).subquery()),
    "vehicles: all": select(Vehicle),
    "vehicles: by label": select(Vehicle).order_by(Vehicle.label),
    "vehicles: one kind": select(Boat).where(Boat.mast.is_(None)),
    "vehicles: of a subquery": select(aliased(Car, _cars).label),
    "vehicles: names": union_all(select(Car.label), select(Boat.label)),
    "shelves: newest": select(Shelf.room, Newest.title).join(Shelf.newest),
    "shelves: newest or none": select(Shelf, Newest).outerjoin(Shelf.newest),
    "shelves: loaded newest": select(Shelf).options(joinedload(Shelf.newest)),
    "shelves: alias alone": select(Newest).where(Newest.year > 1900),
    "shelves: has a newest": select(Shelf.id).where(Shelf.newest.has(Newest.year > 1950)),
    "years: all": select(Years),
    "years: alias": select(_years).where(_years.books > 1),
    "years: joined": select(Shelf.room, Years.books, Years.last).join(Years, Years.shelf_id == Shelf.id),
    "years: twice": select(Years.last, _years.last).where(Years.shelf_id == _years.shelf_id),
    "placed: all": select(Placed),
    "placed: alias": select(_placed.title, _placed.room).where(_placed.year > 1900),
    "placed: literal": select(Placed.title, literal("x").label("mark")),
}
