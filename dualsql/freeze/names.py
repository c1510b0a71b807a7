"""Names in documents; the rule: only a name that every dialect quotes may be free, all others match a pattern."""

from __future__ import annotations

import itertools
import re
from typing import Any, Protocol

from sqlalchemy.dialects import mssql, mysql, oracle, postgresql, sqlite
from sqlalchemy.sql.elements import _anonymous_label, _truncated_label, conv, quoted_name

from dualsql.freeze.refusals import expect, malformed, refuse

# Rendered without quotes by at least one dialect: bind names (Oracle), collations (SQL Server). Of a bind
# name, SQLAlchemy replaces %():.[] and blanks on every dialect; -- would begin a comment.
_BIND = re.compile(r"[\w$# .%():?\[\]/]+(?:-[\w$# .%():?\[\]/]+)*-?")
_COLLATION = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@]*(?:-[A-Za-z0-9_]+)*")
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_$]*")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
ANONYMOUS = re.compile(r"%\((\S+) ((?:[^()%]|%%)*)\)s")
_PLAIN = re.compile(r"(?:[^%]|%%)*")
_BODY = re.compile(r"(?:[^()%]|%%)*")
_LONGEST = 1024
_RESERVED = frozenset(
    word.lower()
    for module in (mssql, mysql, oracle, postgresql, sqlite)
    for word in module.dialect().identifier_preparer.reserved_words
)

# Seeds for anonymous names of thawed statements: SQLAlchemy's own are decimal or hexadecimal, never a "t".
_fresh = itertools.count(1)

_MARKS: dict[str, type[quoted_name]] = {"quoted": quoted_name, "short": _truncated_label, "conv": conv}
_MARK_OF = {cls: mark for mark, cls in _MARKS.items()}


class Seeds(Protocol):
    """What turns the seed of an anonymous name into its number in the document, and back."""

    def seed(self, original: Any) -> Any: ...


class Renumbering:
    """Encoder side: object ids become 0, 1, 2 in order of appearance."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def seed(self, original: str) -> int:
        return self._numbers.setdefault(original, len(self._numbers))


class FreshSeeds:
    """Decoder side: a number becomes a seed no other statement of this process has."""

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
        return _checked(name, refuse_name)
    if kind is _anonymous_label:
        return _write_anonymous(name, seeds)
    mark = _MARK_OF.get(kind)
    if mark is None:
        refuse(f"a name of type {kind.__name__}", "Use a plain string.")
    if name.quote is False and not may_be_unquoted(name):
        refuse(f"the unquoted name {str(name)!r}", "Let SQLAlchemy quote it.")
    return [mark, _checked(str(name), refuse_name), name.quote]


def read_name(wire: Any, seeds: Seeds) -> str:
    """The reverse of `write_name`; refuses unquoted text and format directives of any other shape."""
    if type(wire) is str:
        return _checked(wire, malformed)
    mark, *rest = expect(wire, list)
    if mark == "anon":
        return _read_anonymous(rest, seeds)
    text, quote = rest
    if quote is not None and type(quote) is not bool:
        malformed("quote")
    if quote is False and not may_be_unquoted(expect(text, str)):
        malformed("unquoted name")
    return _MARKS[mark](_checked(expect(text, str), malformed), quote)


def _write_anonymous(name: _anonymous_label, seeds: Seeds) -> list[Any]:
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


def _read_anonymous(pieces: list[Any], seeds: Seeds) -> _anonymous_label:
    """Numbers are followed by the body of their name; other pieces are text with every % doubled."""
    text = ""
    remaining = iter(pieces)
    for piece in remaining:
        if type(piece) is int:
            body = expect(next(remaining), str)
            if not (_checked(body, malformed).isidentifier() or _BODY.fullmatch(body)):
                malformed("body of an anonymous name")
            text += f"%({seeds.seed(piece)} {body})s"
        elif not _PLAIN.fullmatch(_checked(expect(piece, str), malformed)):
            malformed("format directive in a name")
        else:
            text += piece
    return _anonymous_label(text)


def _checked(name: str, complain: Any) -> str:
    if len(name) > _LONGEST or not (name.isprintable() or _CONTROL.search(name) is None):
        complain("a name with control characters, or too long")
    return name


def refuse_name(what: str) -> None:
    refuse(what, "Choose a shorter name of printable characters.")


def bodies(name: str) -> str:
    """A name without the seeds of its anonymous parts: what ends up in the SQL besides numbers."""
    whole = ANONYMOUS.fullmatch(name)
    return whole[2] if whole else ANONYMOUS.sub(lambda match: match[2], name)


def is_bind_name(name: str) -> bool:
    """Whether `name` is safe in the SQL of dialects that do not quote parameter names."""
    if name.isascii() and name.isidentifier():
        return True
    return _BIND.fullmatch(name) is not None and not ANONYMOUS.search(name)


def may_be_unquoted(name: str) -> bool:
    """Whether `name` is a plain identifier and no word of SQL: CURRENT_USER without quotes would be a call."""
    return _IDENTIFIER.fullmatch(name) is not None and name.lower() not in _RESERVED


def is_collation(name: str) -> bool:
    """Whether `name` is safe as a collation, which SQL Server renders without quotes."""
    return _COLLATION.fullmatch(name) is not None


def is_identifier(name: str) -> bool:
    """Whether `name` is a plain ASCII identifier."""
    return _IDENTIFIER.fullmatch(name) is not None
