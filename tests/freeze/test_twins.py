"""Statements that are equal element by element are not compiled to be compared; whatever compiling finds is found."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from copy import copy
from decimal import Decimal
from typing import Any

import pytest
from sqlalchemy import (
    Column,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    TypeDecorator,
    bindparam,
    cast,
    func,
    literal,
    select,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.sql.elements import ClauseElement, quoted_name
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.sql.type_api import TypeEngine

from dualsql.errors import NotFreezableError
from dualsql.freeze import UNCOMPILABLE, Registry, Twins, freeze, prove_equal, thaw
from dualsql.freeze.fields import MEMOS
from dualsql.plan import written_out
from tests.quick import case_of
from tests.schools import Base
from tests.statements import POSTGRESQL_ONLY, STATEMENTS

REGISTRY = Registry(Base)
ALL = {**STATEMENTS, **POSTGRESQL_ONLY}
COMPILED = {"self join"}
"""It holds what is not compared element by element, an alias of a class."""
DIALECTS = [sqlite.dialect(), postgresql.dialect()]

metadata = MetaData()
things = Table("things", metadata, Column("id", Integer, primary_key=True), Column("name", String(20)))
ID, NAME = things.c.id, things.c.name
ALIAS = things.alias()
LABEL = (ID + 1).label(None)


def cases() -> Iterator[Any]:
    for number, name in enumerate(ALL):
        yield case_of(name, is_long=number % 5 != 0)


def are_equal(one: Any, other: Any) -> bool:
    return Twins().are_equal(one, other)


def parts_of(statement: Any, but_for: Collection[Any] = ()) -> list[Any]:
    """The elements and types that a statement consists of, without those of another one."""
    waiting, parts, seen = [statement], [], {id(part) for part in but_for}
    while waiting:
        part = waiting.pop()
        if isinstance(part, list | tuple):
            waiting += part
        elif isinstance(part, dict):
            waiting += part.values()
        elif isinstance(part, ClauseElement | TypeEngine) and id(part) not in seen:
            seen.add(id(part))
            parts.append(part)
            waiting += [value for name, value in part.__dict__.items() if not is_memo(part, name)]
    return parts


def is_memo(part: Any, name: str) -> bool:
    return name != "_is_clone_of" and name in (*MEMOS, *part.__dict__.get("_memoized_keys", ()))


def other_values(value: Any) -> Iterator[Any]:
    """What an error in writing or reading could put in its place."""
    if value is None or isinstance(value, bool):
        yield not value
    elif isinstance(value, int):
        yield from (value + 1, str(value))
    elif isinstance(value, str):
        yield type(value)(f"{value}x", None) if isinstance(value, quoted_name) else f"{value}x"
    elif isinstance(value, TypeEngine):
        yield from (Text(), String(7), Integer())
    elif isinstance(value, list | tuple):
        yield type(value)([*value, *value[:1]])
        yield type(value)(value[:-1])
        yield type(value)(value[::-1])
    elif isinstance(value, dict):
        yield {}
    elif isinstance(value, ClauseElement):
        yield from (things.c.id, literal(7))
    if value is not None:
        yield None


@pytest.mark.quick(8)
@pytest.mark.parametrize("name", list(cases()))
def test_whatever_differs_when_compiled_differs_as_elements(name: str) -> None:
    document, changes = freeze(written_out(ALL[name]), REGISTRY), 0

    def fresh() -> Any:  # SQLAlchemy marks a statement of the ORM that it compiles
        return thaw(document, REGISTRY)

    own = parts_of(fresh())
    shared = [part for part in parts_of(fresh()) if any(part is each for each in own)]
    assert are_equal(fresh(), fresh()) == (name not in COMPILED)
    for number, part in enumerate(parts_of(fresh(), shared)):
        for attribute, value in part.__dict__.items():
            for choice, _ in enumerate(() if is_memo(part, attribute) else other_values(value)):
                changed = fresh()
                state = parts_of(changed, shared)[number].__dict__
                state[attribute] = [*other_values(state[attribute])][choice]
                are_twins = are_equal(fresh(), changed)
                if differ(fresh(), changed):
                    changes += 1
                    assert not are_twins, (type(part), attribute, value, state[attribute])
    assert changes


def differ(one: Any, other: Any) -> bool:
    """Whether both compile, and not to the same."""
    for dialect in DIALECTS:
        try:
            prove_equal(one, other, dialect)
        except NotFreezableError as error:
            if error.details["construct"] != "statement":
                return True
        except UNCOMPILABLE:
            continue
    return False


def twice(one: Any, other: Any) -> Any:
    return select(ID).where(one == ID, other == ID + 1)


def param(value: Any = 1) -> Any:
    return bindparam(None, value, Integer())


def clone(parameter: Any) -> Any:
    return parameter._clone()


def of_one(make: Callable[[Any], Any], parameter: Any = None) -> tuple[Any, Any]:
    parameter = param() if parameter is None else parameter
    return make(parameter), make(parameter)


class Loud(FunctionElement[str]):
    """A construct whose SQL depends on what neither a cache key nor its `__dict__` has."""

    __slots__ = ("word",)
    inherit_cache = True
    name = "loud"

    def __init__(self, word: str) -> None:
        super().__init__(NAME)
        self.word = word


class Padded(TypeDecorator[str]):
    impl = String
    cache_ok = True


def renamed(statement: Any) -> Any:
    inner = statement.subquery()
    inner.c.id.type = Text()
    return select(inner)


DIFFERENT = {
    "1 and true": (twice(1, param(1)), twice(1, param(True))),
    "1.0 and 1.00": (twice(1, param(Decimal("1.0"))), twice(1, param(Decimal("1.00")))),
    "one parameter and two": (twice(*of_one(lambda each: each)), twice(param(), param())),
    "clones of one and of two": (twice(*of_one(clone)), twice(clone(param()), clone(param()))),
    "clones of one and of two with a name": (
        twice(*of_one(clone, bindparam("a", 1))),
        twice(clone(bindparam("a", 1)), clone(bindparam("a", 1))),
    ),
    "anonymous names of one and of two": (
        select(LABEL, copy(LABEL)),
        select(LABEL.element.label(None), LABEL.element.label(None)),
    ),
    "sources of which one is a clone": (
        select(ALIAS.c.id).select_from(clone(ALIAS)),
        select(ALIAS.c.id).select_from(clone(things.alias())),
    ),
    "names of two": (
        twice(bindparam("a", 1), bindparam("b", 2)),
        twice(bindparam("b", 1), bindparam("a", 2)),
    ),
    "an attribute of a construct": (select(Loud("a")), select(Loud("b"))),
    "a type of an application": (select(cast(NAME, Padded(10))), select(cast(NAME, Padded(11)))),
    "columns that were changed": (renamed(select(ID)), select(select(ID).subquery())),
    "the length of a type": (select(cast(NAME, String(10))), select(cast(NAME, String(11)))),
    "an option of an execution": (select(ID).execution_options(a=object()), select(ID)),
    "a table of the same name": (select(ID), select(Table("things", MetaData(), Column("id", Integer)).c.id)),
    "annotated columns of one alias": (
        select(ALIAS.c.id, ALIAS.c.id._annotate({"a": 1})),
        select(ALIAS.c.id, things.alias().c.id._annotate({"a": 1})),
    ),
    "an alias twice": (
        select(ALIAS.c.id, ALIAS.c.name),
        select(ALIAS.c.id, things.alias().c.name),
    ),
}
"""Statements of which one is not the other."""


@pytest.mark.parametrize("name", DIFFERENT)
def test_different_statements_are_not_equal(name: str) -> None:
    one, other = DIFFERENT[name]
    assert not are_equal(one, other)
    assert not are_equal(other, one)


def test_statements_that_are_made_alike_are_equal() -> None:
    def make() -> Any:
        inner = select(ID, NAME.label("n")).where(ID.in_([1, 2]), NAME != "x").subquery()
        return select(inner.c.n, func.count()).group_by(inner.c.n).order_by(inner.c.n).limit(3)

    assert are_equal(make(), make())


def test_a_long_statement_is_compiled() -> None:
    def make(number: int) -> Any:
        return select(ID).where(*(ID.is_distinct_from(each) for each in range(number)))

    assert are_equal(make(10), make(10))
    assert not are_equal(make(1000), make(1000))


def test_no_element_of_sqlalchemy_hides_its_state_in_slots() -> None:
    """What is not in `__dict__` would not be compared."""
    waiting: list[type] = [ClauseElement, TypeEngine]
    while waiting:
        cls = waiting.pop()
        waiting += cls.__subclasses__()
        if cls.__module__.startswith("sqlalchemy."):
            assert not [
                name for each in cls.__mro__ for name in getattr(each, "__slots__", ()) if name[:2] != "__"
            ]
