"""What each aggregate and each function of a window means, by dialect, in DuckDB's words."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import Cast, and_, case, cast, distinct, func, or_, type_coerce, types
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement

from dualsql.capabilities import Capabilities
from dualsql.columns.own_types import Element
from dualsql.kept.cells import SmallIntegers
from dualsql.kept.translation.operators import IMPLICIT, ascii_lower
from dualsql.kept.translation.ordering import MARIADB, ORDERED, POSTGRESQL, SQLITE
from dualsql.kept.translation.terms import (
    Kind,
    Term,
    UntranslatableError,
    as_double,
    ascii_only,
    boolean,
    computed_real,
    decimal,
    real,
    refused_if,
    text,
    whole,
)


@dataclass(frozen=True, slots=True)
class AggregateTerm:
    """The argument of an aggregate.

    Attributes:
        is_distinct: each of its values counts once.
        must_be_exact: doubles are added in another order or way than DuckDB's.
        wrap: puts FILTER and OVER around DuckDB's aggregate.
    """

    term: Term
    is_distinct: bool
    must_be_exact: bool
    wrap: Callable[[Element], Element]

    def apply(self, name: str, sql: Element) -> Element:
        """DuckDB's aggregate of an expression."""
        return self.wrap(getattr(func, name)(distinct(sql) if self.is_distinct else sql))


Aggregate = Callable[[AggregateTerm], Term]


def _sum_sized(call: AggregateTerm) -> Term:
    """PostgreSQL: a BIGINT of numbers of 32 bits, a NUMERIC of others."""
    if not call.term.bits:
        raise UntranslatableError("a whole number of unknown size")
    total = call.apply("sum", call.term.sql)
    return whole(total) if call.term.bits < 64 else decimal(total, 0)


def _sum_decimal(call: AggregateTerm) -> Term:
    return decimal(call.apply("sum", call.term.sql), call.term.scale)


_PARTS, _LARGEST_SUM = 1024.0, 2.0**42
"""Of doubles that are whole numbers of these parts, each sum up to this one is exact."""


def _rounds_off(values: Element, applied: Callable[[str, Element], Element]) -> Element:
    """Whether a sum of doubles may be rounded off. It would depend on the order in which they are added, and DuckDB's
    is another one; some databases compensate for what is rounded off. The sum of minus zeros is not the same either."""
    is_odd = or_(values * _PARTS != func.floor(values * _PARTS), and_(values == 0.0, func.signbit(values)))
    return or_(
        applied("max", case((is_odd, 1), else_=0)) > 0, applied("sum", func.abs(values)) > _LARGEST_SUM
    )


class _Zero(FunctionElement[float]):
    """0.0, computed anew for each row. Not func.random(): an order by a sum of it would be taken for one by chance."""

    name = "dualsql_zero"
    type = types.Double()
    inherit_cache = True


@compiles(_Zero)
def _compile_zero(_element: _Zero, _compiler: object, **_options: object) -> str:
    return "(0.0 * random())"


def _is_exact(values: Element) -> bool:
    """Whether these are whole numbers as doubles, whose sums are exact in any order."""
    return isinstance(values, Cast) and isinstance(values.clause.type, SmallIntegers)


def _one_by_one(values: Element) -> Element:
    """The doubles, so that DuckDB adds them one after the other: of equal ones it would take a multiple."""
    return values if _is_exact(values) else values + _Zero()


def _add_doubles(name: str, call: AggregateTerm) -> Element:
    """sum() or avg() of doubles. Where DuckDB adds them in another order or way, it fails if it is not exact."""
    values = as_double(call.term)
    if call.term.kind == "integer":
        return call.apply(name, values)
    if call.must_be_exact or call.is_distinct:
        return refused_if(_rounds_off(values, call.apply), call.apply(name, values))
    return call.apply(name, _one_by_one(values))


def _sum_real(call: AggregateTerm) -> Term:
    return computed_real(_add_doubles("sum", call))


