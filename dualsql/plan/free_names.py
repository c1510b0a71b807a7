"""Names for relations that features add to a statement."""

from __future__ import annotations

import itertools
from typing import Any

from sqlalchemy.sql.selectable import NamedFromClause

from dualsql import sqlalchemy_internals as internals
from dualsql.freeze.shadowing import Spelling


class FreeNames:
    """Chooses names that no source in these statements has, so that `check_names` accepts the new statement.

    Without it, a query over the result of a query would have two relations of one name.
    """

    def __init__(self, *statements: Any) -> None:
        self._texts: set[str] = set()
        self._open_roots: set[str] = set()
        for part in (part for statement in statements for part in internals.elements_of(statement)):
            if isinstance(part, NamedFromClause):
                self._add(Spelling.of(part.name))

    def _add(self, spelling: Spelling) -> None:
        self._texts.add(spelling.text)
        if spelling.is_open:
            self._open_roots.add(spelling.root)

    def take(self, name: str) -> str:
        """The name, or one like it that no source has. It is not free afterwards."""
        stem = f"{name}_r" if Spelling.of(name).root in self._open_roots else f"{name}_"
        candidate = name
        for number in itertools.count(1):
            spelling = Spelling.of(candidate)
            if spelling.text not in self._texts and spelling.root not in self._open_roots:
                break
            candidate = f"{stem}{number}"
        self._add(spelling)
        return candidate
