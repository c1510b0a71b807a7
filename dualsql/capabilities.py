"""What each database can do: order, comparison, cursor values, row estimates.

Code asks for a capability, never for a dialect's name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from math import prod
from typing import Any, NamedTuple, Protocol
from uuid import UUID

from sqlalchemy import BindParameter, ColumnElement, Dialect, Text, cast, collate, func, type_coerce, types
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.sql.elements import Grouping

from dualsql.columns.own_types import SQLType, plain_type, stored_type
from dualsql.columns.result import CharByte, DriverValue

Expression = ColumnElement[Any]


def _always_back(_value: Any) -> bool:
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyForm:
    """One key, as a database takes part in it.

    Attributes:
        compared: stands in conditions.
        read: stands in the SELECT; gives the exact value.
        carried: stands for the key in a subquery's SELECT, and compares outside as it does inside.
        given: a value that was read, as an expression to compare with.
        comes_back: whether this very value compares, when it is given, as it did when it was read.
    """

    compared: Expression
    read: Expression
    carried: Expression
    given: Callable[[Any], Expression]
    comes_back: Callable[[Any], bool] = _always_back


def raw_form(expression: Expression, *, is_stored: bool) -> KeyForm | None:  # noqa: ARG001 - all forms take it
    """The driver's own value, which no type of SQLAlchemy's touches."""
    bare = type_coerce(_grouped(expression), DriverValue())
    return KeyForm(compared=bare, read=bare, carried=expression, given=_parameter)


def postgresql_form(expression: Expression, *, is_stored: bool) -> KeyForm | None:  # noqa: ARG001 - all forms take it
    """asyncpg's own value where it is exact, else PostgreSQL's text of it, which PostgreSQL reads back."""
    plain = plain_type(expression.type)
    bare = type_coerce(_grouped(expression), DriverValue())
    if isinstance(plain, types.NullType):
        return KeyForm(compared=bare, read=bare, carried=expression, given=_parameter, comes_back=_comes_back)
    if isinstance(plain, _EXACT_IN_ASYNCPG):
        # Without a type, the parameter takes that of the other side: an ENUM's, a NUMERIC's.
        return KeyForm(compared=bare, read=bare, carried=expression, given=_parameter, comes_back=_is_taken)
    return KeyForm(
        compared=bare,
        read=cast(expression, Text),
        carried=expression,
        given=lambda value: cast(_text(value), plain),
    )


def duckdb_form(expression: Expression, *, is_stored: bool) -> KeyForm | None:  # noqa: ARG001 - all forms take it
    """The driver's own value; of dates, DuckDB's text: the driver reads infinity as 9999-12-31."""
    plain = plain_type(expression.type)
    if isinstance(plain, types.JSON):
        # Ordered as its text; a parameter beside it would make it a number, or an error.
        return raw_form(cast(expression, Text), is_stored=False)
    bare = type_coerce(_grouped(expression), DriverValue())
    is_date = isinstance(plain, types.Date | types.DateTime)
    if is_date or (isinstance(plain, types.Enum) and plain.native_enum):
        # An ENUM is ordered by position; beside a text without a type it is compared as a text.
        return KeyForm(
            compared=bare,
            read=cast(expression, Text),
            carried=expression,
            given=lambda value: cast(_text(value), plain),
        )
    comes_back = _comes_back if isinstance(plain, types.NullType) else _always_back
    return KeyForm(compared=bare, read=bare, carried=expression, given=_parameter, comes_back=comes_back)


def mysql_form(expression: Expression, *, is_stored: bool) -> KeyForm | None:
    """The driver's own value, but for a float of four bytes and an ENUM."""
    plain = plain_type(expression.type)
    if isinstance(plain, types.Enum) and plain.native_enum:
        if not is_stored:
            return None  # by number or by name? That depends on how the value came here.
        # An ENUM is ordered by number, and compared with a text by name.
        return raw_form(type_coerce(_grouped(expression), types.Integer) + 0, is_stored=True)
    if isinstance(plain, types.Float) and not isinstance(plain, types.Double):
        # FLOAT is written with six digits; as DOUBLE it has all that tell it from its neighbours.
        return raw_form(cast(expression, types.Double), is_stored=is_stored)
    return raw_form(expression, is_stored=is_stored)


