"""The rules of one server, checked against its registry. Every table is filtered or declared shared."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sqlalchemy import ColumnElement, inspect, util
from sqlalchemy.engine import Dialect
from sqlalchemy.exc import NoInspectionAvailable
from sqlalchemy.orm import Mapper

from dualsql.errors import ConfigurationError, ForbiddenError
from dualsql.freeze import Registry
from dualsql.freeze.document import Statement
from dualsql.resource import Principal
from dualsql.tenancy.compiler import OWN_NAMES, TableForms, dialect_with_rules
from dualsql.tenancy.rules import (
    Function,
    Hook,
    HookContext,
    Mask,
    RowFilter,
    RowSecurity,
    Rule,
    Shared,
    TenantFilter,
)

if TYPE_CHECKING:
    from dualsql.tenancy.masks import ActiveMask
    from dualsql.tenancy.row_filters import RowCondition

_FORMS = 256
"""Forms in the cache. One is enough, unless a row filter's shape or a mask depends on the principal."""


@dataclass(slots=True, eq=False, repr=False)
class ActiveRules:
    """The rules evaluated for one principal.

    Attributes:
        form: how tables are rendered.
        values: the values of the form's parameters.
        settings: (name, value) of PostgreSQL settings for the transaction.
    """

    form: TableForms
    values: Mapping[str, Any] = field(default_factory=dict)
    settings: Sequence[tuple[str, str]] = ()

    def dialect(self, base: Dialect) -> Dialect:
        """The dialect that statements have to be compiled on."""
        dialects = self.form.dialects
        if base not in dialects:
            dialects[base] = dialect_with_rules(base, self.form)
        return dialects[base]

    def with_values(self, values: Mapping[str, Any]) -> ActiveRules:
        """The same rules, and values for the parameters that a statement has itself."""
        return ActiveRules(self.form, {**self.values, **values}, self.settings) if values else self


class Policy:
    """The hooks of a server, checked against its registry.

    Attributes:
        tables: the registered tables, by name.
        tenant_columns: the columns that are compared with values of tenants.
        secured: tables whose rows PostgreSQL's own policies must filter.
        shows_all: every principal sees the same rows and values.
        has_functions: there are hooks that are functions.

    Raises:
        ConfigurationError: `hooks` is not a list, a table is neither filtered nor shared, or a rule names an unknown
            table or column.
    """

    def __init__(self, registry: Registry, hooks: Sequence[Hook] = ()) -> None:
        _require_list(hooks)
        self._registry = registry
        self.tables: dict[str, Any] = dict(registry.tables)
        _require_free_names(self.tables.values())
        self._is_open = not hooks
        self._functions = _functions(hooks)
        self.has_functions = bool(self._functions)
        self.shows_all = all(isinstance(hook, Shared) for hook in hooks)
        self._tenants = _of_kind(hooks, TenantFilter)
        self._security = _of_kind(hooks, RowSecurity)
        self._masks: list[ActiveMask] = []
        if masks := _of_kind(hooks, Mask):
            from dualsql.tenancy.masks import resolve_masks

            self._masks = resolve_masks(registry, masks)
        self._rows = [(self._table(rule.table), rule.predicate) for rule in _of_kind(hooks, RowFilter)]
        self._tenant_values: Mapping[str, TenantFilter] = {}  # name of a parameter -> whose value it takes
        self._conditions: Mapping[int, Sequence[ColumnElement[bool]]] = {}
        self.tenant_columns: Sequence[ColumnElement[Any]] = ()
        if self._tenants:
            from dualsql.tenancy.tenant_filters import tenant_conditions

            self._tenant_values, self._conditions, self.tenant_columns = tenant_conditions(
                self._tenants, self.tables.values(), self._table
            )
        self.secured = self._secured_tables(hooks)
        self._forms: Any = util.LRUCache(_FORMS)
        depends = self._tenants or self._security or self._rows or self._masks
        self._same_for_all = None if depends else self._evaluate(None)

    def _secured_tables(self, hooks: Sequence[Hook]) -> list[Any]:
        """The tables of RowSecurity; raises ConfigurationError if there are hooks, and a table has no rule."""
        shared = [self._table(name) for rule in _of_kind(hooks, Shared) for name in rule.tables]
        declared = {*self._conditions, *(id(table) for table, _ in self._rows), *map(id, shared)}
        rest = [table for table in self.tables.values() if id(table) not in declared]
        secured = [
            table
            for rule in self._security
            for table in (rest if rule.tables is None else map(self._table, rule.tables))
        ]
        declared.update(map(id, secured))
        missing = sorted(name for name, table in self.tables.items() if id(table) not in declared)
        if hooks and missing:
            raise ConfigurationError(
                f"These tables are neither filtered nor declared shared: {', '.join(missing)}."[:1000],
                hint="Add a filter for each table, or Shared(...) for tables that every tenant may read.",
                details={"tables": missing},
            )
        return secured

    def rules_for(self, principal: Principal | None) -> ActiveRules:
        """Evaluate the rules for `principal`.

        Raises:
            ForbiddenError: a rule requires a principal and there is none, or has no value for this one.
        """
        return self._same_for_all or self._evaluate(principal)

    def _evaluate(self, principal: Principal | None) -> ActiveRules:
        # One call for each rule, not for each table: a value that changes between two calls would mix tenants.
        tenants = {id(rule): _value(rule.value, principal) for rule in self._tenants}
        values: dict[str, Any] = {name: tenants[id(rule)] for name, rule in self._tenant_values.items()}
        settings = [(rule.setting, str(_value(rule.value, principal))) for rule in self._security]
        masks = [mask for mask in self._masks if not mask.is_lifted_for(principal)]
        filters: Sequence[RowCondition] = ()
        if self._rows:
            from dualsql.tenancy.row_filters import row_conditions

            caller = _require_principal(principal)
            filters = row_conditions([predicate(caller) for _, predicate in self._rows])
        for each in filters:
            values.update(each.values)
        # Principals whose predicates differ only in values share one form, and the SQL that was compiled under it.
        form_key = (*(each.key for each in filters), *map(id, masks))
        form = self._forms.get(form_key)
        if form is None:
            form = self._forms[form_key] = self._form([each.named() for each in filters], masks)
        return ActiveRules(form, values, settings)

    def _form(self, predicates: Sequence[ColumnElement[bool]], masks: Sequence[ActiveMask]) -> TableForms:
        conditions = {table: [*parts] for table, parts in self._conditions.items()}
        for (table, _), predicate in zip(self._rows, predicates, strict=True):
            conditions.setdefault(id(table), []).append(predicate)
        expressions: dict[int, dict[str, ColumnElement[Any]]] = {}
        for mask in masks:
            expressions.setdefault(id(mask.column.table), {})[mask.column.key] = mask.expression
        tables = list(self.tables.values())
        return TableForms(tables, conditions=conditions, masks=expressions, is_open=self._is_open)

    def apply_functions(self, statement: Statement, context: HookContext) -> Statement:
        """The statement after all plain functions.

        Raises:
            ConfigurationError: a function did not return a statement of the same columns.
        """
        from dualsql.tenancy.functions import apply_functions

        return apply_functions(self._functions, statement, context)

    def _table(self, name: Any) -> Any:
        """The registered table that a Table, a mapped class or a name stands for."""
        if isinstance(name, str):
            table = self.tables.get(name)
        else:
            table = name
            with suppress(NoInspectionAvailable):
                mapper = inspect(name)
                table = mapper.local_table if isinstance(mapper, Mapper) else name
            table = table if self._registry.name_of(table) is not None else None
        if table is None:
            raise ConfigurationError(
                f"A hook names {name!r}, which is not registered."[:200],
                hint="Use a Table, a mapped class or a table name of `tables`.",
            )
        return table


