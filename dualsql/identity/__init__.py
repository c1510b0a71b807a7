"""Identifies callers: ready-made authenticators, and an audit that goes to the log."""

import logging

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


def log_audit(event: AuditEvent) -> None:
    """A sink that writes one line to the logger "dualsql.audit"."""
    who = event.principal
    logging.getLogger("dualsql.audit").info(
        "%s principal=%r tenant=%r resource=%r source=%r rows=%s complete=%s code=%s reason=%s link=%s request=%s",
        event.action,
        who.id if who else None,
        who.tenant if who else None,
        # A part of the id only: the whole id could give readers of the log access to the rows.
        event.resource_id[:6] if event.resource_id else None,
        event.source,
        event.rows,
        event.is_complete,
        event.code,
        event.reason,
        event.link_id,
        event.request_id,
    )
