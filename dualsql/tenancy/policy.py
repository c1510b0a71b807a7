"""The rules of one server, checked against its registry. Every table is filtered or declared shared."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import (
    BindParameter,
    ColumnElement,
    CompoundSelect,
    Select,
    TextualSelect,
    cast,
    inspect,
    literal_column,
    null,
    select,
    types,
    util,
)
from sqlalchemy.engine import Dialect
from sqlalchemy.exc import NoInspectionAvailable
from sqlalchemy.orm import Mapper
from sqlalchemy.sql.cache_key import NO_CACHE
from sqlalchemy.sql.visitors import iterate

from dualsql import sqlalchemy_internals as internals
from dualsql.errors import ConfigurationError, ForbiddenError
from dualsql.freeze import Registry
from dualsql.freeze.document import Statement
from dualsql.resource import Principal
from dualsql.tenancy.compiler import OWN_NAMES, Exactly, TableForms, with_named_values
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
    VisibleNames,
)


def resolve_tables(registry: Registry, names: Iterable[Any]) -> list[Any]:
    """The registered tables that Tables, mapped classes or names stand for.

    Raises:
        ConfigurationError: one of them is not registered.
    """
    return [_resolve_table(registry, name) for name in names]


def column_of(table: Any, name: str, *, is_required: bool) -> Any:
    """The column of that name in the database, or None where it is not required."""
    column = next((column for column in table.c if column.name == name), None)
    if column is None and is_required:
        raise ConfigurationError(f"The table {table.name!r} has no column {name!r}.")
    return column


def require_declared(registry: Registry, declared: set[int]) -> None:
    """Raise ConfigurationError if a registered table is not in `declared`, a set of ids."""
    missing = sorted(name for name, table in registry.tables.items() if id(table) not in declared)
    if missing:
        raise ConfigurationError(
            f"These tables are neither filtered nor declared shared: {', '.join(missing)}."[:1000],
            hint="Add a filter for each table, or Shared(...) for tables that every tenant may read.",
            details={"tables": missing},
        )


def _resolve_table(registry: Registry, name: Any) -> Any:
    if isinstance(name, str):
        table = registry.tables.get(name)
    else:
        table = _local_table(name)
        table = table if registry.name_of(table) is not None else None
    if table is None:
        raise ConfigurationError(
            f"A hook names {name!r}, which is not registered."[:200],
            hint="Use a Table, a mapped class or a table name of `tables`.",
        )
    return table


def _local_table(name: Any) -> Any:
    try:
        mapper = inspect(name)
    except NoInspectionAvailable:
        return name
    return mapper.local_table if isinstance(mapper, Mapper) else name


_REDACTED = "'***'"


@dataclass(frozen=True, slots=True)
class ActiveMask:
    """A mask with its column and the expression that replaces it."""

    rule: Mask
    column: Any
    expression: ColumnElement[Any]

    def is_lifted_for(self, principal: Principal | None) -> bool:
        """Whether this principal sees the column unmasked."""
        # `is True`: the coroutine of a function that is async by mistake is truthy and would lift each mask.
        return self.rule.unless is not None and principal is not None and self.rule.unless(principal) is True


def resolve_masks(registry: Registry, rules: Sequence[Mask]) -> list[ActiveMask]:
    """The masks with their columns and expressions.

    Raises:
        ConfigurationError: a column is not registered, is part of a key, or cannot be masked in this way.
    """
    masks: list[ActiveMask] = []
    for rule in rules:
        column = _column(registry, rule.column)
        if any(mask.column is column for mask in masks):
            raise ConfigurationError(f"Two masks name the column {column}.")
        masks.append(ActiveMask(rule, column, _expression(rule, column)))
    return masks


def masks_by_table(masks: Iterable[ActiveMask]) -> Mapping[int, Mapping[str, ColumnElement[Any]]]:
    """id of a table -> key of a column -> the expression that replaces it."""
    expressions: dict[int, dict[str, ColumnElement[Any]]] = {}
    for mask in masks:
        expressions.setdefault(id(mask.column.table), {})[mask.column.key] = mask.expression
    return expressions


def _column(registry: Registry, target: Any) -> Any:
    element = target.__clause_element__() if hasattr(target, "__clause_element__") else target
    # A mask may name an attribute of a mapped class, whose table is annotated, or a column of a table.
    name = registry.name_of(internals.unannotated(getattr(element, "table", None)))
    name = name or registry.name_of(getattr(element, "table", None))
    if name is None:
        raise ConfigurationError(
            f"A mask names {target!r}, which is not a column of a registered table."[:200]
        )
    table = registry.tables[name]
    column: Any = table.c[element.key] if element.key in table.c else table.c[element.name]
    if column.primary_key:
        raise ConfigurationError(
            f"The column {column} cannot be masked: it is part of a primary key, and pages are sorted by it.",
            hint="Remove the column from the registered table, or give the table another key.",
        )
    return column


def _expression(rule: Mask, column: Any) -> ColumnElement[Any]:
    masked = _masked(rule, column)
    # Inside the rule of this table, another table would be read without its own rule.
    for element in iterate(masked):
        if isinstance(element, ColumnElement) and getattr(element, "table", None) not in (None, column.table):
            raise ConfigurationError(f"The mask of {column} must not read another table.")
    return masked.label(column.name)


def _masked(rule: Mask, column: Any) -> ColumnElement[Any]:
    if rule.how == "null":
        # To PostgreSQL, a bare NULL in a subquery is a text.
        return cast(null(), column.type)
    if rule.how == "redact":
        if not isinstance(column.type, types.String) or isinstance(column.type, types.Enum):
            raise ConfigurationError(
                f"Only text can be redacted; {column} is not text.", hint='Use how="null".'
            )
        return literal_column(_REDACTED, column.type)
    if not callable(rule.how):
        raise ConfigurationError(f"how must not be {rule.how!r}.", hint='Use "null", "redact" or a function.')
    # Another affinity would change the column's JSON type and the operators it allows.
    expression: Any = rule.how(column)
    if not isinstance(expression, ColumnElement) or internals.type_affinity(
        expression.type
    ) is not internals.type_affinity(column.type):
        raise ConfigurationError(f"The mask of {column} must return an expression of the column's type.")
    return expression


_FORMS = 256
"""Forms in the cache. One is enough, unless a row filter's shape or a mask depends on the principal."""