_EXACT_IN_ASYNCPG = (
    types.Integer,
    types.Numeric,
    types.Float,
    types.String,  # Enum too
    types.Boolean,
    types.Uuid,
    # Not bytes: psycopg2 gives memoryviews.
)


def _comes_back(value: Any) -> bool:
    """Whether asyncpg gives back a value of whatever type exactly as it took it."""
    if isinstance(value, datetime):
        value = value.date()
    if isinstance(value, date):
        # Which stand for the infinities.
        return value not in (date.min, date.max)
    return isinstance(value, bool | int | float | Decimal | str | bytes | UUID)


def _is_taken(value: Any) -> bool:
    """Whether asyncpg takes this value for the type that the column has in PostgreSQL."""
    return not isinstance(value, CharByte)


def _parameter(value: Any, type_: SQLType = types.NULLTYPE) -> Expression:
    return BindParameter(None, value, type_=type_, unique=True)


def _text(value: Any) -> Expression:
    return _parameter(value, types.Text())


def _grouped(expression: Expression) -> Expression:
    """In parentheses, unless it is a plain column: `a IS NULL > 0` is not what it looks like."""
    return expression if getattr(expression, "table", None) is not None else Grouping(expression)


class Planner(NamedTuple):
    """A planner that can be asked.

    Attributes:
        explain: goes before a statement to ask for its plan, as JSON.
        rows: how many there are going to be, by that plan; None where it does not say.
    """

    explain: str
    rows: Callable[[Any], int | None]


# How many groups, distinct rows or rows of a set operation there are, statistics hardly tell: PostgreSQL expected
# 400,000 rows of a UNION that has 10, and 200,000 of a DISTINCT that has 7.
_MERGING = frozenset({"Aggregate", "Group", "Unique", "SetOp", "Recursive Union"})
_ASIDE = frozenset({"InitPlan", "SubPlan"})


def _postgresql_rows(plan: Any) -> int | None:
    """Of EXPLAIN (FORMAT JSON): `[{"Plan": {"Plan Rows": 12000, ...}}]`; None where rows are merged."""
    try:
        top = plan[0]["Plan"]
        return None if _merges(top) else int(top["Plan Rows"])
    except (LookupError, TypeError, ValueError):
        return None


def _merges(node: dict[str, Any]) -> bool:
    """Whether the plan makes one row of several, other than one of all."""
    if node["Node Type"] in _MERGING and node.get("Strategy") != "Plain":
        return True
    return any(
        _merges(part) for part in node.get("Plans", ()) if part.get("Parent Relationship") not in _ASIDE
    )


# What passes on as many rows as it gets: sorting, and reading a derived table again.
_PASSING = ("read_sorted_file", "filesort", "temporary_table")
_DRIVING = ("table", "read_sorted_file", "block-nl-join")


def _mariadb_rows(plan: Any) -> int | None:
    """Of EXPLAIN FORMAT=JSON: a join is as many rows as its tables' rows, each in the share that passes its filter.

    Grouping, DISTINCT and set operations are not estimated there.
    """
    try:
        rows = _joined_rows(plan["query_block"])
    except (LookupError, TypeError, ValueError):
        return None
    return None if rows is None else round(rows)


def _joined_rows(block: dict[str, Any]) -> float | None:
    joined = block.get("nested_loop")
    if joined is None:
        return None
    return prod(_table_rows(part) for part in joined)


def _table_rows(part: dict[str, Any]) -> float:
    found: Any = part
    while "table_name" not in found:
        found = next(found[name] for name in (*_DRIVING, *_PASSING) if name in found)
    if "materialized" in found:
        raise LookupError("a subquery that merges or cuts rows, whose number is a guess")
    return float(found["rows"]) * float(found.get("filtered", 100)) / 100


POSTGRESQL_PLANNER = Planner("EXPLAIN (FORMAT JSON) ", _postgresql_rows)
MARIADB_PLANNER = Planner("EXPLAIN FORMAT=JSON ", _mariadb_rows)


Transform = Callable[[ColumnElement[Any]], ColumnElement[Any]]


def _always(_type: SQLType) -> bool:
    return True


class MakeKeyForm(Protocol):
    """`is_stored` is for a plain column of a table, as the table has it."""

    def __call__(self, expression: ColumnElement[Any], *, is_stored: bool) -> KeyForm | None: ...