def _mean_real(call: AggregateTerm) -> Term:
    return real(_add_doubles("avg", call))


_LARGEST_SQUARED = 1e150


def _mean_checked(call: AggregateTerm) -> Term:
    """PostgreSQL squares the numbers, also for avg(), and an overflow is an error there."""
    is_large = call.apply("max", func.abs(call.term.sql)) > _LARGEST_SQUARED
    return real(refused_if(is_large, _add_doubles("avg", call)))


def _total(call: AggregateTerm) -> Term:
    return computed_real(func.coalesce(_add_doubles("sum", call), 0.0))


def _mean_exact(call: AggregateTerm) -> Term:
    """PostgreSQL's average of exact numbers, as the double next to it."""
    total, number = (call.apply(name, call.term.sql) for name in ("sum", "count"))
    quotient = cast(total, types.Double()).op("/", precedence=8)(func.nullif(number, 0))
    return replace(real(quotient), kind="quotient", is_exact=call.term.kind == "integer")


def _extreme(name: str) -> Aggregate:
    def write(call: AggregateTerm) -> Term:
        sql = call.apply(name, call.term.sql)
        return replace(call.term, sql=sql, is_constant=False, value=None)

    return write


def _truth(name: str) -> Aggregate:
    return lambda call: boolean(call.apply(name, call.term.sql))


def _extremes(*kinds: Kind) -> Mapping[tuple[str, Kind], Aggregate]:
    return {(name, kind): _extreme(name) for name in ("min", "max") for kind in kinds}


_SQLITE: Mapping[tuple[str, Kind], Aggregate] = {
    **_extremes(*ORDERED, "numeric", "text"),
    ("sum", "integer"): lambda call: whole(call.apply("sum", call.term.sql)),  # an overflow of 64 bits fails
    ("sum", "real"): _sum_real,
    ("total", "integer"): _total,
    ("total", "real"): _total,
    ("total", "numeric"): _total,
    ("avg", "integer"): _mean_real,
    ("avg", "real"): _mean_real,
    ("avg", "numeric"): _mean_real,
}

_POSTGRESQL: Mapping[tuple[str, Kind], Aggregate] = {
    **_extremes(*ORDERED, "text"),
    ("sum", "integer"): _sum_sized,
    ("sum", "real"): _sum_real,
    ("sum", "decimal"): _sum_decimal,
    ("avg", "integer"): _mean_exact,
    ("avg", "decimal"): _mean_exact,
    ("avg", "real"): _mean_checked,
    ("bool_and", "boolean"): _truth("bool_and"),
    ("bool_or", "boolean"): _truth("bool_or"),
    ("every", "boolean"): _truth("bool_and"),
}

_MARIADB: Mapping[tuple[str, Kind], Aggregate] = {
    **_extremes(*ORDERED),
    ("sum", "integer"): lambda call: decimal(call.apply("sum", call.term.sql), 0),
    ("sum", "real"): _sum_real,
    ("sum", "decimal"): _sum_decimal,
    ("avg", "real"): _mean_real,
}

AGGREGATES: Mapping[str, Mapping[tuple[str, Kind], Aggregate]] = {
    SQLITE: _SQLITE,
    POSTGRESQL: _POSTGRESQL,
    MARIADB: _MARIADB,
}
"""By dialect: what an aggregate means of a kind. count() has one meaning everywhere: see `Expressions`."""

NAMES = frozenset({"count", *(name for rows in AGGREGATES.values() for name, _ in rows)})

_RANKS: Mapping[str, Callable[[Element], Term]] = {
    "rank": whole,
    "dense_rank": whole,
    "percent_rank": real,
    "cume_dist": real,
}

RANKS: Mapping[str, Mapping[str, Callable[[Element], Term]]] = {
    SQLITE: _RANKS,
    POSTGRESQL: _RANKS,
    MARIADB: {"rank": whole, "dense_rank": whole},  # it shows ten digits of the others
}
"""By dialect: functions of a window that give rows that tie the same value."""

