"""A Select becomes a resource with a sample; the rule: what runs is the stored document, thawed.

freeze -> thaw -> narrow -> sample and count -> sign -> store
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from dualsql.addresses import Addresses
from dualsql.creation import Creation
from dualsql.execute import Source, chosen_source
from dualsql.formats import json
from dualsql.gate import Gate
from dualsql.reading import Reader
from dualsql.resource import new_resource
from dualsql.responding import respond
from dualsql.response import DualResponse
from dualsql.settings import Settings
from dualsql.statement import Statement


class Creator:
    """Makes the resources of one server."""

    def __init__(
        self,
        sources: Mapping[str, Source],
        reader: Reader,
        gate: Gate,
        *,
        settings: Settings,
        addresses: Addresses,
    ) -> None:
        self._sources = sources
        self._reader = reader
        self._gate = gate
        self._settings = settings
        self._addresses = addresses

    async def create(self, select: Statement, creation: Creation) -> DualResponse:
        """See `DualResponseServer.create_response`."""
        source = chosen_source(self._sources, creation.source)
        document = source.freeze(select)
        view = self._reader.view(source, document, creation.principal)
        sample = await view.sample(creation.sample_size, creation.count)
        resource = new_resource(
            name=creation.name,
            source=source.name,
            document=document,
            columns=json.describe(view.columns),
            total_count=sample.total.rows,
            total_count_kind=sample.total.kind,
            lifetime=creation.lifetime,
            principal=creation.principal,
            metadata=creation.metadata,
        )
        response = respond(resource, view, sample, addresses=self._addresses, settings=self._settings)
        if self._settings.keep_sample:
            resource = replace(resource, sample=response.sample)
        await self._gate.keep(resource, creation.principal, rows=len(sample.rows))
        return response
