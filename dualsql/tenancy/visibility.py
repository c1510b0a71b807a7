"""What the rules let a principal see, for features: the tables, and whether other rows decide which rows are read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Compiled, False_, select
from sqlalchemy.sql import visitors
from sqlalchemy.sql.selectable import SelectBase

from dualsql.errors import ForbiddenError
from dualsql.resource import Principal
from dualsql.tenancy.compiler import TableForms
from dualsql.tenancy.policy import Policy
from dualsql.tenancy.rules import HookContext


@dataclass(frozen=True, slots=True)
class VisibleNames:
    """Names of tables in the registry.

    Attributes:
        tables: the tables that the principal may query.
        filtered: those of them whose rows depend on the principal.
        masked: keys of the columns whose values are hidden, by table.
    """

    tables: frozenset[str] = frozenset()
    filtered: frozenset[str] = frozenset()
    masked: Mapping[str, frozenset[str]] = field(default_factory=dict)


def visible_names(policy: Policy, principal: Principal | None, source: str) -> VisibleNames:
    """The tables that `principal` may query on `source`. The rules are evaluated; nothing is run.

    A row filter that gives `false()` and a plain function that refuses `select(table)` hide the table.
    """
    try:
        form = policy.rules_for(principal).form
    except ForbiddenError:  # every statement of this principal would be refused as well
        return VisibleNames()
    context = HookContext(principal=principal, source=source)
    tables, filtered, masked = [], [], {}
    for name, table in policy.tables.items():
        conditions = form.conditions.get(id(table), ())
        if any(isinstance(condition, False_) for condition in conditions):
            continue
        is_changed = _changes(policy, table, context)
        if is_changed is None:
            continue
        tables.append(name)
        if is_changed or conditions or any(table is each for each in policy.secured):
            filtered.append(name)
        if hidden := form.masks.get(id(table)):
            masked[name] = frozenset(hidden)
    return VisibleNames(frozenset(tables), frozenset(filtered), masked)


def _changes(policy: Policy, table: Any, context: HookContext) -> bool | None:
    """Whether functions among the hooks change `select(table)`; None if one of them refuses it."""
    if not policy.has_functions:
        return False
    # A function is the operator's code: only a call shows what it does.
    plain = select(table)
    try:
        return policy.apply_functions(plain, context) is not plain
    except Exception:  # noqa: BLE001 - any error of a function stops the statement
        return None


def reads_others(form: TableForms, compiled: Compiled) -> bool:
    """Whether other rows decide which rows a statement reads: the condition of one of its tables has a subquery."""
    conditions = [
        one for table in getattr(compiled, "ruled", ()) for one in form.conditions.get(id(table), ())
    ]
    return any(isinstance(part, SelectBase) for one in conditions for part in visitors.iterate(one))
