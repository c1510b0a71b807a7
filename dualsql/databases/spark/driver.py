"""A driver for the Thrift server, over a connection of PyHive: it polls, stops, and writes values as literals."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from math import ceil, isfinite
from typing import Any

from dualsql.columns.exact import Unfit
from dualsql.databases.guard import FailureKind
from dualsql.databases.spark.jobs import JobList, new_tag
from dualsql.errors import ConfigurationError

_ESCAPED = {
    ord(sign): f"\\u{ord(sign):04X}"
    for sign in (*map(chr, range(32)), "\\", "'", '"', "`", "$", "\x7f", "\x85", "\u2028", "\u2029")
}
"""Spark reads a backslash as the beginning of an escape, and replaces ${name} in the whole text before it parses it."""


def literal(value: Any) -> str:
    """The value as a literal of Spark's SQL.

    Raises:
        ValueError: Spark has no literal of it, such as a decimal of more than 38 digits.
        TypeError: the class of the value has none.
    """
    write = _LITERALS.get(type(value)) or next(
        (one for cls, one in _LITERALS.items() if isinstance(value, cls)), None
    )
    if write is None:
        raise TypeError(f"no literal for {type(value).__name__}")
    return write(value)


def _decimal_literal(value: Decimal) -> str:
    if not value.is_finite():
        raise ValueError("Spark's decimals are finite")
    return f"({value:f}BD)"


def _instant_literal(value: datetime) -> str:
    if value.tzinfo is None:
        return f"TIMESTAMP_NTZ'{value.isoformat(sep=' ')}'"
    return f"TIMESTAMP'{value.astimezone(UTC).replace(tzinfo=None).isoformat(sep=' ')}Z'"


def _interval_literal(value: timedelta) -> str:
    sign, length = ("-", -value) if value < timedelta() else ("", value)
    minutes, seconds = divmod(length.seconds, 60)
    clock = f"{length.days} {minutes // 60:02}:{minutes % 60:02}:{seconds:02}.{length.microseconds:06}"
    return f"(INTERVAL {sign}'{clock}' DAY TO SECOND)"


def _array_literal(values: Sequence[Any]) -> str:
    return f"array({', '.join(map(literal, values))})"


_LITERALS: Mapping[type[Any], Callable[[Any], str]] = {
    str: lambda value: f"'{value.translate(_ESCAPED)}'",
    bool: lambda value: "true" if value else "false",
    # In parentheses: a sign behind a sign would begin a comment.
    int: lambda value: str(int(value)) if value >= 0 else f"({int(value)})",
    # Without D, 0.1 is a decimal.
    float: lambda value: f"({float(value)!r}D)" if isfinite(value) else f"double('{float(value)!r}')",
    Decimal: _decimal_literal,
    datetime: _instant_literal,
    date: lambda value: f"DATE'{value.isoformat()}'",
    timedelta: _interval_literal,
    bytes: lambda value: f"X'{value.hex()}'",
    list: _array_literal,
    tuple: _array_literal,
    type(None): lambda _: "NULL",
}
"""How values of a class are written. A class stands before those that it derives from."""

_LENGTH = re.compile(r"(-?)(\d+) (\d\d):(\d\d):(\d\d)\.(\d{6})\d*")


def _date_of(value: str) -> Any:
    return date.fromisoformat(value)


def _interval_of(value: str) -> Any:
    match = _LENGTH.fullmatch(value)
    if match is None:
        raise ValueError(value)
    days, hours, minutes, seconds, micro = map(int, match.groups()[1:])
    length = timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds, microseconds=micro)
    return -length if match[1] else length


_READERS: Mapping[str, Callable[[str], Any]] = {
    "DATE_TYPE": _date_of,
    "TIMESTAMP_TYPE": datetime.fromisoformat,
    "DECIMAL_TYPE": Decimal,
    "INTERVAL_DAY_TIME_TYPE": _interval_of,
}
"""What Thrift carries as texts, by its name of the type."""


def read_column(kind: str, values: Sequence[Any]) -> Sequence[Any]:
    """The values of a column that Thrift calls a `kind`. A date that Python does not have becomes an `Unfit`."""
    reader = _READERS.get(kind)
    if reader is None:
        return values
    try:
        return [None if value is None else reader(value) for value in values]
    except ValueError:
        return [None if value is None else _or_unfit(reader, value) for value in values]


def _or_unfit(reader: Callable[[str], Any], value: str) -> Any:
    try:
        return reader(value)
    except ValueError:
        return Unfit(value, value)


class SparkError(Exception):
    """An error of Spark, of the Thrift server or of the way to it.

    Its message has the name of Spark's error and no more: Spark quotes the statement, which has its values in it.

    Attributes:
        kind: what it means.
        state: the SQLSTATE; empty if there is none.
    """

    def __init__(self, message: str, kind: FailureKind | None = None, state: str = "") -> None:
        super().__init__(f"{message} (SQLSTATE {state})" if state else message)
        self.kind = kind
        self.state = state


# https://spark.apache.org/docs/latest/sql-error-conditions-sqlstates.html
_STATES: Mapping[str, FailureKind] = {
    "22012": FailureKind.DIVISION,
    "22003": FailureKind.OVERFLOW,
    "22018": FailureKind.VALUE,
    "22007": FailureKind.VALUE,
    "22P02": FailureKind.VALUE,
    "22023": FailureKind.ARGUMENT,
    "22015": FailureKind.OVERFLOW,
    "21000": FailureKind.SEVERAL_ROWS,
    "42K09": FailureKind.UNSUITED,
    "42846": FailureKind.UNSUITED,
    "42822": FailureKind.UNSUITED,
    "53200": FailureKind.FULL,
}

# Words of errors without a SQLSTATE of their own, which Spark's scheduler and Java raise.
_WORDS: Mapping[str, FailureKind] = {
    "ExecutorLostFailure": FailureKind.BUSY,
    "FetchFailed": FailureKind.BUSY,
    "MetadataFetchFailed": FailureKind.BUSY,
    "SparkContext was shut down": FailureKind.UNREACHABLE,
    "SparkContext is stopped": FailureKind.UNREACHABLE,
    "stopped SparkContext": FailureKind.UNREACHABLE,
    "Invalid SessionHandle": FailureKind.BROKEN,
    "cancelled": FailureKind.TIMEOUT,
    "OutOfMemoryError": FailureKind.FULL,
    "No space left on device": FailureKind.FULL,
    "Total size of serialized results": FailureKind.SIZE,
    "buffer overflow": FailureKind.SIZE,
}

_STATE = re.compile(r"SQLSTATE: (\w{5})")
_CONDITION = re.compile(r"\[([A-Z0-9_.]+)\]")


def spark_error(message: str) -> SparkError:
    """The error that Spark's message stands for."""
    state_match = _STATE.search(message)
    state = state_match[1] if state_match is not None else ""
    condition = _CONDITION.search(message)
    kind = _STATES.get(state) or next((one for words, one in _WORDS.items() if words in message), None)
    return SparkError(
        condition[1] if condition is not None else "Spark could not run the statement", kind, state
    )


