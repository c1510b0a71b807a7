"""Find a table by its name, or anything by words; the rule: only what its reader sees is ever suggested."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches

from typing_extensions import TypedDict

from dualsql.catalogue.addresses import Address, Kind
from dualsql.catalogue.catalogue import Entry, Seen
from dualsql.catalogue.searching import Match, checked_terms, search
from dualsql.errors import BadParameterError, UnknownTableError

_LONGEST_NAME = 300
_MOST_COLUMNS = 10


class Found(TypedDict):
    """A thing that a term found: how well, out of 100, and by which of its columns."""

    term: str
    kind: Kind
    source: str
    schema: str | None
    name: str
    columns: list[str]
    score: float
    comment: str | None
    uri: str


def tables_of(seen: Seen, *, source: str | None = None, schema: str | None = None) -> list[Entry]:
    """The tables and views that are seen, of one source or schema if it is named; sorted by URI.

    Raises:
        BadParameterError: there is no such source or schema for this reader.
    """
    checked_source(seen, source)
    schemas = {at.schema for at in seen.tables if source in (None, at.source)}
    if schema is not None and schema not in schemas:
        raise BadParameterError(
            f"There is no schema {schema[:80]!r}.", hint=_instead(schema, sorted(schemas))
        )
    return [
        entry
        for entry in seen.entries
        if entry.address in seen.tables
        and source in (None, entry.address.source)
        and schema in (None, entry.address.schema)
    ]


def checked_source(seen: Seen, source: str | None) -> str | None:
    """The source, if there is one of that name.

    Raises:
        BadParameterError: there is none.
    """
    known = seen.catalogue.sources
    if source is not None and source not in known:
        raise BadParameterError(f"There is no source {source[:80]!r}.", hint=_instead(source, sorted(known)))
    return source


def find_table(seen: Seen, name: str, *, source: str | None = None, schema: str | None = None) -> Address:
    """The table or view of that name, which may be "schema.name", in any case of letters if only one fits.

    Where several sources have it, it is that of the first.

    Raises:
        UnknownTableError: there is none for this reader.
        BadParameterError: there are several, or no such source or schema.
    """
    addresses = [entry.address for entry in tables_of(seen, source=source, schema=schema)]
    wanted = name.strip()[:_LONGEST_NAME]
    found = [at for at in addresses if wanted in _spellings(at)]
    found = found or [at for at in addresses if wanted.lower() in map(str.lower, _spellings(at))]
    if not found:
        raise _unknown(wanted, addresses)
    order = seen.catalogue.sources
    first = [at for at in found if at.source == min((at.source for at in found), key=order.index)]
    if len(first) > 1:
        choices = ", ".join(f"{at.schema}.{at.name}" for at in first[:10])
        raise BadParameterError(f"Several tables are called {wanted[:80]!r}.", hint=f"Name one of {choices}.")
    return first[0]


def nearest(seen: Seen, address: Address) -> list[str]:
    """URIs of what is seen and has a name like the one that nothing is found by; at most three."""
    alike = {at.called: entry.uri for entry in seen.entries if (at := entry.address).kind == address.kind}
    close = get_close_matches(address.called[:_LONGEST_NAME], alike, n=3, cutoff=0.6)
    return [alike[name] for name in close]


def search_all(seen: Seen, terms: Sequence[str], *, limit: int) -> list[Found]:
    """What each term finds among names and comments of all that is seen: at most `limit` things each, best first.

    Raises:
        BadParameterError: there are too many terms, or one is too long.
        ConfigurationError: rapidfuzz is not installed.
    """
    checked = checked_terms(terms)
    entries = {entry.address: entry for entry in seen.entries}
    index = seen.catalogue.index
    return [
        _found(term, entries[match.address], match)
        for term in checked
        for match in search(term, index, entries.__contains__, limit)
    ]


def _found(term: str, entry: Entry, match: Match) -> Found:
    at = entry.address
    return Found(
        term=term,
        kind=at.kind,
        source=at.source,
        schema=at.schema or None,
        name=at.called,
        columns=list(match.columns[:_MOST_COLUMNS]),
        score=match.score,
        comment=entry.comment,
        uri=entry.uri,
    )


def _spellings(address: Address) -> tuple[str, str]:
    return address.name, f"{address.schema}.{address.name}"


def _unknown(name: str, addresses: Sequence[Address]) -> UnknownTableError:
    known = list(dict.fromkeys(address.name for address in addresses))
    close = get_close_matches(name, known, n=3, cutoff=0.5)
    return UnknownTableError(
        f"There is no table {name[:80]!r}.",
        hint=_instead(name, known) if known else "No table can be seen by you.",
        details={"table": name[:80], "suggestions": close},
    )


def _instead(name: str, known: Sequence[str]) -> str:
    close = get_close_matches(name[:_LONGEST_NAME], known, n=3, cutoff=0.5)
    if close:
        return f"Did you mean {' or '.join(map(repr, close))}?"
    return f"There is {', '.join(known[:20])}."
