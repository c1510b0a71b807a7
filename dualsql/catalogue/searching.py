"""Fuzzy search, several terms at once; the rule: the work is bounded before it begins.

rapidfuzz and not difflib: it finds words in any order and parts of longer names, and a term takes it some 35
milliseconds among 20,000 names.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from types import ModuleType

from dualsql.errors import BadParameterError, ConfigurationError

MOST_TERMS = 20
LONGEST_TERM = 100
MOST_MATCHES = 50

_ENOUGH = 70.0
"""Of 100: a name with a typing error or two, or with words in another order."""

_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_WORDS = re.compile(r"[^\W_]+")


@dataclass(frozen=True, slots=True)
class Searched:
    """A text by which something is found.

    Attributes:
        place: which thing it is of.
        weight: what a match is worth: a table's own name more than a word in a comment.
        column: the column it names or is said of, if it is one.
    """

    text: str
    place: int
    weight: float
    column: str | None = None


@dataclass(frozen=True, slots=True)
class Match:
    """A thing that was found, what the match is worth out of 100, and by which of its columns."""

    place: int
    score: float
    columns: Sequence[str]


def checked_terms(terms: Sequence[str]) -> Sequence[str]:
    """The terms, stripped.

    Raises:
        BadParameterError: there are none, too many, or one is empty or too long.
    """
    stripped = [term.strip() for term in terms[: MOST_TERMS + 1]]
    if not 0 < len(stripped) <= MOST_TERMS:
        raise BadParameterError(
            f"A search takes 1 to {MOST_TERMS} terms.", hint="Search again for the others."
        )
    if any(not 0 < len(term) <= LONGEST_TERM or not folded(term) for term in stripped):
        raise BadParameterError(
            f"A term is 1 to {LONGEST_TERM} characters, letters or digits among them.",
            hint="Such as 'enrollment'.",
        )
    return stripped


def folded(text: str) -> str:
    """The words of a name or sentence in lower case: "OrderItem" and "order_items" are alike."""
    return " ".join(_WORDS.findall(_CAMEL.sub(" ", text))).lower()


def search(term: str, searched: Sequence[Searched], limit: int) -> list[Match]:
    """The things whose texts are like `term`, best first."""
    rapidfuzz = required_rapidfuzz()
    hits = rapidfuzz.process.extract(
        folded(term),
        [item.text for item in searched],
        scorer=rapidfuzz.fuzz.WRatio,
        score_cutoff=_ENOUGH,
        limit=None,
    )
    ranked = sorted(
        ((score * searched[index].weight, searched[index]) for _, score, index in hits), key=_rank
    )
    return _joined(ranked)[:limit]


def required_rapidfuzz() -> ModuleType:
    """The package.

    Raises:
        ConfigurationError: it is not installed.
    """
    try:
        import rapidfuzz
    except ImportError as error:
        raise ConfigurationError(
            "Searching the catalogue needs rapidfuzz.",
            hint='pip install "dualsql[mcp]", or "dualsql[fastmcp]".',
        ) from error
    return rapidfuzz


def _rank(hit: tuple[float, Searched]) -> tuple[float, int]:
    score, item = hit
    return -score, item.place


def _joined(ranked: Iterable[tuple[float, Searched]]) -> list[Match]:
    """One match for each thing, with the columns that were found of it."""
    scores: dict[int, float] = {}
    columns: dict[int, list[str]] = {}
    for score, item in ranked:
        scores.setdefault(item.place, score)
        named = columns.setdefault(item.place, [])
        if item.column is not None and item.column not in named:
            named.append(item.column)
    return [Match(place, round(score, 1), columns[place]) for place, score in scores.items()]
