"""Types that are another one on each database, by a variant or by a decorator: each door knows the stored type."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import Decimal
from ipaddress import ip_address
from typing import Any
from uuid import UUID

import pytest
import sqlalchemy_utils as utils  # type: ignore[import-untyped]
from sqlalchemy import (
    CHAR,
    BigInteger,
    Column,
    Date,
    DateTime,
    Float,
    Integer,
    LargeBinary,
    MetaData,
    Numeric,
    String,
    Table,
    Text,
    TypeDecorator,
    Uuid,
    case,
    func,
    insert,
    select,
    union_all,
)
from sqlalchemy.dialects import postgresql
from sqlalchemy.dialects.sqlite import DATETIME
from sqlalchemy.types import TypeEngine

from tests import engines
from tests.columns.own_types import types as own
from tests.columns.own_types.shown import plain
from tests.http.application import Application, running

pytestmark = pytest.mark.quick(25, "sqlite")

_ENGINES = ("sqlite", "postgresql", "mariadb")


class _Implemented(TypeDecorator[Any]):
    """`own` on PostgreSQL, and its impl elsewhere."""

    cache_ok = True
    own: Any

    def __init_subclass__(cls) -> None:
        cls.cache_ok = True

    def load_dialect_impl(self, dialect: Any) -> Any:
        return dialect.type_descriptor(self.own if dialect.name == "postgresql" else self.impl_instance)


class PrefectUUID(TypeDecorator[Any]):
    """As Prefect has it: no type at all for an impl."""

    impl = TypeEngine
    cache_ok = True

    def load_dialect_impl(self, dialect: Any) -> Any:
        is_native = dialect.name == "postgresql"
        return dialect.type_descriptor(postgresql.UUID() if is_native else CHAR(36))

    def process_bind_param(self, value: Any, dialect: Any) -> Any:
        return None if value is None else str(value)

    def process_result_value(self, value: Any, dialect: Any) -> Any:
        return value if value is None or isinstance(value, UUID) else UUID(value)


class BinaryUUID(TypeDecorator[Any]):
    """As advanced-alchemy has it: bytes but on PostgreSQL."""

    impl = LargeBinary(16)
    cache_ok = True

    def load_dialect_impl(self, dialect: Any) -> Any:
        is_native = dialect.name == "postgresql"
        return dialect.type_descriptor(postgresql.UUID() if is_native else LargeBinary(16))

    def process_bind_param(self, value: Any, dialect: Any) -> Any:
        return value if value is None or dialect.name == "postgresql" else UUID(str(value)).bytes

    def process_result_value(self, value: Any, dialect: Any) -> Any:
        return value if value is None or isinstance(value, UUID) else UUID(bytes=value)


class InstantOrNumber(_Implemented):
    """Seconds, and an instant on PostgreSQL."""

    impl = Integer
    own = DateTime()


class NumberOrText(_Implemented):
    """A text, and a number on PostgreSQL."""

    impl = String(20)
    own = Numeric(12, 2)


class DayOrText(_Implemented):
    """A text, and a date on PostgreSQL."""

    impl = String(20)
    own = Date()


class Outer(TypeDecorator[Any]):
    """A decorator whose type is a decorator."""

    impl = String(36)
    cache_ok = True

    def load_dialect_impl(self, dialect: Any) -> Any:
        return own.GUID()


class Address(_Implemented):
    """A text, and PostgreSQL's type of addresses."""

    impl = String(50)
    own = postgresql.INET()

    def process_result_value(self, value: Any, dialect: Any) -> Any:
        return None if value is None else str(value)


_UUIDS = [UUID(int=1), UUID(int=2), UUID(int=2**127)]
_UUID_TEXTS = [str(value) for value in _UUIDS]
_DAYS = [date(2024, 1, 1), date(2024, 1, 2), date(2024, 10, 1)]
_INSTANTS = [datetime(2024, 1, day) for day in (1, 2, 30)]  # noqa: DTZ001 - of a column without a zone


@dataclass(frozen=True)
class Form:
    """A way to state a type.

    Attributes:
        values: three of them, ascending, by the name of the database; "" for all others.
        encodings: as they are announced, likewise.
        is_compared: whether equality must be answered.
        is_sorted: whether a sort must be answered.
    """

    type: Any
    values: dict[str, Sequence[Any]]
    encodings: dict[str, str]
    is_compared: bool = True
    is_sorted: bool = field(default=True)


def _same(type_: Any, values: Sequence[Any], encoding: str, **flags: Any) -> Form:
    return Form(type_, {"": values}, {"": encoding}, **flags)


