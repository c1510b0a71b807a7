"""Ids of results, with a checksum that tells them from other words."""

from __future__ import annotations

import re
import secrets
import string
from collections.abc import Iterator
from heapq import merge

ID_ALPHABET = string.digits + string.ascii_letters
"""Without - and _: Markdown escapes the one, and lines are broken at the other."""
ID_RANDOM = 27
"""Characters of an id before its checksum: 160 random bits."""
_ID_CHECKSUM = 6
ID_LENGTH = ID_RANDOM + _ID_CHECKSUM
# The largest prime below 62**6, so that a remainder has six digits of the alphabet.
_PRIME = 56_800_235_581
_DOMAIN = b"dualsql resource id "
_LONGEST_WORD = 96
# An encoding may put letters before an id (%2F, \u002f) or after it. Longer words are encoded bytes.
_WORD = re.compile(rf"(?<![0-9A-Za-z])[0-9A-Za-z]{{{ID_LENGTH},{_LONGEST_WORD}}}+(?![0-9A-Za-z])", re.ASCII)
_LINE_BREAK = r"[\\=]?(?:(?:\r\n?|\n){1,2}|\\+(?:r(?:\\+n)?|n)|%0D(?:%0A)?|%0A)[ \t>]{0,40}"
_BROKEN_WORD = re.compile(
    rf"(?<![0-9A-Za-z])[0-9A-Za-z]{{1,{ID_LENGTH + 2}}}(?:{_LINE_BREAK}[0-9A-Za-z]{{1,{ID_LENGTH}}})+",
    re.ASCII,
)
"""A word over several lines of fixed width, as terminals and mails break it. Lines of a table are cells."""
_BETWEEN_LINES = re.compile(_LINE_BREAK)


def with_checksum(characters: str) -> str:
    """An id: `ID_RANDOM` characters of `ID_ALPHABET`, and their checksum."""
    return characters + _checksum(_remainder(characters))


def is_checked(identifier: str) -> bool:
    """Whether it is an id with its checksum, as one of 62**6 random words is (2 in 10**11)."""
    if len(identifier) != ID_LENGTH or not identifier.isascii():
        return False
    remainder = _remainder(identifier[:ID_RANDOM])
    # The first digit alone rejects 61 of 62 words.
    is_possible = identifier[ID_RANDOM] == ID_ALPHABET[remainder % len(ID_ALPHABET)]
    return is_possible and identifier.endswith(_checksum(remainder))


def _remainder(characters: str) -> int:
    return int.from_bytes(_DOMAIN + characters.encode("ascii")) % _PRIME


def _checksum(remainder: int) -> str:
    return id_characters(remainder, _ID_CHECKSUM)


def id_characters(number: int, count: int) -> str:
    """`count` digits of a number in the base of `ID_ALPHABET`, the least first."""
    characters = ""
    for _ in range(count):
        number, digit = divmod(number, len(ID_ALPHABET))
        characters += ID_ALPHABET[digit]
    return characters


# Of 256 bytes, 248 stand for the 62 characters equally often; the others are left out.
_CHARACTERS = (ID_ALPHABET.encode() * 5)[:256]
_LEFT_OUT = bytes(range(256 - 256 % len(ID_ALPHABET), 256))


def random_characters(count: int) -> str:
    """`count` characters of `ID_ALPHABET` that nobody can foresee."""
    characters = ""
    while len(characters) < count:
        characters += secrets.token_bytes(2 * count).translate(_CHARACTERS, _LEFT_OUT).decode()
    return characters[:count]


def may_hold_id(text: str) -> bool:
    """Whether a text has a word as long as an id."""
    return _WORD.search(text) is not None or any(True for _ in _broken_words(text))


def ids_in(text: str) -> Iterator[tuple[int, str]]:
    """The ids with a checksum in a text, also inside longer words and over several lines, each with its position."""
    words = ((match.start(), match.group(), "") for match in _WORD.finditer(text))
    for begin, word, lines in merge(words, _broken_words(text)):
        # Of digests, only those in base64 have both cases.
        if word.islower() or word.isupper():
            continue
        start = 0
        while start + ID_LENGTH <= len(word):
            identifier = word[start : start + ID_LENGTH]
            if is_checked(identifier) and identifier not in lines:
                yield begin + start, identifier
                start += ID_LENGTH
            else:
                start += 1


def _broken_words(text: str) -> Iterator[tuple[int, str, str]]:
    """The words over several lines that are about as long as an id: their positions, themselves and their lines."""
    if not any(line_break in text for line_break in ("\n", "\r", "\\n", "\\r", "%0A", "%0D")):
        return
    for match in _BROKEN_WORD.finditer(text):
        lines = match.group()
        word = _BETWEEN_LINES.sub("", lines)
        if ID_LENGTH <= len(word) <= 2 * ID_LENGTH:
            yield match.start(), word, lines
