"""The audit as lines of the log."""

from __future__ import annotations

import logging

from dualsql.results.audit import AuditEvent


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
