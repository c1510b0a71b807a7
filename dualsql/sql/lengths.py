"""How long texts can become that a statement makes of constants, before a database searches them.

PostgreSQL's strpos, replace, split_part and btrim take time in proportion to the product of the lengths of their
arguments, and check no time limit meanwhile. A short SQL text can give them megabytes: `repeat('ab', 1000000)`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from itertools import chain, islice
from typing import Any, cast

from sqlalchemy import BindParameter, Case, Cast, ColumnClause, ColumnElement, types
from sqlalchemy.sql import operators
from sqlalchemy.sql.elements import BinaryExpression, ExpressionClauseList, Label
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.sql.selectable import AliasedReturnsRows, ScalarSelect

from dualsql.sql.expansion import Expansion
from dualsql.sql.scope import invalid

LONGEST_TEXT = 10_000_000
"""Characters that a statement may make of constants."""

MOST_SEARCH_WORK = 100_000_000
"""The product of the lengths of a text and of what is looked for in it: a tenth of a second on PostgreSQL."""

_PATTERN_WORK = 10
"""A regular expression takes so many times as long as a plain search. MariaDB's ends within no time limit."""

LONGEST_DOCUMENT = 2_000_000
"""Characters of a constant that is read as JSON or cut into a list: PostgreSQL takes seconds for 10 MB, and the page
of such a list holds the event loop as long."""

_STORED = 1_000
"""Characters that a cell is taken to have."""

_GATHERED = 1_000
"""Cells that an aggregate is taken to join."""

_NUMBER = 40
_SEARCHES = frozenset(
    """btrim instr locate ltrim position replace rtrim split split_part starts_with string_split string_to_array strpos
    substring_index translate trim""".split()
)
_CUTTERS = frozenset(
    """json json_array_elements json_extract json_valid jsonb_array_elements regexp_extract_all regexp_split_to_array
    regexp_split_to_table split str_split string_split string_to_array string_to_table to_json to_jsonb""".split()
)
_SHORTER = "Cut it before: substr(x, 1, 1000)."
_CUTS = {"left": 1, "right": 1, "substr": 2, "substring": 2}
"""By function, the argument that is the length of its result."""
_PADS = frozenset({"lpad", "rpad"})
_FORMATS = frozenset({"format", "printf", "to_char"})
_CONCATENATIONS = frozenset({"concat", "concat_ws"})
_JOINED = 4
"""So many texts of the greatest length may be joined."""
_GROWERS = _PADS | _FORMATS | {"repeat"}
_CODERS = frozenset(
    """encode hex json_array json_build_array json_build_object json_object json_quote jsonb_build_array
    jsonb_build_object quote_literal to_json to_jsonb""".split()
)
"""They write a character as two, or put a backslash before it."""
_BOUNDED = {
    "repeat": "repeat('*', least(n, 100)).",
    "lpad": "lpad(x, 100, ' ').",
    "rpad": "rpad(x, 100, ' ').",
    "concat": "join fewer or shorter texts.",
    "concat_ws": "join fewer or shorter texts.",
    "replace": "with a shorter text.",
    "regexp_replace": "with a shorter text.",
}
_JOINS = frozenset(
    "aggregate_strings array_agg group_concat json_agg json_group_array jsonb_agg list listagg string_agg".split()
)
_WIDTH = re.compile(r"%[^%A-Za-z]*(\*|[0-9]{5})|\{[^}]*[0-9]{5}")
"""A width of printf() or of DuckDB's format(). SQLite's printf() returns NULL for a text that is too long."""


def require_short_texts(statement: Any, longest_text: float = math.inf) -> None:
    """Refuse a statement that makes long texts, or looks for a long text in a long one.

    Args:
        longest_text: see `TextDialect.longest_text`.
    """
    lengths, of_rows = Lengths(longest_text), Lengths(gathered=1)
    waiting, ids = [statement], set()
    while waiting:
        element = waiting.pop()
        if id(element) in ids:
            continue
        ids.add(id(element))
        if isinstance(element, FunctionElement):
            lengths.check(element)
        elif (
            getattr(element, "operator", None) is operators.concat_op
            and of_rows.of(element) > _JOINED * longest_text
        ):
            invalid("The SQL makes a text that is too long of each row.", hint="Join fewer or shorter texts.")
        elif isinstance(element, Cast) and isinstance(element.type, types.JSON | types.ARRAY):
            lengths.check_document(element.clause)
        elif isinstance(element, AliasedReturnsRows):
            waiting.append(element.element)
            lengths.check_rounds(element)
        waiting += element.get_children()