@dataclass(frozen=True, slots=True)
class Capabilities:
    """One database's abilities, as far as dualsql depends on them.

    Attributes:
        name: for messages only.
        nulls_last: ORDER BY x NULLS LAST is understood.
        splits_statements: one string sent to it may hold several statements.
        groups_strictly: an output column must be grouped by, or depend on the primary key of a table.
        has_row_security: rows can be narrowed by policies that read a setting of the transaction.
        has_roles: a session can give up its user's rights for those of a role.
        has_schemas: one database has several schemas, and a connection reads them all.
        has_loose_types: a column may hold values of other types than its own.
        sortable: makes an expression of any type fit for ORDER BY.
        distinguishing: keys for ORDER BY in which values that differ never compare equal.
        nulls_last_by_default: where NULLs stand when ORDER BY does not say, ascending and descending.
        searches_row_values: (a, b) > (x, y) is looked up in an index.
        has_infinite_dates: 'infinity' is a date, and '-infinity' is.
        spells_instants: a timestamp is a text, which may be spelled in several ways.
        has_months: an interval has months apart from days, and its ISO 8601 text is read back.
        has_single_reals: a REAL has four bytes.
        shortens_reals: a number of four bytes is shown with fewer digits than it is compared with.
        divides_in_doubles: a quotient is a number of eight bytes, whatever was divided.
        floors_in_doubles: `whole // whole` is one, too.
        tells_apart: whether values of a type can be told apart, as far as the type says.
        compares: whether they can be compared with a value of a question.
        type_name: the name of an expression's type, where a value is taken for no other type than its own.
        is_bytes: whether an expression of no declared type holds bytes, as a condition.
        has_loose_comparisons: any two types can be compared.
        shown_scale: how many digits are shown of a decimal of this type, where it is a double; None where it is none.
        shows_doubles_rounded: a double that SQLAlchemy takes for a decimal is shown with the digits of its scale.
        keeps_zones: an instant of a DateTime(timezone=True) is stored with its zone, and comes back with one.
        key_form: how the value of an order key is read and given back; None when it cannot be.
        planner: tells how many rows it expects; None where it does not.
        text_length: the function that counts the characters of a text.
        scramble: a hash of what tells a row from others, and of a seed; None where there is no function for it.
        approximate_distinct: the aggregate that tells roughly how many values there are; empty where there is none.
    """

    name: str
    nulls_last: bool
    splits_statements: bool
    groups_strictly: bool
    has_row_security: bool
    has_roles: bool
    has_schemas: bool
    has_loose_types: bool
    sortable: Transform
    distinguishing: Callable[[ColumnElement[Any]], list[ColumnElement[Any]]]
    nulls_last_by_default: tuple[bool, bool]
    searches_row_values: bool
    keeps_zones: bool
    key_form: MakeKeyForm
    is_bytes: Transform
    type_name: Transform | None = None
    has_loose_comparisons: bool = False
    planner: Planner | None = None
    text_length: str = "length"
    scramble: Callable[[Sequence[ColumnElement[Any]], int], ColumnElement[Any]] | None = None
    approximate_distinct: str = ""
    has_infinite_dates: bool = False
    spells_instants: bool = False
    has_months: bool = False
    has_single_reals: bool = False
    shortens_reals: bool = False
    divides_in_doubles: bool = False
    floors_in_doubles: bool = False
    tells_apart: Callable[[SQLType], bool] = _always
    compares: Callable[[SQLType], bool] = _always
    shown_scale: Callable[[SQLType], int | None] = lambda _: None
    shows_doubles_rounded: bool = False


def _as_it_is(expression: ColumnElement[Any]) -> ColumnElement[Any]:
    return expression


def _sqlite_keys(expression: ColumnElement[Any]) -> list[ColumnElement[Any]]:
    plain = plain_type(expression.type)
    if isinstance(plain, types.String):
        # A NOCASE column compares 'a' equal to 'A'.
        return [collate(expression, "BINARY")]
    # 1 equals 1.0, and a column without a type can hold both.
    return [expression, func.typeof(expression)] if isinstance(plain, types.NullType) else [expression]


def _sqlite_scale(type_: SQLType) -> int | None:
    stored: Any = stored_type(type_, _SQLITE_TYPES)
    if not isinstance(stored, types.Numeric | types.Float) or not stored.asdecimal:
        return None
    return int(stored._effective_decimal_return_scale)