@dataclass(frozen=True, slots=True)
class ActiveRules:
    """The rules evaluated for one principal.

    Attributes:
        form: how tables are rendered.
        values: the values of the form's parameters.
        settings: (name, value) of PostgreSQL settings for the transaction.
    """

    form: TableForms
    values: Mapping[str, Any] = field(default_factory=dict, repr=False)
    settings: Sequence[tuple[str, str]] = field(default=(), repr=False)

    def dialect(self, base: Dialect) -> Dialect:
        """The dialect that statements have to be compiled on."""
        return self.form.dialects[base]

    def with_values(self, values: Mapping[str, Any]) -> ActiveRules:
        """The same rules, and values for the parameters that a statement has itself."""
        return ActiveRules(self.form, {**self.values, **values}, self.settings) if values else self


def _require_list(hooks: object) -> None:
    if not isinstance(hooks, Collection) or isinstance(hooks, str):
        raise ConfigurationError(
            f"hooks must be a list, and is {hooks!r}."[:200],
            hint="Write hooks=[...], also for a single hook.",
        )


class Policy:
    """The hooks of a server, checked against its registry.

    Attributes:
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
        self._tables_by_name = dict(registry.tables)
        self._tables = list(self._tables_by_name.values())
        _refuse_own_names(self._tables)
        self._is_open = not hooks
        self._functions = _functions(hooks)
        self.has_functions = bool(self._functions)
        self.shows_all = all(isinstance(hook, Shared) for hook in hooks)
        self._tenants = _of_kind(hooks, TenantFilter)
        self._security = _of_kind(hooks, RowSecurity)
        self._masks = resolve_masks(registry, _of_kind(hooks, Mask))
        self._rows = [
            (table, rule.predicate)
            for rule in _of_kind(hooks, RowFilter)
            for table in resolve_tables(registry, [rule.table])
        ]
        self._tenant_values: dict[str, TenantFilter] = {}  # name of a parameter -> whose value it takes
        self.tenant_columns: list[ColumnElement[Any]] = []
        self._conditions = self._tenant_conditions(registry)
        shared = [
            table for rule in _of_kind(hooks, Shared) for table in resolve_tables(registry, rule.tables)
        ]
        filtered = {*self._conditions, *(id(table) for table, _ in self._rows)}
        self.secured = self._secured(registry, filtered | {id(table) for table in shared})
        if hooks:
            require_declared(registry, filtered | {id(table) for table in [*shared, *self.secured]})
        self._forms: Any = util.LRUCache(_FORMS)
        depends = self._tenants or self._security or self._rows or self._masks
        self._same_for_all = None if depends else self._evaluate(None)

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
        predicates = [_condition(predicate(_require_principal(principal))) for _, predicate in self._rows]
        masks = [mask for mask in self._masks if not mask.is_lifted_for(principal)]
        # Principals whose predicates differ only in values share one form, and the SQL that was compiled under it.
        key, parameters = _shape_of(predicates)
        values.update((name, bound.effective_value) for name, bound in parameters)
        form_key = (key, *map(id, masks))
        form = self._forms.get(form_key)
        if form is None:
            form = self._forms[form_key] = self._form(predicates, parameters, masks)
        return ActiveRules(form, values, settings)

    def apply_functions(self, statement: Statement, context: HookContext) -> Statement:
        """The statement after all plain functions.

        Raises:
            ConfigurationError: a function did not return a statement of the same columns.
        """
        for function in self._functions:
            columns = len(statement.selected_columns)
            statement = function(statement, context)
            if not isinstance(statement, Select | CompoundSelect | TextualSelect):
                raise ConfigurationError(
                    f"A hook must return a statement, and returned a {type(statement).__name__}.",
                    hint="Use a function (not async) that returns the statement to run.",
                )
            # The columns were described before: with other columns, values would have wrong names.
            if len(statement.selected_columns) != columns:
                raise ConfigurationError(
                    "A hook changed the columns of a statement.", hint="A hook may only remove rows."
                )
        return statement

    def visible_names(self, principal: Principal | None, source: str) -> VisibleNames:
        """The tables that `principal` may query on `source`. The rules are evaluated; nothing is run.

        A row filter that gives `false()` and a plain function that refuses `select(table)` hide the table.
        """
        try:
            form = self.rules_for(principal).form
        except ForbiddenError:  # every statement of this principal would be refused as well
            return VisibleNames()
        context = HookContext(principal=principal, source=source)
        visible = {
            name: is_changed
            for name, table in self._tables_by_name.items()
            if not form.empties(table) and (is_changed := self._changes(table, context)) is not None
        }
        secured = {id(table) for table in self.secured}
        return VisibleNames(
            tables=frozenset(visible),
            filtered=frozenset(
                name
                for name, is_changed in visible.items()
                if is_changed
                or form.filters(self._tables_by_name[name])
                or id(self._tables_by_name[name]) in secured
            ),
            masked={name: hidden for name in visible if (hidden := form.hidden(self._tables_by_name[name]))},
        )

    def _changes(self, table: Any, context: HookContext) -> bool | None:
        """Whether functions among the hooks change `select(table)`; None if one of them refuses it."""
        if not self._functions:
            return False
        # A function is the operator's code: only a call shows what it does.
        plain = select(table)
        try:
            return self.apply_functions(plain, context) is not plain
        except Exception:  # noqa: BLE001 - any error of a function stops the statement
            return None

    def _tenant_conditions(self, registry: Registry) -> dict[int, list[ColumnElement[bool]]]:
        conditions: dict[int, list[ColumnElement[bool]]] = {}
        parameters: dict[Any, BindParameter[Any]] = {}
        for rule in self._tenants:
            tables = self._tables if rule.tables is None else resolve_tables(registry, rule.tables)
            for table in tables:
                column = column_of(table, rule.column, is_required=rule.tables is not None)
                if column is not None:
                    self.tenant_columns.append(column)
                    value = self._tenant_parameter(rule, column.type, parameters)
                    conditions.setdefault(id(table), []).append(Exactly(column, value))
        return conditions

    def _tenant_parameter(
        self, rule: TenantFilter, type_: Any, parameters: dict[Any, BindParameter[Any]]
    ) -> BindParameter[Any]:
        """A parameter for each type: SQLAlchemy binds all parameters of one name with the type of the last one."""
        if isinstance(type_, types.CHAR):  # it would remove blanks at the end of the value
            type_ = types.String()
        type_key = internals.type_key(type_)
        key = (id(rule), id(type_) if type_key is NO_CACHE else type_key)
        if key not in parameters:
            name = f"dualsql_tenant_{len(self._tenant_values)}"
            parameters[key] = BindParameter(name, type_=type_, required=True)
            self._tenant_values[name] = rule
        return parameters[key]

    def _secured(self, registry: Registry, declared: set[int]) -> list[Any]:
        rest = [table for table in self._tables if id(table) not in declared]
        return [
            table
            for rule in self._security
            for table in (rest if rule.tables is None else resolve_tables(registry, rule.tables))
        ]

    def _form(
        self,
        predicates: Sequence[ColumnElement[bool]],
        parameters: Sequence[tuple[str, BindParameter[Any]]],
        masks: Sequence[ActiveMask],
    ) -> TableForms:
        names: dict[int, str] = {}
        for name, bound in parameters:
            # SQLAlchemy's cache key lists a parameter twice if a predicate uses it twice.
            names.setdefault(id(bound), name)
        conditions = {table: list(parts) for table, parts in self._conditions.items()}
        for (table, _), predicate in zip(self._rows, predicates, strict=True):
            conditions.setdefault(id(table), []).append(with_named_values(predicate, names))
        return TableForms(
            self._tables, conditions=conditions, masks=masks_by_table(masks), is_open=self._is_open
        )


def _refuse_own_names(tables: Sequence[Any]) -> None:
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


def _shape_of(predicates: Sequence[Any]) -> tuple[Any, list[tuple[str, BindParameter[Any]]]]:
    """The part of the predicates that is the same for all principals, and the named values that differ."""
    keys, parameters = [], []
    for number, predicate in enumerate(predicates):
        key = internals.cache_key(predicate)
        if key is None:
            raise ConfigurationError(
                "The predicate of a row filter contains a construct that SQLAlchemy cannot cache.",
                hint="Use SQLAlchemy's own constructs.",
            )
        keys.append(key.key)
        parameters += [
            (f"dualsql_row_{number}_{position}", bound) for position, bound in enumerate(key.bindparams)
        ]
    return tuple(keys), parameters


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


def _condition(predicate: Any) -> ColumnElement[bool]:
    """The predicate as a plain expression; mapped attributes need a conversion."""
    element = predicate.__clause_element__() if hasattr(predicate, "__clause_element__") else predicate
    if not isinstance(element, ColumnElement):
        raise ConfigurationError(
            f"The predicate of a row filter must return a condition, and returned a {type(predicate).__name__}.",
            hint="For example table.c.region == principal.tenant.",
        )
    return element
