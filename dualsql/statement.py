"""What a caller may store; the rule: a query, and nothing that changes anything."""

from __future__ import annotations

from typing import Any

from sqlalchemy import CompoundSelect, Select, TextualSelect

AnySelect = Select[*tuple[Any, ...]]
"""A Select of any columns: since SQLAlchemy 2.1 `Select[Any]` is a Select of one."""

AnyCompound = CompoundSelect[*tuple[Any, ...]]
"""A set operation of any columns."""

Statement = AnySelect | AnyCompound | TextualSelect
"""A Select, a set operation, or text().columns()."""
