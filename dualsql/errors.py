"""All errors that dualsql raises. `code` is stable; `hint` says what to do next. docs/errors.md lists the codes.

Every error is a DualResponseError. These have subclasses:
├── QueryExecutionError     CountExecutionError
├── DatabaseBusyError       DatabaseUnreachableError, TooManyQueriesError
├── QueryInterruptedError   QueryCancelledError
├── BadParameterError       UnknownColumnError, BadCursorError
├── ForbiddenError          InsufficientScopeError
├── InvalidSQLError         UnknownTableError
├── StorageError            TamperedError
└── ConfigurationError      PackageMissingError
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, ClassVar, Literal, NamedTuple

Asked = Literal["question", "text"]
"""What a caller gave: a query over a result, or a SQL text."""


class CallerMessage(NamedTuple):
    """The message and hint of an error for callers: over REST, in a stream, in a tool result."""

    message: str
    hint: str


Cause = Literal["caller", "database", "store", "server"]
"""Where the cause of an error is to be looked for: in what was asked, or in one of the parts that answer."""


class DualResponseError(Exception):
    """The root of all errors of the server package.

    Attributes:
        cause: where to look for it, as metrics and alerts say.
        code: a stable name, the same on every channel.
        message: one sentence for a person or a model; never a database's own text.
        hint: what to do next. It is for callers, unless there are `caller_words`.
        developer_hint: what to do in the server's code; never shown to a caller.
        details: JSON values that a program can use.
        caller_words: message and hint for callers, if those of the class mention code.
    """

    code: ClassVar[str] = "DUAL_RESPONSE_ERROR"
    cause: ClassVar[Cause] = "server"
    default_hint: ClassVar[str] = ""
    caller_words: ClassVar[CallerMessage | None] = None

    def __init__(
        self,
        message: str,
        *,
        hint: str | None = None,
        details: Mapping[str, Any] | None = None,
        developer_hint: str = "",
    ) -> None:
        super().__init__(message)
        self.message = message
        self.hint = self.default_hint if hint is None else hint
        self.developer_hint = developer_hint
        self.details = dict(details or {})

    @property
    def for_caller(self) -> CallerMessage:
        """The message and hint for callers. The exception's own text is for the developer of the server."""
        return self.caller_words or CallerMessage(self.message, self.hint)

    def __str__(self) -> str:
        return f"{self.message} {self.developer_hint or self.hint}".rstrip()


def shown(value: object, most: int) -> str:
    """At most `most` characters of a value, for a message; its type where Python cannot write it out."""
    try:
        return repr(value)[:most]
    except (ValueError, RecursionError):  # more than 4,300 digits
        return f"<{type(value).__name__}>"


class QueryExecutionError(DualResponseError):
    """The caller's statement failed in the database. The cause is chained and never shown to callers.

    Attributes:
        is_unsuited: a type does not have the operator, function or conversion that the statement uses.
            See `raise_for_input`.
        missing_operation: that operator or function with its types; empty if the database does not tell it.
        is_of_a_value: some rows have no such value, of which another statement may be the reason: one with a CAST, that
            this one reads.
        is_of_its_form: a part of the statement stands where it cannot, whatever the values are.
    """

    is_unsuited = False
    missing_operation = ""
    is_of_a_value = False
    is_of_its_form = False
    code = "QUERY_EXECUTION_FAILED"
    cause = "database"
    default_hint = (
        "If you wrote the query, check it. Otherwise tell the operator: the server's log has the cause."
    )


class CountExecutionError(QueryExecutionError):
    """The statement's rows could not be counted."""

    code = "COUNT_EXECUTION_FAILED"
    default_hint = 'Use count="none" to skip the count. The server\'s log has the cause.'


class ValueNotRepresentableError(DualResponseError):
    """A cell does not have its column's Arrow or Parquet type, or has no JSON form. It is never changed to fit.

    `details.column` names the column; `details.text_columns` names the columns to request as text, if that helps.
    """

    code = "VALUE_NOT_REPRESENTABLE"
    cause = "caller"


class QueryTimeoutError(DualResponseError):
    """The statement ran longer than `Settings.query_timeout` and was stopped."""

    code = "QUERY_TIMEOUT"
    cause = "database"
    default_hint = "Narrow the query, or ask the operator for more time (query_timeout, pending_timeout)."


class DatabaseBusyError(DualResponseError):
    """The database could not answer now. A later attempt may succeed.

    Attributes:
        is_full: it ran out of disk space or memory.
    """

    is_full = False
    code = "DATABASE_BUSY"
    cause: ClassVar[Cause] = "database"
    default_hint = "Try again in a moment."


