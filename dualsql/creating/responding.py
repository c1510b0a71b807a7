"""A new resource and its sample as what its tool returns; the rule: what is shown is plain JSON by now."""

from __future__ import annotations

from dualsql.addresses import Addresses
from dualsql.errors import ValueNotRepresentableError
from dualsql.execute import Sample
from dualsql.formats import json
from dualsql.profiling import Found, notes_of
from dualsql.reading.view import View
from dualsql.resource import Resource
from dualsql.response import DualResponse
from dualsql.settings import Settings
from dualsql_client.wire import ProfileNotes, Row


def respond(
    resource: Resource,
    view: View,
    sample: Sample,
    profile: Found | None = None,
    *,
    addresses: Addresses,
    settings: Settings,
) -> DualResponse:
    """The dual response of `resource`, some of whose rows are in `sample`."""
    inexact = json.inexact_columns(view.columns, sample.rows)
    rows = json.records(view.columns, sample.rows, view.source.engine.dialect, integer_strings=inexact)
    written = _written(view, rows)
    return DualResponse(
        resource_id=resource.id,
        resource_uri=addresses.uri(resource.id),
        resource_url=addresses.url(resource.id),
        name=resource.name,
        sample=json.loads(written),
        total_count=resource.total_count,
        total_count_kind=resource.total_count_kind,
        columns=json.describe(view.columns, integer_strings=inexact),
        created_at=resource.created_at,
        expires_at=resource.expires_at,
        text_budget=settings.text_budget,
        results_budget=settings.results_budget,
        status="pending" if resource.status == "pending" else "ready",
        sampled=sample.taken,
        profile=None if profile is None else profile.to_wire(view.source.engine.dialect),
        profile_notes=None if profile is None else _notes(profile, view, sample),
    )


def _written(view: View, rows: list[Row]) -> bytes:
    try:
        return json.dumps(rows)
    except ValueNotRepresentableError:
        json.require_writable(view.columns, [list(row.values()) for row in rows])
        raise


def _notes(profile: Found, view: View, sample: Sample) -> ProfileNotes:
    notes = notes_of(profile, view.columns, sample.rows)
    return ProfileNotes(covers=profile.covers, complete=profile.is_complete, notes=notes)
