"""Rows for the tables of `tests.tenancy.tenants.office`. Some point to another tenant's, some belong to none.

Keys are unique in the whole database and interleaved: row `n` of tenant `t` has the key `n * 5 + t`, so the key of
another tenant's row is one off. Tenant 0 stands for no tenant at all: rows whose tenant is NULL.
"""

from __future__ import annotations

from datetime import date, timedelta
from random import Random
from typing import Any

from sqlalchemy import Table

from tests.tenancy.tenants.office import (
    Contractor,
    Device,
    Document,
    Employee,
    Person,
    Room,
    Tag,
    Vehicle,
    calendar,
    document_tags,
    ledger,
    north_ledger,
    oddities,
    south_ledger,
    visits,
)
from tests.tenancy.tenants.tpch_rows import Rows, Tenant

NOBODY = Tenant(0, "nobody", 0.1)
PEOPLE = 24
"""Of a tenant of size 1."""

FIRST_DAY = date(2024, 1, 1)
SEASONS = ("winter", "spring", "summer", "autumn")


def calendar_rows() -> dict[Table, Rows]:
    """Shared by all tenants."""
    days = (FIRST_DAY + timedelta(days=number) for number in range(12))
    return {calendar: [{"day": day, "season": SEASONS[day.day % 4]} for day in days]}


class Office:
    """One tenant's rows.

    Args:
        people: of a tenant of size 1.
    """

    def __init__(self, tenant: Tenant, people: int = PEOPLE) -> None:
        self._tenant = tenant
        self._random = Random(f"office of {tenant.name}")
        self._people = self._some(people)
        self._documents = self._some(people * 2)
        self._tags = self._some(people // 4)

    def rows(self) -> dict[Table, Rows]:
        """Every table's rows."""
        people = [self._person(nth) for nth in self._people]
        tables: dict[Any, Rows] = {
            Person.__table__: people,
            Employee.__table__: [self._employee(row) for row in people if row["kind"] == "employee"],
            Contractor.__table__: [self._contractor(row) for row in people if row["kind"] == "contractor"],
            Document.__table__: [self._document(nth) for nth in self._documents],
            Tag.__table__: [self._row(nth, label=f"tag {nth} {self._canary}") for nth in self._tags],
            document_tags: list(self._pairs()),
            Device.__table__: [self._device(nth) for nth in self._people],
            Vehicle.__table__: [
                self._row(nth, label=f"car {nth}", plate=f"{nth} {self._canary}") for nth in self._tags
            ],
            Room.__table__: [
                self._row(nth, label=f"room {nth} {self._canary}", seats=nth) for nth in self._tags
            ],
            visits: [self._visit(nth) for nth in self._people],
            oddities: [self._oddity(nth) for nth in self._tags],
            **{book: [self._entry(nth, book) for nth in self._tags] for book in _LEDGERS},
        }
        return tables

    @property
    def _whose(self) -> int | None:
        return self._tenant.id or None

    @property
    def _canary(self) -> str:
        return self._tenant.canary

    def _some(self, number: int) -> range:
        return range(1, max(3, round(number * self._tenant.size)) + 1)

    def _row(self, nth: int, **values: Any) -> dict[str, Any]:
        return {"id": nth * 5 + self._tenant.id, "tenant_id": self._whose, **values}

    def _key_of(self, among: range) -> int:
        """The key of a row of ours; every fifth time, of another tenant's."""
        offset = self._random.randrange(5) if self._random.randrange(5) == 0 else self._tenant.id
        return self._random.choice(among) * 5 + offset

    def _perhaps(self, value: Any) -> Any:
        return value if self._random.randrange(4) else None

    def _person(self, nth: int) -> dict[str, Any]:
        return self._row(
            nth,
            kind=("person", "employee", "contractor")[nth % 3],
            name=f"Person {nth % 7}",
            salary=self._perhaps(100 * (nth % 4)),
            joined=FIRST_DAY + timedelta(days=nth % 9),
            manager_id=None if nth == 1 else self._perhaps(self._key_of(range(1, nth))),
        )

    def _employee(self, person: dict[str, Any]) -> dict[str, Any]:
        return {"id": person["id"], "tenant_id": self._whose, "badge": f"badge {person['id']} {self._canary}"}

    def _contractor(self, person: dict[str, Any]) -> dict[str, Any]:
        return {"id": person["id"], "agency": f"agency {person['id'] % 3} {self._canary}"}

    def _document(self, nth: int) -> dict[str, Any]:
        return self._row(
            nth,
            author_id=self._perhaps(self._key_of(self._people)),
            title=f"Document {nth % 9}",
            body=self._perhaps(f"text {nth} {self._canary}"),
            pages=nth % 11,
        )

    def _pairs(self) -> Any:
        for nth in self._documents:
            tags = {self._key_of(self._tags) for _ in range(nth % 3)}
            for tag in sorted(tags):
                yield {"document_id": nth * 5 + self._tenant.id, "tag_id": tag}

    def _device(self, nth: int) -> dict[str, Any]:
        kind = ("device", "laptop", "phone")[nth % 3]
        return self._row(
            nth,
            kind=kind,
            serial=f"serial {nth} {self._canary}",
            owner_id=self._perhaps(self._key_of(self._people)),
            memory=8 * (nth % 3) if kind == "laptop" else None,
            number=f"{nth} {self._canary}" if kind == "phone" else None,
        )

    def _visit(self, nth: int) -> dict[str, Any]:
        return {
            "tenant_id": self._whose,
            "day": FIRST_DAY + timedelta(days=nth % 5),
            "note": self._perhaps(f"note {nth % 2} {self._canary}"),
        }

    def _oddity(self, nth: int) -> dict[str, Any]:
        return {
            "select": nth * 5 + self._tenant.id,
            "whose": self._whose,
            "mixed": f"Mixed {nth % 2}",
            "percent": nth % 3,
            "quoted": f"it's {nth} {self._canary}",
            "dotted": self._perhaps(f"dotted {self._canary}"),
            "unicode": f"ünï {nth % 2}",
        }

    def _entry(self, nth: int, book: Table) -> dict[str, Any]:
        return self._row(nth, entry=f"{book.schema} {nth} {self._canary}", amount=nth * _LEDGERS[book])


_LEDGERS = {ledger: 1, north_ledger: 10, south_ledger: 100}
