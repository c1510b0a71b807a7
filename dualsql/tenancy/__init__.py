"""Rules for tables and columns by tenant and principal.

    rules     what an operator writes: TenantFilter, RowFilter, Mask, Shared, RowSecurity, or a plain function
    policy    the rules of one server, checked against its registry and evaluated for each request
    compiler  writes SQL under the rules: only it writes the names of tables

Read in this order. docs/decisions/0006 explains why rules are applied while SQL is written, not to the statement.
"""

from dualsql.tenancy.compiler import OWN_NAMES
from dualsql.tenancy.policy import ActiveRules, Policy
from dualsql.tenancy.rules import (
    Hook,
    HookContext,
    Mask,
    RowFilter,
    RowSecurity,
    Shared,
    TenantFilter,
    VisibleNames,
)

__all__ = [
    "OWN_NAMES",
    "ActiveRules",
    "Hook",
    "HookContext",
    "Mask",
    "Policy",
    "RowFilter",
    "RowSecurity",
    "Shared",
    "TenantFilter",
    "VisibleNames",
]
