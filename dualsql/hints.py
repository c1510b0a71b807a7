"""The texts of errors that need many words, and the names that a caller may have meant. Loaded with such an error."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from difflib import get_close_matches

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
        (
            "Compare values of the same type, sum only numbers, and cast others: round(CAST(x AS NUMERIC), 2), "
            "CAST(x AS TEXT) LIKE 'a%'."
        ),
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
        "terms term q search keywords query",
    )
)
"""Synonyms of argument names, for suggestions."""


def similar_names(name: str, known_names: Collection[str]) -> list[str]:
    """The names that a caller may have meant by an unknown one, the most likely first.

    Args:
        name: cut to a bounded length. The cost of comparing names grows with the product of their lengths.
    """
    same = frozenset().union(*(group for group in _SAME if name.lower() in group))
    return [each for each in known_names if each in same] or get_close_matches(name, known_names, n=1)
