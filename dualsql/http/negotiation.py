"""What the caller would rather have, of what there is; the rule: pure, and it never fails on a malformed header.

RFC 9110, sections 12.4 and 12.5: a more specific range decides over a less specific one, then the weight, then the
server's own order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from dualsql.http.problems import NotAcceptableError

_MOST_RANGES = 100
_IDENTITY = "identity"


def preferred_media_type(accepted: Sequence[str], offered: Sequence[str]) -> str | None:
    """The media type of `offered` that the values of Accept weigh most; the first one without any such header."""
    ranges = dict(_ranges(accepted))
    if not ranges:
        return offered[0]
    return _heaviest(offered, lambda offer: _weight(ranges, (offer, f"{offer.partition('/')[0]}/*", "*/*")))


def preferred_coding(accepted: Sequence[str], offered: Iterable[str]) -> str | None:
    """The content coding of `offered` for these values of Accept-Encoding; None for no coding at all.

    Raises:
        NotAcceptableError: the caller takes neither a coding we have nor its absence.
    """
    codings = dict(_ranges(accepted))
    weights = {coding: _weight(codings, (coding, "*")) for coding in offered}
    plain = codings.get(_IDENTITY, codings.get("*"))
    found = _heaviest(weights, weights.__getitem__)
    if found is not None and weights[found] >= (plain or 0):
        return found
    if plain == 0:
        raise NotAcceptableError(
            "No content coding that is accepted can be had.", hint="Accept-Encoding: gzip"
        )
    return None


def _heaviest(offered: Iterable[str], weight: Callable[[str], float]) -> str | None:
    best = max(offered, key=weight, default=None)  # the first one of equal weight
    return best if best is not None and weight(best) > 0 else None


def _weight(ranges: Mapping[str, float], by_precision: Sequence[str]) -> float:
    return next((ranges[name] for name in by_precision if name in ranges), 0.0)


def _ranges(values: Sequence[str]) -> Iterator[tuple[str, float]]:
    """Each range of a header and its weight. Parameters but `q` are not looked at."""
    for item in ",".join(values).lower().split(",", _MOST_RANGES)[:_MOST_RANGES]:
        name, *parameters = [part.strip() for part in item.split(";")]
        weight = next((part[2:] for part in parameters if part.startswith("q=")), "1")
        if name:
            yield name, _number(weight)


def _number(text: str) -> float:
    try:
        weight = float(text[:8])
    except ValueError:
        return 0.0
    return weight if 0 <= weight <= 1 else 0.0