class DatabaseUnreachableError(DatabaseBusyError):
    """No connection to the database could be opened: it is down, restarting, or rejects the server's login."""

    code = "DATABASE_UNREACHABLE"
    default_hint = (
        "Try again in a moment. If it stays so, tell the operator that the database is out of reach."
    )


class TooManyQueriesError(DatabaseBusyError):
    """The maximum number of queries runs and waits already, or that of one caller.

    Attributes:
        retry_after: seconds until another attempt is likely to succeed.
    """

    code = "TOO_MANY_QUERIES"
    cause = "server"

    def __init__(self, message: str, *, retry_after: int = 2) -> None:
        self.retry_after = min(max(retry_after, 1), 60)
        super().__init__(
            message,
            hint=f"Try again in {self.retry_after} second{'s' * (self.retry_after != 1)}.",
            details={"retry_after": self.retry_after},
        )


class RateLimitedError(DualResponseError):
    """The caller has done this too often of late (the feature `Rates`).

    Attributes:
        retry_after: seconds until it is allowed again.
    """

    code = "RATE_LIMITED"
    cause = "caller"
    default_hint = "Wait as long as Retry-After says, and send fewer requests."

    def __init__(self, message: str, *, retry_after: int = 1) -> None:
        super().__init__(
            message,
            hint=f"Wait {retry_after} second{'s' * (retry_after != 1)}, and do it less often.",
            details={"retry_after": retry_after},
        )
        self.retry_after = retry_after


class NotFreezableError(DualResponseError):
    """The statement contains something that cannot be stored as data."""

    code = "NOT_FREEZABLE"
    caller_words: ClassVar[CallerMessage | None] = CallerMessage(
        "The query cannot be stored as data.",
        "Write the query in another way, or tell the operator: the server's log has the cause.",
    )


class NoTotalOrderError(DualResponseError):
    """The rows have no order that stays the same from one page to the next."""

    code = "NO_TOTAL_ORDER"
    cause = "caller"


class ResourceNotFoundError(DualResponseError):
    """The resource is unknown, deleted or another caller's; the answer is the same for all three."""

    code = "RESOURCE_NOT_FOUND"
    cause = "caller"
    default_hint = "Run the query again to get a new resource."


class ResourceExpiredError(DualResponseError):
    """The resource existed and its lifetime is over."""

    code = "RESOURCE_EXPIRED"
    cause = "caller"
    default_hint = "Run the query again to get a new resource. Pin a resource to keep it."

    tool_calls: Sequence[Mapping[str, Any]] = ()
    """The calls that made it, for its owner's tools; see `dualsql.resource.CALLS`."""


class ResourcePendingError(DualResponseError):
    """The query of the resource still runs; there are no rows yet."""

    code = "RESOURCE_PENDING"
    cause = "caller"
    default_hint = "Try again in a moment. The metadata says when the resource is ready."


class ResourceFailedError(DualResponseError):
    """The query of the resource failed; there are no rows. `details.error` is the error of the query."""

    code = "RESOURCE_FAILED"
    cause = "database"


class QueryInterruptedError(DualResponseError):
    """The query was stopped before the database answered."""

    code = "QUERY_INTERRUPTED"
    default_hint = "Run the query again."


class QueryCancelledError(QueryInterruptedError):
    """A caller cancelled the query."""

    code = "QUERY_CANCELLED"
    cause = "caller"


class BadParameterError(DualResponseError):
    """A value from the caller is malformed or out of range."""

    code = "BAD_PARAMETER"
    cause = "caller"
    default_hint = "Correct what the message names, and send the request again."


class UnknownColumnError(BadParameterError):
    """The result has no column with this name."""

    code = "UNKNOWN_COLUMN"

    def __init__(
        self,
        name: str,
        columns: list[str],
        *,
        of: str = "The result",
        spelled: Callable[[str], str] | None = None,
    ) -> None:
        from difflib import get_close_matches

        close = get_close_matches(name, columns, n=3, cutoff=0.5)
        guess = f"Did you mean {' or '.join(map(spelled or repr, close))}?" if close else None
        listed = ", ".join(map(spelled or str, columns[:20]))
        super().__init__(
            f"{of} has no column {name[:80]!r}.",
            hint=guess or f"Use one of its columns: {listed}.",
            details={"column": name[:80], "suggestions": close, "columns": columns},
        )


