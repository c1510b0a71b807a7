"""Large JSON documents in pieces: between two of them, Python's lock is free for the event loop.

The decoder in C holds the lock until it has read a whole document, 0.8 s for 16 MB.
"""

from __future__ import annotations

from json import JSONDecodeError, JSONDecoder
from json.decoder import WHITESPACE, scanstring  # type: ignore[attr-defined]  # not in typeshed
from typing import Any

_CLOSING = {"[": "]", "{": "}"}
_ENDS = ("},", "],", ",")
"""What may end a member of a list or an object, the likeliest place first."""


def read_in_pieces(text: str, decoder: JSONDecoder, *, piece: int) -> Any:
    """What `decoder.decode(text)` returns.

    Raises:
        JSONDecodeError: it is no document.
    """
    try:
        value, end = _DocumentReader(text, decoder, piece).value(_after_blanks(text, 0))
        if _after_blanks(text, end) == len(text):
            return value
    except (JSONDecodeError, StopIteration, IndexError):
        pass
    return decoder.decode(text)  # raises, with the place of the fault


def _after_blanks(text: str, start: int) -> int:
    end: int = WHITESPACE.match(text, start).end()
    return end


class _DocumentReader:
    """Reads one document. Each method returns the value and where it ends."""

    def __init__(self, text: str, decoder: JSONDecoder, piece: int) -> None:
        self._text = text
        self._decoder = decoder
        self._piece = piece

    def value(self, start: int) -> tuple[Any, int]:
        """The value that begins here."""
        if self._text[start] in _CLOSING:
            return self._container(start)
        return self._decoder.raw_decode(self._text, start)  # a text, a number or a word

    def _container(self, start: int) -> tuple[Any, int]:
        text, opening = self._text, self._text[start]
        members: Any = [] if opening == "[" else {}
        add = members.extend if opening == "[" else members.update
        start += 1
        while True:
            part, end = self._members(opening, start)
            if part:
                add(part)
                start = end + 1  # after a comma
                continue
            rest, end = self._rest(opening, start)
            if rest or (
                rest is not None and not members
            ):  # nothing but at the beginning: no member follows a comma
                add(rest)
                return members, end
            start = _after_blanks(text, start)
            if opening == "[":
                member, end = self.value(start)
                members.append(member)
            else:
                key, end = scanstring(text, start + 1) if text[start] == '"' else self._fail(start)
                end = _after_blanks(text, end)
                member, end = self.value(
                    _after_blanks(text, end + 1) if text[end] == ":" else self._fail(end)
                )
                members[key] = member
            end = _after_blanks(text, end)
            if text[end] == _CLOSING[opening]:
                return members, end + 1
            start = end + 1 if text[end] == "," else self._fail(end)

    def _members(self, opening: str, start: int) -> tuple[Any, int]:
        """Whole members in one piece, and the comma after them; None if none was seen to end.

        With the closing bracket behind it, a part that does not end with a member is no document.
        """
        for end in _ENDS:
            match = self._text.rfind(end, start, start + self._piece)
            if match > start:
                comma = match + len(end) - 1
                try:
                    part = self._decoder.decode(f"{opening}{self._text[start:comma]}{_CLOSING[opening]}")
                except JSONDecodeError:
                    continue
                return part, comma
        return None, start

    def _rest(self, opening: str, start: int) -> tuple[Any, int]:
        """The last members and the closing bracket in one piece; None if they do not end in it."""
        try:
            rest, end = self._decoder.raw_decode(opening + self._text[start : start + self._piece])
        except JSONDecodeError:
            return None, start
        return rest, start + end - 1

    def _fail(self, place: int) -> Any:
        raise JSONDecodeError("no document", self._text, place)
