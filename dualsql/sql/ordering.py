"""ORDER BY; the rule: a place of NULLs is written only where it is not the engine's own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from sqlalchemy import ColumnElement

from dualsql.instants import instant
from dualsql.sql.arguments import only
from dualsql.sql.binary import spells_instants
from dualsql.sql.own_types import require_order
from dualsql.sql.reading import nulls_first
from dualsql.sql.scope import Scope

if TYPE_CHECKING:
    from dualsql.sql.translate import Translator


def read_order(translator: Translator, node: Any, scope: Scope) -> Iterator[ColumnElement[Any]]:
    """The keys of an ORDER BY inside an expression."""
    for key in node.expressions:
        found = only(key, "this", "desc", "nulls_first")
        yield directed(translator, translator.expression(found["this"], scope), key)


def directed(translator: Translator, element: ColumnElement[Any], key: Any) -> ColumnElement[Any]:
    """The element with the direction that `key`, an exp.Ordered, gives it."""
    require_order(translator, element)
    if spells_instants(translator.dialect, element):
        element = instant(element)
    descending = bool(key.args.get("desc"))
    made: ColumnElement[Any] = element.desc() if descending else element
    first = bool(key.args.get("nulls_first"))
    if first == nulls_first(translator.dialect, descending=descending):
        return made
    return made.nulls_first() if first else made.nulls_last()