_SQLITE_TYPES: Dialect = sqlite.dialect()


def _as_text_if_unsortable(expression: ColumnElement[Any]) -> ColumnElement[Any]:
    # json, xml, point and extension types have no ordering; their text tells any two of them apart.
    return expression if _is_sortable(expression.type) else cast(expression, Text)


def _postgresql_keys(expression: ColumnElement[Any]) -> list[ColumnElement[Any]]:
    sortable = _as_text_if_unsortable(expression)
    is_loose = sortable is expression and _has_equals_that_differ(_on_postgresql(expression.type))
    return [sortable, cast(expression, Text)] if is_loose else [sortable]


def _on_postgresql(type_: SQLType) -> SQLType:
    # A TypeDecorator may have another type there than elsewhere, such as one for documents.
    return plain_type(stored_type(type_, _POSTGRESQL_TYPES))


_POSTGRESQL_TYPES: Dialect = postgresql.dialect()  # type: ignore[no-untyped-call]


def _has_equals_that_differ(plain: SQLType) -> bool:
    # 1.0 equals 1.00, and 0.0 equals -0.0, in a range, an array or a document too; citext takes 'a' for 'A'.
    if isinstance(plain, types.ARRAY):
        return _has_equals_that_differ(plain_type(plain.item_type))
    return isinstance(
        plain,
        types.Numeric
        | types.Float
        | postgresql.JSONB
        | postgresql.ranges.AbstractRange
        | postgresql.INTERVAL
        | types.Interval
        | postgresql.CITEXT,
    )


def _mysql_keys(expression: ColumnElement[Any]) -> list[ColumnElement[Any]]:
    plain = plain_type(expression.type)
    if isinstance(plain, types.String) and not isinstance(plain, types.Enum):
        # The default collations take 'a', 'A' and 'á' as equal.
        return [cast(expression, types.LargeBinary)]
    # 0.0 equals -0.0, 1.0 equals 1.00, and what has no type may be text.
    is_loose = isinstance(plain, types.Numeric | types.Float | types.NullType)
    return [expression, cast(expression, types.LargeBinary)] if is_loose else [expression]


def _postgresql_type(expression: ColumnElement[Any]) -> ColumnElement[Any]:
    return cast(func.pg_typeof(expression), Text)


def _is_bytes_on_mariadb(expression: ColumnElement[Any]) -> ColumnElement[Any]:
    # Numbers and dates are "binary", too, until they are texts.
    return func.charset(func.concat(expression)) == "binary"


def _duckdb_keys(expression: ColumnElement[Any]) -> list[ColumnElement[Any]]:
    # 0.0 equals -0.0; a column may have a collation.
    is_loose = isinstance(plain_type(expression.type), types.Numeric | types.Float | types.NullType)
    is_text = isinstance(plain_type(expression.type), types.String)
    if is_text:
        # CAST to BLOB reads escapes, and refuses what is not ASCII.
        return [func.encode(cast(expression, Text), type_=types.LargeBinary())]
    return [expression, cast(expression, Text)] if is_loose else [expression]


def _md5(values: Sequence[ColumnElement[Any]], seed: int) -> ColumnElement[Any]:
    return func.md5(func.concat_ws("|", str(seed), *(cast(value, Text) for value in values)))


def _is_sortable(type_: SQLType) -> bool:
    plain = _on_postgresql(type_)
    if isinstance(plain, types.ARRAY):
        return _is_sortable(plain.item_type)
    return isinstance(plain, _SORTABLE) or plain._type_affinity is types.Interval


# With an ordering of their own: https://www.postgresql.org/docs/current/indexes-opclass.html (btree).
_SORTABLE = (
    postgresql.BIT,
    postgresql.CIDR,
    postgresql.INET,
    postgresql.JSONB,
    postgresql.MACADDR,
    postgresql.MACADDR8,
    postgresql.MONEY,
    postgresql.OID,
    postgresql.REGCLASS,
    postgresql.TSQUERY,
    postgresql.TSVECTOR,
    postgresql.ranges.AbstractRange,
    types.String,
    types.Integer,
    types.Numeric,
    types.Float,
    types.Boolean,
    types.Date,
    types.DateTime,
    types.Time,
    types.Uuid,
    types.LargeBinary,
)