def stop_error() -> SparkError:
    """The error of a statement that was stopped, by dualsql, by its time limit or by the operator of Spark."""
    return SparkError("The statement was stopped", FailureKind.TIMEOUT)


_READING = re.compile(r"[\s(]*(SELECT|WITH|SHOW|DESCRIBE|USE)\b", re.IGNORECASE)
_QUERY = re.compile(r"[\s(]*(SELECT|WITH)\b", re.IGNORECASE)
_FIRST_PAUSE, _LONGEST_PAUSE = 0.005, 0.1
_FINISHED, _FAILED = "FINISHED_STATE", ("ERROR_STATE", "UKNOWN_STATE")
_STOPPED = ("CANCELED_STATE", "CLOSED_STATE", "TIMEDOUT_STATE")
_FETCHED = 1_000

_PLANNED, _LATE_JOBS = 1.5, 1.75
"""Seconds from the beginning of a statement to its cancellation, and from its stop to its end, which cancels once more.

Spark cancels jobs that have begun, and interrupts the thread that plans others. A thread that prepares one side of a
join for broadcast submits its job all the same (BroadcastExchangeExec of Spark 4.3: relationFuture.cancel() interrupts
it between the code generation and the wait for the job). And after some tens of statements that were interrupted while
they were planned, an embedded metastore had none of its ten connections left, and the whole server hung (seen twice).
So a statement is cancelled when its first jobs have begun.

The server has no third cancellation. SparkExecuteStatementOperation cancels its job group in `cleanup`, once by
CancelOperation (which does nothing in a terminal state, so a second one does nothing) and once by its `close`; after
that it does not know the statement. cancelJobGroupAndFutureJobs has no caller there. Of heavy joins that were stopped
after 0 to 5 seconds (Spark 4.3, two busy cores), 3 of 17 still ran a job 2 seconds later when they were closed after 5
seconds, and none of 23 when after 1.75; no job began later than that.
"""

_STREAM_PLANNED = 1.5
"""Seconds from the stop of a stream to its end, which alone cancels its jobs."""