class Lengths:
    """Estimates from above how many characters an element has. Each element is walked once."""

    def __init__(self, longest_text: float = math.inf, gathered: int = _GATHERED) -> None:
        self._longest_text, self._gathered = longest_text, gathered
        self._expansion = Expansion()
        # By the ids of elements, which are kept alive.
        self._lengths: dict[int, tuple[Any, float]] = {}

    def check(self, function: Any) -> None:
        """Refuse a call that takes too long."""
        length = self.of(function)
        if LONGEST_TEXT < length < math.inf:
            invalid("The SQL makes a text that is too long.", hint="Repeat or pad it fewer times.")
        if function.name in _SEARCHES or function.name.startswith("regexp"):
            text, *parts = [*map(self.of, islice(function.clauses, 3)), 1]
            times = _PATTERN_WORK if function.name.startswith("regexp") else 1
            if text * max(parts, default=1) * times > MOST_SEARCH_WORK:
                invalid(
                    f"{function.name}() searches texts that are too long.",
                    hint=_SHORTER,
                )

        if function.name.lower() in _FORMATS and not _is_narrow(
            function.name.lower(), list(function.clauses)
        ):
            invalid(
                f"{function.name}() takes a constant format with widths of at most 4 digits.",
                hint="Write '%5d'.",
            )
        if self._longest_text < math.inf:
            self._check_growth(function, length)
        if function.name in _CUTTERS and len(function.clauses):
            self.check_document(next(iter(function.clauses)))

    def _check_growth(self, function: Any, length: float) -> None:
        """Refuse a call that makes much more of a value than it is."""
        name, arguments = function.name.lower(), list(function.clauses)
        if name.endswith("replace"):
            length = self.of(arguments[2]) * _STORED if len(arguments) > 2 else 0
        elif name in _CONCATENATIONS:
            length = Lengths(gathered=1).of(function) / _JOINED
        elif name not in _GROWERS:
            return
        if length > self._longest_text:
            invalid(
                f"{name}() may make texts of more than {self._longest_text:,} characters.",
                hint=f"Bound them: {_BOUNDED.get(name, 'give a smaller width.')}",
            )

    def check_rounds(self, table: AliasedReturnsRows) -> None:
        """Refuse a recursive query whose texts double with each round: `x || x`."""
        if not getattr(table, "recursive", False):
            return
        for source in map(_plain, chain.from_iterable(self._expansion.sources_of(table).values())):
            if self._growth(source, {}) > 1:
                invalid(
                    "The texts of a recursive query grow too fast.",
                    hint="Append one text of the query itself in each round: path || '/' || name.",
                )

    def check_document(self, text: Any) -> None:
        """Refuse what makes a large document or list of a long constant."""
        if LONGEST_DOCUMENT < self.of(text) < math.inf:
            invalid("The SQL makes a text that is too long for a document or a list.", hint=_SHORTER)

    def of(self, element: Any) -> float:
        """The number of characters; infinite if nothing bounds them."""
        entry = self._lengths.get(id(element))
        if entry is None:
            self._lengths[id(element)] = element, math.inf
            entry = self._lengths[id(element)] = element, self._count(element)
        return entry[1]

    def _count(self, element: Any) -> float:
        if isinstance(element, BindParameter):
            return len(element.value) if isinstance(element.value, str) else _NUMBER
        if isinstance(getattr(element, "type", None), _NO_TEXTS):
            return _NUMBER
        if isinstance(element, Label):
            return self.of(element.element)
        if isinstance(element, ScalarSelect):
            return max(map(self.of, element.element.selected_columns), default=0)
        if isinstance(element, ColumnElement) and getattr(element, "table", None) is not None:
            return self._of_column(element, element.table)
        if isinstance(element, FunctionElement):
            return self._of_call(element.name.lower(), list(element.clauses))
        sides = (
            [element.left, element.right] if isinstance(element, BinaryExpression) else element.get_children()
        )
        return sum(map(self.of, sides))

    def _of_column(self, column: Any, table: Any) -> float:
        if not isinstance(table, AliasedReturnsRows):
            return _STORED
        sources = [_plain(one) for one in self._expansion.sources_of(table).get(column, ())]
        if _recursion(table) is not None:
            # A part of the text of the former round is no longer than that one.
            sources = [one for one in sources if not _is_part_of(one, column)]
            if any(isinstance(one, _GROWING) and self._growth(one, {}) for one in sources):
                return math.inf
        return max(map(self.of, sources), default=_STORED)

    def _growth(self, element: Any, counts: dict[int, tuple[Any, int]]) -> int:
        """How many texts of the former round a text is made of; a call that repeats one counts as two.

        Args:
            counts: by the ids of elements, which are kept alive: what has been counted.
        """
        if isinstance(getattr(element, "type", None), _NO_TEXTS):
            return 0  # a position in a text, the condition of a CASE
        if id(element) not in counts:
            counts[id(element)] = element, self._texts_in(element, counts)
        return counts[id(element)][1]

    def _texts_in(self, element: Any, counts: dict[int, tuple[Any, int]]) -> int:
        if isinstance(element, ColumnClause):
            if _recursion(element.table) is not None:
                return int(isinstance(element.type, types.String | types.NullType))
            if not isinstance(element.table, AliasedReturnsRows):
                return 0
            sources = map(_plain, self._expansion.sources_of(element.table).get(element, ()))
            return max((self._growth(one, counts) for one in sources), default=0)
        texts = [self._growth(one, counts) for one in _parts(element)]
        growth = max(texts, default=0) if _is_choice(element) else sum(texts)
        return 2 * growth if isinstance(element, FunctionElement) and _repeats(element) else growth

    def _of_call(self, name: str, arguments: list[Any]) -> float:
        total = sum(map(self.of, arguments))
        if not arguments:
            return _NUMBER
        first = self.of(arguments[0])
        if name == "concat_ws":
            return total + first * max(0, len(arguments) - 3)
        if name == "repeat":
            return first * _number(arguments[1:])
        if name in _PADS:
            return _number(arguments[1:])
        if name in _CUTS:
            return min(first, _number(arguments[_CUTS[name] :]))
        if name in ("replace", "translate") and len(arguments) > 2:
            return first * max(1, self.of(arguments[2])) if name == "replace" else first
        return total * self._gathered if name in _JOINS else total


