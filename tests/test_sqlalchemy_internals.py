"""Every private name of SQLAlchemy that dualsql uses exists in the installed version, and is what it is taken for.

Also run by `make test-sqlalchemy`, with the newest SQLAlchemy 2.1 of the index.
"""

from __future__ import annotations

import ast
import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from weakref import WeakKeyDictionary

import pytest
import sqlalchemy
from sqlalchemy import (
    JSON,
    BigInteger,
    BindParameter,
    DateTime,
    ForeignKey,
    Integer,
    String,
    TypeDecorator,
    bindparam,
    column,
    create_engine,
    func,
    literal,
    select,
    tablesample,
    text,
    tuple_,
    union,
    values,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.dialects.postgresql import distinct_on
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.ext.hybrid import hybrid_property
from sqlalchemy.orm import (
    Bundle,
    DeclarativeBase,
    Mapped,
    aliased,
    configure_mappers,
    defaultload,
    joinedload,
    lazyload,
    mapped_column,
    query_expression,
    relationship,
    selectin_polymorphic,
    with_loader_criteria,
    with_polymorphic,
)
from sqlalchemy.sql import elements, visitors
from sqlalchemy.sql.cache_key import CacheKey
from sqlalchemy.sql.sqltypes import TableValueType

from dualsql import sqlalchemy_internals as internals
from dualsql.databases.driver import Drafts, driver_statement
from dualsql.freeze import sqlalchemy_internals as private
from dualsql.freeze.codec import KINDS, rare_kinds
from dualsql.plan import sqlalchemy_internals as of_plan
from dualsql.tenancy.compiler import TableForms, dialect_with_rules
from dualsql.testing.tools import open_for_each_use

PACKAGE = Path(internals.__file__).parent
OWN_FILES = [Path(module.__file__ or "") for module in (internals, of_plan, private)]


class Base(DeclarativeBase):
    """Mapped classes of these tests."""


class Team(Base):
    """The parent of the relationship."""

    __tablename__ = "team"
    id: Mapped[int] = mapped_column(primary_key=True)
    people: Mapped[list[Person]] = relationship(back_populates="team")
    size: Mapped[int] = query_expression()


class Person(Base):
    """A class with a subclass, a relationship and a hybrid."""

    __tablename__ = "person"
    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str]
    kind: Mapped[str]
    team_id: Mapped[int] = mapped_column(ForeignKey("team.id"))
    team: Mapped[Team] = relationship(back_populates="people")
    __mapper_args__ = {"polymorphic_on": "kind", "polymorphic_identity": "person"}

    @hybrid_property
    def shout(self) -> Any:
        """An expression of no column."""
        return self.name + "!"


class Manager(Person):
    """A subclass in a table of its own."""

    __tablename__ = "manager"
    id: Mapped[int] = mapped_column(ForeignKey("person.id"), primary_key=True)
    __mapper_args__ = {"polymorphic_identity": "manager"}


configure_mappers()


class Whispered(TypeDecorator[str]):
    """A type that writes SQL."""

    impl = String
    cache_ok = True

    def column_expression(self, column: Any) -> Any:
        """The text in lower case."""
        return func.lower(column)


def option_parts(option: Any) -> list[Any]:
    """The parts of a loader option."""
    return list(option.context)


TABLE: Any = Person.__table__
ENGINE = create_engine("sqlite://")
POSTGRESQL: Any = postgresql.dialect()
NAMED: Any = select(TABLE.c.id, TABLE.c.name)
CTE: Any = select(TABLE.c.id).cte("one", recursive=True)
VALUES: Any = values(column("a", Integer), name="v").data([(1,), (2,)])
ROWS: Any = func.json_each("[]").table_valued(column("value", Integer), name="rows")
POLYMORPHIC: Any = sqlalchemy.inspect(with_polymorphic(Person, [Manager]))
JOINED: Any = option_parts(joinedload(Person.team.and_(Team.id > 0)))[0]
TYPED: Any = option_parts(defaultload(Team.people.of_type(Manager)))[0]
CRITERIA: Any = with_loader_criteria(Person, lambda cls: cls.id > 0)
STATE: Any = of_plan.orm_compile_state(select(Person).options(joinedload(Person.team)).limit(1))
ENTITY: Any = STATE._entities[0]
LABELS = sqlalchemy.LABEL_STYLE_TABLENAME_PLUS_COL
COMPILED: Any = NAMED.compile(dialect=sqlite.dialect())


def shape(kind: Any) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, kind)


def same(expected: Any) -> Callable[[Any], bool]:
    return lambda value: value is expected


def equal(expected: Any) -> Callable[[Any], bool]:
    return lambda value: bool(value == expected)


