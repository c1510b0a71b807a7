"""The SQL that is written under rules; compiled for every database that dualsql reads."""

from __future__ import annotations

import re
from typing import Any

import pytest
from sqlalchemy import (
    JSON,
    Column,
    Integer,
    MetaData,
    String,
    Table,
    bindparam,
    column,
    delete,
    exists,
    func,
    insert,
    lateral,
    literal_column,
    select,
    table,
    tablesample,
    text,
    true,
    union_all,
    update,
    values,
)
from sqlalchemy.dialects import mssql, mysql, postgresql, sqlite
from sqlalchemy.exc import InvalidRequestError

from dualsql import ForbiddenSQLError, Principal, Registry
from dualsql.plan.page import PAGE_PARAMETERS
from dualsql.tenancy import Mask, Policy, RowFilter, Shared, TenantFilter
from dualsql.tenancy.visibility import reads_others

metadata = MetaData()
people = Table(
    "people",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("tenant_id", Integer),
    Column("name", String),
    Column("notes", JSON),
)
orders = Table("orders", metadata, Column("id", Integer, primary_key=True), Column("person_id", Integer))
archive = Table("people", metadata, Column("id", Integer), Column("tenant_id", Integer), schema="Old years")
countries = Table("countries", metadata, Column("code", String))

ANA = Principal(id="7", tenant="1")
POLICY = Policy(
    Registry(metadata),
    [
        TenantFilter(column="tenant_id", value=lambda principal: principal.tenant),
        RowFilter(
            orders,
            lambda principal: orders.c.person_id.in_(select(people.c.id).where(people.c.id == principal.id)),
        ),
        Mask(people.c.name, "redact"),
        Shared(countries),
    ],
)
SHARED = Shared(people, archive, countries)
DIALECTS = [sqlite.dialect(), postgresql.dialect(), mysql.dialect()]
PEOPLE = (
    "(SELECT people.id AS id, people.tenant_id AS tenant_id, '***' AS name, people.notes AS notes FROM people "
    "WHERE people.tenant_id = ?)"
)
ORDERS = (
    "(SELECT orders.id AS id, orders.person_id AS person_id FROM orders WHERE orders.person_id IN "
    "(SELECT people.id FROM people WHERE people.id = ?))"
)


def written(statement: Any, dialect: Any = DIALECTS[0], policy: Policy = POLICY) -> str:
    compiled = statement.compile(dialect=policy.rules_for(ANA).dialect(dialect))
    return re.sub(r"\s+", " ", re.sub(r"%\(\w+\)s(::\w+)?|%s", "?", compiled.string))


@pytest.mark.parametrize("dialect", [*DIALECTS, mssql.dialect()], ids=lambda dialect: dialect.name)
def test_a_rule_on_text_is_a_comparison_that_an_index_serves(dialect: Any) -> None:
    """`code = ? = 1` reads the whole table on SQLite, and is no SQL on SQL Server."""
    rule = TenantFilter(column="code", value=lambda principal: principal.tenant)
    policy = Policy(Registry([countries]), [rule])
    actual = written(select(countries.c.code), dialect, policy)
    assert " = 1" not in actual
    assert re.search(r"WHERE \(?countries\.code = (\?|:\w+)", actual), actual


def test_a_table_stands_under_its_rule() -> None:
    assert written(select(people.c.id)) == f"SELECT people.id FROM {PEOPLE} AS people"
    one = people.alias("one")
    assert written(select(one.c.id)) == f"SELECT one.id FROM {PEOPLE} AS one"
    assert written(select(one.alias("two").c.id)) == f"SELECT two.id FROM {PEOPLE} AS two"
    assert written(select(countries.c.code)) == "SELECT countries.code FROM countries"


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: dialect.name)
@pytest.mark.parametrize("end", ["contains", "startswith", "endswith"])
def test_a_text_is_searched_under_a_rule(end: str, dialect: Any) -> None:
    """SQLAlchemy writes a literal column for the percent sign of the pattern."""
    for name in (end, f"i{end}"):
        condition = getattr(people.c.name, name)("a", autoescape=True)
        for each in (condition, ~condition):
            assert PEOPLE in written(select(people.c.id).where(each), dialect)