class SparkConnection:
    """A session of the Thrift server, as a connection of PEP 249.

    Attributes:
        seconds: the time limit of a statement, in whole seconds; None for no limit.
        only_reads: statements that do not begin as a reading one are not sent.
        streams: the present statement is a stream, whose rows are computed while they are fetched; None while it is
            not known whether Spark takes it for one.
    """

    def __init__(self, options: Mapping[str, Any], *, only_reads: bool) -> None:
        self.only_reads = False
        self.seconds: int | None = None
        self.streams: bool | None = False
        self._options = {name: value for name, value in options.items() if name != "ui"}
        self._jobs: JobList | None = options.get("ui")
        self._tag = ""
        self._is_stopped = threading.Event()
        self._streamed: Any = None
        with _lost_connections():
            self._hive = _open(self._options)
        try:
            _require_plain_session(self)
        except BaseException:
            self.close()
            raise
        self.only_reads = only_reads

    def cursor(self, *, streams: bool = False) -> SparkCursor:
        return SparkCursor(self, streams=streams)

    def commit(self) -> None:
        """Nothing: Spark has no transactions."""

    rollback = commit

    def close(self) -> None:
        with suppress(Exception):  # the session may have ended with its server, or with a statement
            self._hive.close()

    def ping(self) -> None:
        """Raise SparkError if the session is gone."""
        from TCLIService import ttypes

        self.call("GetInfo", ttypes.TGetInfoReq(self.session, ttypes.TGetInfoType.CLI_DBMS_NAME))

    @property
    def session(self) -> Any:
        return None if self._hive is None else self._hive.sessionHandle

    def call(self, name: str, request: Any) -> Any:
        """The answer of the Thrift server to a request."""
        if self._hive is None:
            raise SparkError("The session has ended with a statement that was stopped", FailureKind.BROKEN)
        with _lost_connections():
            answer = getattr(self._hive.client, name)(request)
        if answer.status.statusCode not in (0, 1):
            messages = answer.status.infoMessages or [answer.status.errorMessage or ""]
            raise spark_error(messages[0])
        return answer

    def execute(self, sql: str, *, streams: bool = False) -> Any:
        """Run a statement, and return its operation when its rows can be fetched."""
        if self.only_reads and _READING.match(sql) is None:
            raise SparkError("Only statements that read are sent.")
        if streams != self.streams:
            self.streams = None
            self.release(self._run(f"SET {_AS_FETCHED}={str(streams).lower()}"))
            self.streams = streams
        operation = self._run(sql)
        self._streamed = operation if streams else None
        return operation

    def _run(self, sql: str) -> Any:
        from TCLIService import ttypes

        self.require_going()
        if self._jobs is not None and _QUERY.match(sql) is not None:
            self._tag = new_tag()
            sql = f"{sql}\n/* {self._tag} */"
        request = ttypes.TExecuteStatementReq(self.session, sql, runAsync=True, queryTimeout=self.seconds)
        start = time.monotonic()
        operation = self.call("ExecuteStatement", request).operationHandle
        try:
            self._wait(operation)
        except SparkError as error:
            if error.kind is FailureKind.TIMEOUT:
                self._end_jobs()
                self._end_later(operation, start + _PLANNED)
            raise
        return operation

    def _wait(self, operation: Any) -> None:
        from TCLIService import ttypes

        states, pause = ttypes.TOperationState._VALUES_TO_NAMES, _FIRST_PAUSE
        request = ttypes.TGetOperationStatusReq(operation)
        while True:
            self.require_going()
            answer = self.call("GetOperationStatus", request)
            state = states.get(answer.operationState, "")
            if state in _STOPPED:
                raise stop_error()
            if state == _FINISHED:
                return
            if state in _FAILED:
                raise spark_error(answer.errorMessage or "")
            self._is_stopped.wait(pause)
            pause = min(pause * 1.5, _LONGEST_PAUSE)

    def begin(self, seconds: float) -> None:
        """Begin a session whose statements may run so long."""
        self.limit(seconds)
        self._is_stopped.clear()
        self._streamed = None

    def limit(self, seconds: float) -> None:
        """Statements from now on may run so long."""
        # Whole seconds, of which 0 means no limit; dualsql stops them on time.
        self.seconds = ceil(seconds)

    def stop(self) -> None:
        """From another thread: end what runs. What is not sent yet will not run.

        The thread that waits for a statement ends it. One whose rows are fetched as they are computed is FINISHED for
        Spark, which cancels nothing that is: it is closed, once.
        """
        self._is_stopped.set()
        streamed, self._streamed = self._streamed, None
        if streamed is not None:
            self._end_jobs()
            _in_background(self._close_stream, streamed, time.monotonic() + _STREAM_PLANNED)

    def require_going(self) -> None:
        """Raise the error of a stopped statement after `stop`."""
        if self._is_stopped.is_set():
            raise stop_error()

    def _end_jobs(self) -> None:
        if self._jobs is not None:
            self._jobs.end(self._tag)

    def _end_later(self, operation: Any, planned: float) -> None:
        """Cancel a statement when it is planned, and close it with the session, which is lost to this connection."""
        hive, self._hive = self._hive, None
        _in_background(_end, hive, operation, planned)

    def _close_stream(self, operation: Any, due: float) -> None:
        """Close a stream over a connection of its own: this one waits for rows."""
        from TCLIService import ttypes

        spare = _open(self._options)
        try:
            time.sleep(max(0, due - time.monotonic()))
            spare.client.CloseOperation(ttypes.TCloseOperationReq(operation))
        finally:
            spare.close()

    def release(self, operation: Any) -> None:
        """Close the operation: the server frees it and its rows."""
        from TCLIService import ttypes

        with suppress(SparkError):
            self.call("CloseOperation", ttypes.TCloseOperationReq(operation))


