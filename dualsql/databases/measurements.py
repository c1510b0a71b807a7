"""Measures statements, slots and connections, for the listener of events and the log of slow statements."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256

from sqlalchemy import Executable
from sqlalchemy.pool import QueuePool

from dualsql import sqlalchemy_internals as internals
from dualsql.databases.guard import FailureKind
from dualsql.databases.source import Source
from dualsql.errors import DualResponseError
from dualsql.events import ERROR, EVENTS, GaugeReading, Measurement
from dualsql.log import REQUEST, resource_hash
from dualsql.tenancy import ActiveRules


@contextmanager
def measured_statement(
    source: Source, statement: Executable, rules: ActiveRules
) -> Iterator[Measurement | None]:
    """Measure the statement that the block runs; None if the listener does not measure it."""
    attributes = {
        "db.system.name": source.engine.dialect.name,
        "db.operation.name": "SELECT",
        "dualsql.database": source.name,
    }
    with EVENTS.measured("statement", "SELECT", attributes) as measurement:
        if measurement is None:
            yield None
            return
        try:
            yield measurement
        except DualResponseError:
            raise
        except Exception as error:
            kind = source.failure_kind(error)
            if kind is FailureKind.TIMEOUT:  # or its caller has left
                measurement.note({ERROR: "STOPPED"})
            else:
                measurement.fail("_OTHER" if kind is None else kind.name)
            raise
        finally:
            if measurement.is_sampled:
                measurement.note({"dualsql.statement": _fingerprint(source, statement, rules)})


def log_slow_statement(source: Source, statement: Executable, rules: ActiveRules, seconds: float) -> None:
    """Log a statement that took long: which database, how long, and the hash of its text."""
    request = REQUEST.get()
    logging.getLogger("dualsql.queries").warning(
        "a slow query took %.2f s in the database %r: statement %s%s",
        seconds,
        source.name,
        _fingerprint(source, statement, rules),
        f", resource {resource_hash(request.resource_id)}" if request and request.resource_id else "",
    )


def _fingerprint(source: Source, statement: Executable, rules: ActiveRules) -> str:
    """A hash of the statement's SQL, which has placeholders for its values: the same for all callers and pages."""
    dialect = rules.dialect(source.engine.dialect)
    names = sorted(rules.values)
    compiled = internals.compiled_with_cache(statement, dialect, source.compiled, names)[0]
    return sha256(str(compiled).encode("utf-8", "backslashreplace")).hexdigest()[:16]


def readings_of(source: Source) -> Iterator[GaugeReading]:
    """The slots and connections in use, and how many statements wait for a slot."""
    of_source, limits = {"dualsql.database": source.name}, source.limits
    yield GaugeReading("queued", limits.queries.queue.waiting, of_source)
    for slots in (limits.queries, limits.streams, limits.background.queries, limits.texts):
        of_slots = {**of_source, "dualsql.slot": slots.name}
        yield GaugeReading("slots_used", slots.used, of_slots)
        yield GaugeReading("slots", slots.number, of_slots)
    pool = source.engine.pool
    if isinstance(pool, QueuePool):
        of_pool = {"db.client.connection.pool.name": source.name}
        for state, number in (("used", pool.checkedout()), ("idle", pool.checkedin())):
            yield GaugeReading("connections", number, {**of_pool, "db.client.connection.state": state})
        yield GaugeReading("maximum_connections", source.maximum_connections, of_pool)
