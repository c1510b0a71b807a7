"""Whatever an engineer writes comes back as the same statement: SQL, parameters, columns, cache key."""

from __future__ import annotations

import enum
import gc
from typing import Any

import pytest
from sqlalchemy import (
    ARRAY,
    Column,
    Enum,
    Integer,
    MetaData,
    Select,
    String,
    Table,
    TypeDecorator,
    bindparam,
    case,
    create_engine,
    func,
    literal,
    select,
    true,
    tuple_,
)
from sqlalchemy.engine import Dialect
from sqlalchemy.ext.declarative import AbstractConcreteBase
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column
from sqlalchemy.sql.util import ClauseAdapter

from dualsql import sqlalchemy_internals as internals
from dualsql.errors import NotFreezableError, TamperedError
from dualsql.freeze import Proofs, Registry, form_of, freeze, prove_equal, thaw
from dualsql.freeze.document import AnySelect, MalformedError, pack, unpack
from tests.freeze.dialects import DIALECTS
from tests.freeze.shop import REGISTRY, SHAPES, customers, customers_
from tests.schools import Base
from tests.statements import POSTGRESQL_ONLY, STATEMENTS, TEXT

SCHOOLS = Registry(Base, allow_text=True)
ALL = {
    **{
        f"schools: {name}": (SCHOOLS, statement)
        for name, statement in {**STATEMENTS, **POSTGRESQL_ONLY, **TEXT}.items()
    },
    **{f"shop: {name}": (REGISTRY, statement) for name, statement in SHAPES.items()},
}


def can_compile(statement: object, dialect: Dialect) -> bool:
    try:
        prove_equal(statement, statement, dialect)
    except Exception:  # noqa: BLE001 - a dialect that lacks a feature says so in its own ways
        return False
    return True


@pytest.mark.quick(30)
@pytest.mark.parametrize("name", ALL)
def test_a_statement_comes_back_as_it_was(name: str) -> None:
    registry, statement = ALL[name]
    compiled = 0
    for dialect in DIALECTS.values():
        if can_compile(statement, dialect):
            compiled += 1
            prove_equal(statement, thaw(freeze(statement, registry, dialect=dialect), registry), dialect)
    assert compiled


@pytest.mark.quick(30)
@pytest.mark.parametrize("name", ALL)
def test_a_comparison_that_was_made_changes_no_document(name: str) -> None:
    registry, statement = ALL[name]
    dialect = next(dialect for dialect in DIALECTS.values() if can_compile(statement, dialect))
    proofs = Proofs()
    first, second = (freeze(statement, registry, dialect=dialect, proofs=proofs) for _ in range(2))
    assert first == second == freeze(statement, registry, dialect=dialect)


@pytest.mark.quick(30)
@pytest.mark.parametrize("name", ALL)
def test_the_sources_that_a_comparison_kept_are_those_of_a_new_look(name: str) -> None:
    registry, statement = ALL[name]
    dialect = next(dialect for dialect in DIALECTS.values() if can_compile(statement, dialect))
    thawed = thaw(freeze(statement, registry, dialect=dialect), registry)
    if isinstance(thawed, Select):
        prove_equal(statement, thawed, dialect)
        kept, new = (internals.final_froms(thawed, anew=is_new) for is_new in (False, True))
        assert [str(select(source)) for source in kept] == [str(select(source)) for source in new]
        copied = thawed.where(true())
        assert "dualsql_froms" in vars(thawed).keys() - vars(copied).keys()


def test_only_an_equal_comparison_is_not_made_again() -> None:
    column = customers.c.id

    def form(value: object) -> object:
        return form_of(select(column).where(column == bindparam(None, value, type_=String())))

    assert form(1) == form(1)
    assert form(1) not in [form(2), form(True), form(1.0), form("1"), form_of(select(column))]
    assert form(object()) is None


