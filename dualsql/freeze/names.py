"""Names in documents."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from functools import cache
from typing import Any, Protocol

from sqlalchemy.sql.elements import conv, quoted_name

from dualsql import sqlalchemy_internals as internals
from dualsql.freeze.document import expect, malformed, refuse

# At least one dialect renders these without quotes: bind names (Oracle), collations (SQL Server). SQLAlchemy replaces
# %():.[] and blanks in bind names on every dialect. -- would begin a comment.
_BIND = re.compile(r"[\w$# .%():?\[\]/]+(?:-[\w$# .%():?\[\]/]+)*-?")
_COLLATION = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@]*(?:-[A-Za-z0-9_]+)*")
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_$]*")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
ANONYMOUS = re.compile(r"%\((\S+) ((?:[^()%]|%%)*)\)s")
_PLAIN = re.compile(r"(?:[^%]|%%)*")
_BODY = re.compile(r"(?:[^()%]|%%)*")
_LONGEST = 1024
# Seeds for anonymous names of thawed statements. SQLAlchemy's own are decimal or hexadecimal and never begin with "t".
_fresh = itertools.count(1)

_MARKS: dict[str, type[quoted_name]] = {
    "quoted": quoted_name,
    "short": internals.TruncatedLabel,
    "conv": conv,
}
_MARK_OF = {cls: mark for mark, cls in _MARKS.items()}


class Seeds(Protocol):
    """Converts the seed of an anonymous name into its number in the document, or back."""

    def seed(self, original: Any) -> Any: ...


class Renumbering:
    """Encoder side: object ids become 0, 1, 2 in order of appearance."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def seed(self, original: str) -> int:
        return self._numbers.setdefault(original, len(self._numbers))


class FreshSeeds:
    """Decoder side: a number becomes a seed that no other statement of this process has."""

    def __init__(self) -> None:
        self._seeds: dict[int, str] = {}

    def seed(self, original: object) -> str:
        number = expect(original, int)
        seed = self._seeds.get(number)
        if seed is None:
            seed = self._seeds[number] = f"t{next(_fresh)}"
        return seed


def write_name(name: Any, seeds: Seeds) -> Any:
    """A name as JSON: plain text, ["anon", ...] or [mark, text, quote]."""
    kind = type(name)
    if kind is str:
        return _storable(name, _refuse_name)
    if kind is internals.AnonymousLabel:
        return _write_anonymous(name, seeds)
    mark = _MARK_OF.get(kind)
    if mark is None:
        refuse(f"a name of type {kind.__name__}", "Use a plain string.")
    if name.quote is False and not may_be_unquoted(name):
        refuse(f"the unquoted name {str(name)!r}", "Let SQLAlchemy quote it.")
    return [mark, _storable(str(name), _refuse_name), name.quote]


def read_name(wire: Any, seeds: Seeds) -> str:
    """The reverse of `write_name`. Unquoted text and unknown format directives are refused."""
    if type(wire) is str:
        return _storable(wire, malformed)
    mark, *rest = expect(wire, list)
    if mark == "anon":
        return _read_anonymous(rest, seeds)
    text, quote = rest
    if quote is not None and type(quote) is not bool:
        malformed("quote")
    if quote is False and not may_be_unquoted(expect(text, str)):
        malformed("unquoted name")
    return _MARKS[mark](_storable(expect(text, str), malformed), quote)


def _write_anonymous(name: internals.AnonymousLabel, seeds: Seeds) -> list[Any]:
    whole = ANONYMOUS.fullmatch(name)
    if whole:
        return ["anon", seeds.seed(whole[1]), whole[2]]
    pieces: list[Any] = ["anon"]
    position = 0
    for match in ANONYMOUS.finditer(name):
        if match.start() > position:
            pieces.append(name[position : match.start()])
        pieces += [seeds.seed(match[1]), match[2]]
        position = match.end()
    if position < len(name):
        pieces.append(name[position:])
    return pieces


def _read_anonymous(pieces: list[Any], seeds: Seeds) -> internals.AnonymousLabel:
    """Read an anonymous name: each number is followed by the body of its name, other pieces are text with % doubled."""
    text = ""
    remaining = iter(pieces)
    for piece in remaining:
        if type(piece) is int:
            body = expect(next(remaining), str)
            if not (_storable(body, malformed).isidentifier() or _BODY.fullmatch(body)):
                malformed("body of an anonymous name")
            text += f"%({seeds.seed(piece)} {body})s"
        elif not _PLAIN.fullmatch(_storable(expect(piece, str), malformed)):
            malformed("format directive in a name")
        else:
            text += piece
    return internals.AnonymousLabel(text)


def can_be_stored(name: str) -> bool:
    """Whether a name has no control characters, and is not too long."""
    return len(name) <= _LONGEST and (name.isprintable() or _CONTROL.search(name) is None)


def _storable(name: str, fail: Callable[[str], object]) -> str:
    """`name`; calls `fail`, which raises, if it cannot be stored."""
    if not can_be_stored(name):
        fail("a name with control characters, or too long")
    return name


def _refuse_name(what: str) -> None:
    refuse(what, "Choose a shorter name of printable characters.")


def bodies(name: str) -> str:
    """A name without the seeds of its anonymous parts: its text in the SQL apart from numbers."""
    whole = ANONYMOUS.fullmatch(name)
    return whole[2] if whole else ANONYMOUS.sub(lambda match: match[2], name)


def is_bind_name(name: str) -> bool:
    """Whether `name` is safe in the SQL of dialects that do not quote parameter names."""
    if name.isascii() and name.isidentifier():
        return True
    return _BIND.fullmatch(name) is not None and not ANONYMOUS.search(name)


def may_be_unquoted(name: str) -> bool:
    """Whether `name` is a plain identifier and not a reserved word. CURRENT_USER without quotes would be a call."""
    return _IDENTIFIER.fullmatch(name) is not None and name.lower() not in _reserved()


@cache
def _reserved() -> frozenset[str]:
    """Words that a dialect of SQLAlchemy reserves."""
    from sqlalchemy.dialects import mssql, mysql, oracle, postgresql, sqlite

    modules = (mssql, mysql, oracle, postgresql, sqlite)
    return frozenset(
        word.lower() for each in modules for word in each.dialect().identifier_preparer.reserved_words
    )


def is_collation(name: str) -> bool:
    """Whether `name` is safe as a collation, which SQL Server renders without quotes."""
    return _COLLATION.fullmatch(name) is not None


def is_identifier(name: str) -> bool:
    """Whether `name` is a plain ASCII identifier."""
    return _IDENTIFIER.fullmatch(name) is not None
