"""What an operator may tune. Every number a caller can push against has its bound here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import timedelta
from typing import Literal, TypedDict, cast

from dualsql.errors import ConfigurationError

TABLE_PREFIX = "dualsql_"
"""What every table of dualsql's own begins with."""

Action = Literal["read", "pin", "delete"]
"""What can be done with a resource."""

SnapshotTags = Mapping[str, str | Callable[[], str | None]]
"""By source: a name for the present state of its data, as a text or a function that tells it (None: it moves)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultCache:
    """How long the rows of a page are kept, and how many bytes of them in all.

    Meanwhile a page may show what is there no longer, to those who were let to see it.
    """

    ttl: timedelta = timedelta(seconds=5)
    maximum_bytes: int = 64 * 1024 * 1024

    def __post_init__(self) -> None:
        """Raises ConfigurationError for a cache that keeps nothing."""
        if self.ttl <= timedelta() or self.maximum_bytes <= 0:
            raise ConfigurationError("A ResultCache keeps results for some time and in some bytes.")


ALL_ACTIONS: frozenset[Action] = frozenset({"read", "pin", "delete"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Limits and habits of one server.

    Attributes:
        default_expiration: lifetime of a resource that asks for none.
        maximum_lifetime: an unpinned resource dies this long after its creation, sliding or not.
        sliding_expiration: every access starts the lifetime anew, up to `maximum_lifetime`.
        default_sample_size: rows a model sees.
        maximum_sample_size: the most rows a tool may ask to show.
        default_page_size: rows of a page when the request names no limit.
        maximum_page_size: the largest limit accepted.
        maximum_page_bytes: what its rows may weigh on their way from PostgreSQL, by asyncpg; SQLite makes no value
            larger than 64 MiB, MariaDB none larger than its max_allowed_packet.
        maximum_offset: the deepest offset accepted; drivers send it as a 32-bit integer.
        maximum_body_size: bytes of a request body.
        body_timeout: how long a caller may take to send it.
        maximum_sort_keys: columns in one sort.
        maximum_groups: the most groups of a question about a result whose answer is read by pages.
        maximum_refinement_depth: how many times a result may be made of another one, from a tool's Select on.
        maximum_refinements: how many results this process makes of one.
        maximum_stream_rows: the most rows one stream carries.
        maximum_stream_bytes: ... and bytes, before compression.
        maximum_stream_duration: how long one stream may take, its reader's pauses included.
        stream_stall_timeout: how long its reader may take nothing.
        maximum_streams: how many run at once on one database; each holds a connection while its reader reads.
        snapshot_tags: by source: while the tag is the same, so are the rows, and streams of them get an ETag.
        read_only_roles: by source: the role that every session takes (PostgreSQL's SET LOCAL ROLE); the server does not
            start if that role may change a table.
        maximum_document_size: bytes of a frozen Select, before compression.
        text_budget: characters of the sample in a tool result's text.
        results_budget: ... and in its structured content, as JSON; rows and then cells are cut to fit, and it is said.
        query_timeout: time one statement may run.
        maximum_concurrent_queries: statements that run at once on one database, besides its streams.
        maximum_queued_queries: how many may wait for their turn.
        queue_timeout: ... and for how long; as long again for a connection of the pool.
        pending_timeout: time a query of create_response(wait=...) may take in all, its count included.
        maximum_pending: how many of these run at once, on connections of their own; more are refused.
        pending_lease: how long after the last word of a server that runs one its resource counts as failed.
        count_head_start: how long the sample runs alone before the count starts beside it.
        count_budget: how long count="auto" counts before it makes do with less than an exact number.
        count_cap: ... such as the word that there are more rows than so many.
        estimate_narrowed: take the planner's estimate under hooks too. Its statistics are of all tenants' rows, so
            an estimate tells a little of rows that its reader may not see.
        profile_budget: how long a profile may take; what is not known by then is missing, and it says so.
        profile_sample: rows that profile="sample" looks at.
        maximum_profile_columns: columns of one profile; the others are left out, and it says how many.
        result_cache: keep the rows of pages for a while; off unless given. Each page then says whether it was `cached`.
        cleanup_interval: pause between two sweeps.
        gone_retention: how long an expired resource answers 410 instead of 404.
        watch_interval: how often resources that a client subscribes to are looked up, for what another process did.
        maximum_watched: how many they may be.
        keep_sample: store the sample rows with the resource (data at rest).
        allow_text: accept text() and literal_column() in statements.
        anonymous_actions: what the bearer of a link without a principal may do with a resource without one; not
            pinning, unless it is said, because what anyone can pin lives for ever.
        quota_resources: how many resources one principal may keep, None for no end; the oldest unpinned make room.
        quota_bytes: how much they may weigh in the store, None for no end.
        signed_links: allow `server.links.create`, and serve what it made.
        maximum_link_lifetime: how long a signed link may be good for.
        cors_origins: browser origins allowed to read the REST resources.
        allowed_hosts: Host header values accepted besides the base URL's own and loopback.
        uri_scheme: scheme of resource URIs; never http or https.
    """

    default_expiration: timedelta = timedelta(minutes=15)
    maximum_lifetime: timedelta = timedelta(hours=24)
    sliding_expiration: bool = False
    default_sample_size: int = 15
    maximum_sample_size: int = 1_000
    default_page_size: int = 100
    maximum_page_size: int = 10_000
    maximum_page_bytes: int = 64 * 1024 * 1024
    maximum_offset: int = 2_000_000_000
    maximum_body_size: int = 64 * 1024
    body_timeout: timedelta = timedelta(seconds=30)
    maximum_sort_keys: int = 16
    maximum_groups: int = 100_000
    maximum_refinement_depth: int = 8
    maximum_refinements: int = 100
    maximum_stream_rows: int = 100_000_000
    maximum_stream_bytes: int = 64 * 1024**3
    maximum_stream_duration: timedelta = timedelta(hours=1)
    stream_stall_timeout: timedelta = timedelta(minutes=1)
    maximum_streams: int = 10
    snapshot_tags: SnapshotTags = field(default_factory=dict)
    read_only_roles: Mapping[str, str] = field(default_factory=dict)
    maximum_document_size: int = 1024 * 1024
    text_budget: int = 4_000
    results_budget: int = 16_000
    query_timeout: timedelta = timedelta(seconds=30)
    maximum_concurrent_queries: int = 15
    maximum_queued_queries: int = 250
    queue_timeout: timedelta = timedelta(seconds=10)
    pending_timeout: timedelta = timedelta(minutes=10)
    maximum_pending: int = 10
    pending_lease: timedelta = timedelta(seconds=30)
    count_head_start: timedelta = timedelta(milliseconds=25)
    count_budget: timedelta = timedelta(milliseconds=200)
    count_cap: int = 10_000
    estimate_narrowed: bool = False
    profile_budget: timedelta = timedelta(seconds=10)
    profile_sample: int = 10_000
    maximum_profile_columns: int = 100
    result_cache: ResultCache | None = None
    cleanup_interval: timedelta = timedelta(seconds=60)
    gone_retention: timedelta = timedelta(hours=24)
    watch_interval: timedelta = timedelta(seconds=5)
    maximum_watched: int = 1_000
    keep_sample: bool = False
    allow_text: bool = False
    anonymous_actions: frozenset[Action] = frozenset({"read", "delete"})
    quota_resources: int | None = 1_000
    quota_bytes: int | None = 256 * 1024 * 1024
    signed_links: bool = False
    maximum_link_lifetime: timedelta = timedelta(days=7)
    cors_origins: Sequence[str] = ()
    allowed_hosts: Sequence[str] = ()
    uri_scheme: str = "resource"

    def __post_init__(self) -> None:
        """Raises ConfigurationError for a value that could only be a mistake."""
        for option in fields(self):
            _check(option.name, getattr(self, option.name), option.default)