def _require_list(hooks: object) -> None:
    if not isinstance(hooks, Collection) or isinstance(hooks, str):
        raise ConfigurationError(
            f"hooks must be a list, and is {hooks!r}."[:200],
            hint="Write hooks=[...], also for a single hook.",
        )


def _require_free_names(tables: Iterable[Any]) -> None:
    for table in tables:
        if str(table.name).casefold().startswith(OWN_NAMES):
            raise ConfigurationError(
                f"The name of the table {table.name!r} is reserved."[:200],
                hint=f"Leave it out, or serve a view of it: names that begin with {OWN_NAMES} are dualsql's own.",
            )


def _of_kind(hooks: Sequence[Hook], kind: type[Any]) -> list[Any]:
    return [hook for hook in hooks if isinstance(hook, kind)]


def _functions(hooks: Sequence[Any]) -> list[Function]:
    functions: list[Function] = []
    for hook in hooks:
        # A class is callable, too: TenantFilter without arguments would look like a function.
        if isinstance(hook, Rule):
            continue
        if not callable(hook) or isinstance(hook, type):
            raise ConfigurationError(
                f"{hook!r} is not a hook."[:200],
                hint="Pass a TenantFilter(...), another rule, or a function.",
            )
        functions.append(hook)
    return functions


def _require_principal(principal: Principal | None) -> Principal:
    if principal is None:
        raise ForbiddenError(
            "This data depends on the caller, and the request has no principal.",
            hint="Send a credential.",
            developer_hint="Pass principal=... when the response is created; authenticate REST requests.",
        )
    return principal


def _value(value: Callable[[Principal], Any], principal: Principal | None) -> Any:
    result = value(_require_principal(principal))
    if result is None:
        raise ForbiddenError(
            "A filter of this data requires a value that the principal does not have.",
            hint="Ask the operator to set the value, such as the principal's tenant.",
        )
    return result
