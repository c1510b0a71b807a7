"""Name shadowing: two names that a database could resolve to the same object.

Examples: a CTE with the name of a table, an alias with the name of an alias of an outer query, `X` beside `x`. The
database then reads other content than SQLAlchemy expects. Only statements that read a table with an application's own
type are checked for it, because there the type's code would receive that content.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Table
from sqlalchemy.orm import Mapper
from sqlalchemy.orm.util import AliasedInsp
from sqlalchemy.sql.selectable import CompoundSelect, NamedFromClause, Select

from dualsql import sqlalchemy_internals as internals
from dualsql.freeze.document import malformed
from dualsql.freeze.registry import Registry, listed
from dualsql.freeze.values import bodies

_NUMBER = re.compile(r"(?:_+[0-9]+)+$")
LONGEST_ROOT = 50
"""Databases truncate generated names. The shortest limit is PostgreSQL's 63 characters, less a number."""


@dataclass(frozen=True, slots=True)
class Spelling:
    """A name as a database may read it.

    Attributes:
        root: in lower case, truncated, without the number that SQLAlchemy adds to make names unique.
        text: the whole name in lower case.
        is_open: whether SQLAlchemy completes it with a number.
    """

    root: str
    text: str
    is_open: bool

    @classmethod
    def of(cls, name: Any) -> Spelling:
        text = str(name).lower()
        plain = bodies(text)
        is_cut = isinstance(name, internals.TruncatedLabel) and len(plain) > LONGEST_ROOT
        return cls(_NUMBER.sub("", plain)[:LONGEST_ROOT], text, plain != text or is_cut)


def check_names(parts: list[Any], registry: Registry) -> None:
    """Raise MalformedError if the database may find other content under the name of a column with an own type.

    Args:
        parts: all elements of a document that reads a table with such a column.
    """

    def is_own(column: Any) -> bool:
        kind = getattr(column, "type", None)
        return kind is not None and not registry.is_trusted(kind)

    _check_sources(parts, lambda source: any(map(is_own, source.c)))
    for part in parts:
        if isinstance(part, Select):
            columns: list[Any] = list(internals.all_selected_columns(part))
            _check_outputs([*columns, *(one for column in columns for one in listed(column))], is_own)


def _check_sources(parts: list[Any], has_own: Callable[[Any], bool]) -> None:
    """Raise MalformedError if a source with an own type may have the same name as another source."""
    groups: dict[str, dict[int, tuple[Spelling, Any]]] = defaultdict(dict)
    for source in _sources(parts):
        spelling = Spelling.of(source.name)
        groups[spelling.root][_identity(source)] = spelling, source
    for group in groups.values():
        spellings = [spelling for spelling, _ in group.values()]
        may_collide = len(spellings) > 1 and _may_collide(spellings)
        if may_collide and any(has_own(source) for _, source in group.values()):
            malformed("two sources of one name, one with an own type of a column")


def _sources(parts: list[Any]) -> Iterator[Any]:
    """Everything in the document that has a name in FROM."""
    for part in parts:
        if isinstance(part, Mapper):
            yield from (table for mapper in part.self_and_descendants for table in mapper.tables)
        elif isinstance(part, AliasedInsp):
            # The members of a join are in the list as well.
            froms = internals.from_objects(part.selectable)
            yield from (source for source in froms if hasattr(source, "name"))
        elif isinstance(part, NamedFromClause):
            yield part


def _identity(source: Any) -> int:
    """One number for an annotated source and its original, or for a recursive CTE and its first part.

    SQLAlchemy copies aliases. A table, and its aliases under one name, have the same columns.
    """
    if isinstance(table := getattr(source, "element", source), Table):
        return hash((str(source.name), table))
    # SQLAlchemy has two objects for a recursive CTE, with and without its UNION, and renders both under one name.
    earlier = internals.restated_cte(source)
    element = getattr(source, "element", None)
    while (
        earlier is not None and isinstance(element, CompoundSelect) and element.selects[0] is earlier.element
    ):
        source, element, earlier = earlier, earlier.element, internals.restated_cte(earlier)
    return hash(source)


def _may_collide(spellings: list[Spelling]) -> bool:
    """Whether any two names may be equal, in linear time, because a forged document may have many names."""
    if len({spelling.text for spelling in spellings}) < len(spellings):
        return True
    is_numbered = any(not spelling.is_open and spelling.text != spelling.root for spelling in spellings)
    is_open = any(spelling.is_open for spelling in spellings)
    return is_open and (is_numbered or len(spellings[0].root) == LONGEST_ROOT)


def _check_outputs(columns: list[Any], is_own: Callable[[Any], bool]) -> None:
    """Raise MalformedError if an output with an own type may have the same name as an output of another type."""
    own = [column for column in columns if is_own(column)]
    # With a star, or a bundle outside the ORM, SQLAlchemy finds columns by name instead of by position.
    if own and any(getattr(column, "is_literal", False) and column.name == "*" for column in columns):
        malformed("a star beside an own type of a column")
    groups: dict[str, list[tuple[str, Any]]] = defaultdict(list)
    for column in columns if own else ():
        for spelling in _spellings(column):
            groups[spelling.root].append((spelling.text, column.type))
    own_types = {(spelling.root, id(column.type)) for column in own for spelling in _spellings(column)}
    for root, kind in own_types:
        _check_group(root, groups[root], kind)


def _check_group(root: str, group: list[tuple[str, Any]], kind: int) -> None:
    """Check the names of one root: equal names of different types, and repeated names, which SQLAlchemy numbers."""
    others = {text for text, type_ in group if id(type_) != kind}
    if not others:
        return
    texts = [text for text, _ in group]
    ours = {text for text, type_ in group if id(type_) == kind}
    if ours & others or len(set(texts)) < len(texts) or any("%(" in text for text in texts):
        malformed(
            f"two columns named {root[:60]!r}, one with a type of its own",
            "Give one of them another name: column.label('name').",
        )


def _spellings(column: Any) -> set[Spelling]:
    """An output's name, and its name with the prefix of its table."""
    name = getattr(column, "name", None)
    if name is None:
        return set()
    source = getattr(getattr(column, "table", None), "name", None)
    names = [name] if source is None else [name, f"{source}_{name}"]
    return {Spelling.of(item) for item in names}
