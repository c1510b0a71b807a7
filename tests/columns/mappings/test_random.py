"""Mapped classes nobody thought of: whatever they load, their rows are served as a session's objects hold them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, note, settings, strategies as st
from sqlalchemy import ForeignKey, Integer, String, TypeDecorator, create_engine, inspect, select
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import (
    DeclarativeBase,
    Session,
    aliased,
    column_property,
    defer,
    joinedload,
    lazyload,
    load_only,
    mapped_column,
    relationship,
    undefer,
    with_polymorphic,
)

from dualsql import DualResponseError, DualResponseServer, PageRequest, Registry, Resource
from dualsql.formats.table import FORMATS
from dualsql.freeze import thaw
from dualsql.plan import shape
from dualsql.results.streams import StreamRequest
from tests.databases.streams.reading import read

QUIET = settings(
    deadline=None, phases=[Phase.generate], suppress_health_check=[HealthCheck.too_slow], derandomize=True
)
_LAZY: Any = ["select", "joined", "selectin", "subquery", "raise"]


class Own(TypeDecorator[str]):
    """A type with code of its own."""

    impl = String
    cache_ok = True


@dataclass(frozen=True)
class Mapping:
    """Classes A, its subclass S, and B, which has an A as its parent."""

    base: Any
    a: Any
    s: Any
    b: Any


@st.composite
def mappings(draw: st.DrawFn) -> Mapping:
    class Base(DeclarativeBase):
        pass

    def columns(*names: str) -> dict[str, Any]:
        kinds = st.sampled_from([Integer, String, Own])
        return {name: mapped_column(draw(kinds), deferred=draw(st.booleans())) for name in names}

    lazy, flags = st.sampled_from(_LAZY), st.booleans()
    is_joined = draw(flags)
    arguments: dict[str, Any] = {"polymorphic_on": "kind", "polymorphic_identity": "a"}
    if draw(flags):
        arguments["with_polymorphic"] = "*"
    a: Any = type(
        "A",
        (Base,),
        {
            "__tablename__": "a",
            "id": mapped_column(Integer, primary_key=True),
            "kind": mapped_column(String),
            **columns("x", "y"),
            "boss_id": mapped_column(ForeignKey("a.id")),
            "boss": relationship(
                "A",
                remote_side="A.id",
                lazy=draw(lazy),
                innerjoin=draw(flags),
                join_depth=draw(st.integers(1, 2)),
            ),
            "children": relationship("B", back_populates="parent", lazy=draw(lazy)),
            "__mapper_args__": arguments,
        },
    )
    a.double = column_property(a.id * 2, deferred=draw(flags))
    own = (
        {"id": mapped_column(ForeignKey("a.id"), primary_key=True), "__tablename__": "s"} if is_joined else {}
    )
    inline = {"polymorphic_load": "inline"} if draw(flags) else {}
    s: Any = type(
        "S", (a,), {**own, **columns("z"), "__mapper_args__": {"polymorphic_identity": "s", **inline}}
    )
    b: Any = type(
        "B",
        (Base,),
        {
            "__tablename__": "b",
            **columns("y"),
            "id": mapped_column(Integer, primary_key=True),
            "a_id": mapped_column(ForeignKey("a.id")),
            **columns("x"),
            "parent": relationship("A", back_populates="children", lazy=draw(lazy), innerjoin=draw(flags)),
        },
    )
    return Mapping(Base, a, s, b)


@st.composite
def statements(draw: st.DrawFn, mapped: Mapping) -> Any:
    a, s, b = mapped.a, mapped.s, mapped.b
    other = aliased(a)
    forms: dict[str, Any] = {
        "A": select(a).order_by(a.id),
        "S": select(s).order_by(s.id),
        "B": select(b).order_by(b.id.desc()),
        "alias": select(other).order_by(other.id),
        "B of A": select(b).join(b.parent).order_by(b.id),
        "column, class": select(b.x, b).order_by(b.id),
        "class, column": select(a, a.id, a.y).order_by(a.id),
        "class twice": select(b, b).order_by(b.id),
        "two classes": select(a, b).join(b.parent).order_by(b.id),
        "class and alias": select(a, other).join(other, other.id == a.boss_id).order_by(a.id),
        "all classes": select(with_polymorphic(a, "*", flat=draw(st.booleans()))),
    }
    statement = forms[draw(st.sampled_from(sorted(forms)))]
    options = [lazyload("*"), undefer("*"), defer(b.x), load_only(a.x), joinedload(b.parent, innerjoin=True)]
    entities = {entity["entity"] for entity in statement.column_descriptions}
    fitting = [option for option in options if _fits(option, entities)]
    for option in draw(st.lists(st.sampled_from(fitting), max_size=1)):
        statement = statement.options(option)
    if draw(st.booleans()):
        statement = statement.where(a.id > 1) if a in entities else statement
    return statement.limit(draw(st.integers(1, 3))) if draw(st.booleans()) else statement


def _fits(option: Any, entities: Any) -> bool:
    """Whether SQLAlchemy takes the option for a statement of these classes."""
    path: Any = getattr(option, "path", None)
    first: Any = None if path is None or not len(path) else path[0]
    return not hasattr(first, "entity") or first.entity in entities


def fill(mapped: Mapping, session: Session) -> None:
    for number, boss in enumerate([None, 1, 1, None, 2], start=1):
        cls = mapped.s if number % 2 else mapped.a
        session.add(cls(id=number, x=number, y=number % 2, boss_id=boss))
        session.flush()
    for number, parent in enumerate([1, None, 1, 4], start=1):
        session.add(mapped.b(id=number, x=number, y=7, a_id=parent))
    session.commit()


@pytest.mark.long
@pytest.mark.parametrize(
    "examples", [pytest.param(10, id="few"), pytest.param(300, id="many", marks=pytest.mark.exhaustive)]
)
def test_rows_are_served_as_a_session_loads_them(examples: int) -> None:
    @settings(QUIET, max_examples=examples)
    @given(st.data())
    def check(data: st.DataObject) -> None:
        mapped = data.draw(mappings())
        try:
            statement = data.draw(statements(mapped))
            note(str(statement))
            check_one(mapped, statement)
        finally:
            mapped.base.registry.dispose()

    check()


def check_one(mapped: Mapping, statement: Any) -> None:
    with TemporaryDirectory() as folder:
        url = f"sqlite:///{Path(folder) / 'x.sqlite'}"
        engine = create_engine(url)
        mapped.base.metadata.create_all(engine)
        with Session(engine) as session:
            fill(mapped, session)
        with Session(engine) as session:
            loaded = objects_of(session, statement)
        engine.dispose()
        rows = asyncio.run(served(url, mapped, statement))
        if rows is not None and loaded is not None:
            compare(rows, loaded)


def objects_of(session: Session, statement: Any) -> list[dict[str, Any]] | None:
    """The loaded attributes of each object; None where a row is of several, or SQLAlchemy itself fails."""
    try:
        rows = session.execute(statement).unique().all()
    except OperationalError:
        assert len(statement.column_descriptions) > 1  # it finds a name ambiguous
        return None
    if len(statement.column_descriptions) > 1:
        return None
    return [
        {key: each.dict[key] for key in set(each.mapper.column_attrs.keys()) & set(each.dict)}
        for each in map(state_of, rows)
    ]


def state_of(row: Any) -> Any:
    return inspect(row[0])


async def served(url: str, mapped: Mapping, statement: Any) -> list[dict[str, Any]] | None:
    """All rows, which are the same in every format and page; None where the statement is refused in words."""
    async with DualResponseServer(
        url, base_url="http://127.0.0.1:8000/resources", tables=mapped.base
    ) as dual:
        try:
            response = await dual.create_response(statement, name="x", count="exact")
        except DualResponseError as refusal:
            assert "innerjoin=True" in refusal.message  # noqa: PT017 - anything else is a fault
            return None
        resource = await dual.open_resource(response.resource_id, None, "read")
        rows = await pages_of(dual, resource)
        assert response.total_count == len(rows)
        columns = shape(thaw(resource.document, Registry(mapped.base))).columns
        for format_name in FORMATS:
            stream = await dual.unchecked.stream(resource, None, StreamRequest(format=format_name))
            table = read(format_name, b"".join([chunk.data async for chunk in stream.chunks]), columns)
            assert rows == [dict(zip(table, row, strict=True)) for row in zip(*table.values(), strict=True)]
        return rows


async def pages_of(dual: DualResponseServer, resource: Resource) -> list[dict[str, Any]]:
    """By cursor, there and back."""
    page = await dual.unchecked.read_page(resource, None, PageRequest(limit=2))
    rows = list(page.rows)
    while page.next_cursor is not None:
        page = await dual.unchecked.read_page(resource, None, PageRequest(limit=2, cursor=page.next_cursor))
        rows += page.rows
    back = list(page.rows)
    while page.previous_cursor is not None:
        page = await dual.unchecked.read_page(
            resource, None, PageRequest(limit=2, cursor=page.previous_cursor)
        )
        back = [*page.rows, *back]
    assert back == rows
    return rows


def compare(rows: Sequence[dict[str, Any]], loaded: Sequence[dict[str, Any]]) -> None:
    assert len(rows) == len(loaded)
    known = {key for one in loaded for key in one} | {"a_id", "s_id", "z"}
    for row, attributes in zip(rows, loaded, strict=True):
        # A subclass has columns more than its superclass's objects, and a joined one its parent's key.
        # An alias of several tables is a subquery, whose columns have the names of both.
        names = {
            key: next(name for name in (key, f"a_{key}", f"s_{key}") if name in row) for key in attributes
        }
        assert set(row) <= known | set(names.values()) | {f"a_{key}" for key in known} | {"s_z", "id_2"}
        assert {key: row[name] for key, name in names.items()} == attributes
