"""Text of strangers for a terminal or a page; the rule: what comes out is printable, one line, and bounded."""

from __future__ import annotations

_UNSEEN = "\N{REPLACEMENT CHARACTER}"

# Persian, Hindi and families of emoji are spelled with them; they do nothing else.
_JOINERS = "\N{ZERO WIDTH NON-JOINER}\N{ZERO WIDTH JOINER}"


def printable(text: str, characters: int) -> str:
    """The text on one line; an ellipsis stands for what is more than so many characters.

    Line breaks and tabs are spaces. Control characters, so the escape sequences of terminals, characters that turn
    the direction of writing, and halves of surrogate pairs are shown as a replacement character.
    """
    if len(text) > characters:
        text = f"{text[: characters - 1]}…"
    if text.isprintable():
        return text
    return "".join(_seen(character) for character in text)


def _seen(character: str) -> str:
    if character.isprintable() or character in _JOINERS:
        return character
    return " " if character.isspace() else _UNSEEN
