"""Identifies callers: authenticators, quotas, audit."""

from dualsql.identity.audit import Audit, AuditAction, AuditEvent, log_audit
from dualsql.identity.authenticate import (
    AccessToken,
    Authenticate,
    BearerTokens,
    TokenVerifier,
    principal_of_token,
    request_user,
    static_tokens,
)

__all__ = [
    "AccessToken",
    "Audit",
    "AuditAction",
    "AuditEvent",
    "Authenticate",
    "BearerTokens",
    "TokenVerifier",
    "log_audit",
    "principal_of_token",
    "request_user",
    "static_tokens",
]