def noted(statement: Any) -> Any:
    """A copy of the Select whose sources are kept."""
    copied = statement.order_by(None)
    internals.note_froms(copied, copied.compile())
    return copied


def _with_note(statement: Any) -> Any:
    copied = statement.order_by(None)
    internals.note(copied, "a_note", 1)
    return copied


def ordered_like(*expected: Any) -> Callable[[Any], bool]:
    """The value lists just these objects."""
    return lambda value: [id(item) for item in value] == [id(item) for item in expected]


def _after(change: Callable[[Any], object], made: Any, read: Callable[[Any], Any]) -> Any:
    """What `read` gives for `made` once `change` was done to it."""
    change(made)
    return read(made)


def _compiled_once() -> Any:
    return internals.compiled_with_cache(NAMED, ENGINE.dialect, {}, [])


def _sent_by_sqlalchemy(
    dialect: Any, statement: Any, values: Mapping[str, Any], cache: dict[Any, Any]
) -> tuple[str, Any]:
    """The SQL and the parameters that SQLAlchemy would give to the driver."""
    compiled, extracted, collected, hit = internals.compiled_with_cache(
        statement, dialect, cache, sorted(values)
    )
    plain = dialect.execution_ctx_cls
    unsent: Any = type("Unsent", (plain,), {"create_cursor": lambda _: None})
    connection = SimpleNamespace(dialect=dialect)
    context = unsent._init_compiled(
        dialect,
        connection,
        connection,
        statement._execution_options,
        compiled,
        [dict(values)] if values else [],
        statement,
        extracted,
        cache_hit=hit,
        param_dict=collected,
    )
    return context.statement, context.parameters[0]


_WANTED: Any = bindparam("wanted")
_SENT: Mapping[str, tuple[Any, Mapping[str, Any]]] = {
    "no parameter": (select(TABLE.c.id), {}),
    "constants": (select(TABLE.c.id).where(TABLE.c.name == "Ada", TABLE.c.id > 3), {}),
    "a value": (
        select(TABLE.c.id, literal("x")).where(TABLE.c.name == _WANTED, TABLE.c.id > 3),
        {"wanted": "Ada"},
    ),
    "a value twice": (
        select(TABLE.c.id).where((TABLE.c.name == _WANTED) | (TABLE.c.kind == _WANTED)),
        {"wanted": "A"},
    ),
    "a processed value": (
        select(
            literal(datetime.fromisoformat("2026-01-02T03:04:05"), DateTime()), bindparam("at", type_=JSON())
        ),
        {"at": {"a": 1}},
    ),
    "a list": (
        select(TABLE.c.id).where(TABLE.c.id.in_([1, 2, 3]), TABLE.c.name == _WANTED),
        {"wanted": "Ada"},
    ),
    "pairs": (select(TABLE.c.id).where(tuple_(TABLE.c.id, TABLE.c.name).in_([(1, "a"), (2, "b")])), {}),
    "a literal": (select(TABLE.c.id).where(TABLE.c.id == bindparam("id", 3, literal_execute=True)), {}),
    "a callable": (select(TABLE.c.id).where(TABLE.c.id == bindparam("id", callable_=lambda: 3)), {}),
    "an odd name": (select(TABLE.c.id).where(TABLE.c.name == bindparam("a(b)%:c")), {"a(b)%:c": "Ada"}),
}
_BOUND_ANEW = {"a list", "pairs", "a literal", "a callable"}
"""Their SQL, or another value, may be another one at each execution."""
_DIALECTS: Mapping[str, Any] = {
    "sqlite": sqlite.dialect(),
    "asyncpg": create_async_engine("postgresql+asyncpg://").dialect,
    "psycopg": create_async_engine("postgresql+psycopg://").dialect,
}
_FORM = TableForms([TABLE], conditions={}, masks={}, is_open=True)


@pytest.mark.parametrize("base", _DIALECTS.values(), ids=_DIALECTS)
@pytest.mark.parametrize("name", _SENT)
def test_drivers_get_the_sql_and_the_values_that_sqlalchemy_would_send(name: str, base: Any) -> None:
    (statement, values), is_same_text = _SENT[name], name not in _BOUND_ANEW
    dialect, cache = dialect_with_rules(base, _FORM), dict[Any, Any]()
    # An equal statement with other constants is compiled first: both share one entry of the cache.
    driver_statement(dialect, _with_other_constants(statement), values, cache, (), drafts={})
    sql, parameters = _sent_by_sqlalchemy(dialect, statement, values, cache)
    # The second one with values for the statement that was bound to others, if there is nothing else to bind.
    drafts: Drafts = {}
    driver_statement(dialect, statement, dict.fromkeys(values), cache, (), drafts=drafts)
    assert bool(drafts) == (dialect.positional and is_same_text)
    for known in ({}, drafts):
        sent = driver_statement(dialect, statement, values, cache, (), drafts=known)
        assert sent is not None
        assert sent.sql == sql
        # Two objects of psycopg's Json are never equal.
        assert repr(sent.parameters) == repr(
            tuple(parameters) if isinstance(parameters, list) else parameters
        )


