"""Identifies callers: authenticators, quotas, audit."""

from dualsql.identity.audit_log import log_audit
from dualsql.identity.authenticate import (
    AccessToken,
    BearerTokens,
    TokenVerifier,
    fastapi_user,
    principal_of_token,
    request_user,
    static_tokens,
)
from dualsql.results.access import Authenticate
from dualsql.results.audit import Audit, AuditAction, AuditEvent

__all__ = [
    "AccessToken",
    "Audit",
    "AuditAction",
    "AuditEvent",
    "Authenticate",
    "BearerTokens",
    "TokenVerifier",
    "fastapi_user",
    "log_audit",
    "principal_of_token",
    "request_user",
    "static_tokens",
]
