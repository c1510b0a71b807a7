"""Fuzzy search over names and comments, with bounded work.

It uses rapidfuzz instead of difflib, because rapidfuzz finds words in any order and parts of longer names. A term takes
about 35 ms among 20,000 names."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from dualsql.catalogue.addresses import Address
from dualsql.catalogue.describe import ColumnDefinition
from dualsql.errors import BadParameterError
from dualsql.packages import require_package

MOST_TERMS = 20
LONGEST_TERM = 100
MOST_MATCHES = 50

_MOST_POSTINGS = 2_000
"""Matches of a term that are ranked. A word that half of all comments contain matches half of all columns."""

_SMALLEST_WORD = 3
_OF_A_COLUMN, _OF_A_COMMENT = 0.95, 0.85

_ENOUGH = 70.0
"""The lowest score out of 100: a name with one or two typing errors, or with words in another order."""

_SPELT = 80.0
"""Of 100: a word of a note with a typing error, or in the plural."""

_BETWEEN_NOTES = re.compile(r"\n\s*\n|\n(?=\s*[-*] )")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_WORDS = re.compile(r"[^\W_]+")


@dataclass(frozen=True, slots=True)
class Posting:
    """The entry that an indexed text belongs to.

    Attributes:
        weight: of a match. A table's own name has more weight than a word in a comment.
        column: the column that it names or describes, if any.
    """

    address: Address
    weight: float
    column: str | None = None


Index = Mapping[str, Sequence[Posting]]
"""Text -> its entries. Each text is stored once, because comments repeat many words."""


@dataclass(frozen=True, slots=True)
class Match:
    """A found entry, its score out of 100, and the columns that matched."""

    address: Address
    score: float
    columns: Sequence[str]


def checked_terms(terms: object) -> Sequence[str]:
    """The terms, stripped, from a list or a single text.

    Raises:
        BadParameterError: a term is not a text, is empty or too long, or there are none or too many.
    """
    items = [terms] if isinstance(terms, str) else terms
    if not isinstance(items, Sequence) or not all(isinstance(term, str) for term in items[: MOST_TERMS + 1]):
        raise BadParameterError("terms is a list of texts.", hint='Such as ["enrollment", "tuition fees"].')
    # One more than allowed is enough to refuse a list of any length.
    stripped = [term.strip() for term in items[: MOST_TERMS + 1]]
    if not 0 < len(stripped) <= MOST_TERMS:
        raise BadParameterError(
            f"A search takes 1 to {MOST_TERMS} terms.",
            hint="Search again for the others." if stripped else 'Such as ["enrollment", "tuition fees"].',
        )
    if any(not 0 < len(term) <= LONGEST_TERM or not fold(term) for term in stripped):
        raise BadParameterError(
            f"A term must have 1 to {LONGEST_TERM} characters, at least one a letter or digit.",
            hint="Such as 'enrollment'.",
        )
    return stripped


def fold(text: str) -> str:
    """The words of a name or sentence in lower case, so that "OrderItem" and "order_items" match."""
    return " ".join(_WORDS.findall(_CAMEL.sub(" ", text))).lower()


def search(term: str, index: Index, is_visible: Callable[[Address], bool], limit: int) -> list[Match]:
    """The visible entries whose texts are similar to `term`, the best first."""
    require_rapidfuzz()
    import rapidfuzz

    hits = rapidfuzz.process.extract(
        fold(term), index.keys(), scorer=rapidfuzz.fuzz.WRatio, score_cutoff=_ENOUGH, limit=None
    )
    postings = (
        (score * posting.weight, posting)
        for text, score, _ in hits
        for posting in index[text]
        if is_visible(posting.address)
    )
    return _join(sorted(islice(postings, _MOST_POSTINGS), key=_rank))[:limit]


def split_notes(text: str) -> list[str]:
    """The notes in a text: its paragraphs, and each item of a list by itself."""
    return [note.strip() for note in _BETWEEN_NOTES.split(text) if note.strip()]


def notes_about(term: str, notes: Iterable[str]) -> list[str]:
    """The notes that have every word of `term`, or a word that is spelt much like it."""
    require_rapidfuzz()
    from rapidfuzz import fuzz, process

    words = fold(term).split()

    def has(note: str, word: str) -> bool:
        match = process.extractOne(word, fold(note).split(), scorer=fuzz.ratio, score_cutoff=_SPELT)
        return match is not None

    return [note for note in notes if all(has(note, word) for word in words)]


def index_of(things: Iterable[tuple[Address, str | None, Iterable[ColumnDefinition]]]) -> Index:
    """The index of entries with their descriptions and columns."""
    index: dict[str, list[Posting]] = {}
    for address, comment, columns in things:
        index.setdefault(fold(address.called), []).append(Posting(address, 1.0))
        _add_words(index, address, comment, None)
        for column in columns:
            name = column["name"]
            index.setdefault(fold(name), []).append(Posting(address, _OF_A_COLUMN, name))
            _add_words(index, address, column["comment"], name)
    return index


def _add_words(
    index: dict[str, list[Posting]], address: Address, comment: str | None, column: str | None
) -> None:
    """Add each word separately, because one word in a long sentence has a low score."""
    for word in set(fold(comment or "").split()):
        if len(word) >= _SMALLEST_WORD:
            index.setdefault(word, []).append(Posting(address, _OF_A_COMMENT, column))


def require_rapidfuzz() -> None:
    """Check that rapidfuzz is installed.

    Raises:
        ConfigurationError: it is not installed.
    """
    require_package(
        "rapidfuzz",
        "Searching the catalogue needs rapidfuzz.",
        hint='pip install "dualsql[mcp]", or "dualsql[fastmcp]".',
    )


def _rank(hit: tuple[float, Posting]) -> tuple[float, str, str]:
    score, posting = hit
    return -score, posting.address.called, posting.column or ""


def _join(hits: Iterable[tuple[float, Posting]]) -> list[Match]:
    """One match for each entry, with the columns that matched."""
    scores: dict[Address, float] = {}
    columns: dict[Address, dict[str, None]] = {}
    for score, posting in hits:
        scores.setdefault(posting.address, score)
        names = columns.setdefault(posting.address, {})
        if posting.column is not None:
            names.setdefault(posting.column)
    return [Match(at, round(score, 1), [*columns[at]]) for at, score in scores.items()]
