"""A stored result: its total, sample, addresses and lifetime.

A resource is pending until its query ends, then ready or failed. It expires at the end of its lifetime and is deleted
later; a pinned one never expires. Most are created ready.
"""

from __future__ import annotations

import re
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, Literal, NamedTuple, Self, TypedDict
from urllib.parse import urlsplit

from dualsql.errors import (
    BadParameterError,
    ConfigurationError,
    DualResponseError,
    QueryInterruptedError,
    ResourceFailedError,
    ResourcePendingError,
    shown,
)
from dualsql_client.identifiers import ID_RANDOM, random_characters, with_checksum
from dualsql_client.wire import Column, Row, ToolProblem, TotalCountKind

Count = Literal["exact", "estimated", "none", "auto"] | str
"""How to count: one of these words, or "capped:N", which stops counting behind row N."""

Way = Literal["exact", "estimated", "capped", "none", "auto"]
"""How rows are counted; "capped" stops at a number, "auto" is exact if that is quick enough, else estimated."""

_CAPPED = re.compile(r"capped:([1-9][0-9]{0,15})", re.ASCII)


class Total(NamedTuple):
    """A number of rows and its kind: exact, estimated or a lower bound; None if it was not counted."""

    rows: int | None
    kind: TotalCountKind

    def at_least(self, rows: int) -> Total:
        """The total of a result with at least so many rows."""
        return Total(rows, "capped") if self.rows is not None and self.rows < rows else self

    def at_most(self, rows: int) -> Total:
        """The total of a result with at most so many rows."""
        return Total(rows, "estimated") if self.rows is not None and self.rows > rows else self


UNCOUNTED = Total(None, "none")


class CountMethod(NamedTuple):
    """How to count, parsed. `cap`: count no further, 0 for no end; a caller gives it with "capped" alone."""

    way: Way
    cap: int = 0


def parse_count(count: Any) -> CountMethod:
    """Parse the text; raises BadParameterError for one that is not valid."""
    capped = _CAPPED.fullmatch(count) if isinstance(count, str) else None
    if capped is not None:
        return CountMethod("capped", int(capped[1]))
    if count in ("exact", "estimated", "none", "auto"):
        return CountMethod(count)
    raise BadParameterError(
        f"count must not be {shown(count, 80)}.",
        hint='Use "auto", "exact", "estimated", "capped:10000" or "none".',
        details={"name": "count"},
    )


def within(what: str, value: int, least: int, most: int) -> int:
    """The value of a request; raises BadParameterError unless it is a whole number from `least` to `most`."""
    # Not isinstance: True is an int.
    if type(value) is not int or not least <= value <= most:
        raise BadParameterError(
            f"{what} is out of range.",
            hint=f"Give a whole number from {least} to {most}.",
            details={"value": shown(value, 40)},
        )
    return value


DEFAULT_PORTS = {"http": 80, "https": 443}
"""By the schemes that base URLs have."""

_SCHEME = re.compile(r"[a-z][a-z0-9+.-]{0,31}", re.ASCII)
# Some hosts fetch a link with such a scheme by themselves and paste what they get into the prompt.
_FETCHABLE = frozenset({"http", "https", "ftp", "file", "data", "ws", "wss"})


class Addresses(NamedTuple):
    """Writes the URI and URL of the resources of one server."""

    base_url: str
    uri_scheme: str

    @classmethod
    def of(cls, base_url: str, uri_scheme: str) -> Self:
        """The addresses; raises ConfigurationError for a URL or a scheme that resources cannot have."""
        parts = urlsplit(base_url)
        # No query and no fragment: ids are appended.
        if parts.scheme not in DEFAULT_PORTS or not parts.hostname or parts.query or parts.fragment:
            raise ConfigurationError(
                f"base_url must be an absolute URL without a query or fragment, and is {base_url!r}.",
                hint="For example https://api.example.com/resources.",
            )
        return cls(base_url.rstrip("/"), checked_scheme(uri_scheme))

    def uri(self, resource_id: str) -> str:
        """The URI, for the model."""
        return f"{self.uri_scheme}://{resource_id}"

    def url(self, resource_id: str) -> str:
        """The URL, at which the application reads the rows."""
        return f"{self.base_url}/{resource_id}"


def checked_scheme(scheme: str) -> str:
    """The scheme of URIs; raises ConfigurationError for none, and for one that hosts would follow."""
    if not _SCHEME.fullmatch(scheme) or scheme in _FETCHABLE:
        raise ConfigurationError(
            f"uri_scheme must not be {scheme!r}.", hint="Use a scheme of your own, such as 'resource'."
        )
    return scheme