def _with_other_constants(statement: Any) -> Any:
    def other(one: Any, **_: Any) -> Any:
        is_constant = isinstance(one, BindParameter) and one.value == 3
        return bindparam(None, 7, one.type, unique=True) if is_constant else None

    replace: Any = visitors.replacement_traverse
    return replace(statement, {}, other)


_ANNOTATED: list[Any] = [Person.id.expression, Bundle("b", Person.name), Person]
_CONDITION = TABLE.c.id > 1
_KEY = TABLE.c.name
_LAMBDA: Any = sqlalchemy.sql.lambdas.LambdaElement(
    lambda: TABLE.c.id, sqlalchemy.sql.roles.ColumnsClauseRole
)
_LABEL: Any = (TABLE.c.id + 1).label("next")
_TEXT: Any = text("SELECT :a")

# Name in the module -> what it gives for an object that SQLAlchemy made, and whether that is right.
ONCE = select(column("n", Integer)).cte("once")

FUNCTIONS: Mapping[str, tuple[Callable[[], Any], Callable[[Any], bool]]] = {
    "raw_columns": (lambda: internals.raw_columns(select(TABLE)), ordered_like(TABLE)),
    "all_selected_columns": (lambda: internals.all_selected_columns(select(TABLE)), ordered_like(*TABLE.c)),
    "outputs_of": (lambda: internals.outputs_of(select(TABLE, text("1"))), ordered_like(*TABLE.c)),
    "where_criteria": (
        lambda: internals.where_criteria(NAMED.where(_CONDITION)),
        ordered_like(_CONDITION),
    ),
    "having_criteria": (
        lambda: internals.having_criteria(NAMED.having(_CONDITION)),
        ordered_like(_CONDITION),
    ),
    "group_by_clauses": (lambda: internals.group_by_clauses(NAMED.group_by(_KEY)), lambda it: len(it) == 1),
    "order_by_clauses": (lambda: internals.order_by_clauses(NAMED.order_by(_KEY)), lambda it: len(it) == 1),
    "limit_clause": (lambda: internals.limit_clause(NAMED.limit(3)), shape(private.OffsetLimitParam)),
    "offset_clause": (lambda: internals.offset_clause(NAMED.offset(3)), shape(private.OffsetLimitParam)),
    "fetch_clause": (lambda: internals.fetch_clause(NAMED.fetch(3)), shape(private.OffsetLimitParam)),
    "fetch_options": (
        lambda: internals.fetch_options(NAMED.fetch(3, with_ties=True)),
        equal({"with_ties": True, "percent": False}),
    ),
    "has_row_limit": (lambda: internals.has_row_limit(NAMED.limit(3)), same(True)),
    "distinct_word": (lambda: internals.distinct_word(NAMED.distinct()), same(True)),
    "distinct_on": (
        lambda: [*internals.distinct_on(NAMED), *internals.distinct_on(distinct_on(_KEY))],
        ordered_like(_KEY),
    ),
    "prefixes": (
        lambda: internals.prefixes(NAMED.prefix_with("ALL", dialect="sqlite"))[0],
        lambda it: (it[0].text, it[1]) == ("ALL", "sqlite"),
    ),
    "suffixes": (
        lambda: internals.suffixes(NAMED.suffix_with("ALL", dialect="sqlite"))[0],
        lambda it: (it[0].text, it[1]) == ("ALL", "sqlite"),
    ),
    "statement_hints": (
        lambda: internals.statement_hints(NAMED.with_statement_hint("/* a */")),
        equal((("*", "/* a */"),)),
    ),
    "table_hints": (
        lambda: internals.table_hints(NAMED.with_hint(TABLE, "FORCE")),
        equal({(TABLE, "*"): "FORCE"}),
    ),
    "syntax_extensions": (
        lambda: internals.syntax_extensions(NAMED.ext(distinct_on(_KEY))),
        lambda it: len(it) == 3 and it[0] is not None and it[1:] == (None, None),
    ),
    "extension_before_columns": (
        lambda: internals.extension_before_columns(NAMED.ext(distinct_on(_KEY))),
        shape(type(distinct_on(_KEY))),
    ),
    "extension_after_criteria": (lambda: internals.extension_after_criteria(NAMED), same(None)),
    "setup_joins": (
        lambda: internals.setup_joins(NAMED.outerjoin(Team, Team.id == TABLE.c.team_id))[0],
        lambda it: len(it) == 4 and it[3] == {"isouter": True, "full": False},
    ),
    "earlier_selects": (
        lambda: internals.earlier_selects(select(Person).join(Person.team).with_only_columns(Team.id)),
        lambda it: [type(one) for one in it] == [private.MemoizedSelectEntities],
    ),
    "explicit_froms": (lambda: internals.explicit_froms(NAMED.select_from(TABLE)), ordered_like(TABLE)),
    "note": (
        lambda: [
            internals.noted(one, "a_note") for made in [_with_note(NAMED)] for one in (made, made.limit(1))
        ],
        equal([1, None]),
    ),
    "noted": (lambda: internals.noted(NAMED, "a_note"), same(None)),
    "note_froms": (lambda: internals.final_froms(noted(NAMED)), ordered_like(TABLE)),
    "final_froms": (
        lambda: [
            [id(source) for source in froms]
            for one in (
                NAMED.select_from(TABLE),
                select(Person.id, func.upper(Team.id)),
                select(aliased(Person)),
            )
            for froms in (internals.final_froms(one), one.get_final_froms())
        ],
        lambda it: it[::2] == it[1::2] and [len(froms) for froms in it[::2]] == [1, 2, 1],
    ),
    "statement_options": (
        lambda: internals.statement_options(NAMED.options(CRITERIA)),
        ordered_like(CRITERIA),
    ),
    "is_criteria_option": (
        lambda: [internals.is_criteria_option(one) for one in (CRITERIA, joinedload(Person.team))],
        equal([True, False]),
    ),
    "is_compile_state_option": (lambda: private.is_compile_state_option(CRITERIA), same(True)),
    "non_default_options": (
        lambda: private.non_default_options(
            sqlalchemy.Table("t", sqlalchemy.MetaData(), sqlite_autoincrement=True).dialect_options["sqlite"]
        ),
        equal({"autoincrement": True}),
    ),
    "copy_with": (
        lambda: internals.copy_with(NAMED.order_by(_KEY), order_by_clauses=()),
        lambda it: it is not NAMED and "ORDER" not in str(it) and "ORDER" in str(NAMED.order_by(_KEY)),
    ),
    "with_options": (
        lambda: [*internals.statement_options(of_plan.with_options(NAMED, (CRITERIA,))), NAMED._with_options],
        ordered_like(CRITERIA, NAMED._with_options),
    ),
    "cache_key": (lambda: internals.cache_key(NAMED), shape(CacheKey)),
    "annotations_of": (
        lambda: ["parententity" in internals.annotations_of(one) for one in _ANNOTATED],
        equal([True, False, False]),
    ),
    "annotated": (
        lambda: internals.annotations_of(internals.annotated(_KEY, {"mark": 1}))["mark"],
        equal(1),
    ),
    "unannotated": (
        lambda: [internals.unannotated(one) for one in (internals.annotated(TABLE, {"mark": 1}), TABLE)],
        ordered_like(TABLE, TABLE),
    ),
    "table_under": (
        lambda: [internals.table_under(internals.annotated(TABLE.alias().alias(), {"mark": 1})), TABLE],
        ordered_like(TABLE, TABLE),
    ),
    "orm_state": (lambda: private.orm_state(select(Person))["compile_state_plugin"], equal("orm")),
    "from_objects": (lambda: internals.from_objects(_CONDITION), ordered_like(TABLE)),
    "select_iterable": (lambda: internals.select_iterable(TABLE), ordered_like(*TABLE.c)),
    "labelled_element": (lambda: private.labelled_element(_LABEL), shape(elements.BinaryExpression)),
    "table_qualified_label": (
        lambda: [internals.table_qualified_label(one) for one in (_KEY, TABLE)],
        equal(["person_name", None]),
    ),
    "named_label": (
        lambda: [internals.named_label(one) for one in (_LABEL, _KEY, TABLE.c.id + 1)],
        equal(["next", "name", None]),
    ),
    "scalar_type": (lambda: private.scalar_type(select(TABLE.c.name)), same(TABLE.c.name.type)),
    "has_column_expression": (
        lambda: [private.has_column_expression(one) for one in (String(), Whispered(), postgresql.INET())],
        equal([False, True, False]),
    ),
    "resolved_lambda": (lambda: internals.resolved_lambda(_LAMBDA), same(TABLE.c.id)),
    "is_implicitly_boolean": (
        lambda: [private.is_implicitly_boolean(one) for one in (_CONDITION, _KEY, TABLE)],
        equal([True, False, False]),
    ),
    "set_implicitly_boolean": (
        lambda: _after(
            partial(private.set_implicitly_boolean, is_boolean=True),
            TABLE.c.id + 1,
            private.is_implicitly_boolean,
        ),
        same(True),
    ),
    "text_parameters": (lambda: list(private.text_parameters(_TEXT)), equal(["a"])),
    "set_text_parameters": (
        lambda: _after(
            lambda it: private.set_text_parameters(it, {"b": bindparam("b")}),
            text("SELECT :b"),
            lambda it: it.compile().params,
        ),
        equal({"b": None}),
    ),
    "registered_function": (
        lambda: [private.registered_function(name) for name in ("COUNT", "of_no_class")],
        equal([sqlalchemy.sql.functions.count, None]),
    ),
    "set_original_name": (
        lambda: _after(lambda it: private.set_original_name(it, "n"), TABLE.alias("n"), vars)["_orig_name"],
        equal(TABLE.alias("n")._orig_name),
    ),
    "cte_alias": (lambda: internals.cte_alias(CTE.alias("other")), same(CTE)),
    "restated_cte": (
        lambda: [internals.restated_cte(one) for one in (CTE.union(select(CTE.c.id)), TABLE)],
        ordered_like(CTE, None),
    ),
    "table_value_type": (lambda: private.table_value_type(ROWS), shape(TableValueType)),
    "columns_of_row_type": (
        lambda: [
            [one.name for one in private.columns_of_row_type(type_)]
            for type_ in (ROWS._tableval_type, Integer())
        ],
        equal([["value"], []]),
    ),
    "values_columns": (lambda: [one.name for one in private.values_columns(VALUES)], equal(["a"])),
    "values_rows": (lambda: private.values_rows(VALUES), equal(([(1,), (2,)],))),
    "set_values_rows": (
        lambda: _after(
            lambda it: private.set_values_rows(it, ([(7,)],)),
            values(column("a", Integer), name="v", literal_binds=True),
            lambda it: str(select(it)),
        ),
        lambda it: "(7)" in it,
    ),
    "set_lateral": (
        lambda: _after(private.set_lateral, VALUES._generate(), lambda it: str(select(it))),
        lambda it: "LATERAL" in it,
    ),
    "set_labelled_in_columns": (
        lambda: _after(private.set_labelled_in_columns, ROWS.column, vars)["_render_label_in_columns_clause"],
        same(True),
    ),
    "sampling_method": (
        lambda: internals.sampling_method(tablesample(TABLE, func.bernoulli(1))).name,
        equal("bernoulli"),
    ),
    "compiles_as": (
        lambda: [private.compiles_as(type(NAMED), one) for one in (type(NAMED), type(CTE))],
        equal([True, False]),
    ),
    "registry_of": (
        lambda: [private.registry_of(one) for one in (Base, TABLE)],
        equal([Base.registry, None]),
    ),
    "mapped_in": (lambda: Team.__mapper__ in private.mapped_in(Base.registry), equal(True)),
    "all_registries": (lambda: Base.registry in private.all_registries(), equal(True)),
    "base_alias": (
        lambda: private.base_alias(private.polymorphic_entities(POLYMORPHIC)[0]),
        same(POLYMORPHIC),
    ),
    "alias_target": (lambda: private.alias_target(sqlalchemy.inspect(aliased(Person))), same(Person)),
    "inspected_alias": (
        lambda: private.inspected_alias(POLYMORPHIC.entity),
        same(POLYMORPHIC),
    ),
    "is_with_polymorphic": (lambda: private.is_with_polymorphic(POLYMORPHIC), same(True)),
    "polymorphic_entities": (
        lambda: [one.class_ for one in private.polymorphic_entities(POLYMORPHIC)],
        equal([Manager]),
    ),
    "keep_with_alias": (
        lambda: _after(
            lambda it: private.keep_with_alias(it, "tests: kept", TABLE),
            sqlalchemy.inspect(aliased(Person)),
            lambda it: it._memoized_values["tests: kept"],
        ),
        same(TABLE),
    ),
    "parent_entity": (lambda: private.parent_entity(Person.id), same(sqlalchemy.inspect(Person))),
    "of_type": (
        lambda: [private.of_type(one) for one in (Team.people.of_type(Manager), TYPED, Team.people)],
        ordered_like(sqlalchemy.inspect(Manager), sqlalchemy.inspect(Manager), None),
    ),
    "extra_criteria": (
        lambda: [len(internals.extra_criteria(one)) for one in (Person.team.and_(Team.id > 0), JOINED)],
        equal([1, 1]),
    ),
    "is_merged_option": (lambda: private.is_merged_option(JOINED), lambda it: it in (True, False, None)),
    "polymorphic_path": (
        lambda: private.polymorphic_path(TYPED),
        shape(sqlalchemy.orm.path_registry.PathRegistry),
    ),
    "fill_option": (
        lambda: _after(
            lambda it: private.fill_option(it, (_CONDITION,), is_merged=True),
            option_parts(joinedload(Person.team))[0],
            lambda it: (*internals.extra_criteria(it), private.is_merged_option(it)),
        ),
        ordered_like(_CONDITION, True),
    ),
    "fill_typed_option": (
        lambda: _after(
            lambda it: private.fill_typed_option(it, TABLE, _KEY),
            option_parts(joinedload(Person.team))[0],
            lambda it: (private.of_type(it), private.polymorphic_path(it)),
        ),
        ordered_like(TABLE, _KEY),
    ),
    "path_token": (
        lambda: private.path_token("relationship:*"),
        shape(sqlalchemy.orm.path_registry.PathToken),
    ),
    "mappers_of_criteria": (
        lambda: private.mappers_of_criteria(CRITERIA),
        ordered_like(sqlalchemy.inspect(Person), sqlalchemy.inspect(Manager)),
    ),
    "criteria_for": (
        lambda: str(private.criteria_for(CRITERIA.where_criteria, Person)),
        lambda it: "person.id >" in it,
    ),
    "hybrid_entity": (
        lambda: private.hybrid_entity(internals.annotations_of(Person.shout.expression)["entity_namespace"]),
        same(sqlalchemy.inspect(Person)),
    ),
    "orm_compile_state": (lambda: STATE, shape(of_plan.ORMSelectCompileState)),
    "nests_selectable": (
        lambda: [
            bool(of_plan.nests_selectable(of_plan.orm_compile_state(one)))
            for one in (select(Team).options(joinedload(Team.people)).limit(1), select(Team))
        ],
        equal([True, False]),
    ),
    "selected_entities": (
        lambda: [type(one) for one in of_plan.selected_entities(STATE)],
        equal([of_plan.MapperEntity]),
    ),
    "entity_adapter": (
        lambda: [
            of_plan.entity_adapter(state._entities[0], state) is None
            for state in (STATE, of_plan.orm_compile_state(select(aliased(Person))))
        ],
        equal([True, False]),
    ),
    "polymorphic_discriminator": (
        lambda: of_plan.polymorphic_discriminator(ENTITY),
        same(TABLE.c.kind),
    ),
    "polymorphic_mappers": (lambda: list(of_plan.polymorphic_mappers(ENTITY) or ()), equal([])),
    "polymorphic_properties": (
        lambda: [
            {one.key for one in of_plan.polymorphic_properties(sqlalchemy.inspect(Person), mappers)}
            for mappers in ((), [sqlalchemy.inspect(Manager)])
        ],
        lambda it: all({"id", "name", "team"} <= keys for keys in it),
    ),
    "loader_option": (
        lambda: of_plan.loader_option(Person.team.property, STATE, ENTITY.path),
        shape(private.AttributeLoad),
    ),
    "loader_strategy": (
        lambda: of_plan.loader_strategy(Person.team.property, (("lazy", "joined"),)),
        shape(of_plan.JoinedLoader),
    ),
    "type_affinity": (lambda: internals.type_affinity(BigInteger()), same(Integer)),
    "type_variants": (
        lambda: list(internals.type_variants(String().with_variant(Integer(), "sqlite"))),
        equal(["sqlite"]),
    ),
    "elements_of": (
        lambda: sum(
            part is ONCE for part in internals.elements_of(union(select(ONCE.c.n), select(ONCE.c.n + 1)))
        ),
        equal(1),
    ),
    "type_key": (
        lambda: (
            internals.type_key(String(3)) == internals.type_key(String(3)) != internals.type_key(String(4))
        ),
        same(True),
    ),
    "bind_processor": (
        lambda: internals.bind_processor(JSON(), ENGINE.dialect)({"a": 1}),
        equal('{"a": 1}'),
    ),
    "result_processor": (
        lambda: internals.result_processor(JSON(), ENGINE.dialect, None)('{"a": 1}'),
        equal({"a": 1}),
    ),
    "compiled_with_cache": (
        lambda: [
            _compiled_once()[0].string,
            [one.key for one in _compiled_once()[1]],
        ],
        lambda it: it[0].startswith("SELECT person.id") and it[1] == [],
    ),
    "places_of": (
        lambda: internals.places_of(
            internals.compiled_with_cache(NAMED.limit(bindparam("n")), ENGINE.dialect, {}, ["n"])[0], {"n": 1}
        ),
        equal([(0, "n", None)]),
    ),
    "bound": (
        lambda: internals.bound(_compiled_once(), {})[1],
        equal(()),
    ),
    "result_columns_of": (
        lambda: [(one.keyname, one.name, one.type) for one in internals.result_columns_of(COMPILED)],
        equal([("id", "id", TABLE.c.id.type), ("name", "name", TABLE.c.name.type)]),
    ),
    "has_columns_by_position": (lambda: internals.has_columns_by_position(COMPILED), same(True)),
    "has_events": (
        lambda: [internals.has_events(one) for one in (ENGINE, ENGINE.dialect, ENGINE.connect())],
        equal([False, False, False]),
    ),
    "logs": (
        lambda: [internals.logs(one) for one in (ENGINE, create_engine("sqlite://", echo=True))],
        equal([False, True]),
    ),
    "json_reader": (
        lambda: [internals.json_reader(one) for one in (sqlite.dialect(json_deserializer=int), ENGINE)],
        equal([int, None]),
    ),
    "set_json_reader": (
        lambda: _after(
            lambda it: internals.set_json_reader(it, int), sqlite.dialect(), internals.json_reader
        ),
        same(int),
    ),
    "set_type_memos": (
        lambda: _after(
            lambda it: internals.set_type_memos(it, WeakKeyDictionary()),
            _used_dialect(),
            lambda it: [len(one._type_memos) for one in (it, _used_dialect())],
        ),
        lambda it: it[0] == 0 < it[1],
    ),
    "statement_name": (
        lambda: internals.statement_name(_asyncpg_adapter()),
        same(None),
    ),
    "prepared": (
        lambda: _prepared_after(lambda _: None),
        same("kept"),
    ),
    "forget_prepared": (
        lambda: _prepared_after(internals.forget_prepared),
        equal("AttributeError"),  # the adapter has no connection that prepares it anew
    ),
}


