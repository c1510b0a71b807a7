"""Every error that dualsql raises. `code` is stable, `hint` says what to do next.

DualResponseError
├── QueryExecutionError        QUERY_EXECUTION_FAILED   the caller's statement failed in the database
│   └── CountExecutionError    COUNT_EXECUTION_FAILED   ... while its rows were counted
├── QueryTimeoutError          QUERY_TIMEOUT            it ran longer than the setting allows
├── DatabaseBusyError          DATABASE_BUSY            no connection was free, or the database broke off
│   ├── DatabaseUnreachableError  DATABASE_UNREACHABLE  no connection could be opened
│   └── TooManyQueriesError    TOO_MANY_QUERIES         ... because as many run and wait as the settings allow
├── NotFreezableError          NOT_FREEZABLE            the statement cannot be kept as data
├── NoTotalOrderError          NO_TOTAL_ORDER           its rows cannot be paged without loss
├── ResourceNotFoundError      RESOURCE_NOT_FOUND       unknown, deleted, or not the caller's
├── ResourceExpiredError       RESOURCE_EXPIRED         it was there, and its time is over
├── ResourcePendingError       RESOURCE_PENDING         its query still runs
├── ResourceFailedError        RESOURCE_FAILED          its query failed: `details.error` says why
├── QueryInterruptedError      QUERY_INTERRUPTED        the server that ran the query stopped, or was told to stop it
│   └── QueryCancelledError    QUERY_CANCELLED          ... by whoever asked for it
├── BadParameterError          BAD_PARAMETER            a value the caller gave is not usable
│   ├── UnknownColumnError     UNKNOWN_COLUMN           ... because no column has that name
│   └── BadCursorError         BAD_CURSOR               ... a cursor: not ours, or not for this
├── ValueNotRepresentableError VALUE_NOT_REPRESENTABLE  a cell has no form in the format asked for
├── ResultChangedError         RESULT_CHANGED           a broken stream cannot be gone on with: its rows are others now
├── UnauthenticatedError       UNAUTHENTICATED          the request's credential is missing or not right
├── ForbiddenError             FORBIDDEN                the caller may not do this with the resource
│   └── InsufficientScopeError INSUFFICIENT_SCOPE       ... because the token was issued for less
├── ForbiddenSQLError          FORBIDDEN_SQL            the statement reads what it may not, or hides what it reads
├── InvalidSQLError            INVALID_SQL              a SQL text that cannot be understood
│   └── UnknownTableError      UNKNOWN_TABLE            ... because no table has that name
├── LimitExceededError         LIMIT_EXCEEDED           more than the settings allow
├── StorageError               STORAGE_ERROR            the resource store failed or is out of reach
│   └── TamperedError          TAMPERED_RESOURCE        a stored row does not carry our signature
└── ConfigurationError         BAD_CONFIGURATION        the server was set up in a way that cannot be safe
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from difflib import get_close_matches
from importlib.util import find_spec
from typing import Any, ClassVar, Literal, NamedTuple

Asked = Literal["question", "text"]
"""What a caller gave that a statement was made of."""


class Told(NamedTuple):
    """What callers are told of an error: over REST, in a stream, by a tool."""

    message: str
    hint: str


class DualResponseError(Exception):
    """The root of all errors of the server package.

    Attributes:
        code: a stable name, the same on every channel.
        message: one sentence for a person or a model; never a database's own text.
        hint: what to do next, or an empty string. Written for callers, unless `caller_words` are given.
        developer_hint: what to do in code, on the server; never told to a caller.
        details: JSON values that a program can use.
        caller_words: of a class whose message and hint speak of code: what callers are told in their place.
    """

    code: ClassVar[str] = "DUAL_RESPONSE_ERROR"
    default_hint: ClassVar[str] = ""
    caller_words: ClassVar[Told | None] = None

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
    def told(self) -> Told:
        """What callers are told. The exception's own text is for whoever wrote the server's code."""
        return self.caller_words or Told(self.message, self.hint)

    def __str__(self) -> str:
        return f"{self.message} {self.developer_hint or self.hint}".rstrip()


class QueryExecutionError(DualResponseError):
    """The caller's statement failed in the database; the cause is chained, never shown.

    Attributes:
        is_unsuited: the statement asks of values what their types do not have: an operator, a function, a conversion.
            See `blaming`.
        is_of_a_value: some rows have no such value, of which another statement may be the reason: one with a CAST, that
            this one reads.
    """

    is_unsuited = False
    is_of_a_value = False
    code = "QUERY_EXECUTION_FAILED"
    default_hint = (
        "If you wrote the query, check it. Otherwise tell the operator: the server's log has the cause."
    )


class CountExecutionError(QueryExecutionError):
    """The statement's rows could not be counted."""

    code = "COUNT_EXECUTION_FAILED"
    default_hint = 'Use count="none" to skip the count. The server\'s log has the cause.'


