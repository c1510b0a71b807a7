"""What a new response is asked to be; the rule: it is checked before a database is asked for anything."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal

from dualsql.asking import Inquiry, read_inquiry
from dualsql.errors import Asked
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
from dualsql.samples import SampleAsked, parse_sample
from dualsql.settings import Settings
from dualsql.totals import CountAsked
from dualsql_client.figures import ProfileKind

ProfileOption = Literal["none", "sample", "full"]
"""Whether the columns are looked at: not at all, in the first rows (`Settings.profile_sample`), in all of them."""


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
    is_text: bool

    @property
    def asked(self) -> Asked | None:
        """What of the statement its caller gave; see `dualsql.errors.blaming`."""
        if self.refinement is not None:
            return self.refinement.asked
        return "text" if self.is_text else None


def checked_creation(settings: Settings, *, name: Any, **asked: Any) -> Creation:
    """What is asked for; each as `DualResponseServer.create_response` has it, and its default where it is left out.

    Raises:
        BadParameterError, LimitExceededError: an option is malformed or out of bounds.
    """
    profile, refinement = asked.get("profile", "none"), asked.get("refinement")
    return Creation(
        name=checked_name(name),
        sample_size=checked_size(asked.get("sample_size"), settings),
        sample=parse_sample(asked.get("sample", "head")),
        lifetime=checked_lifetime(asked.get("expiration"), settings),
        metadata=checked_metadata(asked.get("metadata")),
        count=checked_count(asked.get("count", "auto"), settings),
        profile=None if profile == "none" else checked_profile(profile),
        principal=asked.get("principal"),
        source=asked.get("source"),
        wait=checked_wait(asked.get("wait")),
        parent=asked.get("parent"),
        refinement=None if refinement is None else read_inquiry(refinement),
        is_text=bool(asked.get("is_text")),
    )