_NO_TEXTS = (types.Numeric, types.Integer, types.Float, types.Boolean)
_CHOICES = frozenset({"coalesce", "greatest", "ifnull", "least", "nullif"})
_PARTS_OF_TEXTS = _CUTS.keys() | {"btrim", "ltrim", "right", "rtrim", "trim"}
_GROWING = (BinaryExpression, ExpressionClauseList, FunctionElement, Case)


def _plain(element: Any) -> Any:
    return element.element if isinstance(element, Label) else element


def _recursion(table: Any) -> str | None:
    """The name of the recursive query that a relation stands for, which no other query of the statement has."""
    while isinstance(table, AliasedReturnsRows):
        if getattr(table, "recursive", False):
            return str(table.name)
        table = table.element
    return None


def _is_part_of(element: Any, column: Any) -> bool:
    """Whether it is a column of this name of a recursive query, or a part of its text: `trim(substr(x, 2))` of `x`."""
    while isinstance(element, FunctionElement) and element.name.lower() in _PARTS_OF_TEXTS:
        element = _plain(next(iter(element.clauses)))
    is_same = isinstance(element, ColumnClause) and element.name == column.name
    return is_same and _recursion(element.table) == _recursion(column.table)


def _parts(element: Any) -> Iterable[Any]:
    if isinstance(element, FunctionElement):
        return element.clauses
    if isinstance(element, ScalarSelect):
        return element.element.selected_columns
    return cast("Iterable[Any]", element.get_children())


def _is_choice(element: Any) -> bool:
    """Whether it is one of its parts."""
    return isinstance(element, Case) or (
        isinstance(element, FunctionElement) and element.name.lower() in _CHOICES
    )


def _repeats(function: Any) -> bool:
    name = function.name.lower()
    if name == "replace":
        return not _is_short(*islice(function.clauses, 2, None))
    return name in _GROWERS | _CODERS | _JOINS or name.endswith("replace")


def _is_short(*text: Any) -> bool:
    """Whether a constant takes no more room than what it replaces."""
    return all(isinstance(one, BindParameter) and len(str(one.value)) < 2 for one in text)


def _number(arguments: list[Any]) -> float:
    """The constant number that comes first, or the least of several values; infinite for any other."""
    if arguments and getattr(arguments[0], "name", None) == "least":
        return min((_number([one]) for one in arguments[0].clauses), default=math.inf)
    value = getattr(arguments[0], "value", None) if arguments else None
    return max(0, value) if isinstance(value, int | float) else math.inf


def _is_narrow(name: str, arguments: list[Any]) -> bool:
    """Whether the format of a call bounds its result. MariaDB's format() and to_char() have numbers or dates first."""
    form = next((one for one in arguments[:1] if isinstance(one.type, types.String)), None)
    is_constant = form is None or name == "to_char" or isinstance(form, BindParameter)
    texts = [one.value for one in arguments if isinstance(getattr(one, "value", None), str)]
    return is_constant and not any(map(_WIDTH.search, texts))