class ValueNotRepresentableError(DualResponseError):
    """A cell is not of the type that its column has in Arrow or Parquet, or has no JSON form; it is never changed.

    `details.column` is where; `details.text_columns` are the columns to be asked for as text, where that helps.
    """

    code = "VALUE_NOT_REPRESENTABLE"


class QueryTimeoutError(DualResponseError):
    """The statement ran longer than `Settings.query_timeout` and was stopped."""

    code = "QUERY_TIMEOUT"
    default_hint = "Narrow the query, or ask the operator for more time (query_timeout, pending_timeout)."


class DatabaseBusyError(DualResponseError):
    """The database could not answer now, and may at the next try."""

    code = "DATABASE_BUSY"
    default_hint = "Try again in a moment."


class DatabaseUnreachableError(DatabaseBusyError):
    """No connection to the database could be opened: it is down, restarting, or refuses the server's login."""

    code = "DATABASE_UNREACHABLE"
    default_hint = (
        "Try again in a moment. If it stays so, tell the operator that the database is out of reach."
    )


class TooManyQueriesError(DatabaseBusyError):
    """As many queries run and wait as the settings allow."""

    code = "TOO_MANY_QUERIES"


class NotFreezableError(DualResponseError):
    """The statement holds something that cannot be stored as data."""

    code = "NOT_FREEZABLE"
    caller_words = Told(
        "The query cannot be stored as data.",
        "Write the query in another way, or tell the operator: the server's log has the cause.",
    )


class NoTotalOrderError(DualResponseError):
    """No order of the statement's rows can be relied on from one page to the next."""

    code = "NO_TOTAL_ORDER"


class ResourceNotFoundError(DualResponseError):
    """No such resource for this caller: unknown, deleted and foreign look the same."""

    code = "RESOURCE_NOT_FOUND"
    default_hint = "Run the query again to get a new resource."


class ResourceExpiredError(DualResponseError):
    """The resource existed and its lifetime is over."""

    code = "RESOURCE_EXPIRED"
    default_hint = "Run the query again to get a new resource. Pin a resource to keep it."


class ResourcePendingError(DualResponseError):
    """The resource's query still runs: there are no rows yet."""

    code = "RESOURCE_PENDING"
    default_hint = "Try again in a moment. The metadata says when the resource is ready."


class ResourceFailedError(DualResponseError):
    """The resource's query failed: there will be no rows. `details.error` is the problem it failed with."""

    code = "RESOURCE_FAILED"


class QueryInterruptedError(DualResponseError):
    """The query was ended before the database had answered."""

    code = "QUERY_INTERRUPTED"
    default_hint = "Run the query again."


class QueryCancelledError(QueryInterruptedError):
    """The query was ended because somebody asked for that."""

    code = "QUERY_CANCELLED"


class BadParameterError(DualResponseError):
    """A value from the caller is malformed or out of bounds."""

    code = "BAD_PARAMETER"


class UnknownColumnError(BadParameterError):
    """No column of the result has the name the caller used."""

    code = "UNKNOWN_COLUMN"

    def __init__(self, name: str, known: list[str], *, of: str = "The result") -> None:
        close = get_close_matches(name, known, n=3, cutoff=0.5)
        guess = f"Did you mean {' or '.join(map(repr, close))}?" if close else None
        super().__init__(
            f"{of} has no column {name[:80]!r}.",
            hint=guess or f"Use one of its columns: {', '.join(known[:20])}.",
            details={"column": name[:80], "suggestions": close, "columns": known},
        )


class BadCursorError(BadParameterError):
    """The cursor is not this server's, or was given for another resource, order or principal: all one answer."""

    code = "BAD_CURSOR"
    default_hint = "Use it with the same sort and as the same caller, or start again without a cursor."

    def __init__(self) -> None:
        super().__init__("The cursor is not valid for this request.")


class ResultChangedError(DualResponseError):
    """The row that a broken stream ended with is another one by now, or gone."""

    code = "RESULT_CHANGED"
    default_hint = "Start again without resume, and discard the rows received before."


