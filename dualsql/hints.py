"""The texts of errors that need many words, and the names that a caller may have meant. Loaded with such an error."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from dualsql_client.errors import refuse_unknown_keywords

OWN_TEXT = (
    "Check the number of each function's arguments, and leave out parts of the query one by one until it runs. If "
    "even a query without conditions fails, tell the operator."
)
UNCONVERTED = (
    "The database could not convert a value, in the query of the result or in the question about it.",
    (
        "Leave out the columns, conditions or conversions of the question one by one. If the result's own rows cannot "
        "be read either, its query is wrong for the data: tell the operator."
    ),
)
CONVERSION = (
    "The query converts a value to a type that it does not fit, or compares the two.",
    "Convert only values that fit, by CASE WHEN ... THEN CAST(x AS INTEGER) END, or compare them as texts.",
)
"""The database has this conversion, and a value of the data or of the text has none."""

UNSUITED = {
    "question": (
        "The database cannot compare, group or compute these values: a column's type does not allow it.",
        "Use another column, or leave out that condition, group or aggregate.",
    ),
    "text": (
        "The database has no such function, operator or conversion for the types of the values in it.",
        "Compare values of the same type, sum only numbers, and cast others: round(CAST(x AS NUMERIC), 2).",
    ),
}
"""By what the caller gave. These are messages and hints, as are the two above."""


_SESSIONS = "Session AsyncSession sessionmaker async_sessionmaker scoped_session async_scoped_session"
_CONNECTIONS = "Connection AsyncConnection"
# By name: dualsql.errors imports neither SQLAlchemy nor an SDK.
INSTEAD: Mapping[str, Mapping[str, str]] = {
    "databases": {
        **dict.fromkeys(
            _SESSIONS.split(), "Pass its engine: dualsql opens sessions of its own, read-only ones."
        ),
        **dict.fromkeys(_CONNECTIONS.split(), "Pass its engine: dualsql opens connections of its own."),
        "NoneType": "Pass a URL or an engine. Is the environment variable set that the URL is read from?",
    },
    "store": {
        **dict.fromkeys(
            ("str", "URL"), "Make a store of it: store=SQLResourceStore(url), with secrets=[...]."
        ),
        **dict.fromkeys(
            ("Engine", "AsyncEngine"), "Make a store: SQLResourceStore takes an async engine or a URL."
        ),
    },
    "server": {
        "function": "The decorator takes the MCP server: @dual.tool(mcp).",
        "str": 'The MCP server comes first: @dual.tool(mcp, name="search_colleges").',
        "Starlette": "Pass the MCP server that the tools are registered on, not the web application.",
        "DualResponseServer": "The MCP server comes second, as in add_app(dual, mcp).",
    },
    "tables": {
        "str": "Pass the declarative base, the mapped classes or the Tables themselves, not their names.",
        "module": "Pass what the module defines: its declarative base, or its MetaData.",
        "Engine": "Read the tables first: metadata.reflect(engine); or use `dualsql serve`, which reads them itself.",
    },
}
"""What to pass in place of an object, by the argument it was passed as and by the name of its class or of a base."""


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
"""Synonyms of argument names, for suggestions."""


def similar_names(name: str, known: Collection[str]) -> list[str]:
    """The names that a caller may have meant by an unknown one, the most likely first.

    Args:
        name: cut to a bounded length. The cost of comparing names grows with the product of their lengths.
    """
    same = next((names for names in _SAME if name.lower() in names), frozenset())
    return [each for each in known if each in same] or get_close_matches(name, known, n=1)


def mistake_in_call(
    method: Callable[..., Any],
    signature: inspect.Signature,
    given: Sequence[Any],
    keywords: Mapping[str, Any],
    elsewhere: Callable[[str], str | None] | None,
) -> TypeError:
    """The error for arguments that `signature` does not take; see `dualsql.settings.takes`."""
    parameters = signature.parameters
    names = [*parameters]
    required = [each for each in names[1:] if parameters[each].default is inspect.Parameter.empty]
    unnamed = [each for each in names[1:] if parameters[each].kind is not inspect.Parameter.KEYWORD_ONLY]
    owner = type(given[0]).__name__ if given else method.__qualname__.partition(".")[0]
    name = owner if method.__name__ == "__init__" else f"{owner}.{method.__name__}"
    unknown = next((each for each in keywords if each not in names), "")
    if unknown and elsewhere is not None and (place := elsewhere(unknown)) is not None:
        return TypeError(f"{name}() has no argument {unknown!r}. {place}")
    refuse_unknown_keywords(name, keywords, names)
    if len(given) > 1 + len(unnamed):
        others = next(each for each in [*required, *names[1:]] if each not in unnamed)
        return TypeError(
            f"Only {' and '.join(unnamed) or 'nothing'} can be given to {name}() without a name. "
            f"Name the others: {others}=..."
        )
    if doubled := [each for each in names[1 : len(given)] if each in keywords]:
        return TypeError(f"{name}() got {doubled[0]} twice.")
    lacking = [each for each in required if each not in keywords and each not in names[: len(given)]]
    example = ", ".join(f"{each}=..." for each in lacking)
    return TypeError(f"{name}() requires {', '.join(lacking)}: {name.split('.')[-1]}(..., {example})")
