"""Regular expressions for RE2. Its syntax and meaning differ from those of `re`, which SQLAlchemy gives SQLite.

A pattern is read by Python's parser, and written for RE2 with the same meaning; what has none there is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, lru_cache
from importlib import import_module
from itertools import chain, groupby
from typing import Any, NamedTuple, NoReturn

from dualsql.capabilities import PatternError, require_short_pattern

_LARGEST_PROGRAM = 200_000
"""Characters of a pattern that is written for RE2."""

_MOST_REPEATED = 600_000
"""The same, with each repetition written out: 47 of Python's \\w. RE2 compiles so many in 20 ms, with Python's lock."""

_MEMORY = 8 * 1024 * 1024

LONGEST_TEXT = 1_000_000
"""Characters of a text in which a pattern is looked for."""

_MOST_WORK = 2**20
"""Bytes of the text times states of the pattern. If RE2 gives up its automaton, each takes up to 10 ns, and the
automaton 10 ms before. Python's lock is free meanwhile."""

_FEW_STATES = 8
"""With so few, the automaton is small, and RE2 reads 1 MB in 5 ms."""


class RegularExpression(NamedTuple):
    """A compiled pattern.

    Attributes:
        states: so many RE2 may be in at once: one for each class, branch and edge, with each repetition written
            out. A word is in few, since each of its prefixes has to be an end of the text that was read.
    """

    states: int
    finds: Callable[[bytes], bool]


def match(pattern: Any, text: Any) -> bool:
    """Whether the pattern is found in the text, as `re.search` finds it.

    Raises:
        PatternError: the pattern or the text is too large, or no text.
    """
    if not isinstance(pattern, str) or not isinstance(text, str):
        raise PatternError("The pattern or the value is not a text.")
    if len(text) > LONGEST_TEXT:
        raise PatternError("The text is too long.")
    data = text.encode()
    program = program_of(pattern, is_ascii=len(data) == len(text))
    if program.states > _FEW_STATES and len(data) * program.states > _MOST_WORK:
        raise PatternError("The pattern is too large for so long a text.")
    return program.finds(data)


@lru_cache(maxsize=64)
def program_of(pattern: str, *, is_ascii: bool) -> RegularExpression:
    """The program of RE2 for a pattern.

    Args:
        is_ascii: the searched texts are of ASCII.

    Raises:
        PatternError: it cannot run.
    """
    program, states = write_for_re2(pattern, last=_ASCII if is_ascii else _LAST)
    re2: Any = import_module("re2._re2")
    options: Any = import_module("re2").Options()
    options.log_errors, options.never_capture, options.max_mem = False, True, _MEMORY
    compiled = re2.RE2(program.encode(), options)
    if not compiled.ok():
        raise PatternError("The pattern repeats too much.")
    anywhere = re2.RE2.Anchor.UNANCHORED

    def finds(data: bytes) -> bool:
        # (-1, -1) stands for no match.
        return bool(compiled.Match(anywhere, data, 0, len(data))[0][0] >= 0)

    return RegularExpression(states, finds)


_ASCII, _LAST = 0x7F, 0x10FFFF
_SURROGATES = range(0xD800, 0xE000)
Ranges = list[tuple[int, int]]


def write_for_re2(pattern: str, *, last: int = _LAST) -> tuple[str, int]:
    """The pattern as RE2 reads it, and the number of its states; see `RegularExpression`.

    Args:
        last: the last character that the searched text may have.

    Raises:
        PatternError: it is no pattern, or has no linear equivalent.
    """
    require_short_pattern(pattern)
    try:
        tree = import_module("re._parser").parse(pattern)
        writer = _PatternWriter(last)
        program = writer.sequence(tree, tree.state.flags, is_end=True)
    except (re.error, RecursionError, OverflowError, Warning) as error:
        raise PatternError("The pattern cannot be read.") from error
    if len(program) > _LARGEST_PROGRAM:
        raise PatternError("The pattern is too large.")
    return program, writer.states


