"""Refuse a name that nothing has; the rule: whoever misspelt it is told what it may have been."""

from __future__ import annotations

from collections.abc import Collection
from difflib import get_close_matches

from dualsql.errors import BadParameterError

_COMPARED = 80
"""Characters: comparing names costs the product of their lengths, and this one is the caller's."""

_SAME = tuple(
    frozenset(names.split())
    for names in (
        "filters filter where condition conditions predicate criteria",
        "columns column fields field select",
        "order_by sort sort_by order orderby",
        "offset skip start from",
        "limit top take first max_rows row_limit page_size rows n",
        "sql query statement text",
        "resource uri url resource_uri resource_id id link",
        "group_by groupby group groups dimensions",
        "aggregates aggregate aggregations aggregation measures metrics functions",
        "source_name source database db",
        "schema_name schema",
        "table table_name name",
        "terms term q search keywords",
    )
)
"""Names that mean the same where only one of them is known."""


def refuse_unknown(given: Collection[str], known: Collection[str], what: str) -> None:
    """Raises BadParameterError, which guesses, for a name that is not known here."""
    unknown = next((name for name in given if name not in known), None)
    if unknown is None:
        return
    name = unknown[:_COMPARED]
    close = _meant(name, known) or get_close_matches(name, known, n=1)
    allowed = f"Known here: {', '.join(known)}." if known else "None is accepted here."
    hint = f"Did you mean {close[0]!r}?" if close else allowed
    raise BadParameterError(f"Unknown {what} {name!r}.", hint=hint, details={"name": name, "known": [*known]})


def _meant(name: str, known: Collection[str]) -> list[str]:
    same = next((names for names in _SAME if name.lower() in names), frozenset())
    return [each for each in known if each in same]
