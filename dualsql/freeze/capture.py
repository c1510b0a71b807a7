"""Names that could be taken for one another; the rule: what may collide on any database counts as colliding.

A CTE called like a table, an alias called like an alias of an outer query, `X` beside `x`: the database then
reads other content than SQLAlchemy believes. Only statements that read a column with an own type are held to
this, since there the content would meet somebody's code (see `custody`).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Table
from sqlalchemy.sql.elements import _truncated_label
from sqlalchemy.sql.selectable import Alias, CompoundSelect

from dualsql.freeze.names import bodies
from dualsql.freeze.refusals import malformed

_NUMBER = re.compile(r"(?:_+[0-9]+)+$")
# The shortest that a database cuts generated names to: PostgreSQL's 63 characters, less a number.
_CUT = 50


@dataclass(frozen=True, slots=True)
class Spelling:
    """A name as a database may see it.

    Attributes:
        root: in lower case, cut, without the number that SQLAlchemy adds to make names differ.
        text: the whole name in lower case.
        is_open: whether SQLAlchemy completes it, with a number of its own choice.
    """

    root: str
    text: str
    is_open: bool

    @classmethod
    def of(cls, name: Any) -> Spelling:
        text = str(name).lower()
        plain = bodies(text)
        is_cut = isinstance(name, _truncated_label) and len(plain) > _CUT
        return cls(_NUMBER.sub("", plain)[:_CUT], text, plain != text or is_cut)


def check_sources(sources: Iterable[Any], has_own: Callable[[Any], bool]) -> None:
    """Raise MalformedError where a source with an own type and another one may have the same name."""
    groups: dict[str, dict[int, tuple[Spelling, Any]]] = defaultdict(dict)
    for source in sources:
        spelling = Spelling.of(source.name)
        groups[spelling.root][_identity(source)] = spelling, source
    for group in groups.values():
        found = [spelling for spelling, _ in group.values()]
        if len(found) > 1 and _may_collide(found) and any(has_own(source) for _, source in group.values()):
            malformed("two sources of one name, one with an own type of a column")


def _identity(source: Any) -> int:
    """One number for an annotated source and its original, for a recursive CTE and what it grew from.

    SQLAlchemy copies aliases: those of one table under one name have the same columns.
    """
    if isinstance(source, Alias) and isinstance(source.element, Table):
        return hash((str(source.name), source.element))
    earlier = getattr(source, "_restates", None)
    grown = getattr(source, "element", None)
    while earlier is not None and isinstance(grown, CompoundSelect) and grown.selects[0] is earlier.element:
        source, grown, earlier = earlier, earlier.element, earlier._restates
    return hash(source)


def _may_collide(found: list[Spelling]) -> bool:
    """Whether any two may be written alike; in linear time, since a forger sets the number of names."""
    if len({spelling.text for spelling in found}) < len(found):
        return True
    is_numbered = any(not spelling.is_open and spelling.text != spelling.root for spelling in found)
    is_open = any(spelling.is_open for spelling in found)
    return is_open and (is_numbered or len(found[0].root) == _CUT)


def check_outputs(columns: list[Any], own: list[Any]) -> None:
    """Raise MalformedError where an output with an own type and one of another type may have the same name."""
    groups: dict[str, list[tuple[str, Any]]] = defaultdict(list)
    for column in columns:
        for spelling in _spellings(column):
            groups[spelling.root].append((spelling.text, column.type))
    wanted = {(spelling.root, id(column.type)) for column in own for spelling in _spellings(column)}
    for root, kind in wanted:
        _check_group(root, groups[root], kind)


def _check_group(root: str, group: list[tuple[str, Any]], kind: int) -> None:
    """One root: an equal name of another type, or a repeated name, which SQLAlchemy then numbers."""
    others = {text for text, type_ in group if id(type_) != kind}
    if not others:
        return
    texts = [text for text, _ in group]
    ours = {text for text, type_ in group if id(type_) == kind}
    if ours & others or len(set(texts)) < len(texts) or any("%(" in text for text in texts):
        malformed(f"two columns named {root[:60]!r}, one with a type of its own: label one of them")


def _spellings(column: Any) -> set[Spelling]:
    """An output's name, and the one it gets where names are prefixed with their table's."""
    name = getattr(column, "name", None)
    if name is None:
        return set()
    source = getattr(getattr(column, "table", None), "name", None)
    names = [name] if source is None else [name, f"{source}_{name}"]
    return {Spelling.of(item) for item in names}