class UnauthenticatedError(DualResponseError):
    """Nobody knows who asks: a credential is missing where one is needed, wrong or expired.

    Attributes:
        challenge: what kind of credential is wanted, as WWW-Authenticate says it (RFC 9110, section 11.6.1).
    """

    code = "UNAUTHENTICATED"
    default_hint = "Send a valid credential. Renew the token if it has expired."

    def __init__(self, message: str, *, challenge: str = "Bearer", hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.challenge = challenge


class ForbiddenError(DualResponseError):
    """The caller is known and may not do this."""

    code = "FORBIDDEN"


class InsufficientScopeError(ForbiddenError):
    """The caller's token is valid, and was issued for less than this.

    Attributes:
        challenge: the scopes that are wanted, as WWW-Authenticate says it (RFC 6750, section 3.1).
    """

    code = "INSUFFICIENT_SCOPE"
    default_hint = "Get a token with the scopes that this server requires."

    def __init__(self, message: str, *, challenge: str) -> None:
        super().__init__(message)
        self.challenge = challenge


class ForbiddenSQLError(DualResponseError):
    """The statement names what this server does not serve, or holds what no rule can see through."""

    code = "FORBIDDEN_SQL"


class InvalidSQLError(DualResponseError):
    """A text is no SQL that this server understands."""

    code = "INVALID_SQL"


class UnknownTableError(InvalidSQLError):
    """No table that is served has the name in the text; one that exists and is not served looks the same."""

    code = "UNKNOWN_TABLE"


class LimitExceededError(DualResponseError):
    """The request asks for more than the settings allow."""

    code = "LIMIT_EXCEEDED"


class StorageError(DualResponseError):
    """The resource store failed; the request may be repeated."""

    code = "STORAGE_ERROR"
    default_hint = "Try again in a moment."


class TamperedError(StorageError):
    """A stored row was not written by this server, or was changed since."""

    code = "TAMPERED_RESOURCE"
    default_hint = (
        "Run the query again, and tell the operator that the signature of a stored resource is not valid."
    )


class ConfigurationError(DualResponseError):
    """The server cannot start safely as it was set up."""

    code = "BAD_CONFIGURATION"
    caller_words = Told(
        "The server is not configured for this.", "Tell the operator: the server's log has the cause."
    )


@contextmanager
def blaming(asked: Asked | None, *, reads_conversions: Callable[[], bool]) -> Iterator[None]:
    """Report an unsuited statement as the mistake of the caller who gave its question or its text.

    Args:
        asked: what the caller gave; None for a statement of the application's own, whose error is raised as it is.
        reads_conversions: whether a statement converts values that the question or the text reads.

    Raises:
        QueryExecutionError: a value could not be converted, by the one or by the other.
        BadParameterError, InvalidSQLError: the database has no such operation for the types of the values in the
            question, in the text.
    """
    try:
        yield
    except QueryExecutionError as error:
        if asked is None or not error.is_unsuited:
            raise
        if error.is_of_a_value and reads_conversions():
            raise QueryExecutionError(_UNCONVERTED.message, hint=_UNCONVERTED.hint) from error
        mistake, message, hint = _MISTAKES[asked]
        raise mistake(message, hint=hint) from error


_UNCONVERTED = Told(
    "The database could not convert a value, in the query of the result or in the question about it.",
    "Leave out the columns, conditions or conversions of the question one by one. If the result's own rows cannot be "
    "read either, its query is wrong for the data: tell the operator.",
)
_MISTAKES: Mapping[Asked, tuple[type[DualResponseError], str, str]] = {
    "question": (
        BadParameterError,
        "The database cannot compare, group or compute these values: a column's type does not allow it.",
        "Use another column, or leave out that condition, group or aggregate.",
    ),
    "text": (
        InvalidSQLError,
        "The database has no such function, operator or conversion for the types of the values in it.",
        "Compare values of the same type, sum only numbers, and use CAST(... AS ...) for a value of another type.",
    ),
}


@contextmanager
def extra(name: str) -> Iterator[None]:
    """What is imported inside comes with the extra `name` of dualsql; who misses it is told so.

    Raises:
        ModuleNotFoundError: still that, so that what is optional to an importer stays so.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] == "dualsql":
            raise
        raise ModuleNotFoundError(
            f'{error.name} is not installed. pip install "dualsql[{name}]"', name=error.name
        ) from error


def require_package(package: str, message: str, *, hint: str) -> None:
    """Check that `package` is installed, without importing it: imports are what a server's start takes longest for.

    Raises:
        ConfigurationError: it is not installed; with this message and hint.
    """
    if find_spec(package) is None:
        raise ConfigurationError(message, hint=hint)


_COMPARED = 80
"""Characters: comparing names costs the product of their lengths, and this one is the caller's."""

_SAME = tuple(
    frozenset(names.split())
    for names in (
        "filters filter where condition conditions predicate criteria",
        "columns column fields field select",
        "order_by sort sort_by order orderby",
        "offset skip start from",
        "limit top take first max_rows row_limit page_size rows n",
        "sql query statement text",
        "resource uri url resource_uri resource_id id link",
        "group_by groupby group groups dimensions",
        "aggregates aggregate aggregations aggregation measures metrics functions",
        "source_name source database db",
        "schema_name schema",
        "table table_name name",
        "terms term q search keywords",
    )
)
"""Names that mean the same where only one of them is known."""


def refuse_unknown(given: Collection[str], known: Collection[str], what: str) -> None:
    """Raises BadParameterError, which guesses, for a name that is not known here."""
    unknown = next((name for name in given if name not in known), None)
    if unknown is None:
        return
    name = unknown[:_COMPARED]
    close = _meant(name, known) or get_close_matches(name, known, n=1)
    allowed = f"Allowed here: {', '.join(known)}." if known else "None is allowed here."
    hint = f"Did you mean {close[0]!r}?" if close else allowed
    raise BadParameterError(f"Unknown {what} {name!r}.", hint=hint, details={"name": name, "known": [*known]})


def _meant(name: str, known: Collection[str]) -> list[str]:
    same = next((names for names in _SAME if name.lower() in names), frozenset())
    return [each for each in known if each in same]