class _PatternWriter:
    """Writes the tree of Python's parser for RE2.

    Attributes:
        states: see `RegularExpression`.
    """

    def __init__(self, last: int) -> None:
        self.states = 0
        self._last = last
        self._size = 0
        self._times = 1
        self._folded: set[tuple[tuple[int, int], ...]] = set()

    def sequence(self, items: Any, flags: int, *, is_end: bool) -> str:
        """The items, one after the other. With `is_end`, nothing follows them."""
        parts, texts = list(items), []
        for is_word, run in groupby(enumerate(parts, 1), lambda part: str(part[1][0]) == "LITERAL"):
            added = [
                self._item(name, value, flags, is_end=is_end and index == len(parts))
                for index, (name, value) in run
            ]
            if is_word:
                self.states += self._times * _overlapping(added)
            texts += added
        return "".join(texts)

    def _item(self, name: Any, value: Any, flags: int, *, is_end: bool) -> str:
        kind = str(name)
        if kind in ("MAX_REPEAT", "MIN_REPEAT"):
            least, most, inner = value
            return self._repeat(least, most, inner, flags)
        if kind == "SUBPATTERN":
            _, added, removed, inner = value
            return f"(?:{self.sequence(inner, (flags | added) & ~removed, is_end=is_end)})"
        if kind == "BRANCH":
            self.states += self._times * len(value[1])
            return f"(?:{'|'.join(self.sequence(inner, flags, is_end=is_end) for inner in value[1])})"
        if kind == "LITERAL":
            return self._class([(kind, value)], flags, is_negated=False)
        self.states += self._times
        if kind == "AT":
            return _edge(str(value), flags, is_end=is_end)
        if kind == "ANY":
            return r"(?s:.)" if flags & re.DOTALL else r"[^\n]"
        return self._character(kind, value, flags)

    def _repeat(self, least: int, most: Any, inner: Any, flags: int) -> str:
        is_endless = int(most) >= _UNLIMITED
        times = self._times
        self._times *= max(1, least if is_endless else int(most))
        inner_text = self.sequence(inner, flags, is_end=False)
        self._times = times
        return f"(?:{inner_text}){{{least},{'' if is_endless else most}}}"

    def _character(self, kind: str, value: Any, flags: int) -> str:
        if kind == "NOT_LITERAL":
            return self._class([("LITERAL", value)], flags, is_negated=True)
        if kind != "IN":
            _refuse(_UNSUITED.get(kind, "a construct that RE2 does not have"))
        members = [(str(name), part) for name, part in value]
        is_negated = members[0][0] == "NEGATE"
        return self._class(members[1:] if is_negated else members, flags, is_negated=is_negated)

    def _class(self, members: Sequence[tuple[str, Any]], flags: int, *, is_negated: bool) -> str:
        ranges: Ranges = []
        for kind, value in members:
            if kind == "LITERAL":
                ranges.append((value, value))
            elif kind == "RANGE":
                ranges.append(value)
            else:
                ranges += _category(str(value), is_ascii=bool(flags & re.ASCII))
        if flags & re.IGNORECASE:
            ranges += self._in_other_cases(tuple(ranges), is_ascii=bool(flags & re.ASCII))
        # Equal sets are written alike: `_overlapping` compares what is written.
        clipped = _merge((low, min(high, self._last)) for low, high in sorted(ranges) if low <= self._last)
        members_text = "".join(
            f"\\x{{{low:x}}}-\\x{{{high:x}}}" for low, high in _without_surrogates(clipped)
        )
        self._grow(len(members_text) * self._times)
        if not members_text:
            return r"(?s:.)" if is_negated else r"[^\x{0}-\x{10ffff}]"
        return f"[{'^' if is_negated else ''}{members_text}]"

    def _in_other_cases(self, ranges: tuple[tuple[int, int], ...], *, is_ascii: bool) -> Ranges:
        """See `_other_cases`, which takes 3 ms for many characters: as long as RE2 for so many written ones."""
        if ranges not in self._folded:
            self._folded.add(ranges)
            self._grow(min(sum(high - low for low, high in ranges), 6 * _PIECE))
        return _other_cases(ranges, is_ascii=is_ascii)

    def _grow(self, size: int) -> None:
        self._size += size
        if self._size > _MOST_REPEATED:
            _refuse("too many characters for its repetitions: write (?a) before it, for ASCII letters")


