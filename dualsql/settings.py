"""The settings of a server. Each is written once: its name, type, default, lowest value and meaning."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields
from datetime import timedelta
from functools import wraps
from pathlib import Path
from typing import Any, Concatenate, Literal, ParamSpec, Self, TypeVar, cast, get_args

from dualsql.errors import BadParameterError, ConfigurationError

TABLE_PREFIX = "dualsql_"
"""What every table of dualsql's own begins with."""

Action = Literal["read", "pin", "refresh", "delete"]
"""What can be done with a resource."""

ALL_ACTIONS: frozenset[Action] = frozenset(get_args(Action))

KeepOption = Literal["slow"] | bool
"""Whether the rows of a run are kept: always, never, or those of a query that was slow."""

TextFormat = Literal["markdown", "csv", "json", "none"]
"""The format of the text of a result. "json" is the structured content, "none" has no sample."""

ResultsFormat = Literal["rows", "columnar"]
"""The form of `results` in the structured content: rows, or columns, where each name occurs once."""

SnapshotTags = Mapping[str, str | Callable[[], str | None]]
"""By source: a name for the present state of its data, as a text or a function that tells it (None: it moves)."""

T = TypeVar("T")
Owner = TypeVar("Owner")
Options = TypeVar("Options")
P = ParamSpec("P")