def _used_dialect() -> Any:
    dialect = sqlite.dialect()
    internals.result_processor(TABLE.c.name.type, dialect, None)
    return dialect


def _prepared_after(change: Callable[[Any], None]) -> Any:
    """What an adapter gives of a statement that it has prepared."""
    from sqlalchemy.dialects.postgresql.asyncpg import PGDialect_asyncpg

    adapted, dialect = _asyncpg_adapter(), PGDialect_asyncpg()
    adapted._prepared_statement_cache["SELECT 1"] = ("kept", [], adapted._invalidate_schema_cache_asof)
    change(dialect)
    try:
        return asyncio.run(internals.prepared(adapted, "SELECT 1", dialect))[0]
    except AttributeError as error:
        return type(error).__name__


def _asyncpg_adapter() -> Any:
    from sqlalchemy.dialects.postgresql.asyncpg import AsyncAdapt_asyncpg_connection

    return AsyncAdapt_asyncpg_connection(dbapi=None, connection=None)


# Class in the module -> an object of it that SQLAlchemy made by a public way.
CLASSES: Mapping[str, Callable[[], Any]] = {
    "AnonymousLabel": lambda: TABLE.alias().name,
    "TruncatedLabel": lambda: select(TABLE.c.id).set_label_style(LABELS).subquery().c.person_id.name,
    "LabelReference": lambda: internals.order_by_clauses(NAMED.order_by(_LABEL))[0],
    "TextualLabelReference": lambda: internals.order_by_clauses(NAMED.order_by("name"))[0],
    "OffsetLimitParam": lambda: internals.limit_clause(NAMED.limit(1)),
    "CompoundSelectKeyword": lambda: union(NAMED, NAMED).keyword,
    "MemoizedSelectEntities": lambda: internals.earlier_selects(
        select(Person).join(Person.team).with_only_columns(Team.id)
    )[0],
    "CTEOptions": lambda: NAMED.add_cte(CTE)._independent_ctes_opts[0],
    "AttributeLoad": lambda: JOINED,
    "ClassLoad": lambda: option_parts(selectin_polymorphic(Person, [Manager]))[0],
    "TokenLoad": lambda: option_parts(defaultload(Person.team).lazyload("*"))[-1],
    "LoadElement": lambda: JOINED,
    "WildcardLoad": lambda: lazyload("*"),
    "ORMJoin": lambda: select(Person).join(Person.team).get_final_froms()[0],
    "HybridNamespace": lambda: internals.annotations_of(Person.shout.expression)["entity_namespace"],
    "ORMCompileState": lambda: STATE,
    "ORMSelectCompileState": lambda: STATE,
    "BundleEntity": lambda: of_plan.orm_compile_state(select(Bundle("b", Person.id)))._entities[0],
    "MapperEntity": lambda: ENTITY,
    "ExpressionColumnLoader": lambda: Team.size.property.strategy,
    "JoinedLoader": lambda: of_plan.loader_strategy(Person.team.property, (("lazy", "joined"),)),
}