LINEAGE = "lineage"
"""The key of a resource's metadata that names its parent."""


def parent_of(resource: Resource) -> str | None:
    """The id of the result that this one was refined from; None if it was not."""
    lineage = resource.metadata.get(LINEAGE)
    parent = lineage.get("parent") if isinstance(lineage, Mapping) else None
    # Its URI.
    return parent.rpartition("/")[2] if isinstance(parent, str) else None


CALLS = "tool_calls"
"""The key of a resource's metadata with the tool calls that made it, in order. It is not shown."""


def calls_in(metadata: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The tool calls in the metadata of a resource."""
    calls = metadata.get(CALLS)
    return [call for call in calls if isinstance(call, Mapping)] if isinstance(calls, list) else []


MIME_TYPE = "application/json"
"""What is at the URL of a result, unless that is of a picture."""

RELATION = "data"
"""The name of the stored result in a SQL text about it."""

Status = Literal["pending", "ready", "failed"]
"""Whether the query of a resource still runs, has run, or could not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """A caller. `id` names the person or service, `tenant` the customer that they belong to.

    Both are compared character by character. Raises ValueError for an id or tenant that is empty or not a string.
    """

    id: str
    tenant: str | None = None

    def __post_init__(self) -> None:
        _check_name(self.id)
        if self.tenant is not None:
            _check_name(self.tenant)


# Both are in an index. PostgreSQL limits its entries to 2,704 bytes.
_LONGEST_NAME = 1_000


def _check_name(name: object) -> None:
    # With an id of None, from a token without a subject, resources would belong to everybody.
    if not isinstance(name, str) or not name or "\x00" in name:
        raise ValueError("the id and the tenant of a principal must be non-empty strings without NUL")
    if len(name.encode()) > _LONGEST_NAME:
        raise ValueError(f"a principal's id or tenant is longer than {_LONGEST_NAME} bytes")


class KeptProgress(TypedDict):
    """A run whose rows are going to be kept: how many were read so far, and when its lease ends."""

    rows: int
    until: str


class KeptRows(TypedDict, total=False):
    """Where the rows of one run are kept (`dualsql.kept`), or the reason why they are not.

    The keys from `storage` on come together; `signature` covers these and the resource.

    Attributes:
        reason: why the rows are read from the database.
        running: a run that has begun and not ended.
        failure: why the last refresh failed.
        storage, file: the id of the storage, and the name of the file in it.
        as_of: when the run began, ISO 8601 in UTC.
        rows, bytes, digest: the number of rows, and the size and SHA-256 of the file.
        fingerprint: of the statement under the rules of the principal that it ran for.
        cells: how the cells of each column are kept (`dualsql.kept.cells`).
        copied: the number of the type of each column that the database writes as CSV itself.
    """

    reason: str
    running: KeptProgress
    failure: ToolProblem
    storage: str
    file: str
    as_of: str
    rows: int
    bytes: int
    digest: str
    fingerprint: str
    cells: list[str]
    copied: list[int | None]
    signature: str


@dataclass(slots=True, kw_only=True)  # frozen ones take three times as long to make
class Resource:
    """One stored result. It is not changed: `dataclasses.replace` makes another one.

    Attributes:
        document: the frozen Select (see `dualsql.freeze`), bytes.
        signature: MAC over document, id, owner, tenant, source and created_at.
        owner, tenant: the principal that it is bound to; None if anyone with the link may read it.
        total_count, total_count_kind: the number of rows; exact, estimated, a lower bound, or not counted.
        lifetime: how long it lives after its creation, or after an access when sliding.
        expires_at: None once pinned. All instants are aware and UTC.
        sample: the sample rows, stored only with `keep_sample`.
        pending_until: the end of the lease, which the server that runs the query renews.
        failure: the error of a failed query.
        kept: the rows of its run, if keeping them was asked for.
        pinned_by: who pinned it, if it has no owner and the server's own code did not: a MAC of the caller.
    """

    id: str
    name: str
    source: str
    document: bytes
    signature: bytes
    columns: Sequence[Column]
    total_count: int | None
    total_count_kind: TotalCountKind
    created_at: datetime
    expires_at: datetime | None
    lifetime: timedelta
    owner: str | None = None
    tenant: str | None = None
    sample: Sequence[Row] | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    access_count: int = 0
    last_accessed_at: datetime | None = None
    status: Status = "ready"
    pending_until: datetime | None = None
    failure: ToolProblem | None = None
    kept: KeptRows | None = None
    pinned_by: str | None = None

    def is_expired(self, now: datetime) -> bool:
        """Whether it has expired at `now`."""
        return self.expires_at is not None and self.expires_at <= now

    @property
    def total(self) -> Total:
        """The number of rows, as far as it is known."""
        return Total(self.total_count, self.total_count_kind)

    @property
    def is_pinned(self) -> bool:
        """Whether it never expires."""
        return self.expires_at is None

    def seen_at(self, now: datetime) -> Self:
        """The resource at `now`: if its lease has expired, it has failed."""
        if self.status != "pending" or (self.pending_until is not None and now < self.pending_until):
            return self
        return replace(self, status="failed", failure=INTERRUPTED)

    def require_ready(self) -> None:
        """Raises ResourcePendingError or ResourceFailedError for a resource without rows."""
        if self.status == "pending":
            raise ResourcePendingError("The query of this resource still runs.")
        if self.status == "failed":
            failure = self.failure or INTERRUPTED
            raise ResourceFailedError(
                f"The query of this resource failed: {failure['message']}",
                hint=failure["hint"],
                details={"error": dict(failure)},
            )


def problem_of(error: DualResponseError) -> ToolProblem:
    """The error of a query in the form that is stored with its resource."""
    message, hint = error.for_caller
    return ToolProblem(code=error.code, message=message, hint=hint, details=dict(error.details))


INTERRUPTED = problem_of(QueryInterruptedError("The server that ran the query stopped."))
"""The error of a resource whose query was interrupted."""


class Clock:
    """The time by which results are made and expire: the store's, if that has a clock, else this machine's.

    Between two readings of the store's clock this process counts by its monotonic one, so that a jump of this machine's
    clock changes nothing.
    """

    def __init__(self, store: object) -> None:
        self._read: Callable[[], Awaitable[datetime | None]] | None = getattr(store, "clock", None)
        self._anchor: tuple[datetime, float] | None = None

    def now(self) -> datetime:
        """The time, in UTC."""
        if self._anchor is None:
            return datetime.now(UTC)
        at, moment = self._anchor
        return at + timedelta(seconds=time.monotonic() - moment)

    async def synchronize(self) -> timedelta:
        """Read the store's clock. Returns by how much this machine's is ahead of it.

        Raises:
            StorageError: the store cannot be reached.
        """
        start = time.monotonic()
        moment = None if self._read is None else await self._read()
        if moment is None:
            return timedelta()
        end, now = time.monotonic(), self.now()
        # The store read its clock in between. A time that may be right stays: a clock that is set back by the error of
        # one reading would take back what has expired.
        is_possible = moment <= now <= moment + timedelta(seconds=end - start)
        self._anchor = (now if is_possible else moment.astimezone(UTC), end)
        return datetime.now(UTC) - self.now()


def new_resource_id(start: str = "") -> str:
    """A fresh identifier: `start`, up to 160 random bits (MCP asks for UUIDv4's 122), and a checksum for clients."""
    while True:
        text = start + random_characters(ID_RANDOM - len(start))
        # Detection skips words of one case: one of 1.2 million draws.
        if not (text.islower() or text.isupper()):
            return with_checksum(text)


def instant(moment: datetime) -> str:
    """A point in time as the wire has it: ISO 8601 in UTC, whole seconds, ending in Z."""
    return _text_of(moment.astimezone(UTC))


@lru_cache(256)
def _text_of(moment: datetime) -> str:
    return moment.replace(tzinfo=None).isoformat(timespec="seconds") + "Z"


NOTES = "notes_of_query"
"""Notes in the metadata of a resource."""

NOTES_OPTION = "dualsql_notes"
"""The execution option of a statement; documents leave it out (`dualsql.freeze.types.DROPPED_OPTIONS`)."""


def notes_of(statement: Any) -> tuple[str, ...]:
    """The notes of a statement; empty for one without any."""
    # It may be no statement: that is refused later, with a message for the caller.
    read: Any = getattr(statement, "get_execution_options", dict)
    notes: tuple[str, ...] = read().get(NOTES_OPTION, ())
    return notes


def notes_in(metadata: Any) -> tuple[str, ...]:
    """The notes in the metadata of a resource."""
    notes = metadata.get(NOTES)
    return tuple(map(str, notes)) if isinstance(notes, list) else ()