# A zero would stop everything, or never pause.
_POSITIVE = frozenset(
    """body_timeout cleanup_interval count_budget count_cap default_page_size maximum_body_size
    maximum_concurrent_queries maximum_document_size maximum_groups maximum_link_lifetime
    maximum_page_size maximum_pending maximum_profile_columns maximum_stream_bytes maximum_stream_duration
    maximum_stream_rows maximum_streams pending_lease pending_timeout profile_budget profile_sample
    query_timeout queue_timeout quota_bytes quota_resources stream_stall_timeout watch_interval""".split()
)


_OPTIONAL = frozenset({"quota_resources", "quota_bytes"})


def _check(name: str, value: object, default: object) -> None:
    if value is None and name in _OPTIONAL:
        return
    if isinstance(default, bool | int | str | timedelta):
        if type(value) is not type(default):
            raise ConfigurationError(
                f"{name} must be a {type(default).__name__}.", hint=f"Such as {default!r}."
            )
        size = value.total_seconds() if isinstance(value, timedelta) else value
        if isinstance(size, int | float) and (size < 0 or (size == 0 and name in _POSITIVE)):
            raise ConfigurationError(f"{name} is too small.", hint=f"Such as {default!r}.")
    elif isinstance(value, str):
        raise ConfigurationError(f"{name} takes several values.", hint=f"Write [{value!r}].")
    elif name == "result_cache" and not isinstance(value, ResultCache | None):
        raise ConfigurationError(
            f"{name} must be a ResultCache.", hint="ResultCache(ttl=timedelta(seconds=5))."
        )
    elif name == "anonymous_actions" and not set(cast("Iterable[str]", value)) <= ALL_ACTIONS:
        raise ConfigurationError(
            f"{name} knows {', '.join(sorted(ALL_ACTIONS))}.", hint="Name some of these."
        )
    elif name == "allowed_hosts" and any("/" in host for host in cast("Iterable[str]", value)):
        raise ConfigurationError(f"{name} takes host names, not URLs.", hint="Such as ['api.example.com'].")