_WITHOUT_EQUALITY = frozenset(
    {"xml", "json", "jsonpath", "point", "line", "lseg", "box", "path", "polygon", "circle"}
)
"""Types of PostgreSQL that have no = or one of another meaning: boxes of one area are equal to it."""


def _tells_apart_on_postgresql(type_: SQLType) -> bool:
    plain = plain_type(type_)
    if isinstance(plain, types.ARRAY):
        return _tells_apart_on_postgresql(plain.item_type)
    if not isinstance(plain, types.UserDefinedType):
        return not isinstance(plain, postgresql.JSONPATH | postgresql.JSON) or isinstance(
            plain, postgresql.JSONB
        )
    name = getattr(plain, "get_col_spec", lambda **_: "")()
    return str(name).lower() not in _WITHOUT_EQUALITY


def _compares_on_postgresql(type_: SQLType) -> bool:
    # The name of a table that is not there is an error: a comparison would tell which ones are.
    is_name = isinstance(plain_type(type_), postgresql.REGCLASS | postgresql.REGCONFIG | postgresql.HSTORE)
    return not is_name and _tells_apart_on_postgresql(type_)


_SQLITE = Capabilities(
    name="SQLite",
    nulls_last=True,
    splits_statements=False,
    groups_strictly=False,
    has_row_security=False,
    has_roles=False,
    has_schemas=False,
    has_loose_types=True,
    sortable=_as_it_is,
    distinguishing=_sqlite_keys,
    nulls_last_by_default=(False, True),
    searches_row_values=True,
    keeps_zones=False,
    key_form=raw_form,
    is_bytes=lambda expression: func.typeof(expression) == "blob",
    has_loose_comparisons=True,
    spells_instants=True,
    divides_in_doubles=True,
    shown_scale=_sqlite_scale,
)
_POSTGRESQL = Capabilities(
    name="PostgreSQL",
    nulls_last=True,
    splits_statements=False,
    groups_strictly=True,
    has_row_security=True,
    has_roles=True,
    has_schemas=True,
    has_loose_types=False,
    sortable=_as_text_if_unsortable,
    distinguishing=_postgresql_keys,
    nulls_last_by_default=(True, False),
    searches_row_values=True,
    keeps_zones=True,
    key_form=postgresql_form,
    is_bytes=lambda expression: _postgresql_type(expression) == "bytea",
    type_name=_postgresql_type,
    shows_doubles_rounded=True,
    has_infinite_dates=True,
    has_months=True,
    has_single_reals=True,
    planner=POSTGRESQL_PLANNER,
    scramble=_md5,
    tells_apart=_tells_apart_on_postgresql,
    compares=_compares_on_postgresql,
)
_MYSQL = Capabilities(
    name="MariaDB",
    nulls_last=False,
    splits_statements=True,
    groups_strictly=False,
    has_row_security=False,
    has_roles=False,
    has_schemas=False,
    has_loose_types=False,
    sortable=_as_it_is,
    distinguishing=_mysql_keys,
    nulls_last_by_default=(False, True),
    searches_row_values=False,
    keeps_zones=False,
    key_form=mysql_form,
    is_bytes=_is_bytes_on_mariadb,
    has_loose_comparisons=True,
    planner=MARIADB_PLANNER,
    text_length="char_length",
    shortens_reals=True,
    scramble=_md5,
)
_DUCKDB = Capabilities(
    name="DuckDB",
    nulls_last=True,
    splits_statements=True,
    groups_strictly=True,
    has_row_security=False,
    has_roles=False,
    has_schemas=False,
    has_loose_types=False,
    sortable=_as_it_is,
    distinguishing=_duckdb_keys,
    nulls_last_by_default=(True, True),
    searches_row_values=False,
    keeps_zones=True,
    key_form=duckdb_form,
    is_bytes=lambda expression: func.typeof(expression) == "BLOB",
    approximate_distinct="approx_count_distinct",
    has_infinite_dates=True,
    divides_in_doubles=True,
    floors_in_doubles=True,
    scramble=_md5,
)
_KNOWN = {
    "sqlite": _SQLITE,
    "postgresql": _POSTGRESQL,
    "mysql": _MYSQL,
    "mariadb": _MYSQL,
    "duckdb": _DUCKDB,
}


def capabilities_of(dialect: Dialect) -> Capabilities | None:
    """What the dialect's database can do, or None for one that dualsql does not know to keep read-only."""
    return _KNOWN.get(dialect.name)
