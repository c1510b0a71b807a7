"""Say why a text is not run; the rule: every refusal names the part, and what to write instead."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import Any, NoReturn

from sqlglot import ErrorLevel, exp

from dualsql.errors import ForbiddenSQLError, InvalidSQLError, UnknownColumnError, UnknownTableError

_SHOWN = 60
_LISTED = 40


def forbid(what: str, hint: str = "", *, suggestions: Sequence[str] = ()) -> NoReturn:
    """Refuse a construct that this server does not run."""
    raise ForbiddenSQLError(
        f"{what} cannot be run here.",
        hint=hint or "Write one plain SELECT over the tables that are served.",
        details={"suggestions": list(suggestions)},
    )


def forbid_node(node: Any) -> NoReturn:
    """Refuse a part of the tree that has no translation."""
    kind = type(node).__name__ if isinstance(node, exp.Expression) else str(node)
    forbid(f"{_words(kind)} ({shown(node)})" if isinstance(node, exp.Expression) else kind)


def invalid(message: str, hint: str = "") -> NoReturn:
    """Refuse a text that makes no sense."""
    raise InvalidSQLError(message, hint=hint)


def too_deep() -> InvalidSQLError:
    """The error for a text whose parts stand inside one another too often."""
    return InvalidSQLError("The SQL is nested too deeply.", hint="Use WITH to name the inner parts.")


def unknown_table(name: str, known: Iterable[str]) -> NoReturn:
    """Refuse a table that is not served; tables that are there and not served are not told apart."""
    tables = sorted(known)
    close = get_close_matches(name.lower(), [table.lower() for table in tables], n=3, cutoff=0.5)
    suggestions = [table for likeness in close for table in tables if table.lower() == likeness]
    listed = ", ".join(tables[:_LISTED]) or "none"
    raise UnknownTableError(
        f"There is no table {name[:_SHOWN]!r}.",
        hint=f"Did you mean {' or '.join(suggestions)}?" if suggestions else f"There are: {listed}.",
        details={"table": name[:_SHOWN], "suggestions": suggestions, "tables": tables[:_LISTED]},
    )


def unknown_column(name: str, known: Iterable[str]) -> NoReturn:
    """Refuse a column that nothing in the FROM clause has."""
    # What has no name of its own has one of SQLAlchemy's, such as "%(140 anon)s".
    names = [one for one in dict.fromkeys(known) if "%(" not in one]
    raise UnknownColumnError(name, names[:_LISTED], of="The query")


def shown(node: exp.Expression) -> str:
    """A part of the text, as short as a message can bear."""
    try:
        text = node.sql(unsupported_level=ErrorLevel.IGNORE)
    except (ValueError, RecursionError):
        text = type(node).__name__
    text = " ".join(text.split())
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."


def _words(name: str) -> str:
    """`TableSample` as `table sample`."""
    return "".join(f" {letter.lower()}" if letter.isupper() else letter for letter in name).strip()
