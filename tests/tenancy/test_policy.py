"""What an operator may say, and what stops a server from starting."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import (
    Column,
    ForeignKey,
    Integer,
    MetaData,
    String,
    Table,
    bindparam,
    func,
    literal,
    select,
    text,
)
from sqlalchemy.dialects import sqlite

from dualsql import ConfigurationError, ForbiddenError, Principal, Registry
from dualsql.tenancy import HookContext, Mask, Policy, RowFilter, RowSecurity, Shared, TenantFilter
from dualsql.tenancy.visibility import visible_names

metadata = MetaData()
people = Table(
    "people",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("tenant_id", Integer),
    Column("name", String),
    Column("salary", Integer, nullable=False),
)
orders = Table(
    "orders",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("person_id", ForeignKey("people.id")),
)
countries = Table("countries", metadata, Column("code", String, primary_key=True))
elsewhere = Table("elsewhere", MetaData(), Column("id", Integer))

REGISTRY = Registry(metadata)
OF_TENANT = TenantFilter(column="tenant_id", value=lambda principal: principal.tenant)
ANA = Principal(id="ana", tenant="one")


def own_orders(principal: Principal) -> Any:
    return orders.c.person_id.in_(select(people.c.id).where(people.c.name == principal.id))


def test_a_table_that_no_rule_names_stops_the_server() -> None:
    with pytest.raises(
        ConfigurationError, match=r"neither filtered nor declared shared: countries, orders\."
    ):
        Policy(REGISTRY, [OF_TENANT])


def test_a_mask_or_a_function_alone_declares_nothing() -> None:
    for hook in (Mask(people.c.name), lambda statement, _: statement):
        with pytest.raises(ConfigurationError, match="countries, orders, people"):
            Policy(REGISTRY, [hook])


@pytest.mark.parametrize(
    "hooks",
    [
        [OF_TENANT, RowFilter(orders, own_orders), Shared("countries")],
        [OF_TENANT, Shared(orders, countries)],
        [Shared(people, orders, "countries")],
        [RowSecurity(setting="app.tenant", value=lambda principal: principal.tenant)],
        [OF_TENANT, Shared(countries), RowSecurity(setting="a.b", value=lambda _: 1, tables=[orders])],
    ],
)
def test_every_table_declared_one_way_or_another(hooks: Any) -> None:
    assert Policy(REGISTRY, hooks).rules_for(ANA)


def test_row_security_covers_what_no_other_rule_names() -> None:
    security = RowSecurity(setting="app.tenant", value=lambda principal: principal.tenant)
    assert Policy(REGISTRY, [OF_TENANT, Shared(countries), security]).secured == [orders]


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (Shared(elsewhere), "not registered"),
        (Shared("person"), "not registered"),
        (TenantFilter(column="tenant", value=lambda _: 1, tables=[people]), "no column 'tenant'"),
        (Mask(people.c.id), "primary key"),
        (Mask(elsewhere.c.id), "not a column of a registered table"),
        (Mask(people.c.salary, "redact"), "Only text can be redacted"),
        (Mask(people.c.name, "hide"), "how must not be 'hide'"),  # type: ignore[arg-type]
        (Mask(people.c.salary, lambda column: func.max(orders.c.id)), "must not read another table"),
        (Mask(people.c.salary, lambda column: literal("x")), "column's type"),
    ],
)
def test_a_rule_that_cannot_hold_stops_the_server(rule: Any, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        Policy(REGISTRY, [rule, Shared(people, orders, countries)])


def test_a_column_masked_twice_stops_the_server() -> None:
    with pytest.raises(ConfigurationError, match="Two masks name"):
        Policy(
            REGISTRY, [Mask(people.c.name), Mask(people.c.name, "redact"), Shared(people, orders, countries)]
        )


@pytest.mark.parametrize("principal", [None, Principal(id="ana")], ids=["nobody", "no tenant"])
@pytest.mark.parametrize(
    "rule", [OF_TENANT, RowSecurity(setting="a.b", value=lambda principal: principal.tenant)]
)
def test_without_a_value_there_is_no_answer(rule: Any, principal: Principal | None) -> None:
    with pytest.raises(ForbiddenError):
        Policy(REGISTRY, [rule, Shared(orders, countries, people)]).rules_for(principal)


def test_a_row_filter_needs_somebody() -> None:
    with pytest.raises(ForbiddenError):
        Policy(REGISTRY, [RowFilter(orders, own_orders), Shared(people, countries)]).rules_for(None)


@pytest.mark.parametrize(
    "predicate",
    [
        lambda _: True,
        lambda _: None,
        lambda _: people.c.tenant_id == 1,  # another table, joined with nothing
        lambda _: orders.c.person_id.in_(select(people.c.id).cte("chosen").select()),
    ],
    ids=["a bool", "nothing", "another table", "a CTE"],
)
def test_a_predicate_that_says_nothing_about_its_table(predicate: Any) -> None:
    policy = Policy(REGISTRY, [RowFilter(orders, predicate), Shared(people, countries)])
    with pytest.raises(ConfigurationError):
        policy.rules_for(ANA).form.select_of(orders)


def test_forms_are_shared_by_principals_and_hold_none_of_their_values() -> None:
    policy = Policy(REGISTRY, [OF_TENANT, RowFilter(orders, own_orders), Shared(countries)])
    one, two = policy.rules_for(ANA), policy.rules_for(Principal(id="a secret name", tenant="another secret"))
    assert one.form is two.form
    text = str(one.form.select_of(orders).compile().params)
    assert "ana" not in text and "secret" not in text
    assert "secret" not in repr(two)
    assert set(two.values.values()) == {"a secret name", "another secret"}


def test_a_predicate_of_another_shape_is_another_form() -> None:
    def of_role(principal: Principal) -> Any:
        return orders.c.id > 0 if principal.id == "admin" else own_orders(principal)

    policy = Policy(REGISTRY, [RowFilter(orders, of_role), Shared(people, countries)])
    assert policy.rules_for(ANA).form is not policy.rules_for(Principal(id="admin")).form


@pytest.mark.parametrize(
    "hook", [text("1 = 1"), TenantFilter, "tenant_id", None], ids=["text", "a class", "a name", "None"]
)
def test_an_unknown_hook_is_refused(hook: Any) -> None:
    with pytest.raises(ConfigurationError, match="is not a hook"):
        Policy(REGISTRY, [hook, Shared(people, orders, countries)])


REGIONS = MetaData()
depots = Table(
    "depots",
    REGIONS,
    Column("id", Integer, primary_key=True),
    Column("tenant_id", String),
    Column("region", String),
    Column("name", String),
)
CONTEXT = HookContext(principal=ANA, source="default")


def text_under(policy: Policy, principal: Principal | None = ANA) -> str:
    """`select(depots)` as it runs for the principal."""
    dialect = policy.rules_for(principal).dialect(sqlite.dialect())
    return str(select(depots).compile(dialect=dialect)).replace('"', "")


@pytest.mark.parametrize("hooks", [OF_TENANT, "people", own_orders, Shared(people)])
def test_hooks_are_a_list(hooks: Any) -> None:
    with pytest.raises(ConfigurationError, match="hooks must be a list"):
        Policy(REGISTRY, hooks)


def test_each_rule_of_a_table_holds() -> None:
    rules: list[Any] = [
        TenantFilter(column="tenant_id", value=lambda principal: principal.tenant),
        TenantFilter(column="region", value=lambda principal: principal.id),
        RowFilter(depots, lambda principal: depots.c.name == principal.id),
    ]
    for hooks in (rules, rules[::-1]):
        written = text_under(Policy(Registry(REGIONS), hooks))
        assert all(
            f"depots.{name} =" in written.partition("WHERE")[2] for name in ("tenant_id", "region", "name")
        )


class TestFunctions:
    """Hooks that are functions of a statement."""

    def applied(self, function: Any) -> Any:
        policy = Policy(Registry(REGIONS), [Shared(depots), function])
        return policy.apply_functions(select(depots), CONTEXT)

    def test_what_it_returns_runs(self) -> None:
        assert "WHERE" in str(self.applied(lambda statement, _: statement.where(depots.c.id > 1)))

    def test_the_columns_stay(self) -> None:
        with pytest.raises(ConfigurationError, match="changed the columns"):
            self.applied(lambda *_: select(depots.c.id))

    @pytest.mark.parametrize("answer", [None, True, "SELECT 1", text("SELECT 1"), depots])
    def test_it_returns_a_statement(self, answer: Any) -> None:
        with pytest.raises(ConfigurationError, match="must return a statement"):
            self.applied(lambda *_: answer)

    def test_a_table_that_it_refuses_is_hidden(self) -> None:
        def refuse(statement: Any, _: HookContext) -> Any:
            raise PermissionError

        policy = Policy(Registry(REGIONS), [Shared(depots), refuse])
        assert visible_names(policy, ANA, "default").tables == frozenset()


def test_who_has_no_value_sees_no_table() -> None:
    policy = Policy(REGISTRY, [OF_TENANT, Shared(orders, countries)])
    assert visible_names(policy, None, "default").tables == frozenset()
    assert visible_names(policy, ANA, "default").tables == {"people", "orders", "countries"}


class TestLifting:
    """Who sees what is masked."""

    def masked(self, unless: Any, principal: Principal | None = ANA) -> bool:
        policy = Policy(Registry(REGIONS), [Shared(depots), Mask(depots.c.name, "redact", unless=unless)])
        return "'***'" in text_under(policy, principal)

    @pytest.mark.parametrize("answer", [False, None, 1, "yes", object()])
    def test_only_true_lifts(self, answer: Any) -> None:
        assert self.masked(lambda _: answer)
        assert not self.masked(lambda _: True)

    def test_nobody_sees_it(self) -> None:
        assert self.masked(lambda _: True, None)

    def test_who_sees_it_shares_no_form_with_who_does_not(self) -> None:
        rules: list[Any] = [
            Shared(depots),
            Mask(depots.c.name, "redact", unless=lambda principal: principal.id == "ana"),
        ]
        policy = Policy(Registry(REGIONS), rules)
        for _ in range(2):
            assert "'***'" in text_under(policy, Principal(id="bob"))
            assert "'***'" not in text_under(policy, ANA)


def test_filters_of_one_parameter_for_one_and_of_two_for_another_have_each_their_values() -> None:
    """All principals share the form; in the first one's, both filters may have had one parameter object."""

    def of_people(principal: Principal) -> Any:
        first = bound.setdefault(principal.id, bindparam(None, principal.id, type_=String()))
        return people.c.name == first

    def of_countries(principal: Principal) -> Any:
        if principal.id == "ana":
            return countries.c.code == bound[principal.id]
        return countries.c.code == bindparam(None, f"of {principal.id}", type_=String())

    for names in (["ana", "bob"], ["bob", "ana"]):
        bound: dict[str, Any] = {}
        hooks: list[Any] = [RowFilter(people, of_people), RowFilter(countries, of_countries), Shared(orders)]
        policy = Policy(REGISTRY, hooks)
        forms = set()
        for name in names:
            rules = policy.rules_for(Principal(id=name))
            forms.add(rules.form)
            compiled = select(people.c.id, countries.c.code).compile(dialect=rules.dialect(sqlite.dialect()))
            values = compiled.construct_params(dict(rules.values))
            assert sorted(values.values()) == sorted([name, name if name == "ana" else f"of {name}"])
        assert len(forms) == 1
