"""Rules for tables and columns by tenant and principal.

    rules       what an operator writes: TenantFilter, RowFilter, Mask, Shared, RowSecurity, or a plain function
    policy      the rules of one server, checked against its registry and evaluated for each request; tenant_filters,
                row_filters, masks and functions are loaded by servers that have such rules
    compiler    writes SQL under the rules: only it writes the names of tables; grouping completes GROUP BY
    visibility  which tables and rows the rules let a principal see, for features

Read in this order. docs/decisions/0006 explains why rules are applied while SQL is written, not to the statement.
"""

from dualsql.tenancy.policy import ActiveRules as ActiveRules, Policy as Policy
from dualsql.tenancy.rules import (
    Hook as Hook,
    HookContext as HookContext,
    Mask as Mask,
    RowFilter as RowFilter,
    RowSecurity as RowSecurity,
    Shared as Shared,
    TenantFilter as TenantFilter,
)
