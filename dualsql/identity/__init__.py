"""Who asks, what they may, and what is remembered of it; the rule: nobody is anybody until proved.

authenticate   a request -> a principal: Starlette's user, bearer tokens, a fixed map
links          the right to read one resource, in a URL; signed, and revocable
quotas         how much one principal may keep
audit          what was done, by whom
"""

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
