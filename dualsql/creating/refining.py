"""A result made of another one; the rule: it stores a complete statement of its own, and owes its parent nothing.

parent -> may this caller read it? -> thaw -> the question as a Select over it -> a resource like any other
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from dualsql.addresses import Addresses, id_in
from dualsql.asking import in_words
from dualsql.creating.options import Creation
from dualsql.errors import BadParameterError, LimitExceededError, NotFreezableError, NoTotalOrderError
from dualsql.gate.gate import Gate
from dualsql.reading.inquiries import Inquiries
from dualsql.resource import Resource
from dualsql.settings import Settings
from dualsql.statement import Statement

logger = logging.getLogger(__name__)

LINEAGE = "lineage"
"""The key of a resource's metadata that says what it was made of."""

_MOST_PARENTS = 10_000


class Refinements:
    """Makes resources of resources of one server."""

    def __init__(self, gate: Gate, inquiries: Inquiries, settings: Settings, addresses: Addresses) -> None:
        self._gate = gate
        self._inquiries = inquiries
        self._settings = settings
        self._addresses = addresses
        self._children: Counter[str] = Counter()

    async def resolve(self, select: Statement | None, creation: Creation) -> tuple[Statement, Creation]:
        """The statement to store, and what is known of it: `select` itself, or the refinement of a parent.

        Raises:
            BadParameterError: neither a Select is given nor a parent and its refinement; or both are.
            ResourceNotFoundError, ResourceExpiredError, ForbiddenError: the principal may not read the parent.
            LimitExceededError: it is refined too deeply, or too often.
            UnknownColumnError, InvalidSQLError, ...: see `Inquiries.page`.
        """
        if creation.parent is None and creation.refinement is None and select is not None:
            return select, creation
        if select is not None or creation.parent is None or creation.refinement is None:
            raise BadParameterError(
                "A response is made of a Select, or of a parent and a refinement.",
                hint="Give the result's URI and what to ask of it.",
                developer_hint='create_response(name=..., parent="resource://...", refinement={"filters": [...]})',
            )
        named = creation.parent
        parent_id = named.id if isinstance(named, Resource) else id_in(named)
        parent = await self._gate.open(parent_id, creation.principal, "read")
        depth = depth_of(parent) + 1
        self._require_room(parent, depth)
        statement = self._inquiries.statement(parent, creation.refinement, creation.principal)
        lineage = {
            "parent": self._addresses.uri(parent.id),
            "depth": depth,
            "refinement": in_words(creation.refinement),
        }
        self._count(parent)
        metadata = {**creation.metadata, LINEAGE: lineage}
        return statement, replace(creation, source=parent.source, metadata=metadata)

    @contextmanager
    def told(self, creation: Creation) -> Iterator[None]:
        """In the block, what cannot be stored of a refinement is its caller's to mend: they have written it.

        Raises:
            BadParameterError: in place of NotFreezableError and NoTotalOrderError.
        """
        try:
            yield
        except (NotFreezableError, NoTotalOrderError) as error:
            if creation.refinement is None:
                raise
            logger.warning("A refinement of %s could not be stored: %s", creation.parent, error)
            raise BadParameterError(
                "This result cannot be refined in this way: what it is asked for cannot be stored.",
                hint="Ask it without making a result (query), or refine it by other columns.",
            ) from error

    def _require_room(self, parent: Resource, depth: int) -> None:
        if depth > self._settings.maximum_refinement_depth:
            raise LimitExceededError(
                f"This result was refined {depth - 1} times already.",
                hint="Refine an earlier one, or run the query anew.",
                details={"maximum_refinement_depth": self._settings.maximum_refinement_depth},
            )
        if self._children[parent.id] >= self._settings.maximum_refinements:
            raise LimitExceededError(
                "This result was refined too often.",
                hint="Use what was made of it, or ask it without making a result.",
                details={"maximum_refinements": self._settings.maximum_refinements},
            )

    def _count(self, parent: Resource) -> None:
        self._children[parent.id] += 1
        if len(self._children) > _MOST_PARENTS:
            # The one that was first refined longest ago has expired, or rests.
            del self._children[next(iter(self._children))]


def depth_of(resource: Resource) -> int:
    """How many refinements lie between the resource and a Select of a tool's."""
    lineage = resource.metadata.get(LINEAGE)
    depth: Any = lineage.get("depth") if isinstance(lineage, Mapping) else None
    return depth if isinstance(depth, int) and depth > 0 else 0