FORMS: dict[str, Form] = {
    "documented_guid": _same(own.GUID(), _UUIDS, "uuid", is_sorted=False),
    "prefect_uuid": _same(PrefectUUID(), _UUIDS, "uuid", is_sorted=False),
    "binary_uuid": _same(BinaryUUID(), _UUIDS, "uuid", is_sorted=False),
    "utils_uuid": _same(utils.UUIDType(), _UUIDS, "uuid", is_sorted=False),
    "utils_uuid_text": _same(utils.UUIDType(binary=False), _UUIDS, "uuid", is_sorted=False),
    "decorator_in_decorator": _same(Outer(), _UUIDS, "uuid", is_sorted=False),
    "variant_of_decorator": Form(
        String(36).with_variant(own.GUID(), "postgresql"),
        {"": _UUID_TEXTS, "postgresql": _UUIDS},
        {"": "text", "postgresql": "uuid"},
        is_sorted=False,
    ),
    "decorator_with_variant": Form(
        own.GUID().with_variant(String(36), "sqlite"),
        {"": _UUIDS, "sqlite": _UUID_TEXTS},
        {"": "uuid", "sqlite": "text"},
        is_sorted=False,
    ),
    "uuid_or_text": Form(
        String(36).with_variant(postgresql.UUID(as_uuid=False), "postgresql"),
        {"": _UUID_TEXTS},
        {"": "text", "postgresql": "uuid"},
    ),
    "text_or_uuid": Form(
        Uuid(as_uuid=False).with_variant(String(36), "sqlite"),
        {"": _UUID_TEXTS},
        {"": "uuid", "sqlite": "text"},
    ),
    "instant_or_number": Form(
        InstantOrNumber(),
        {"": [1, 9, 10], "postgresql": _INSTANTS},
        {"": "integer", "postgresql": "datetime"},
    ),
    "number_or_text": Form(
        NumberOrText(),
        {"": ["1", "10", "9"], "postgresql": [Decimal("1.00"), Decimal("9.50"), Decimal("10.00")]},
        {"": "text", "postgresql": "decimal"},
    ),
    "day_or_text": Form(
        DayOrText(), {"": ["10", "8", "9"], "postgresql": _DAYS}, {"": "text", "postgresql": "date"}
    ),
    "small_or_big": _same(BigInteger().with_variant(Integer(), "sqlite"), [1, 2, 2**40], "integer"),
    "number_or_words": Form(
        Numeric(12, 2).with_variant(String(20), "sqlite"),
        {"": [Decimal("1.00"), Decimal("9.50"), Decimal("10.00")], "sqlite": ["1.50", "9", "x"]},
        {"": "decimal", "sqlite": "text"},
    ),
    "number_or_double": Form(
        Numeric(12, 2).with_variant(Float(), "sqlite"),
        {"": [Decimal("1.25"), Decimal("2.00"), Decimal("3.50")], "sqlite": [1.25, 2.0, 3.5]},
        {"": "decimal", "sqlite": "float"},
    ),
    "words_or_whole": Form(
        String(20).with_variant(Integer(), "sqlite").with_variant(postgresql.BIGINT(), "postgresql"),
        {"": ["1", "10", "9"], "sqlite": [1, 9, 10], "postgresql": [1, 9, 10]},
        {"": "text", "sqlite": "integer", "postgresql": "integer"},
    ),
    "instant_or_words": Form(
        DateTime(timezone=True).with_variant(String(40), "sqlite"),
        {
            "sqlite": ["2024-01-01T00:00:00Z", "x", "y"],
            "postgresql": [value.replace(tzinfo=UTC) for value in _INSTANTS],
            "": _INSTANTS,
        },
        {"": "datetime", "sqlite": "text"},
    ),
    "text_of_address": _same(Address(), ["10.0.0.9", "9.0.0.1", "9.0.0.2"], "text", is_sorted=False),
    "utils_address": _same(
        utils.IPAddressType(), [ip_address(f"10.0.0.{part}") for part in (1, 2, 9)], "any", is_sorted=False
    ),
    "utils_color_words": _same(utils.EmailType(), ["a@x", "b@x", "c@x"], "text"),
    "long_text": _same(Text().with_variant(postgresql.VARCHAR(), "postgresql"), ["a", "b", "c"], "text"),
}

METADATA = MetaData()
TABLES = {
    name: Table(f"t_{name}", METADATA, Column("id", Integer, primary_key=True), Column("v", form.type))
    for name, form in FORMS.items()
}


@dataclass(frozen=True)
class Place:
    """A database with the tables."""

    name: str
    application: Application

    def of(self, found: dict[str, Any]) -> Any:
        return found.get(self.name, found[""])


@pytest.fixture(scope="module", params=_ENGINES)
def url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    if request.param == "sqlite":
        yield engines.sqlite_url_in(tmp_path_factory.mktemp("stored"))
        return
    with request.getfixturevalue(f"{request.param}_server").database() as database:
        yield database


