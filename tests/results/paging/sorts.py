"""Values that are hard to put in order and to come back to, and statements that order by them."""

from __future__ import annotations

import datetime as dt
import enum
import math
from decimal import Decimal
from typing import Any
from uuid import UUID

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Date,
    DateTime,
    Enum,
    Float,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Numeric,
    Select,
    String,
    Table,
    Time,
    TypeDecorator,
    Uuid,
    case,
    cast,
    desc,
    func,
    insert,
    literal,
    select,
    text,
    union,
    union_all,
)
from sqlalchemy.dialects import mysql
from sqlalchemy.ext.asyncio import AsyncEngine

from tests.schools import Program, School, visits


class Mood(enum.Enum):
    """Not in the order of its names."""

    glum = 1
    blithe = 2
    calm = 3


class Backwards(TypeDecorator[str]):
    """What the application sees is not what the database compares."""

    impl = String(20)
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Any) -> str | None:
        return None if value is None else value[::-1]

    def process_result_value(self, value: str | None, dialect: Any) -> str | None:
        return None if value is None else value[::-1]


metadata = MetaData()
_SINGLE = Float().with_variant(mysql.FLOAT(), "mysql", "mariadb")
_ANY_CASE = String(20).with_variant(String(20, collation="NOCASE"), "sqlite")

