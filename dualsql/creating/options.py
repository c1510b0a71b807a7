"""What a new response is asked to be; the rule: it is checked before a database is asked for anything."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal, TypedDict, Unpack

from dualsql.asking import Inquiry, read_inquiry
from dualsql.parameters import (
    checked_count,
    checked_lifetime,
    checked_metadata,
    checked_name,
    checked_profile,
    checked_size,
    checked_wait,
)
from dualsql.resource import Principal, Resource
from dualsql.samples import SampleAsked, SampleOption, parse_sample
from dualsql.settings import Settings
from dualsql.totals import Count, CountAsked
from dualsql_client.figures import ProfileKind

ProfileOption = Literal["none", "sample", "full"]
"""Whether the columns are looked at: not at all, in the first rows (`Settings.profile_sample`), in all of them."""


class ResponseOptions(TypedDict, total=False):
    """What `DualResponseServer.create_response` may be told besides the Select and its name.

    Attributes:
        sample_size: rows to show.
        sample: which ones: "head", the first; "tail", the last; "random", which tells its seed, so that "random:SEED"
            shows them again; "spread", from the first to the last at even distances.
        expiration: lifetime; cut to `Settings.maximum_lifetime`.
        metadata: JSON values kept with the resource and shown to whoever may read it.
        count: what total_count shall be worth when the sample is not everything: "exact", "estimated" by the
            database's planner, "capped:N" (exact, or more than N), "none"; "auto" is exact if that takes no
            longer than `Settings.count_budget`, else estimated.
        profile: what the columns are like: of "sample" rows or of the "full" result, within
            `Settings.profile_budget`. The model hears where its sample is misleading; the figures are in the response.
        principal: binds the resource to this person or service; no one else can read it.
        source: which of several databases.
        wait: how long to wait for the query. If it takes longer, the answer is a response whose status is "pending",
            and the query goes on (see docs/pending.md).
        parent: the resource, or its URI, that a response without a Select is made of; `principal` must be one who
            may read it.
        refinement: what of the parent (see docs/asking.md): a question, as JSON or as `dualsql.asking` has it.
    """

    sample_size: int | None
    sample: SampleOption
    expiration: timedelta | None
    metadata: Mapping[str, Any] | None
    count: Count
    profile: ProfileOption
    principal: Principal | None
    source: str | None
    wait: timedelta | None
    parent: Resource | str | None
    refinement: Mapping[str, Any] | Inquiry | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Creation:
    """A response that may be made: every option in bounds, and what was left out by its default."""

    name: str
    sample_size: int
    sample: SampleAsked
    lifetime: timedelta
    metadata: Mapping[str, Any]
    count: CountAsked
    profile: ProfileKind | None
    principal: Principal | None
    source: str | None
    wait: timedelta | None
    parent: Resource | str | None
    refinement: Inquiry | None


def checked_creation(name: str, settings: Settings, **options: Unpack[ResponseOptions]) -> Creation:
    """What is asked for.

    Raises:
        BadParameterError, LimitExceededError: an option is malformed or out of bounds.
    """
    return Creation(
        name=checked_name(name),
        sample_size=checked_size(options.get("sample_size"), settings),
        sample=parse_sample(options.get("sample", "head")),
        lifetime=checked_lifetime(options.get("expiration"), settings),
        metadata=checked_metadata(options.get("metadata")),
        count=checked_count(options.get("count", "auto"), settings),
        profile=None if options.get("profile", "none") == "none" else checked_profile(options["profile"]),
        principal=options.get("principal"),
        source=options.get("source"),
        wait=checked_wait(options.get("wait")),
        parent=options.get("parent"),
        refinement=None if options.get("refinement") is None else read_inquiry(options["refinement"]),
    )
