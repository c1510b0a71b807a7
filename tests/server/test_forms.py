"""What can be created can be paged, turned back and asked: every form that can fail is compiled before it is stored."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import ColumnElement, Integer, bindparam, func, select
from sqlalchemy.exc import CompileError
from sqlalchemy.ext.asyncio import AsyncEngine
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.elements import ClauseElement

from dualsql import DualResponseServer, ForbiddenSQLError, NotFreezableError, PageRequest, Registry
from dualsql.results.create import page_forms
from tests.schools import Base, School
from tests.server.conftest import MakeServer, statements_of
from tests.statements import STATEMENTS

pytestmark = pytest.mark.quick(50, "sqlite")


class Outermost(ColumnElement[int]):
    """A number that is written in a statement's own columns only, and not in those of a subquery."""

    inherit_cache = True
    type = Integer()


@compiles(Outermost)
def _(element: Any, compiler: Any, **kw: Any) -> str:
    if len(compiler.stack) > 1:
        raise CompileError("not in a subquery")
    return "max(1, 1)" if compiler.dialect.name == "sqlite" else "greatest(1, 1)"


async def test_what_cannot_be_asked_is_refused_when_it_is_created(make_server: MakeServer) -> None:
    dual = make_server(tables=Registry(Base, elements=[Outermost]))
    with pytest.raises(NotFreezableError, match="cannot be derived from it") as refused:
        await dual.create_response(select(School.id, Outermost().label("one")), name="outermost")
    assert "subquery" in (refused.value.hint or "")


async def test_compiling_asks_nothing_of_the_database(make_server: MakeServer, schools: AsyncEngine) -> None:
    dual = make_server(count_head_start=timedelta(minutes=1))  # no count, however slow the sample is
    await dual.start()
    with statements_of(schools) as statements:
        await dual.create_response(select(School.state, func.count()).group_by(School.state), name="few")
    assert len(statements) == 1, "the sample alone"


@pytest.mark.parametrize("elements", [[], [Outermost]])
async def test_statements_that_differ_in_values_alone_are_compiled_once(
    make_server: MakeServer, monkeypatch: pytest.MonkeyPatch, elements: list[Any]
) -> None:
    dual = make_server(tables=Registry(Base, elements=elements))
    await dual.start()
    compiled: list[str] = []
    monkeypatch.setattr("sqlalchemy.sql.elements.ClauseElement._compiler", _noted(compiled))
    numbers: list[int] = []
    for condition in (School.id < 3, School.id < 5, School.id < 8, School.id <= 3):
        await dual.create_response(select(School.id).where(condition), name="some")
        numbers.append(sum("LIMIT" in sql for sql in compiled))
    few = 2 if elements else 1  # with elements of the application, also a page by a cursor
    assert numbers == [few, few, few, 2 * few]


@pytest.mark.parametrize("elements", [[], [Outermost]])
async def test_a_page_needs_no_compiler_after_that(
    make_server: MakeServer, monkeypatch: pytest.MonkeyPatch, elements: list[Any]
) -> None:
    """With elements of the application, no page by a cursor; else the first one has to be compiled."""
    dual = make_server(tables=Registry(Base, elements=elements))
    response = await dual.create_response(select(School.id, School.name).order_by(School.name), name="all")
    resource = await dual.open_resource(response.resource_id, None, "read")
    compiled: list[str] = []
    monkeypatch.setattr("sqlalchemy.sql.elements.ClauseElement._compiler", _noted(compiled))
    first = await dual.unchecked.read_page(resource, None, PageRequest(limit=2))
    await dual.unchecked.read_page(resource, None, PageRequest(limit=7, offset=3))
    assert compiled == []
    for _ in range(2):
        await dual.unchecked.read_page(resource, None, PageRequest(limit=2, cursor=first.next_cursor))
    assert len(compiled) == (0 if elements else 1)
    await dual.unchecked.read_page(resource, None, PageRequest(limit=2, sort=[{"field": "id"}]))
    assert len(compiled) == (1 if elements else 2), "the test sees what is compiled"


@pytest.mark.quick(1)
@pytest.mark.parametrize("name", STATEMENTS)
async def test_what_sqlalchemy_alone_writes_compiles_in_every_form(
    dual: DualResponseServer, name: str
) -> None:
    """Of such statements, a creation compiles the first form, which is the sample."""
    parts, statement = dual.parts, STATEMENTS[name]
    response = await dual.create_response(statement, name=name)
    view = parts.views.live(await dual.open_resource(response.resource_id, None, "read"), None)
    assert view.source.registry.writes_alike(view.dialect, [column.type for column in view.columns])
    for form in [form for forms in parts.creator.forms for form in forms(view)]:
        view.compile(form)


async def test_a_page_backward_is_compiled_where_it_has_a_form_of_its_own(dual: DualResponseServer) -> None:
    """Where no row ties and no key is NULL, only ASC and DESC are exchanged."""
    numbers: list[int] = []

    def noted(view: Any) -> Any:
        forms = [*page_forms(view)]
        numbers.append(len(forms))
        return forms

    dual.parts.creator.forms = [noted]
    statements: list[Any] = [
        select(School.id, School.state),
        select(School.id, School.state).order_by(School.state),
        select(School.id).union_all(select(School.id)),
    ]
    for statement in statements:
        await dual.create_response(statement, name="some")
    assert numbers == [3, 4, 4]


class Unkeyed(ColumnElement[int]):
    """A number with which a statement has no cache key."""

    inherit_cache = False
    type = Integer()


@compiles(Unkeyed)
def _(element: Any, compiler: Any, **kw: Any) -> str:
    return "1"


@pytest.mark.parametrize(("condition", "number"), [(School.id < 3, 1), (School.id < 5, 2)])
async def test_forms_without_a_cache_key_are_compiled_once_for_each_document(
    make_server: MakeServer, condition: Any, number: int
) -> None:
    dual, views = make_server(tables=Registry(Base, elements=[Unkeyed])), list[Any]()

    def noted(view: Any) -> Any:
        views.append(view)
        return page_forms(view)

    dual.parts.creator.forms = [noted]
    for chosen in (School.id < 3, condition, condition):
        await dual.create_response(select(School.id, Unkeyed().label("one")).where(chosen), name="some")
    assert len(views) == number


async def test_no_value_of_the_author_becomes_the_limit_of_a_page(dual: DualResponseServer) -> None:
    statement = select(School.id).where(School.id > bindparam("dualsql_page_offset", 2))
    with pytest.raises(ForbiddenSQLError, match="'dualsql_page_offset'"):
        await dual.create_response(statement, name="some")


def _noted(compiled: list[str]) -> Any:
    plain = ClauseElement._compiler

    def noted(self: Any, *arguments: Any, **named: Any) -> Any:
        actual = plain(self, *arguments, **named)
        compiled.append(str(actual))
        return actual

    return noted