sorts = Table(
    "sorts",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("whole", BigInteger),
    Column("single", _SINGLE),
    Column("number", Float(53)),
    Column("money", Numeric(14, 4)),
    Column("word", String(20)),
    Column("any_case", _ANY_CASE),
    Column("mirrored", Backwards),
    Column("flag", Boolean),
    Column("day", Date),
    Column("moment", DateTime(timezone=True).with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb")),
    Column("hour", Time().with_variant(mysql.TIME(fsp=6), "mysql", "mariadb")),
    Column("code", Uuid),
    Column("raw", LargeBinary(20)),
    Column("mood", Enum(Mood)),
    Column("solid", Integer, nullable=False),
    Index("sorts_whole", "whole", "id"),
)

NUMBERS = (None, 0.0, 0.1 + 0.2, 1e300, 5e-324, -0.0, 2.5, -2.5, 1 / 3)
WORDS = (None, "", "a", "A", "á", "ä", "z", "Z ", "日本", "\U0001f600", "a'b\"c\\", "%_")
MONEY = (None, Decimal("0.1"), Decimal("0.3"), Decimal("-1.5"), Decimal("9999999999.9999"), Decimal(0))
DAYS = (None, dt.date(9999, 12, 31), dt.date(1, 1, 1), dt.date(2026, 2, 28), dt.date(1000, 1, 1))
ZONE = dt.timezone(dt.timedelta(hours=5, minutes=30))
MOMENTS = (
    None,
    dt.datetime(2026, 3, 29, 1, 30, tzinfo=dt.UTC),
    dt.datetime(2026, 3, 29, 1, 30, tzinfo=ZONE),
    dt.datetime(2026, 3, 29, 1, 30, 0, 1, tzinfo=dt.UTC),
    dt.datetime(1900, 1, 1, tzinfo=dt.UTC),
)


def row(number: int, *, naive: bool) -> dict[str, Any]:
    """Row `number`: every value repeats, each column at a pace of its own."""
    moment = MOMENTS[number % 5]
    return {
        "id": number,
        "whole": (None, 2**62, -(2**62), 3, 4)[number // 3 % 5],
        "single": (None, 0.1, 0.2, 16777217.0, 0.30000001)[number % 5],
        "number": NUMBERS[number % 9],
        "money": MONEY[number % 6],
        "word": WORDS[number % 12],
        "any_case": WORDS[number * 5 % 12],
        "mirrored": (None, "ab", "ba", "zz", "ab")[number % 5],
        "flag": (True, False, None)[number % 3],
        "day": DAYS[number % 5],
        "moment": moment.replace(tzinfo=None) if naive and moment else moment,
        "hour": (None, dt.time(23, 59, 59, 999999), dt.time(0), dt.time(12, 30))[number % 4],
        "code": (None, UUID(int=1), UUID(int=2**127), UUID("12345678123456781234567812345678"))[number % 4],
        "raw": (None, b"", b"\x00", b"\xff\x00", b"a")[number % 5],
        "mood": (None, *Mood)[number % 4],
        "solid": number % 3,
    }


async def fill_sorts(engine: AsyncEngine) -> None:
    """Create the table and put the rows into it."""
    naive = engine.dialect.name != "postgresql"
    rows = [row(number, naive=naive) for number in range(1, 31)]
    if engine.dialect.name == "postgresql":
        rows[4]["number"], rows[14]["number"] = math.nan, math.nan
        rows[5]["number"], rows[15]["number"] = math.inf, -math.inf
    if engine.dialect.name == "sqlite":
        rows[5]["number"], rows[15]["number"] = math.inf, -math.inf
    async with engine.begin() as connection:
        await connection.run_sync(metadata.create_all)
        await connection.execute(insert(sorts), rows)


_c = sorts.c
_label = func.lower(_c.word).label("lowered")
_per_word = select(_c.word, func.count().label("n"), func.max(_c.number).label("most")).group_by(_c.word)
_few = select(_c.id, _c.whole).where(_c.solid == 0)
_rest = select(_c.id, _c.whole).where(_c.solid > 0)


def _by_column() -> dict[str, Select[Any]]:
    found: dict[str, Select[Any]] = {}
    for column in _c:
        found[f"by {column.name}"] = select(_c.id, column).order_by(column)
        found[f"by {column.name}, descending"] = select(_c.word, column).order_by(column.desc())
    return found


SORTS: dict[str, Any] = {
    **_by_column(),
    "mixed directions": select(_c.id, _c.word).order_by(_c.flag, _c.whole.desc(), _c.number, _c.day.desc()),
    "all one way": select(_c.id).order_by(_c.solid.desc(), _c.id.desc()),
    "an expression": select(_c.id).order_by(_c.whole % 3, (_c.number * 2).desc()),
    "a condition": select(_c.id).order_by(_c.whole > 3, _c.word.is_(None).desc()),
    "a label": select(_c.id, _label).order_by(_label.desc()),
    "a label by its name": select(_c.id, _label).order_by("lowered"),
    "a column by its name, descending": select(_c.id, _c.word).order_by(desc("word")),
    "a case": select(_c.id).order_by(case((_c.flag, "yes"), (_c.whole > 3, _c.word), else_="no")),
    "a cast": select(_c.id).order_by(cast(_c.flag, Integer), cast(_c.whole, String(30)).desc()),
    "a scalar subquery": select(_c.id).order_by(
        select(func.max(School.enrollment)).where(School.id == _c.id).scalar_subquery()
    ),
    "distinct, by two": select(_c.word, _c.flag).distinct().order_by(_c.flag.desc(), _c.word),
    "distinct expression": select(func.lower(_c.any_case))
    .distinct()
    .order_by(func.lower(_c.any_case).desc()),
    "distinct pairs": select(_c.money, _c.day).distinct(),
    "groups by an aggregate": _per_word.order_by(func.count().desc(), func.max(_c.number)),
    "groups in their own order": _per_word,
    "having, limited": _per_word.having(func.count() > 1).order_by(func.count()).limit(5).offset(1),
    "a window, by its rank": select(
        _c.id, func.row_number().over(partition_by=_c.flag, order_by=_c.id).label("rank")
    ).order_by("rank", _c.flag),
    "ordered by a window": select(_c.id).order_by(func.sum(_c.solid).over(order_by=_c.id).desc()),
    "union by both": union(_few, _rest).order_by("whole", desc("id")),
    "union all with equal rows": union_all(_few, _few, _rest),
    "union all of columns": union_all(select(_c.day, _c.money), select(_c.day, _c.money)).order_by("money"),
    "limited": select(_c.id, _c.number).order_by(_c.number.desc(), _c.word).limit(17).offset(3),
    "limited, distinct": select(_c.word).distinct().order_by(_c.word).limit(6).offset(1),
    "an offset alone": select(_c.id).order_by(_c.day).offset(9),
    "outer join": select(School.name, Program.field)
    .outerjoin(School.programs)
    .order_by(Program.field, School.state.desc()),
    "full of nulls": select(School.id, Program.earnings)
    .outerjoin(School.programs)
    .order_by(Program.earnings.desc(), Program.level),
    "no key, all columns": select(visits),
    "nothing but a constant": select(literal(1).label("one")),
}

# NULLS FIRST and LAST, where the database has the words.
NULLS: dict[str, Any] = {
    f"by {column.name}, {name}": select(_c.id).order_by(ordered)
    for column in (_c.whole, _c.number, _c.word, _c.moment)
    for name, ordered in {
        "nulls first": column.nulls_first(),
        "nulls last": column.nulls_last(),
        "descending, nulls first": column.desc().nulls_first(),
        "descending, nulls last": column.desc().nulls_last(),
    }.items()
}

TEXTS: dict[str, Any] = {
    "text": text("SELECT id, whole FROM sorts").columns(sorts.c.id, sorts.c.whole),
}
