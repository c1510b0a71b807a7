"""What cannot be stored is refused when it is written, with the construct, where it stands and what to do."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import (
    Column,
    Integer,
    MetaData,
    PickleType,
    Table,
    bindparam,
    cast,
    column,
    delete,
    func,
    insert,
    literal_column,
    outparam,
    select,
    table,
    text,
    tuple_,
    type_coerce,
    union_all,
)
from sqlalchemy.dialects import postgresql
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.orm import Bundle, with_loader_criteria
from sqlalchemy.orm.interfaces import CompileStateOption
from sqlalchemy.sql.expression import ColumnElement, UnaryExpression
from sqlalchemy.sql.operators import custom_op

from dualsql.errors import DualResponseError, LimitExceededError, NotFreezableError, TamperedError
from dualsql.freeze import Registry, freeze, thaw
from dualsql.freeze.document import pack, unpack
from tests.freeze.shop import STRICT, Card, Person, customers, customers_, orders_

POSTGRESQL = postgresql.dialect()
_stranger = Table("strangers", MetaData(), Column("id", Integer))


class Own(ColumnElement[int]):
    inherit_cache = True


class OwnBundle(Bundle[Any]):
    inherit_cache = True


class OwnOption(CompileStateOption):
    """Would change the SQL in a way that only its code knows."""

    _cache_key_traversal = []

    def process_compile_state(self, compile_state: Any) -> None:
        compile_state.select_statement = compile_state.select_statement.where(Person.id > 3)


@compiles(Own)
def _(element: Any, compiler: Any, **kw: Any) -> str:
    return "own()"


REFUSED: dict[str, tuple[Any, str]] = {
    "unregistered table": (select(_stranger), "table 'strangers'"),
    "unregistered light table": (select(table("pg_user", column("x"))), "table 'pg_user'"),
    "column of an unregistered table": (select(_stranger.c.id), "table 'strangers'"),
    "sleeping": (select(func.pg_sleep(9)), "function pg_sleep"),
    "reading files": (select(func.pg_read_file("x")), "function pg_read_file"),
    "running text": (select(func.query_to_xml("x")), "function query_to_xml"),
    "in a package": (select(func.sys.lower("x")), "function sys.lower"),
    "text": (select(text("1")), r"text\('1'\)"),
    "text as a statement": (text("SELECT 1").columns(column("x")), r"text\('SELECT 1'\)"),
    "literal column": (select(literal_column("1 OR 1")), "literal_column"),
    "text in order": (select(customers_.id).order_by(text("1")), r"text\('1'\)"),
    "hint": (select(customers).with_hint(customers, "FORCE INDEX (x)"), "a hint"),
    "prefix": (select(customers_.id).prefix_with("/* x */"), "prefix or suffix"),
    "operator": (select(customers_.id.op("; DROP")(1)), "operator '; DROP'"),
    "operator that calls": (
        select(UnaryExpression(tuple_("(a+)+$", customers_.name), operator=custom_op("REGEXP"))),
        "position",
    ),
    "collation": (select(customers_.name.collate("x y")), "collation|name 'x y'"),
    "own element": (select(Own()), "Own"),
    "pickle by cast": (select(cast(customers_.name, PickleType)), "PickleType"),
    "pickle by another column's type": (
        select(type_coerce(customers_.name, orders_.secret.type)),
        "own type of a column",
    ),
    "pickle in a union": (union_all(select(orders_.secret), select(customers_.name)), "a type of its own"),
    "two names in a subquery": (
        select(select(orders_.cents, column("cents", Integer())).subquery()),
        "two columns named 'cents'",
    ),
    "pickle by coalesce": (
        select(func.coalesce(bindparam("x", None, type_=orders_.secret.type), customers_.name)),
        "own type of a column",
    ),
    "unregistered decorator": (select(cast(customers_.id, orders_.cents.type)), "Money|own type"),
    "out parameter": (
        select(customers_.id).where(customers_.id == outparam("x", Integer())),
        "OUT parameter",
    ),
    "name of a parameter": (
        select(customers_.id).where(customers_.id == bindparam("x+y", 1)),
        "parameter name",
    ),
    "an object as a value": (
        select(customers_.id).where(customers_.name == bindparam("x", object())),
        "object",
    ),
    "own bundle": (select(OwnBundle("b", Card.id)), "OwnBundle"),
    "own option": (select(Person).options(OwnOption()), "OwnOption"),
    "criterion on an unregistered table": (
        select(Person).options(with_loader_criteria(Person, Person.id.in_(select(_stranger.c.id)))),
        "table 'strangers'",
    ),
    "translated schema": (
        select(customers).execution_options(schema_translate_map={None: "x"}),
        "schema_translate",
    ),
    "lock in a subquery": (
        select(select(customers_.id).with_for_update().subquery()),
        "with_for_update",
    ),
    "writing in a CTE": (select(delete(customers).returning(customers_.id).cte().c.id), "Delete"),
    "insert": (insert(customers), "Insert"),
    "no statement": (customers, "Table"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_it_is_refused_by_name(name: str) -> None:
    statement, construct = REFUSED[name]
    with pytest.raises(NotFreezableError, match=construct) as raised:
        freeze(statement, STRICT, dialect=POSTGRESQL)
    assert raised.value.hint
    assert raised.value.details["construct"]
    assert raised.value.details["where"]
    assert raised.value.details["where"] in raised.value.message


def test_the_refusal_says_where() -> None:
    inner = select(customers_.id).where(func.pg_sleep(1) == 2).subquery()
    with pytest.raises(NotFreezableError) as raised:
        freeze(select(inner.c.id), STRICT)
    assert raised.value.details["where"].endswith('select > where > binary > left > function "pg_sleep"')
    assert raised.value.details["where"].startswith("select > columns > column")


def test_the_size_is_bounded() -> None:
    small = Registry(customers, maximum_size=2_000)
    statement = select(customers_.id).where(customers_.id.in_(range(1_000)))
    with pytest.raises(LimitExceededError, match="2000"):
        freeze(statement, small)


def test_depth_is_bounded() -> None:
    expression: Any = customers_.id
    for _ in range(3_000):
        expression = func.abs(expression)
    with pytest.raises(DualResponseError):
        freeze(select(expression), STRICT)


def test_a_value_is_bounded_in_depth() -> None:
    value: Any = []
    for _ in range(500):
        value = [value]
    with pytest.raises(NotFreezableError, match="nested"):
        freeze(select(customers_.id).where(orders_.notes == bindparam("x", value)), STRICT)


def test_functions_and_operators_can_be_allowed() -> None:
    registry = Registry(customers, functions=["pg_sleep"], operators=["<<%%>>"])
    freeze(select(func.pg_sleep(1), customers_.name.op("<<%%>>")("x")), registry)


def test_what_sqlalchemy_itself_writes_as_text_is_no_text() -> None:
    """any() and has() select the literal 1 inside EXISTS."""
    for statement in (
        select(Person).where(Person.cards.any(Card.number == "x")),
        select(Card).where(Card.person.has(Person.name == "x")),
        select(literal_column("1").label("one")),
    ):
        freeze(statement, STRICT, dialect=POSTGRESQL)


@pytest.mark.parametrize("text", ["1 OR 1=1", "1;", "-1", "1.5", "1234567890", "１", "1\n", ""])
def test_nothing_else_written_as_text_is(text: str) -> None:
    with pytest.raises(NotFreezableError):
        freeze(select(literal_column(text).label("x")), STRICT, dialect=POSTGRESQL)


def test_digits_in_a_forged_document_are_digits() -> None:
    body = unpack(freeze(select(literal_column("1").label("one")), STRICT), 10_000)
    node = next(fields for _, fields in body["nodes"] if "digits" in fields)
    node["digits"] = "1 OR 1=1"
    with pytest.raises(TamperedError):
        thaw(pack(body, 10_000), STRICT)
