"""Narrow every statement to whoever asks; the rule: a table reaches a database through its rule, or not at all.

    rules     what an operator writes: TenantFilter, RowFilter, Mask, Shared, RowSecurity, or a plain function
    policy    the rules of one server, checked against its registry; asked once per request
    sight     which tables one principal may see at all
    form      how each table is rendered under the rules; holds no value of anyone's
    compiler  the only place where a table's name is written into SQL

READ IN THIS ORDER. Why it is done while SQL is written, and not to the statement: docs/decisions.
"""

from dualsql.narrowing.policy import Narrowing, Policy
from dualsql.narrowing.rules import Hook, HookContext, Mask, RowFilter, RowSecurity, Shared, TenantFilter
from dualsql.narrowing.sight import Sight

__all__ = [
    "Hook",
    "HookContext",
    "Mask",
    "Narrowing",
    "Policy",
    "RowFilter",
    "RowSecurity",
    "Shared",
    "Sight",
    "TenantFilter",
]