def test_what_was_read_back_is_given_once_and_for_its_document_alone() -> None:
    statement, proofs = select(customers.c.id), Proofs()
    document = freeze(statement, REGISTRY, proofs=proofs)
    _, read_back = proofs.last
    assert read_back is not None
    assert read_back is not statement
    assert thaw(document, REGISTRY, proofs) is read_back
    assert thaw(document, REGISTRY, proofs) is not read_back
    document = freeze(select(customers.c.name), REGISTRY, proofs=proofs)
    assert str(thaw(bytes(bytearray(document)), REGISTRY, proofs)) == str(select(customers.c.name))
    assert proofs.taken(document) is None


@pytest.mark.parametrize("value", [1, True, 1.0])
def test_a_document_that_holds_another_value_is_found_again(value: object) -> None:
    # 1, True and 1.0 are equal and have one cache key: each is written with its own class.
    proofs = Proofs()
    frozen = [
        thaw(freeze(select(literal(given, String())), REGISTRY, proofs=proofs), REGISTRY)
        for given in (1, True, 1.0, value)
    ]
    assert [type(one.compile().params["param_1"]) for one in frozen] == [int, bool, float, type(value)]


@pytest.mark.quick(30)
@pytest.mark.parametrize("name", ALL)
def test_freezing_what_was_thawed_gives_the_same_document(name: str) -> None:
    registry, statement = ALL[name]
    dialect = next(dialect for dialect in DIALECTS.values() if can_compile(statement, dialect))
    first = freeze(statement, registry, dialect=dialect)
    second = freeze(thaw(first, registry), registry, dialect=dialect)
    assert freeze(thaw(second, registry), registry, dialect=dialect) == second


@pytest.mark.quick(30)
@pytest.mark.parametrize("name", ALL)
def test_every_thawed_copy_shares_one_cache_entry(name: str) -> None:
    registry, statement = ALL[name]
    dialect = next(dialect for dialect in DIALECTS.values() if can_compile(statement, dialect))
    document = freeze(statement, registry, dialect=dialect)
    keys = [thaw(document, registry)._generate_cache_key() for _ in range(3)]
    assert len({key.key if key else None for key in keys}) == 1


@pytest.mark.long
def test_a_part_of_a_polymorphic_entity_keeps_the_whole() -> None:
    """SQLAlchemy holds it by a weak reference: a thawed statement is all that is left of it."""
    statement = SHAPES["orm polymorphic part"]
    thawed = thaw(freeze(statement, REGISTRY), REGISTRY)
    gc.collect()
    assert str(thawed) == str(statement)


def _same_as(statement: AnySelect) -> None:
    registry = Registry(customers, allow_text=True)
    for dialect in DIALECTS.values():
        prove_equal(statement, thaw(freeze(statement, registry, dialect=dialect), registry), dialect)


def test_a_name_given_late_and_a_key_beside_a_name() -> None:
    late: Any = Column(String)
    label: Any = select(customers_.id).label(None)
    late.name = "late"
    label.key = label._tq_key_label = "own_key"
    inner = select(label, late.label("x")).subquery()
    _same_as(select(inner.c.own_key, inner.c.x))


def test_notes_of_an_adapted_expression() -> None:
    noted: Any = case((customers_.name == "x", 1), else_=2).label("c")._annotate({"why": "a test"})
    adapted: Any = ClauseAdapter(customers.alias()).traverse(noted)
    _same_as(select(adapted).order_by(adapted))


def test_rows_of_another_query_are_values() -> None:
    with create_engine("sqlite://").connect() as connection:
        row = connection.execute(select(literal(1), literal("x"))).one()
    statement = select(customers_.id).where(tuple_(customers_.id, customers_.name).in_([row]))
    _same_as(statement)


def test_a_lambda_may_give_several_columns() -> None:
    columns: Any = lambda: [customers_.id, customers_.name]  # noqa: E731 - SQLAlchemy reads its source
    _same_as(select(columns))