def _overlapping(word: Sequence[str]) -> int:
    """The most prefixes of a word that the end of any text can be: 4 of `aaaa`, 2 of `abab`, 1 of `abcd`."""
    shorter, depths = [0], [1]
    for index in range(1, len(word)):
        length = shorter[-1]
        while length and word[index] != word[length]:
            length = shorter[length - 1]
        length += word[index] == word[length]
        shorter.append(length)
        depths.append(1 + (depths[length - 1] if length else 0))
    return max(depths)


_UNLIMITED = 2**31
_UNSUITED = {
    "GROUPREF": r"a back reference (\1)",
    "GROUPREF_EXISTS": "a condition on a group",
    "ASSERT": "a look-ahead or a look-behind",
    "ASSERT_NOT": "a look-ahead or a look-behind",
    "ATOMIC_GROUP": "an atomic group",
    "POSSESSIVE_REPEAT": "a possessive repetition",
}


def _refuse(what: str) -> NoReturn:
    raise PatternError(f"The pattern has {what}.")


def _edge(name: str, flags: int, *, is_end: bool) -> str:
    if name == "AT_BEGINNING":
        return "(?m:^)" if flags & re.MULTILINE else r"\A"
    if name == "AT_BEGINNING_STRING":
        return r"\A"
    if name == "AT_END_STRING":
        return r"\z"
    if name == "AT_END":
        if flags & re.MULTILINE:
            return "(?m:$)"
        # Python's $ also stands before a last line end, which this takes: nothing may follow.
        return r"(?:\n?\z)" if is_end else _refuse("a $ before its end: write \\Z")
    if not flags & re.ASCII:
        _refuse(r"\b or \B: write (?a) before it, for words of ASCII letters")
    return {"AT_BOUNDARY": r"\b", "AT_NON_BOUNDARY": r"\B"}[name]


@cache
def _category(name: str, *, is_ascii: bool) -> Ranges:
    """The characters of \\d, \\s, \\w and their opposites, by Python's own engine."""
    letter = {"DIGIT": "d", "SPACE": "s", "WORD": "w"}[name.rsplit("_", 1)[-1]]
    pattern = f"\\{letter.upper() if '_NOT_' in name else letter}"
    find = re.compile(pattern, re.ASCII if is_ascii else 0).findall
    return _merge((ord(one), ord(one)) for one in chain.from_iterable(map(find, _characters())))


_PIECE = 2**14


def _characters() -> Iterator[str]:
    """All characters, in pieces: other threads run between two of them."""
    for start in range(0, _LAST + 1, _PIECE):
        yield "".join(map(chr, range(start, start + _PIECE)))


@cache
def _cased() -> str:
    """All characters that have another case."""
    every = chain.from_iterable(_characters())
    return "".join(one for one in every if one.lower() != one or one.upper() != one)


@lru_cache(maxsize=1_000)
def _other_cases(ranges: tuple[tuple[int, int], ...], *, is_ascii: bool) -> Ranges:
    """The characters that equal one of `ranges` but for their case, by Python's own engine."""
    members = "".join(f"\\U{low:08x}-\\U{high:08x}" for low, high in ranges)
    flags = re.IGNORECASE | (re.ASCII if is_ascii else 0)
    points = map(ord, re.compile(f"[{members}]", flags).findall(_cased())) if members else ()
    return _merge((point, point) for point in points)


def _merge(ranges: Iterable[tuple[int, int]]) -> Ranges:
    """The same characters in ranges with gaps between them, of ranges in ascending order."""
    merged: Ranges = []
    for low, high in ranges:
        if merged and low <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(high, merged[-1][1]))
        else:
            merged.append((low, high))
    return merged


def _without_surrogates(ranges: Ranges) -> Iterable[tuple[int, int]]:
    """Half a surrogate pair is in no text of UTF-8, and RE2 refuses it."""
    for low, high in ranges:
        if low < _SURROGATES.start:
            yield low, min(high, _SURROGATES.start - 1)
        if high >= _SURROGATES.stop:
            yield max(low, _SURROGATES.stop), high