def test_the_installed_sqlalchemy_is_one_that_was_read() -> None:
    actual = sqlalchemy.__version__
    assert actual.split(".")[:2] == internals.READ_IN.split(".")[:2], (
        f"SQLAlchemy {actual} is installed; dualsql/sqlalchemy_internals.py was read in {internals.READ_IN}. "
        "Read each of its names there again before pyproject.toml allows this version."
    )


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_private_attribute_is_what_it_is_taken_for(name: str) -> None:
    read, is_right = FUNCTIONS[name]
    try:
        actual = read()
    except (AttributeError, TypeError, KeyError) as error:
        pytest.fail(f"SQLAlchemy {sqlalchemy.__version__} has nothing of this kind for {name}(): {error}")
    assert is_right(actual), f"{name}() gives {actual!r} in SQLAlchemy {sqlalchemy.__version__}"


@pytest.mark.parametrize("name", CLASSES)
def test_a_private_class_is_that_of_what_it_is_taken_for(name: str) -> None:
    actual = CLASSES[name]()
    module = next(each for each in (internals, of_plan, private) if hasattr(each, name))
    assert isinstance(actual, getattr(module, name)), f"{actual!r} is no {name}"


def public_names() -> Iterator[str]:
    """What the modules define, but for their own types."""
    for file in OWN_FILES:
        for node in ast.parse(file.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef):
                yield node.name
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                yield node.target.id
            elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                yield node.targets[0].id