@pytest.fixture(scope="module")
async def place(anyio_backend: str, url: str) -> AsyncIterator[Place]:
    async with engines.opened(url) as engine:
        name = {"mysql": "mariadb"}.get(engine.dialect.name, engine.dialect.name)
        async with engine.begin() as connection:
            await connection.run_sync(METADATA.create_all)
            for key, form in FORMS.items():
                values = [*form.values.get(name, form.values.get("", ())), None]
                rows = [{"id": number, "v": value} for number, value in enumerate(values, 1)]
                await connection.execute(insert(TABLES[key]), rows)
    async with running(url, tables=METADATA) as application:
        yield Place(name, application)


@pytest.fixture(params=list(FORMS))
def key(request: pytest.FixtureRequest) -> str:
    case: str = request.param
    return case


def _shown(place: Place, form: Form) -> list[Any]:
    return [*map(plain, place.of(form.values)), None]


async def _stream(place: Place, path: str) -> list[dict[str, Any]]:
    answer = await place.application.http.get(f"{path}/rows", params={"format": "ndjson"})
    assert answer.status_code == 200, answer.text
    *rows, last = map(json.loads, answer.text.splitlines())
    assert "$problem" not in last, last
    return rows


async def _pages(place: Place, path: str, **parameters: Any) -> list[dict[str, Any]] | None:
    """All pages of one row, followed by their cursors; None if the sort is refused."""
    rows: list[dict[str, Any]] = []
    cursor: dict[str, str] = {}
    while True:
        answer = await place.application.http.get(path, params={"limit": 1, **parameters, **cursor})
        if answer.status_code == 400 and not rows:
            assert answer.json()["code"] == "BAD_PARAMETER"
            return None
        assert answer.status_code == 200, answer.text
        page = answer.json()
        rows += page["data"]
        if not page["has_next"]:
            return rows
        cursor = {"cursor": page["next_cursor"]}
        assert page["next_cursor"], "no cursor"


async def test_what_is_announced_is_what_every_door_shows(place: Place, key: str) -> None:
    form, table = FORMS[key], TABLES[key]
    response = await place.application.server.create_response(select(table).order_by(table.c.id), name="x")
    path = f"/resources/{response.resource_id}"
    assert response.columns[1]["encoding"] == place.of(form.encodings)
    wanted = [{"id": number, "v": value} for number, value in enumerate(_shown(place, form), 1)]
    assert list(response.sample) == wanted
    assert await _stream(place, path) == wanted
    assert await _pages(place, path) == wanted
    for form_of_file in ("csv", "arrow"):
        answer = await place.application.http.get(f"{path}/rows", params={"format": form_of_file})
        assert answer.status_code == 200, answer.text


def _statements(table: Table) -> dict[str, Any]:
    v = table.c.v
    return {
        "ordered": select(table).order_by(v),
        "descending": select(table).order_by(v.desc()),
        "only": select(v),
        "distinct": select(v).distinct(),
        "grouped": select(v, func.count().label("n")).group_by(v),
        "united": union_all(select(table), select(table)),
        "coalesced": select(table.c.id, func.coalesce(v, v).label("v")),
        "chosen": select(table.c.id, case((table.c.id > 1, v), else_=v).label("v")),
        "greatest": select(func.max(table.c.id).label("id"), func.count(v).label("v")),
        "inner": select(select(table).subquery()),
    }


_STATEMENTS = list(_statements(TABLES["long_text"]))


@pytest.mark.quick(8, "sqlite")
@pytest.mark.parametrize("statement", _STATEMENTS)
async def test_pages_are_the_stream_and_rows_are_those_of_sqlalchemy(
    place: Place, url: str, key: str, statement: str
) -> None:
    select_ = _statements(TABLES[key])[statement]
    path = await place.application.create(select_)
    rows = await _stream(place, path)
    assert await _pages(place, path) == rows
    async with engines.opened(url) as engine, engine.connect() as connection:
        direct = [tuple(map(plain, row)) for row in await connection.execute(select_)]
    assert sorted(map(repr, (tuple(row.values()) for row in rows))) == sorted(map(repr, direct))
    assert not any("$unfit" in row for row in rows)


@pytest.mark.quick(8, "sqlite")
async def test_filters_and_sorts_are_of_what_is_shown(place: Place, key: str) -> None:
    form, table = FORMS[key], TABLES[key]
    path = await place.application.create(select(table))
    for number, value in enumerate(_shown(place, form)[:3], 1):
        for operator, given in (("eq", value), ("in", [value])):
            question = {"filters": {"column": "v", "op": operator, "value": given}, "columns": ["id"]}
            answer = await place.application.http.post(f"{path}/query", json=question)
            if answer.status_code == 200:
                assert answer.json()["data"] == [{"id": number}]
            else:
                assert answer.json()["code"] == "BAD_PARAMETER"
                assert not form.is_compared, answer.text
        text = {"sql": "SELECT id FROM data WHERE v = :v", "parameters": {"v": value}}
        answer = await place.application.http.post(f"{path}/sql", json=text)
        if answer.status_code == 200:
            assert [row["id"] for row in answer.json()["data"]] == [number]
        else:
            assert answer.json()["code"] in {"BAD_PARAMETER", "INVALID_SQL", "FORBIDDEN_SQL"}, answer.text
    for sort, order in (("v", [1, 2, 3, 4]), ("-v", [3, 2, 1, 4])):
        rows = await _pages(place, path, sort=sort)
        assert rows is not None or not form.is_sorted
        assert rows is None or [row["id"] for row in rows] == order