def test_the_options_of_a_function_inside_a_statement_do_not_matter() -> None:
    _same_as(select(func.now().execution_options(anything=True)))


@pytest.mark.filterwarnings("ignore:Sending string values")
def test_a_word_in_the_place_of_distinct_is_text() -> None:
    statement: Any = select(customers_.id)
    statement._distinct = "sql_no_cache"
    with pytest.raises(NotFreezableError, match="distinct='sql_no_cache'"):
        freeze(statement, Registry(customers))
    _same_as(statement)


def test_a_list_as_a_column_has_a_cache_key_of_its_own() -> None:
    """SQLAlchemy's own keys ignore what makes it a list: one compiled text would serve for both."""
    registry = Registry(customers)
    one, several = (
        thaw(freeze(select(bindparam("x", value, expanding=expanding)), registry), registry)
        for value, expanding in ((1, False), ([1, 2], True))
    )
    keys = [statement._generate_cache_key() for statement in (one, several)]
    assert len({key.key for key in keys if key is not None}) == len(keys)
    body = unpack(freeze(several, registry), 10_000)
    del body["nodes"][0][1]["expanding"]
    with pytest.raises(TamperedError):
        thaw(pack(body, 10_000), registry)


def test_a_class_that_is_not_mapped_yet_is_no_obstacle() -> None:
    """An AbstractConcreteBase is mapped when its registry is configured."""

    class Own(DeclarativeBase):
        pass

    class Shape(AbstractConcreteBase, Own):
        id: Mapped[int] = mapped_column(primary_key=True)

    class Circle(Shape):
        __tablename__ = "circles"
        __mapper_args__ = {"polymorphic_identity": "circle", "concrete": True}

    assert not Registry(MetaData()).mappers
    assert Circle in {mapper.class_ for mapper in Registry(Own.metadata).mappers.values()}


def test_members_of_an_enum_in_an_array_and_under_a_decorator_are_values() -> None:
    class Level(enum.Enum):
        LOW = 1

    class Coded(TypeDecorator[Level]):
        impl = Enum(Level, name="coded")
        cache_ok = True

    for type_ in (ARRAY(Enum(Level, name="level")), Coded()):
        registry = Registry(Table("levels", MetaData(), Column("level", type_)))
        assert registry.values.read(registry.values.write(Level.LOW)) is Level.LOW


class Rank(enum.IntEnum):
    """What a decorator takes is known to its code alone."""

    FIRST = 1


class Ranked(TypeDecorator[Rank]):
    impl = Integer
    cache_ok = True

    class Kind(enum.Enum):
        OTHER = "other"

    def process_bind_param(self, value: Any, dialect: Any) -> Any:
        return None if value is None else value.value


ranks = Table("ranks", MetaData(), Column("id", Integer, primary_key=True), Column("rank", Ranked))


def test_members_of_an_enum_that_only_a_decorator_knows_are_values() -> None:
    registry = Registry(ranks)
    for condition in (ranks.c.rank == Rank.FIRST, ranks.c.rank.in_([Rank.FIRST])):
        statement = select(ranks.c.id).where(condition)
        (value,) = thaw(freeze(statement, registry), registry).compile().params.values()
        assert value in (Rank.FIRST, [Rank.FIRST]) and type(value) in (Rank, list)
    assert registry.values.read(registry.values.write(Ranked.Kind.OTHER)) is Ranked.Kind.OTHER


def test_a_class_that_no_module_has_is_refused_and_read_from_no_document() -> None:
    class Hidden(enum.Enum):
        ONE = 1

    registry = Registry(ranks)
    with pytest.raises(NotFreezableError, match="Hidden") as refused:
        registry.values.write(Hidden.ONE)
    assert "top of a module" in refused.value.hint
    for name in ("os.system", "enum", "os.environ", f"{__name__}.Rank.name", f"{__name__}.nothing", "", "."):
        with pytest.raises(MalformedError):
            registry.values.read(["enum", [name, "ONE"]])