def test_a_predicate_is_not_correlated_to_what_surrounds_it() -> None:
    joined = select(people.c.id, orders.c.id).join_from(people, orders, orders.c.person_id == people.c.id)
    assert written(joined).endswith(
        f"FROM {PEOPLE} AS people JOIN {ORDERS} AS orders ON orders.person_id = people.id"
    )
    # It correlates with every table around it but `countries`: the rule's own table, and none of the statement.
    of_two = select(people.c.id).where(people.c.name == countries.c.code).correlate_except(countries)
    policy = Policy(Registry(metadata), [RowFilter(orders, lambda _: orders.c.person_id.in_(of_two)), SHARED])
    assert "SELECT people.id FROM people, countries" in written(joined, policy=policy)


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: dialect.name)
@pytest.mark.parametrize(
    ("statement", "tables"),
    [
        (select(people.c.id).where(exists().where(orders.c.person_id == people.c.id)), 2),
        (select(select(func.count(orders.c.id)).scalar_subquery(), people.c.id), 2),
        (select(people.c.id).where(people.c.id.in_(select(orders.c.id))), 2),
        (union_all(select(people.c.id), select(orders.c.id)), 2),
        (select(select(people.c.id).cte("chosen")), 1),
        (select(people.c.id).join(lateral(select(orders.c.id).where(orders.c.id == people.c.id)), true()), 2),
        (select(people.c.id).select_from(people).add_cte(select(orders.c.id).cte("unused")), 2),
        (select(values(column("x", Integer), name="v").data([(1,)])).join(people, true()), 1),
        (select(people.c.id).order_by(select(func.max(orders.c.id)).scalar_subquery()), 2),
        (select(people.c.id).group_by(people.c.id).having(exists(select(orders.c.id))), 2),
    ],
    ids=lambda value: None,
)
def test_wherever_a_table_stands(statement: Any, tables: int, dialect: Any) -> None:
    sql = written(statement, dialect)
    assert (
        sql.count("WHERE people.tenant_id = ?") + sql.count("orders.person_id IN (SELECT people.id") == tables
    )
    bare = sql.replace(PEOPLE, "").replace(ORDERS, "")
    assert not re.search(r"(FROM|JOIN) (people|orders)\b", bare), bare


def test_a_schema_s_table_keeps_apart_from_its_namesake() -> None:
    both = select(people.c.id, archive.c.id.label("old")).join(archive, archive.c.id == people.c.id)
    sql = written(both)
    assert '"Old years.people".id AS old' in sql
    assert '"Old years".people.tenant_id = ?) AS "Old years.people"' in sql
    assert written(select(archive.alias("a").c.id)).endswith('"Old years".people.tenant_id = ?) AS a')


def test_a_sample_is_taken_of_the_table_and_then_narrowed() -> None:
    drawn = tablesample(people, func.bernoulli(10), name="drawn", seed=func.pi())
    assert written(select(drawn.c.id), DIALECTS[1]) == (
        "SELECT drawn.id FROM (SELECT people.id AS id, people.tenant_id AS tenant_id, '***' AS name, people.notes AS "
        "notes FROM people TABLESAMPLE bernoulli(?) REPEATABLE (pi()) WHERE people.tenant_id = ?) AS drawn"
    )


def test_the_columns_a_grouped_key_decides_are_grouped_too_where_that_is_asked_for() -> None:
    grouped = select(people.c.name, func.count()).group_by(people.c.id).order_by(people.c.tenant_id)
    assert "GROUP BY people.id, people.name, people.tenant_id ORDER BY" in written(grouped, DIALECTS[1])
    assert "GROUP BY people.id ORDER BY" in written(grouped, DIALECTS[0])
    rolled_up = select(people.c.id).group_by(func.rollup(people.c.id))
    assert written(rolled_up, DIALECTS[1]).endswith("GROUP BY ROLLUP(people.id)")


@pytest.mark.parametrize(
    "statement",
    [
        select(text("1")),
        select(people.c.id).where(text("1 = 1")),
        select(people.c.id).select_from(text("orders")),
        text("SELECT 1 AS id").columns(column("id")),
        select(literal_column("(SELECT max(id) FROM people)")),
        select(Table("people", MetaData(), Column("id", Integer)).c.id),  # a namesake nobody registered
        select(table("people", column("id")).c.id),
        select(table("secrets", column("id")).c.id),
        select(people.c.id).select_from(table("secrets")),
        select(select(people.c.id).cte("orders").c.id),  # a predicate would read it in the place of orders
        select(select(people.c.id).cte("PEOPLE").c.id),
        select(values(column("id", Integer), name="v").data([(1,)]).cte("people").c.id),
        insert(people),
        update(people),
        delete(people),
        select(insert(people).returning(people.c.id).cte("made").c.id),
        select(delete(people).returning(people.c.id).cte("gone").c.id),
    ],
)
def test_what_cannot_be_proved_is_refused(statement: Any) -> None:
    with pytest.raises(ForbiddenSQLError) as refused:
        written(statement, DIALECTS[1])
    assert refused.value.hint