NUMBERS: Mapping[str, Callable[[Element], Term]] = {"row_number": whole}
"""Functions of a window whose values depend on the order of all rows."""


def translate_aggregate(dialect: str, name: str, call: AggregateTerm) -> Term:
    """An aggregate of one argument."""
    rows = AGGREGATES[dialect]
    row = rows.get((name, call.term.kind))
    if row is None and call.term.kind in IMPLICIT[dialect]:
        kind, convert = IMPLICIT[dialect][call.term.kind]
        row = rows.get((name, kind))
        call = replace(call, term=convert(call.term))
    if row is None:
        raise UntranslatableError(f"{name}() of a {call.term.kind}")
    return row(call)


def translate_rank(
    dialect: str, name: str, arguments: Sequence[Term], *, is_sorted: bool, is_total: bool
) -> Callable[[Element], Term]:
    """What a function of a window is made of its SQL.

    Args:
        is_sorted: its rows have an order. is_total: ... in which no two tie.
    """
    if arguments:
        raise UntranslatableError(f"{name}() with arguments")
    rank = RANKS[dialect].get(name) or (NUMBERS.get(name) if is_total else None)
    if rank is None or (dialect == MARIADB and not is_sorted):  # which is refused there
        raise UntranslatableError(f"{name}() in this order")
    return rank


#
# Structured questions, which are written anew for DuckDB.


def _summed_in_64_bits(values: Any) -> Any:
    return cast(func.sum(values), types.BigInteger())


def _exactly(name: str) -> Callable[..., Any]:
    """The aggregate of doubles; it fails where it may be rounded off."""

    def write(values: Any, _fraction: float | None = None) -> Any:
        total = getattr(func, name)(values)
        bad = _rounds_off(values, lambda one, of: getattr(func, one)(of))
        return type_coerce(total if _is_exact(values) else refused_if(bad, total), types.Double())

    return write


def _in_turn(name: str) -> Callable[..., Any]:
    """The aggregate of doubles, which are added in the order of the rows."""
    return lambda values, *_: getattr(func, name)(_one_by_one(values), type_=types.Double())


def _averaged_by_squares(values: Any, *_: Any) -> Any:
    # PostgreSQL squares the numbers, and an overflow is an error there.
    mean: Any = func.avg(_one_by_one(values), type_=types.Double())
    return mean if _is_exact(values) else refused_if(func.max(func.abs(values)) > _LARGEST_SQUARED, mean)


def _ascii_in_lower_case(value: Any) -> Any:
    return func.lower(ascii_only(text(value)).sql, type_=types.String())


_COMPUTED: Mapping[str, Mapping[str, Any]] = {
    SQLITE: {"sum_of_integers": (_summed_in_64_bits, _summed_in_64_bits), "lowered": ascii_lower},
    POSTGRESQL: {"aggregates": {"avg": _averaged_by_squares}, "lowered": _ascii_in_lower_case},
    MARIADB: {"lowered": _ascii_in_lower_case},
}
"""By SQLAlchemy's name of the database: what else of `QueryDialect` differs where kept rows stand for rows of it. What
has no value there fails here, and the database answers the question."""


def computing_as(capabilities: Capabilities, dialect: str, *, compensates: bool) -> Capabilities:
    """The capabilities of a file of kept rows, whose database computes with numbers in its own way.

    Args:
        compensates: see `Computation`.
    """
    add_doubles = _exactly if compensates else _in_turn
    changes = {
        "sum_of_doubles": add_doubles("sum"),
        "aggregates": {"avg": add_doubles("avg")},
        **_COMPUTED.get(dialect, {}),
    }
    changes["aggregates"] = {**capabilities.query.aggregates, **changes["aggregates"]}
    query = replace(capabilities.query, **changes)
    return replace(capabilities, query_dialect=lambda: query)
