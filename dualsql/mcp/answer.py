"""What a tool's function returns when a Select alone does not say enough; the rule: it wins over the tool's options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from datetime import timedelta
from typing import Any

from dualsql.creating.options import ProfileOption
from dualsql.samples import SampleOption
from dualsql.statement import Statement
from dualsql.totals import Count


@dataclass(frozen=True, slots=True)
class Answer:
    """A Select, and what is to be said of its result; what is None is as the tool has it.

    Attributes:
        name: a title that a person understands, 200 characters at most.
        description: a sentence the model reads above the rows; kept with the resource's metadata.
        sample_size, sample: rows to show, and which: as for `DualResponseServer.create_response`.
        expiration: lifetime of the link.
        count, profile: as there.
        metadata: JSON values kept with the resource.
        source: which of several databases.
        wait: how long to wait for the query, before it goes on in the background.
        is_text: a caller has written the Select as SQL; see there, too.
    """

    select: Statement
    _: KW_ONLY
    name: str | None = None
    description: str | None = None
    sample_size: int | None = None
    sample: SampleOption | None = None
    expiration: timedelta | None = None
    count: Count | None = None
    profile: ProfileOption | None = None
    metadata: Mapping[str, Any] | None = None
    source: str | None = None
    wait: timedelta | None = None
    is_text: bool | None = None
