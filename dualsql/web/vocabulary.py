"""The conditions, aggregates and buckets that the dialogs of a page offer, read from the tables of `dualsql.query`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dualsql.formats.json import dumps
from dualsql.query.aggregates import AGGREGATES
from dualsql.query.comparisons import BUCKETS, OPERATORS, ConditionOperator
from dualsql.query.conditions import KINDS


def vocabulary() -> str:
    """The JSON in the attribute `data-vocabulary` of a page; `static/dialogs.js` reads it.

    `conditions` are choices with `name` (unique), `op` and `takes`, words, and the kind of the columns that have them;
    `kinds` are those kinds by encoding. `aggregates` leaves out those that need a fraction.
    """
    found = {
        "conditions": [choice for known in OPERATORS.values() for choice in _choices(known)],
        "kinds": {**KINDS, "integer-string": KINDS["integer"]},
        "aggregates": [name for name, known in AGGREGATES.items() if not known.takes_fraction],
        "buckets": [*BUCKETS],
    }
    return dumps(found).decode()


def _choices(known: ConditionOperator) -> Iterator[dict[str, Any]]:
    """The operator, and its opposite where that has words."""
    shared = {"op": known.name, "kind": known.kind, "takes": known.takes}
    yield {**shared, "name": known.name, "words": known.words, "ofTimes": known.of_times or known.words}
    if known.opposite:
        yield {**shared, "name": known.opposites[0], "words": known.opposite, "value": False}
    if known.negation:
        name = known.negations[0]
        yield {**shared, "name": name, "op": name, "words": known.negation}