members = Table("Members", MetaData(), Column("order_id", Integer), Column("name", String))  # not registered
OF_MEMBERS = Policy(
    Registry(metadata),
    [
        RowFilter(
            orders,
            lambda principal: orders.c.id.in_(
                select(members.c.order_id).where(members.c.name == principal.id)
            ),
        ),
        Shared(people, archive, countries),
    ],
)


def test_no_cte_stands_in_for_what_a_predicate_reads() -> None:
    """Registered or not: the predicate would ask the author's rows who may see what."""
    everybody = values(column("order_id", Integer), name="v").data([(1,)])
    for name in ("Members", "members", "MEMBERS"):
        forged = select(everybody.c.order_id).cte(name)
        with pytest.raises(ForbiddenSQLError, match="with the name of the table"):
            written(select(orders.c.id, forged.c.order_id), policy=OF_MEMBERS)
    honest = select(orders.c.id, select(everybody.c.order_id).cte("others").c.order_id)
    assert 'FROM "Members" WHERE' in written(honest, policy=OF_MEMBERS)


def test_no_cte_without_a_name_takes_one_either() -> None:
    numbered = Table("anon_1", MetaData(), Column("id", Integer, primary_key=True))
    policy = Policy(Registry(numbered), [RowFilter(numbered, lambda _: numbered.c.id > 0)])
    with pytest.raises(ForbiddenSQLError, match="with the name of the table"):
        written(select(select(numbered.c.id).cte().c.id), policy=policy)


@pytest.mark.parametrize("ruled", [people, orders])  # the predicate of the second has a subquery
def test_a_nested_cte_stays_outside_of_the_rule_beside_it(ruled: Table) -> None:
    """In the rule it would be missing in its place, where the database may have a table of its name."""
    few = select(countries.c.code).cte("few", nesting=True)
    number = select(func.count()).select_from(few.join(ruled, true())).scalar_subquery()
    sql = " ".join(written(select(ruled.c.id, number)).split())
    assert "(WITH few AS (SELECT countries.code AS code FROM countries) SELECT count(*)" in sql
    assert sql.count("WITH few AS") == 1


def test_without_rules_text_is_the_registry_s_business_and_strange_tables_are_not() -> None:
    no_rules = Policy(Registry(metadata))
    assert written(select(text("1")), policy=no_rules) == "SELECT 1"
    assert written(select(people.c.id), policy=no_rules) == "SELECT people.id FROM people"
    for statement in (select(table("secrets", column("id")).c.id), delete(people)):
        with pytest.raises(ForbiddenSQLError):
            written(statement, policy=no_rules)


def test_a_forgotten_value_is_an_error_and_no_leak() -> None:
    compiled = select(people.c.id).compile(dialect=POLICY.rules_for(ANA).dialect(DIALECTS[0]))
    with pytest.raises(InvalidRequestError, match="value is required"):
        compiled.construct_params({})
    assert compiled.construct_params({"dualsql_tenant_0": 5}) == {"dualsql_tenant_0": 5}


@pytest.mark.parametrize("unique", [True, False])
def test_a_statement_cannot_speak_for_a_rule(unique: bool) -> None:
    """A parameter of the rule's name, with a value and a type of the author's."""
    forged = select(people.c.id).where(people.c.id == bindparam("dualsql_tenant_0", 2, unique=unique))
    with pytest.raises(ForbiddenSQLError, match="with the name of a rule's parameter"):
        written(forged)


@pytest.mark.parametrize(
    "written_text", [text("1; DROP TABLE people"), literal_column("1; DROP TABLE people")]
)
def test_without_rules_text_is_one_statement(written_text: Any) -> None:
    open_to_all = Policy(Registry(metadata), [])
    with pytest.raises(ForbiddenSQLError, match="semicolon"):
        written(select(written_text), mysql.dialect(), open_to_all)


def test_no_parameter_has_the_name_of_a_page_s() -> None:
    chosen = select(people.c.id).where(people.c.id == bindparam(f"{PAGE_PARAMETERS}1", 1))
    for policy in (POLICY, Policy(Registry(metadata), [])):
        with pytest.raises(ForbiddenSQLError, match="bound parameter"):
            written(chosen, policy=policy)


def test_whether_other_rows_decide_is_known() -> None:
    rules = POLICY.rules_for(ANA)
    compiled = {
        table.name: select(table.c.id).compile(dialect=rules.dialect(sqlite.dialect()))
        for table in (people, orders)
    }
    assert not reads_others(rules.form, compiled["people"])
    assert reads_others(rules.form, compiled["orders"])