class BadCursorError(BadParameterError):
    """The cursor or resume token is of another server, resource, order or principal; the answer does not say which."""

    code = "BAD_CURSOR"
    default_hint = "Use it with the same sort and as the same caller, or start again without it."

    def __init__(self, what: str = "cursor", *, hint: str | None = None) -> None:
        super().__init__(f"The {what} is not valid for this request.", hint=hint)


class ResultChangedError(DualResponseError):
    """The last row of a broken stream was changed or deleted."""

    code = "RESULT_CHANGED"
    cause = "caller"
    default_hint = "Start again without resume, and discard the rows received before."


class UnauthenticatedError(DualResponseError):
    """A credential is missing where one is required, wrong or expired.

    Attributes:
        challenge: the required kind of credential, for WWW-Authenticate (RFC 9110, section 11.6.1).
    """

    code = "UNAUTHENTICATED"
    cause = "caller"
    default_hint = "Send a valid credential. Renew the token if it has expired."

    def __init__(self, message: str, *, challenge: str = "Bearer", hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.challenge = challenge


class ForbiddenError(DualResponseError):
    """The caller is known and may not do this."""

    code = "FORBIDDEN"
    cause = "caller"
    default_hint = "Ask the operator to allow it."


class InsufficientScopeError(ForbiddenError):
    """The caller's token is valid but lacks a scope.

    Attributes:
        challenge: the required scopes, for WWW-Authenticate (RFC 6750, section 3.1).
    """

    code = "INSUFFICIENT_SCOPE"
    default_hint = "Get a token with the scopes that this server requires."

    def __init__(self, message: str, *, challenge: str) -> None:
        super().__init__(message)
        self.challenge = challenge


class ForbiddenSQLError(DualResponseError):
    """The statement reads a table that is not served, or contains SQL that rules cannot check."""

    code = "FORBIDDEN_SQL"
    cause = "caller"


class InvalidSQLError(DualResponseError):
    """The SQL text cannot be read, or its parts do not fit together."""

    code = "INVALID_SQL"
    cause = "caller"
    default_hint = "Correct the text, and send it again."


class UnknownTableError(InvalidSQLError):
    """The text names a table that is not served, whether it exists or not."""

    code = "UNKNOWN_TABLE"


class LimitExceededError(DualResponseError):
    """The request asks for more than the settings allow."""

    code = "LIMIT_EXCEEDED"
    cause = "caller"
    default_hint = "Ask for less, or ask the operator for a higher limit."


class ServerUnavailableError(DualResponseError):
    """The server has not started yet, or is stopping. Another attempt, perhaps at another server, may succeed."""

    code = "SERVER_UNAVAILABLE"
    default_hint = "Try again in a moment."


class StorageError(DualResponseError):
    """The resource store failed. The request can be repeated."""

    code = "STORAGE_ERROR"
    cause = "store"
    default_hint = "Try again in a moment."


class TamperedError(StorageError):
    """A stored row was changed, or was not written by this server."""

    code = "TAMPERED_RESOURCE"
    default_hint = (
        "Run the query again, and tell the operator that the signature of a stored resource is not valid."
    )


class ConfigurationError(DualResponseError):
    """The configuration of the server is not safe or not complete."""

    code = "BAD_CONFIGURATION"
    caller_words: ClassVar[CallerMessage | None] = CallerMessage(
        "The server is not configured for this.", "Tell the operator: the server's log has the cause."
    )


class PackageMissingError(ConfigurationError):
    """What is asked for needs a package that is not installed; the hint names the extra."""

    code = "MISSING_EXTRA"
    caller_words = None


def refuse_mistaken(argument: str, value: object) -> None:
    """Raises ConfigurationError, with what to pass instead, for what people pass as this argument by mistake."""
    from dualsql.hints import INSTEAD

    hints = INSTEAD[argument]
    name = next((cls.__name__ for cls in type(value).__mro__ if cls.__name__ in hints), None)
    if name is not None:
        what = "None" if value is None else f"of the class {type(value).__name__}"
        raise ConfigurationError(f"{argument} cannot be {what}."[:200], hint=hints[name])


def refuse_unknown(names: Collection[str], allowed: Collection[str], what: str) -> None:
    """Raise BadParameterError, with a suggestion, for the first unknown name."""
    for name in names:
        if name not in allowed:
            from dualsql.hints import similar_names

            name = name[:80]
            close = similar_names(name, allowed)
            choice = f"Allowed here: {', '.join(allowed)}." if allowed else "None is allowed here."
            raise BadParameterError(
                f"Unknown {what} {name!r}.",
                hint=f"Did you mean {close[0]!r}?" if close else choice,
                details={"name": name, "known": [*allowed]},
            )