class SettingsOptions(TypedDict, total=False):
    """The fields of `Settings` as keyword arguments of a server."""

    default_expiration: timedelta
    maximum_lifetime: timedelta
    sliding_expiration: bool
    default_sample_size: int
    maximum_sample_size: int
    default_page_size: int
    maximum_page_size: int
    maximum_page_bytes: int
    maximum_offset: int
    maximum_body_size: int
    body_timeout: timedelta
    maximum_sort_keys: int
    maximum_groups: int
    maximum_refinement_depth: int
    maximum_refinements: int
    maximum_stream_rows: int
    maximum_stream_bytes: int
    maximum_stream_duration: timedelta
    stream_stall_timeout: timedelta
    maximum_streams: int
    snapshot_tags: SnapshotTags
    read_only_roles: Mapping[str, str]
    maximum_document_size: int
    text_budget: int
    results_budget: int
    query_timeout: timedelta
    maximum_concurrent_queries: int
    maximum_queued_queries: int
    queue_timeout: timedelta
    pending_timeout: timedelta
    maximum_pending: int
    pending_lease: timedelta
    count_head_start: timedelta
    count_budget: timedelta
    count_cap: int
    estimate_narrowed: bool
    profile_budget: timedelta
    profile_sample: int
    maximum_profile_columns: int
    result_cache: ResultCache | None
    cleanup_interval: timedelta
    gone_retention: timedelta
    watch_interval: timedelta
    maximum_watched: int
    keep_sample: bool
    allow_text: bool
    anonymous_actions: frozenset[Action]
    quota_resources: int | None
    quota_bytes: int | None
    signed_links: bool
    maximum_link_lifetime: timedelta
    cors_origins: Sequence[str]
    allowed_hosts: Sequence[str]
    uri_scheme: str
