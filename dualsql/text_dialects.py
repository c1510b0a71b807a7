"""What a SQL text for each database may contain. Each database states its own in its file under `dualsql.databases`.

`Capabilities.text_dialect` is a function: a server of SQLite alone loads this with its first text.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto

from sqlalchemy import types

from dualsql.columns.own_types import Element, SQLType


class ResultOf(Enum):
    """The result type of a SQL function for which SQLAlchemy has none."""

    FIRST_ARGUMENT = auto()
    """A value of the type of its first argument."""
    ARGUMENTS = auto()
    """One of its arguments."""
    SUM = auto()
    """A sum: of 32-bit integers a 64-bit integer, of 64-bit integers a decimal, else the type of its argument."""
    ROUNDED = auto()
    """A decimal if a number of digits is given; else a double for an integer, and the type of any other argument."""
    EXACT_OR_DOUBLE = auto()
    """A decimal if its arguments are decimals, else a double."""
    LOGARITHM = auto()
    """A decimal if its arguments are decimals or a base is given, else a double."""
    MIDDLE = auto()
    """A value between two values of its first argument: of integers a double, else their type."""
    WHOLE = auto()
    """A rounded number: of a decimal a 64-bit integer, else the type of its first argument."""
    DATE_PART = auto()
    """A 64-bit integer, but a double for the parts `epoch` and `julian`."""
    TRUNCATED = auto()
    """An instant or a duration, as the second argument is; of a date an instant without a zone."""
    TRUNCATED_IN_ZONE = auto()
    """The same; of a date an instant with a zone, and of a time a duration."""
    ZONED = auto()
    """An instant with a zone if the second argument has none, and without one if it has."""
    SECONDS = auto()
    """A 64-bit integer of a date, an instant or a time of day without a fraction, else a decimal."""
    LIST = auto()
    """A list of values of the type of its first argument."""
    LIST_OF_SECOND = auto()
    """The type of its second argument, which is a list."""


FunctionResult = SQLType | ResultOf


def functions_that_give(result: FunctionResult, names: str) -> dict[str, FunctionResult]:
    """A mapping from function names, given as one text, to their result type."""
    return dict.fromkeys(names.split(), result)


WITHOUT_CONSTRUCT: Mapping[str, str] = {
    "ALL of a subquery": "Write x > (SELECT max(y) ...), or NOT EXISTS (...).",
    "ANY of a subquery": "Write x IN (SELECT ...), x > (SELECT min(y) ...), or EXISTS (...).",
    "CUBE": "Join one SELECT for each grouping by UNION ALL.",
    "DISTINCT with OVER": "Count in a subquery with GROUP BY, and join it.",
    "DIV": "Write x / y, which of whole numbers is one.",
    "EXCEPT ALL": "Write EXCEPT, or count both sides with GROUP BY.",
    "FILTER": "Write count(CASE WHEN x THEN 1 END), sum(CASE WHEN x THEN y END).",
    "FULL JOIN": "Write a LEFT JOIN, UNION ALL the other side WHERE NOT EXISTS (...).",
    "GROUPING SETS": "Join one SELECT for each grouping by UNION ALL.",
    "GROUPS in a window": "Write ROWS or RANGE.",
    "INTERSECT ALL": "Write INTERSECT, or count both sides with GROUP BY.",
    "LATERAL": "Write a subquery in the SELECT list, or join a subquery with GROUP BY.",
    "ROLLUP (x)": "Write GROUP BY x WITH ROLLUP.",
    "XOR of bits": "Write (x | y) - (x & y).",
}
"""What to write for a construct that a database does not have."""


def lacking(*names: str) -> dict[str, str]:
    """The constructs of these names, and what to write instead."""
    return {name: WITHOUT_CONSTRUCT[name] for name in names}


@dataclass(frozen=True, slots=True, kw_only=True)
class TextDialect:
    """What a SQL text for one database may contain, and what it means there.

    The defaults are for an unknown database.

    Attributes:
        parser: sqlglot's name of the dialect.
        functions: functions that a text may call besides the common ones, in lower case.
        argument_types: by function and position of an argument: the type that a constant text is cast to there.
        named_arguments: by function: the names of its arguments, all of which are numbers and 0 by default.
        table_functions: functions in FROM, and their columns.
        absent: functions of all databases that this one lacks in every version; they are refused with a suggestion, and
            not by the database's error.
        windowed: aggregates that this one has only with OVER.
        since: functions that it has from a version on.
        instead: by name: what to write for a function that this database lacks, or has under another name.
        writes_formats: the expression that writes the date :a by the format :b.
        days_between: the expression for the number of midnights from :a to :b.
        units_passed: the expression for the whole units of :c seconds from :a to :b.
        lacks: by name in `dualsql.sql.constructs`: what to write for a construct that this database does not have.
        system_tables: what the names of its own tables and schemas begin with; a model that asks for one is told of
            the catalogue.
        whole_quotient: the type of `/` of two whole numbers.
        extract_fields: what EXTRACT can take from an instant; empty for all fields.
        extracts_exactly: a field of EXTRACT is an exact number to `/`.
        joins_texts_only: string_agg() takes no number.
        quotient: its type for other numbers; None if it is their common type.
        averages_in_doubles: avg() and similar functions return doubles.
        computes_in_doubles: all computation is in doubles, and a constant with a fraction is a double.
        whole_division: the operator that divides whole numbers.
        position: the function that finds a text in another one.
        lacks_floor: floor(x) is not the database's own, and is written -ceil(-x).
        has_btrim: TRIM of given characters is written btrim().
        trims_characters: trim(), ltrim() and rtrim() take the characters as an argument.
        has_scalar_extremes: max() and min() of several values are scalar functions.
        interval: an interval of so many years, months, weeks, days, hours, minutes and seconds; None without intervals.
        interval_hint: what to write instead of an interval.
        units: the units of time that `moves_date` and `units_between` take.
        moves_date: a date plus a number of a unit; None where intervals are values of their own.
        units_between: the number of whole units between two dates; None where `moves_date` is.
        types: types of CAST besides the common ones, by the parser's names.
        operators: the binary operators of arrays, documents and patterns that a text may have; see `dualsql.sql.infix`.
        selects_rows: a function that returns several rows may be in the SELECT list.
        counts_rows: COUNT(DISTINCT a, b) is understood.
        distinguishes_parameters: to its planner, two parameters differ even if their values are the same.
        has_row_values: a row value, (a, b), may stand where another value may; else it is only compared with others.
        sorts_row_values: the rows of a query may be sorted by one.
        correlates_from: a subquery in FROM may read columns of the queries around its own.
        merges_in_place: `SELECT *` shows a column of USING where its first table has it, and not before all others.
        swaps_right_joins: `SELECT *` of RIGHT JOIN ... USING shows the columns of the right table first.
        array: makes an array of values; None without arrays.
        at_time_zone: makes an instant in a zone; None without zones.
        at_path: the part of a document at a path of names, for `#>` or, as a text, for `#>>`; None without them.
        date_cast_hint: what to write instead of a CAST to a date, if there is no such type.
        casts_dates: CAST of a constant to a date is one in the database too: the driver would send the date as a text.
        has_lists: [x] is a list.
        has_separator_word: group_concat(x SEPARATOR ', ') is its own form.
        has_date_modifiers: date(x, '+1 month') is its own form.
        has_datediff: datediff(x, y) of two dates counts the midnights from y to x.
        has_default_separator: texts are joined without a separator by group_concat(x).
        orders_joined_texts: string_agg() and group_concat() take an ORDER BY.
        orders_aggregates: all aggregates take an ORDER BY.
        has_distinct_on: DISTINCT ON (...) is understood.
        has_superaggregates: ROLLUP, CUBE and GROUPING SETS are understood.
        sorts_rollups: ORDER BY is allowed together with ROLLUP.
        names_value_columns: an alias of VALUES names its columns.
        has_json_arrows: `->` and `->>` read a part of a document; else json_extract() and json_unquote() do.
        quoted_words_are_texts: a word in double quotes that names no column is a text.
        folds_names: a name without quotes is read in lower case.
        name_quotes: the character before and after a quoted name.
        collations: those that COLLATE may name, as the database writes them.
        reads_dates: how a constant text beside a date of a type is written for the database to read it, in its other
            spellings too ('2012/1/1'); None where only ISO 8601 is.
        casts_texts: whether the database reads a constant text beside a value of a type as one of that type.
        casts_constants: a CAST of a constant text to a date stays one, because the driver sends dates as texts.
        doubles_with_exponent: a number with an exponent is a double.
        needs_constant_patterns: a regular expression is a constant: the database compiles others for each row, in our
            process and without a look at its time limit.
        comparisons_can_fail: comparing a number with a text that is not a number is an error.
        longest_text: characters that a call of repeat(), lpad() and similar functions may make of a value.
    """

    parser: str = ""
    functions: Mapping[str, FunctionResult] = field(default_factory=dict)
    argument_types: Mapping[str, Mapping[int, SQLType]] = field(default_factory=dict)
    named_arguments: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    table_functions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    absent: frozenset[str] = frozenset()
    windowed: frozenset[str] = frozenset()
    since: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    instead: Mapping[str, str] = field(default_factory=dict)
    writes_formats: str = ""
    days_between: str = ""
    units_passed: str = ""
    lacks: Mapping[str, str] = field(default_factory=dict)
    system_tables: tuple[str, ...] = ()
    whole_quotient: SQLType = field(default_factory=types.Numeric)
    extract_fields: frozenset[str] = frozenset()
    extracts_exactly: bool = False
    joins_texts_only: bool = False
    quotient: SQLType | None = None
    averages_in_doubles: bool = False
    computes_in_doubles: bool = False
    whole_division: str = "DIV"
    position: str = "instr"
    lacks_floor: bool = False
    has_btrim: bool = False
    trims_characters: bool = True
    has_scalar_extremes: bool = False
    interval: Callable[[Sequence[int]], Element] | None = None
    interval_hint: str = "Compute the date first, and pass it as a parameter."
    units: tuple[str, ...] = ()
    moves_date: Callable[[str, Element, Element], Element] | None = None
    units_between: Callable[[str, Element, Element], Element] | None = None
    types: Mapping[str, Callable[[], SQLType]] = field(default_factory=dict)
    operators: frozenset[str] = frozenset()
    selects_rows: bool = False
    counts_rows: bool = False
    distinguishes_parameters: bool = False
    has_row_values: bool = False
    sorts_row_values: bool = False
    correlates_from: bool = False
    merges_in_place: bool = False
    swaps_right_joins: bool = False
    array: Callable[..., Element] | None = None
    at_time_zone: Callable[[Element, Element], Element] | None = None
    at_path: Callable[[Element, Sequence[Element], str], Element] | None = None
    date_cast_hint: str = ""
    casts_dates: bool = False
    has_lists: bool = False
    has_separator_word: bool = False
    has_date_modifiers: bool = False
    has_datediff: bool = False
    has_default_separator: bool = False
    orders_joined_texts: bool = True
    orders_aggregates: bool = False
    has_distinct_on: bool = False
    has_superaggregates: bool = True
    sorts_rollups: bool = True
    names_value_columns: bool = True
    has_json_arrows: bool = True
    quoted_words_are_texts: bool = False
    folds_names: bool = False
    name_quotes: str = '"'
    collations: tuple[str, ...] = ()
    reads_dates: Callable[[str, SQLType], Element] | None = None
    casts_texts: Callable[[SQLType], bool] | None = None
    casts_constants: bool = False
    doubles_with_exponent: bool = False
    needs_constant_patterns: bool = False
    comparisons_can_fail: bool = False
    longest_text: float = math.inf