def test_every_name_of_the_module_is_checked_here() -> None:
    own = {"READ_IN", "T", "Reader", "_NO_DATABASE", "FROMS", "PLAIN", "COMPUTED", "NOTES"}
    assert {*public_names()} - own == {*FUNCTIONS, *CLASSES}


def private_attributes(file: Path) -> Iterator[tuple[int, str]]:
    """The private names that a module reads or sets on objects, or imports from SQLAlchemy."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Attribute):
            is_own = isinstance(node.value, ast.Name) and node.value.id in {"self", "cls"}
            if not is_own and "super()" not in ast.unparse(node.value):
                yield node.lineno, node.attr
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("sqlalchemy"):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in {"getattr", "setattr", "hasattr"}:
            yield node.lineno, str(getattr(node.args[1], "value", ""))
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in {"attrgetter", "methodcaller"}:
            yield from ((node.lineno, str(getattr(name, "value", ""))) for name in node.args)


def test_no_other_module_touches_a_private_name_of_sqlalchemy() -> None:
    known = {name for file in OWN_FILES for _, name in private_attributes(file) if name.startswith("_")}
    assert len(known) > 80
    imported = [
        f"{file.relative_to(PACKAGE)}:{line}: {name}"
        for file in sorted(PACKAGE.rglob("*.py"))
        if file not in OWN_FILES
        for line, name in private_attributes(file)
        if name in known
    ]
    assert imported == [], "give it a function in dualsql/sqlalchemy_internals.py"


def test_an_engine_with_a_pool_opens_a_connection_for_each_use() -> None:
    """`Pool` has no public name for what a copy of another class needs."""
    engine = create_async_engine("sqlite+aiosqlite:///unused")
    open_for_each_use(engine)
    assert type(engine.pool).__name__ == "NullPool"


def test_the_kinds_of_freeze_name_attributes_that_exist() -> None:
    """Its tables name attributes as data: each is declared or assigned by one of the classes that list it."""
    owners: dict[str, set[type]] = defaultdict(set)
    for kind in (*KINDS.values(), *rare_kinds().values()):
        for field in kind.fields:
            owners[field.attribute].update(kind.cls.__mro__)
    actual = {
        name: {one for cls in classes for one in assigned_names(cls)} for name, classes in owners.items()
    }
    assert len(actual) > 80
    assert [name for name, known in actual.items() if name not in known] == []


def assigned_names(cls: type) -> Iterator[str]:
    """The attributes that a class declares, and those that its methods set."""
    yield from vars(cls)
    yield from vars(cls).get("__annotations__", ())
    yield from vars(cls).get("__slots__", ())
    for method in vars(cls).values():
        yield from getattr(getattr(method, "__wrapped__", method), "__code__", _NO_CODE).co_names


_NO_CODE = (lambda: None).__code__
