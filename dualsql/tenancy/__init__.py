"""Rules for tables and columns by tenant and principal."""

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
