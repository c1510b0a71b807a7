"""The options of new responses, and their limits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, Literal

from dualsql.errors import (
    Asked,
    BadParameterError,
    ConfigurationError,
    LimitExceededError,
    ValueNotRepresentableError,
)
from dualsql.formats import json
from dualsql.freeze import Registry
from dualsql.freeze.document import Statement
from dualsql.resource import Count, CountMethod, Principal, Resource, parse_count, within
from dualsql.settings import KeepOption, Settings, is_keep_option, require_duration

_LONGEST_NAME = 200
_LARGEST_METADATA = 64 * 1024


def checked_count(count: Any, settings: Settings) -> CountMethod:
    """How to count; a cap may be at most `Settings.maximum_offset`."""
    method = parse_count(count)
    if method.way == "capped":
        within("the cap of a count", method.cap, 1, settings.maximum_offset)
    return method


def _checked_metadata(metadata: Mapping[str, Any] | None) -> dict[str, Any]:
    """Plain JSON values, at most 64 KiB of them."""
    try:
        encoded = json.dumps(dict(metadata or {}))
    except (ValueNotRepresentableError, TypeError, ValueError) as error:
        raise BadParameterError(
            "metadata contains a value that JSON cannot represent.",
            hint="Use text, numbers, booleans, None, lists and dicts.",
        ) from error
    if len(encoded) > _LARGEST_METADATA:
        raise LimitExceededError(
            f"metadata is larger than {_LARGEST_METADATA} bytes.",
            hint="Store a shorter text, or a reference to the data.",
            details={"bytes": len(encoded)},
        )
    # A copy: the caller may change its object later.
    plain: dict[str, Any] = json.loads(encoded)
    return plain


MAXIMUM_SAMPLE_SIZE = 1_000
"""The most rows that a tool may show."""


def checked_size(size: int | None, settings: Settings) -> int:
    """Rows of a sample, from 0 on."""
    default = min(settings.default_sample_size, MAXIMUM_SAMPLE_SIZE)
    return within("sample_size", default if size is None else size, 0, MAXIMUM_SAMPLE_SIZE)


def checked_registry(tables: Any, settings: Settings) -> Registry:
    """The registry of a server's `tables`; raises ConfigurationError if they contradict the settings."""
    if not isinstance(tables, Registry):
        return Registry(tables, allow_text=settings.allow_text)
    if settings.allow_text and not tables.allow_text:
        raise ConfigurationError(
            "allow_text has no effect on a Registry that was created before.",
            hint="Create it with Registry(..., allow_text=True).",
        )
    return tables


SampleOption = Literal["head", "tail", "random", "spread"] | str
"""The first, the last or random rows ("random:42" chooses other rows than "random:43"), or rows at even ranks."""

ProfileOption = Literal["none", "sample", "full"]
"""Whether the columns are profiled: not at all, in the first rows (`Profiles(profile_sample=...)`), in all of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateOptions:
    """A request for a new response; `DualResponseServer.create_response` explains each field.

    A field that is None has a default in the settings. `checked` fills it in, but for `sample_size`: without one, a
    result that fits the budgets is shown whole.
    """

    select: Statement | None = field(default=None, kw_only=False)
    name: str
    sample_size: int | None = None
    sample: SampleOption = "head"
    expiration: timedelta | None = None
    count: Count = "auto"
    profile: ProfileOption = "none"
    source: str | None = None
    wait: timedelta | None = None
    keep: KeepOption | None = None
    metadata: Mapping[str, Any] | None = None
    principal: Principal | None = None
    parent: Resource | str | None = None
    refinement: Any = None
    """JSON, or an object of the feature that refines."""
    is_text: bool = False
    reads_conversions: bool = False
    """The statement of the parent converts values; set with the statement of the refinement."""

    def checked(self, settings: Settings) -> CreateOptions:
        """The options with the defaults of the settings; raises what is wrong with one."""
        name: Any = self.name
        lifetime, most = settings.default_expiration, settings.maximum_lifetime
        if not isinstance(name, str) or not name.strip() or len(name) > _LONGEST_NAME:
            raise BadParameterError(f"name must be a string of 1 to {_LONGEST_NAME} characters.")
        checked_count(self.count, settings)
        if self.wait is not None:
            require_duration("wait", self.wait, failure=BadParameterError)
        checked_size(self.sample_size, settings)
        if self.principal is not None and not isinstance(self.principal, Principal):
            raise BadParameterError("principal must be a Principal.", hint='For example Principal(id="ann").')
        if self.keep is not None and not is_keep_option(self.keep):
            raise BadParameterError('keep must be True, "slow" or False.', details={"name": "keep"})
        if self.expiration is not None:
            lifetime = require_duration(
                "expiration", self.expiration, failure=BadParameterError, example=lifetime
            )
        if lifetime > most:
            raise LimitExceededError(
                f"expiration is {lifetime}, and maximum_lifetime {most}.",
                hint="Ask for a shorter one.",
                developer_hint="Ask for a shorter one, or give the server settings=Settings(maximum_lifetime=...).",
            )
        return replace(self, expiration=lifetime, metadata=_checked_metadata(self.metadata))

    @property
    def statement(self) -> Statement:
        """The Select to store; for a refinement, once its parent has been read."""
        assert self.select is not None
        return self.select

    @property
    def lifetime(self) -> timedelta:
        """How long the resource lives, once checked."""
        assert self.expiration is not None
        return self.expiration

    @property
    def asked(self) -> Asked | None:
        """What the caller wrote, a question or a SQL text, if anything; see `dualsql.errors.blaming`."""
        if self.is_text:
            return "text"
        return None if self.refinement is None else "question"