def user_cache() -> Path:
    """The folder of dualsql's caches of this user, by the XDG Base Directory Specification."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "dualsql"


def require_duration(
    name: str,
    value: Any,
    *,
    is_positive: bool = False,
    failure: type[BadParameterError | ConfigurationError] = ConfigurationError,
    example: timedelta = timedelta(seconds=30),
) -> timedelta:
    """The value of an argument that is a length of time.

    Raises:
        BadParameterError, ConfigurationError: as `failure` says. It is no timedelta, or too short.
    """
    if not isinstance(value, timedelta):
        is_length = isinstance(value, int | float) and not isinstance(value, bool)
        is_length = is_length and (value > 0 if is_positive else value >= 0)
        code = f"timedelta(seconds={value:.9g})" if is_length else as_code(example)
        raise failure(f"{name} must be a timedelta.", hint=f"Write {name}={code}.")
    if value < timedelta() or (is_positive and not value):
        raise failure(
            f"{name} must be {'positive' if is_positive else 'zero or positive'}.",
            hint=f"Write {name}={as_code(example)}.",
        )
    return value


LimitedAction = Literal["create", "ask", "stream"]
"""create: a result, also by a question or a chart. ask: a page, a question, a profile or the picture of a chart."""


def setting(default: T, meaning: str, *, positive: bool = False, is_checked: bool = True) -> T:
    """One field of a `SettingsGroup`.

    Args:
        meaning: one or two sentences for docs/settings.md and help().
        positive: zero is refused too, because it would stop everything or never pause.
        is_checked: a value has the type of the default. False where the group checks it in another way.
    """
    about = {"meaning": meaning, "positive": positive, "is_checked": is_checked}
    if isinstance(default, dict):
        # dataclasses refuse a mutable default.
        return cast("T", field(default_factory=default.copy, metadata=about))
    return field(default=default, metadata=about)


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingsGroup:
    """Settings of a server, or of one of its features. Each is a `setting`, and is checked by its default."""

    def __new__(cls, *unnamed: Any, **keywords: Any) -> Self:
        """Raise TypeError for an argument that is no setting, with the most similar one; or that has no name."""
        options = fields(cls)
        names = [option.name for option in options]
        if not keywords.keys() <= set(names):
            from dualsql_client.keywords import refuse_unknown_keywords

            refuse_unknown_keywords(cls.__name__, keywords, names)
        keyword_only = [option.name for option in options if option.kw_only]
        if len(unnamed) > len(options) - len(keyword_only):
            raise TypeError(f"Name the arguments of {cls.__name__}(): {', '.join(keyword_only[:1])}=...")
        return object.__new__(cls)

    def __post_init__(self) -> None:
        """Raise ConfigurationError for an invalid value."""
        for option in settings_in(type(self)):
            if option.metadata["is_checked"]:
                _check(option, getattr(self, option.name))


def settings_in(kind: type[SettingsGroup]) -> list[Field[Any]]:
    """The settings of a group, in their order."""
    return [option for option in fields(kind) if "meaning" in option.metadata]


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultCache(SettingsGroup):
    """How long rows of pages are cached, and how many bytes of them in all.

    During that time, a page may show rows that were changed or deleted, to callers who were allowed to see them.
    """

    ttl: timedelta = setting(timedelta(seconds=5), "How long rows are cached.", positive=True)
    maximum_bytes: int = setting(64 * 1024 * 1024, "Bytes of all rows together.", positive=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings(SettingsGroup):
    """Limits and behaviour of one server."""

    default_expiration: timedelta = setting(
        timedelta(minutes=15), "Lifetime of a resource whose tool names none."
    )
    maximum_lifetime: timedelta = setting(
        timedelta(hours=24), "An unpinned resource expires this long after its creation, sliding or not."
    )
    sliding_expiration: bool = setting(
        False, "Each access starts the lifetime again, up to `maximum_lifetime`."
    )
    default_sample_size: int = setting(
        15,
        "Rows that a model sees of a result that does not fit `text_budget` and `results_budget`, when the tool names "
        "no number. A result that fits is shown whole; with 0 no row is shown of any.",
    )
    default_page_size: int = setting(100, "Rows of a page when the request names no limit.", positive=True)
    maximum_page_size: int = setting(10_000, "The largest limit of a page.", positive=True)
    maximum_page_bytes: int = setting(
        64 * 1024 * 1024,
        "The most bytes that the rows of one page may have while they are read. docs/databases.md says for which "
        "drivers; the others have bounds of their own.",
    )
    maximum_offset: int = setting(
        2_000_000_000, "The largest offset of a page. Drivers send it as a 32-bit integer."
    )
    maximum_body_size: int = setting(64 * 1024, "Bytes of a request body.", positive=True)
    body_timeout: timedelta = setting(
        timedelta(seconds=30), "How long a caller may take to send a request body.", positive=True
    )
    maximum_sort_keys: int = setting(16, "Columns in one sort.")
    maximum_stream_rows: int = setting(100_000_000, "The most rows of one stream.", positive=True)
    maximum_stream_bytes: int = setting(
        64 * 1024**3, "The most bytes of one stream, before compression.", positive=True
    )
    maximum_stream_duration: timedelta = setting(
        timedelta(hours=1), "How long one stream may take, including pauses of its reader.", positive=True
    )
    stream_stall_timeout: timedelta = setting(
        timedelta(minutes=1), "How long the reader of a stream may take no bytes.", positive=True
    )
    maximum_streams: int = setting(
        10,
        "Streams that run at once on one database. Each holds a connection until it is read.",
        positive=True,
    )
    snapshot_tags: SnapshotTags = setting(
        {}, "By source: while the tag is the same, so are the rows, and streams of them get an ETag."
    )
    read_only_roles: Mapping[str, str] = setting(
        {},
        "By source: the role that every session takes (SET LOCAL ROLE). The server does not start if that role may "
        "change a table.",
    )
    unproved_read_only: bool | Collection[str] = setting(
        False,
        "Serve databases that have no read-only sessions: True for the only database, or the names of such sources. "
        "Nothing but a SELECT is sent to them; that nothing is written is up to the rights of their users.",
        is_checked=False,
    )
    text_budget: int = setting(4_000, "Characters of the sample in the text of a tool result.")
    results_budget: int = setting(
        16_000,
        "Characters of the structured content of a tool result, as JSON. Rows, then ends of cells and then columns are "
        "left out to fit; the result says so.",
    )
    query_timeout: timedelta = setting(timedelta(seconds=30), "Time limit of one statement.", positive=True)
    slow_query: timedelta = setting(
        timedelta(seconds=5),
        "A statement that runs longer is logged, with a hash of its text; of a stream, the time to its first rows.",
        positive=True,
    )
    drain_timeout: timedelta = setting(
        timedelta(seconds=20),
        "How long running streams and pending queries may go on once the server is told to stop. Then streams end with "
        "an error that tells their readers to resume.",
    )
    maximum_concurrent_queries: int = setting(
        15,
        "Statements at once on one database, besides streams and the shortest pages; some databases take fewer.",
        positive=True,
    )
    maximum_queued_queries: int = setting(250, "Statements that may wait for their turn on one database.")
    queue_timeout: timedelta = setting(
        timedelta(seconds=10),
        "How long a statement waits for its turn, and as long again for a connection of the pool.",
        positive=True,
    )
    pending_timeout: timedelta = setting(
        timedelta(minutes=10),
        "Time limit of a query of create_response(wait=...), including its count.",
        positive=True,
    )
    maximum_pending: int = setting(
        10,
        "Pending queries that run at once, on connections of their own. Further ones are refused.",
        positive=True,
    )
    pending_lease: timedelta = setting(
        timedelta(seconds=30),
        "If the server that runs a pending query does not renew it for so long, the query counts as failed.",
        positive=True,
    )
    count_head_start: timedelta = setting(
        timedelta(milliseconds=25), "How long the sample runs alone before the count starts."
    )
    count_budget: timedelta = setting(
        timedelta(milliseconds=200),
        'How long count="auto" counts before it takes an estimate or a lower bound.',
        positive=True,
    )
    count_cap: int = setting(
        10_000, 'The lower bound that count="auto" reports where there is no estimate.', positive=True
    )
    allow_estimates_under_hooks: bool = setting(
        False,
        "Use the planner's estimate under hooks, too. Its statistics cover the rows of all tenants, so an estimate "
        "tells a little about rows that its reader may not see.",
    )
    result_cache: ResultCache | None = setting(
        None, "Keep the rows of pages for a while. Each page then says whether it was `cached`."
    )
    cleanup_interval: timedelta = setting(
        timedelta(seconds=60), "Pause between two sweeps of the store.", positive=True
    )
    gone_retention: timedelta = setting(
        timedelta(hours=24), "How long an expired resource is answered with 410 instead of 404."
    )
    keep_sample: bool = setting(False, "Store the sample rows with the resource (data at rest).")
    allow_text: bool = setting(False, "Accept text() and literal_column() in statements.")
    anonymous_actions: frozenset[Action] = setting(
        frozenset({"read", "pin", "delete"}),
        "What an anonymous caller may do with a resource that belongs to nobody; who may pin may unpin and renew. What "
        "one address pins counts against `quota_resources` and `quota_bytes`. Not by default: refreshing, which takes "
        "up to `pending_timeout`.",
    )
    quota_resources: int | None = setting(
        1_000,
        "Resources that one principal may keep; None for no limit. The oldest unpinned ones are deleted. As many may "
        "be pinned from one address of anonymous callers.",
        positive=True,
    )
    quota_bytes: int | None = setting(
        256 * 1024 * 1024,
        "Bytes that the resources of one principal, or the pins of one address, may take in the store; None for no "
        "limit.",
        positive=True,
    )
    cors_origins: Sequence[str] = setting((), "Browser origins that may read the REST resources.")
    allowed_hosts: Sequence[str] = setting(
        (), "Values of the Host header that are accepted besides those of the base URL and loopback."
    )
    uri_scheme: str = setting("resource", "Scheme of resource URIs; http and https are refused.")

    def __post_init__(self) -> None:
        """Raise ConfigurationError for an invalid value."""
        # Not super(): a dataclass with slots is another class than the one that this method was written in.
        SettingsGroup.__post_init__(self)
        if isinstance(self.unproved_read_only, str) or not isinstance(
            self.unproved_read_only, bool | Collection
        ):
            raise ConfigurationError(
                "unproved_read_only must be True, False or names of sources.",
                hint='For example {"warehouse"}.',
            )
        if not isinstance(self.result_cache, ResultCache | None):
            raise ConfigurationError(
                "result_cache must be a ResultCache.",
                hint="For example ResultCache(ttl=timedelta(seconds=5)).",
            )
        if not ALL_ACTIONS.issuperset(self.anonymous_actions):
            raise ConfigurationError(
                "anonymous_actions contains an unknown action.", hint=f"Use {', '.join(sorted(ALL_ACTIONS))}."
            )
        if any("/" in host for host in self.allowed_hosts):
            raise ConfigurationError(
                "allowed_hosts must contain host names, not URLs.", hint="For example ['api.example.com']."
            )
        if self.default_expiration > self.maximum_lifetime:
            raise ConfigurationError(
                f"default_expiration is {self.default_expiration}, and maximum_lifetime {self.maximum_lifetime}.",
                hint="Set both: a resource that is not pinned never lives longer than maximum_lifetime.",
            )


def _document(kind: type[SettingsGroup]) -> None:
    """Add the meaning of each setting to the docstring of a group, which help() shows."""
    lines = "\n".join(f"    {each.name}: {each.metadata['meaning']}" for each in settings_in(kind))
    kind.__doc__ = f"{kind.__doc__}\n\nAttributes:\n{lines}"


def type_name(option: Field[Any]) -> str:
    """The type of a setting as code, such as "int | None"."""
    return option.type.__name__ if isinstance(option.type, type) else str(option.type)


def as_code(value: Any) -> str:
    """The value of a setting as Python writes it."""
    if isinstance(value, frozenset):
        return f"frozenset({{{', '.join(map(repr, sorted(value)))}}})"
    if isinstance(value, timedelta):
        unit, length = next(each for each in _UNITS if value % each[1] == timedelta())
        return f"timedelta({unit}={value // length})"
    return f"{value:_}" if type(value) is int else repr(value)


_UNITS = [(unit, timedelta(**{unit: 1})) for unit in ("days", "hours", "minutes", "seconds", "milliseconds")]
_IN_WORDS = {bool: "True or False", int: "a whole number", float: "a number", str: "a string"}


def default_of(option: Field[Any]) -> Any:
    """The default of a field, or a new one of its factory."""
    return option.default if option.default_factory is MISSING else option.default_factory()


def _check(option: Field[Any], value: object) -> None:
    name, default = option.name, default_of(option)
    if value is None and type_name(option).endswith("| None"):
        return
    is_positive = option.metadata["positive"]
    if isinstance(default, timedelta):
        require_duration(name, value, is_positive=is_positive, example=default)
    elif isinstance(default, bool | int | float | str):
        # Not isinstance: True is an int, and would be a limit of 1.
        if type(value) is not type(default):
            raise ConfigurationError(
                f"{name} must be {_IN_WORDS[type(default)]}.", hint=f"For example {default!r}."
            )
        if isinstance(value, int | float) and not (value > 0 if is_positive else value >= 0):
            raise ConfigurationError(
                f"{name} must be {'positive' if is_positive else 'zero or positive'}.",
                hint=f"For example {default!r}.",
            )
    # A str is a sequence, too: each of its characters would be an origin or a host.
    elif isinstance(value, str) and isinstance(default, Collection):
        raise ConfigurationError(f"{name} must be a collection of strings.", hint=f"Write [{value!r}].")


def is_keep_option(value: object) -> bool:
    """Whether a value is a `KeepOption`."""
    return isinstance(value, bool) or (isinstance(value, str) and value == "slow")


_document(Settings)


def takes(
    options: Callable[P, Options], *, elsewhere: Callable[[str], str | None] | None = None
) -> Callable[[Callable[[Owner, Options], T]], Callable[Concatenate[Owner, P], T]]:
    """A decorator: the method takes the fields of the dataclass `options` as parameters, and gets an instance.

    Type checkers and help() show each field with its type and default, and help() of a `SettingsGroup` each meaning.

    Args:
        elsewhere: where a keyword belongs that is not a field; None if that is unknown.

    Raises:
        TypeError: a keyword is not a field, and the message names the most similar field; or a field is missing, given
            twice, or given without the name that it needs.
    """
    if isinstance(options, type) and issubclass(options, SettingsGroup):
        _document(options)
    signature = _signature_of(options)
    make: Callable[..., Options] = options

    def decorated(method: Callable[[Owner, Options], T]) -> Callable[Concatenate[Owner, P], T]:
        @wraps(method)
        def call(*arguments: Any, **keywords: Any) -> T:
            try:
                owner, *values = arguments
                group = make(*values, **keywords)
            except (TypeError, ValueError):
                from dualsql.arguments import require_taken

                require_taken(method, signature, arguments, keywords, elsewhere)
                raise
            return method(owner, group)

        returned = method.__annotations__.get("return", inspect.Signature.empty)
        # inspect.signature, and with it help(), reads this attribute (PEP 362).
        call.__dict__["__signature__"] = signature.replace(return_annotation=_AsWritten(returned))
        return cast("Callable[Concatenate[Owner, P], T]", call)

    return decorated


class _AsWritten(str):
    """The type of a parameter, which help() shows without quotes."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def _signature_of(options: Any) -> inspect.Signature:
    """The signature of a method that takes the fields of a dataclass, the required ones first."""
    options_by_name = {each.name: each for each in fields(options)}
    parameters = [
        each.replace(
            annotation=_AsWritten(each.annotation),
            default=each.default if each.default is each.empty else default_of(options_by_name[each.name]),
        )
        for each in inspect.signature(options).parameters.values()
    ]
    owner = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    parameters.sort(key=lambda each: (each.kind, each.default is not each.empty))
    return inspect.Signature([owner, *parameters])
