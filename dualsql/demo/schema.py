"""What US colleges teach and what their graduates earn; the rule: suppressed figures are NULL.

Source and licence: data/SOURCE.md.
"""

from __future__ import annotations

from sqlalchemy import ForeignKey, String
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column, relationship


class Base(DeclarativeBase):
    """All tables the demo's tools may query."""


class Institution(Base):
    """A college or university."""

    __tablename__ = "institutions"

    unitid: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(String(120), index=True)
    state: Mapped[str | None] = mapped_column(String(2), index=True)
    control: Mapped[str] = mapped_column(String(40))
    programs: Mapped[list[Program]] = relationship(back_populates="institution")


class FieldOfStudy(Base):
    """A subject, by its code in the Classification of Instructional Programs."""

    __tablename__ = "fields_of_study"

    cip_code: Mapped[str] = mapped_column(String(4), primary_key=True)
    title: Mapped[str] = mapped_column(String(160))


class Program(Base):
    """A subject taught at an institution towards one credential."""

    __tablename__ = "programs"

    unitid: Mapped[int] = mapped_column(ForeignKey("institutions.unitid"), primary_key=True)
    cip_code: Mapped[str] = mapped_column(ForeignKey("fields_of_study.cip_code"), primary_key=True)
    credential_level: Mapped[int] = mapped_column(primary_key=True)
    credential: Mapped[str] = mapped_column(String(80))
    completers: Mapped[int | None]
    earnings: Mapped[int | None] = mapped_column(index=True)
    debt: Mapped[int | None]
    institution: Mapped[Institution] = relationship(back_populates="programs")
    field: Mapped[FieldOfStudy] = relationship()