@pytest.mark.quick(8, "sqlite")
async def test_a_value_in_the_statement_is_the_applications(place: Place, key: str) -> None:
    form, table = FORMS[key], TABLES[key]
    for number, value in enumerate(place.of(form.values), 1):
        for condition in (table.c.v == value, table.c.v.in_([value])):
            path = await place.application.create(select(table.c.id).where(condition))
            assert await _stream(place, path) == [{"id": number}]


_ASKED: tuple[tuple[str, dict[str, Any]], ...] = (
    ("ge", {"filters": {"column": "v", "op": "ge", "value": "VALUE"}, "columns": ["id"]}),
    (
        "between",
        {"filters": {"column": "v", "op": "between", "value": ["VALUE", "VALUE"]}, "columns": ["id"]},
    ),
    ("contains", {"filters": {"column": "v", "op": "contains", "value": "VALUE"}, "columns": ["id"]}),
    ("starts_with", {"filters": {"column": "v", "op": "starts_with", "value": "VALUE"}, "columns": ["id"]}),
    ("missing", {"filters": {"column": "v", "op": "is_null", "value": True}, "columns": ["id"]}),
    ("counts", {"aggregates": [{"function": "count", "column": "v", "as": "n"}]}),
    ("distinct", {"aggregates": [{"function": "count_distinct", "column": "v", "as": "n"}]}),
    ("groups", {"group_by": ["v"], "aggregates": ["count"]}),
    ("least", {"aggregates": [{"function": "min", "column": "v", "as": "n"}]}),
    ("sum", {"aggregates": [{"function": "sum", "column": "v", "as": "n"}]}),
    ("months", {"group_by": [{"column": "v", "bucket": "month", "as": "m"}], "aggregates": ["count"]}),
)
_REFUSALS = {"BAD_PARAMETER", "FORBIDDEN_SQL", "INVALID_SQL"}


@pytest.mark.quick(8, "sqlite")
async def test_questions_and_profiles_are_answered_or_refused_in_words(place: Place, key: str) -> None:
    table = TABLES[key]
    path = await place.application.create(select(table))
    first, *others = _shown(place, FORMS[key])
    answers = {
        "ge": [1, 2, 3], "between": [1], "contains": None, "starts_with": None, "missing": [4],
        "counts": 3, "distinct": 3, "least": first,
    }  # fmt: skip
    for name, question in _ASKED:
        document = json.loads(json.dumps(question).replace('"VALUE"', json.dumps(first)))
        answer = await place.application.http.post(f"{path}/query", json=document)
        if answer.status_code != 200:
            assert answer.json()["code"] in _REFUSALS, (name, answer.text)
            continue
        rows = answer.json()["data"]
        wanted = answers.get(name)
        if isinstance(wanted, list):
            assert sorted(row["id"] for row in rows) == wanted, name
        elif wanted is not None:
            assert rows == [{"n": wanted}], name
        elif name == "groups":
            assert sorted(map(repr, (row["v"] for row in rows))) == sorted(map(repr, [first, *others]))
    profile = await place.application.http.get(f"{path}/profile", params={"kind": "full"})
    assert profile.status_code == 200, profile.text


async def test_a_variant_stays_as_the_application_made_it(sqlite_url: str) -> None:
    """Rows were read before a text compares the column with a constant, which is stored with the column's type."""
    moment = DateTime().with_variant(DATETIME(), "sqlite")
    table = Table("moments", MetaData(), Column("id", Integer, primary_key=True), Column("at", moment))
    async with engines.opened(sqlite_url) as engine, engine.begin() as connection:
        await connection.run_sync(table.metadata.create_all)
        await connection.execute(insert(table), [{"id": 1, "at": datetime(2024, 1, 1)}])  # noqa: DTZ001
    async with running(sqlite_url, tables=table.metadata) as application:
        path = await application.create(select(table))
        assert (await application.http.get(path, params={"limit": 1})).status_code == 200
        text_ = "SELECT id FROM moments WHERE at = '2024-01-01 00:00:00'"
        query = application.server.sql.resolve(text_, principal=None)
        response = await application.server.create_response(query.select, name="text", is_text=True)
    assert response.sample == [{"id": 1}]
