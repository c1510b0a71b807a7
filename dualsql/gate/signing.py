"""Sign what is stored, check what is read; the rule: a row this server did not write is never run."""

from __future__ import annotations

import logging
import secrets as randomness
from collections.abc import Sequence
from dataclasses import replace

from dualsql.errors import ConfigurationError, TamperedError
from dualsql.freeze import Seal
from dualsql.resource import Resource
from dualsql.store import MemoryStore
from dualsql.store.protocol import ResourceStore

logger = logging.getLogger(__name__)


def seal_for(store: ResourceStore, secrets: Sequence[str]) -> Seal:
    """The seal made of `secrets`; one of its own for a store that dies with the process.

    Raises:
        ConfigurationError: resources would outlive the process and no secret was given.
    """
    if secrets:
        return Seal(secrets)
    if isinstance(store, MemoryStore):
        return Seal([randomness.token_urlsafe(32)])
    raise ConfigurationError(
        f"{type(store).__name__} needs secrets=[...]: stored resources are signed.",
        hint='Make one with: python -c "import secrets; print(secrets.token_urlsafe(32))"',
    )


def sign(seal: Seal, resource: Resource) -> Resource:
    """The resource with its signature. What an update may change (expiry, counts) stays outside."""
    return replace(resource, signature=seal.sign(*_signed_parts(resource)))


def require_signature(seal: Seal, resource: Resource) -> None:
    """Raises TamperedError, and logs, if the row was changed, swapped or made by someone else."""
    if not seal.verify(resource.signature, *_signed_parts(resource)):
        # Not the whole id: whoever reads a log must not gain the right to read the rows.
        logger.error("The stored resource %s... does not carry a valid signature.", resource.id[:6])
        raise TamperedError("The stored resource cannot be trusted.")


def _signed_parts(resource: Resource) -> tuple[str | bytes | None, ...]:
    return (
        resource.document,
        resource.id,
        resource.owner,
        resource.tenant,
        resource.source,
        resource.created_at.isoformat(),
    )