def _end(hive: Any, operation: Any, planned: float) -> None:
    from TCLIService import ttypes

    ends = time.monotonic() + _LATE_JOBS
    try:
        time.sleep(max(0, planned - time.monotonic()))
        hive.client.CancelOperation(ttypes.TCancelOperationReq(operation))
        time.sleep(max(0, ends - time.monotonic()))
    finally:
        hive.close()  # and its statements


def _in_background(work: Callable[..., None], *arguments: Any) -> None:
    def run() -> None:
        with suppress(Exception):  # the server may be gone, and with it what it runs
            work(*arguments)

    with suppress(RuntimeError):  # the process has no more threads
        threading.Thread(target=run, daemon=True, name="dualsql-spark-end").start()


class SparkCursor:
    """The rows of one statement, as a cursor of PEP 249."""

    arraysize = _FETCHED
    rowcount = -1
    lastrowid = None

    def __init__(self, connection: SparkConnection, *, streams: bool) -> None:
        self._connection = connection
        self._streams = streams
        self._operation: Any = None
        self._described: list[tuple[Any, ...]] | None = None
        self._rows: list[tuple[Any, ...]] = []
        self._is_over = True

    @property
    def description(self) -> list[tuple[Any, ...]] | None:
        """The names of the columns and Thrift's names of their types; None before a statement, or without rows."""
        from TCLIService import ttypes

        if self._described is None and self._operation is not None and self._operation.hasResultSet:
            request = ttypes.TGetResultSetMetadataReq(self._operation)
            columns = self._connection.call("GetResultSetMetadata", request).schema.columns
            names = ttypes.TTypeId._VALUES_TO_NAMES
            self._described = [
                (column.columnName, names[column.typeDesc.types[0].primitiveEntry.type], *(None,) * 4, True)
                for column in columns
            ]
        return self._described

    def execute(self, operation: str, parameters: Mapping[str, Any] | None = None) -> None:
        """Run a statement; `%(name)s` in it is replaced by the literal of a parameter."""
        self.close()
        sql = operation % {name: literal(value) for name, value in (parameters or {}).items()}
        self._operation = self._connection.execute(sql, streams=self._streams)
        self._is_over = not self._operation.hasResultSet

    def fetchone(self) -> tuple[Any, ...] | None:
        rows = self.fetchmany(1)
        return rows[0] if rows else None

    def fetchmany(self, size: int | None = None) -> list[tuple[Any, ...]]:
        size = size or self.arraysize
        while len(self._rows) < size and not self._is_over:
            self._fetch(size - len(self._rows))
        rows, self._rows = self._rows[:size], self._rows[size:]
        return rows

    def fetchall(self) -> list[tuple[Any, ...]]:
        while not self._is_over:
            self._fetch(_FETCHED)
        rows, self._rows = self._rows, []
        return rows

    def close(self) -> None:
        operation, self._operation = self._operation, None
        self._described, self._rows, self._is_over = None, [], True
        if operation is not None:
            self._connection.release(operation)

    def setinputsizes(self, *_: Any) -> None:
        """Nothing: literals have their types."""

    def _fetch(self, number: int) -> None:
        from TCLIService import ttypes

        self._connection.require_going()
        described, forward = self.description or [], ttypes.TFetchOrientation.FETCH_NEXT
        request = ttypes.TFetchResultsReq(self._operation, orientation=forward, maxRows=number)
        columns = self._connection.call("FetchResults", request).results.columns or []
        if not columns:  # of a statement that is no query
            self._is_over = True
            return
        values = [
            read_column(kind, _values(column))
            for column, (_, kind, *_others) in zip(columns, described, strict=True)
        ]
        rows = list(zip(*values, strict=True))
        self._rows += rows
        # hasMoreRows is never set: no rows are the end.
        self._is_over = not rows


def _values(column: Any) -> list[Any]:
    """The values of one column, with None for those whose bit is set."""
    member = next(one for one in vars(column).values() if one is not None)
    values: list[Any] = member.values
    for index, byte in enumerate(member.nulls):
        while byte:
            bit = byte & -byte
            values[index * 8 + bit.bit_length() - 1] = None
            byte ^= bit
    return values


@contextmanager
def _lost_connections() -> Iterator[None]:
    """Raise errors of Thrift, PyHive and sockets as a SparkError."""
    from pyhive.exc import Error
    from thrift.Thrift import TException

    try:
        yield
    except (TException, OSError, EOFError) as error:
        # A server that was found closes a connection whose login it refuses.
        kind = FailureKind.UNREACHABLE if getattr(error, "type", None) == 1 else FailureKind.BROKEN
        raise SparkError("The connection to the Thrift server failed", kind, _login(error)) from error
    except Error as error:
        raise spark_error(str(error)) from error


def _login(error: BaseException) -> str:
    """The SQLSTATE of a refused login, of which SASL's transport has a message only."""
    return "28000" if "Bad status" in str(error) else ""


_AS_FETCHED = "spark.sql.thriftServer.incrementalCollect"
"""Rows are computed as they are fetched: on for a stream, or the server would hold all of its rows in memory."""

_SETTINGS: Mapping[str, str] = {
    "spark.sql.session.timeZone": "UTC",
    # Overflows are errors, and not other numbers.
    "spark.sql.ansi.enabled": "true",
    # ${name} is text, and not a setting or a variable of the server's environment.
    "spark.sql.variable.substitute": "false",
    # Values are in the text: ORDER BY 2 would sort by the second column, where 2 is a value.
    "spark.sql.orderByOrdinal": "false",
    "spark.sql.groupByOrdinal": "false",
    # Spark 4.3 refuses a UNION whose parts have one column under two names: PLAN_VALIDATION_FAILED_RULE_IN_BATCH.
    "spark.sql.optimizer.excludedRules": "org.apache.spark.sql.catalyst.optimizer.RemoveRedundantAliases",
    # Jobs begin in the thread of the statement, which a cancellation interrupts, and not in the call that fetches rows.
    _AS_FETCHED: "false",
    # The state of a statement is answered after this time at most (5 seconds), and a stop is noticed then.
    "hive.server2.long.polling.timeout": "100ms",
    # The tasks of a statement that is cancelled end, too, and give back their cores.
    "spark.sql.thriftServer.interruptOnCancel": "true",
}
_ESCAPES = "spark.sql.parser.escapedStringLiterals"
_SHARED = "spark.sql.hive.thriftServer.singleSession"
_PROBE = "a'\\b${spark.app.name}%\n\x00\"`\u2028\u65e5\U0001f600"


def _open(options: Mapping[str, Any]) -> Any:
    from pyhive import hive

    configuration = {f"set:hiveconf:{name}": value for name, value in _SETTINGS.items()}
    return hive.connect(configuration=configuration, **options)


def _require_plain_session(connection: SparkConnection) -> None:
    """Raise ConfigurationError if the session reads literals in another way than `literal` writes them."""
    cursor = connection.cursor()
    cursor.execute("SET")
    settings = dict(cursor.fetchall())
    if settings.get(_ESCAPES, "false") != "false":
        raise ConfigurationError(
            f"Spark's setting {_ESCAPES} is on: texts in SQL would have another meaning than they were given.",
            hint="Turn it off for the Thrift server.",
        )
    if settings.get(_SHARED, "false") != "false":
        raise ConfigurationError(
            f"Spark's setting {_SHARED} is on: all connections share the settings of one session.",
            hint="Turn it off for the Thrift server.",
        )
    wrong = [name for name, value in _SETTINGS.items() if settings.get(name) != value]
    cursor.execute("SELECT %(probe)s, '${spark.app.name}', current_timezone(), version()", {"probe": _PROBE})
    answers = cursor.fetchall()
    cursor.close()
    if wrong or answers[0][:3] != (_PROBE, "${spark.app.name}", "UTC"):
        raise ConfigurationError(
            f"This server does not keep the settings of a session: {', '.join(wrong) or 'texts came back changed'}.",
            hint="Connect to the Thrift server of Apache Spark 3.4 or newer.",
        )
