"""Values of PostgreSQL that Python has no class for, as text beside the others; documents with all digits.

asyncpg fails at a date before the year 1 or after 9999 and at 24:00, and makes 30 days of a month. Where a column's
type has such values the statement is read through another, which gives NULL in their place and their texts in one
column more, NULL in almost every row. The comparisons cost a tenth of what the driver takes to make a date.
An application's engine has asyncpg read documents with json.loads, which cuts numbers: there they are read as text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from operator import itemgetter
from typing import Any

from sqlalchemy.ext.asyncio import AsyncConnection

from dualsql.digits import has_float, read_document, reads_floats
from dualsql.execute.guards import driver_of
from dualsql.execute.lanes.spelling import READABLE, SPELLED
from dualsql.execute.lanes.statement import DriverStatement
from dualsql.formats.cells import Unfit
from dualsql.formats.processing import Processor, processed
from dualsql.formats.writer import Rows

_PLAIN_TEXTS = frozenset({3908, 3910, 3912, 4533, 4534, 4535})
"""Ranges of dates and instants, which are shown as text, whatever their ends."""


_DOCUMENTS: Mapping[int, str] = {
    **dict.fromkeys((114, 3802), "{c}::text"),
    **dict.fromkeys((199, 3807), "to_json({c})::text"),
}
"""json, jsonb and arrays of them: their texts."""

_READ_OTHERWISE = frozenset({1186, 1187}) | _PLAIN_TEXTS


class Readable:
    """A statement in a form whose every value the driver reads.

    Attributes:
        sql: takes the same parameters.
    """

    def __init__(self, sent: DriverStatement, attributes: Sequence[Any]) -> None:
        self._sent = sent
        self._oids = [attribute.type.oid for attribute in attributes]
        self._places = [place for place, oid in enumerate(self._oids) if oid in READABLE]
        is_cut = reads_floats(sent.dialect)
        self._documents = [place for place, oid in enumerate(self._oids) if is_cut and oid in _DOCUMENTS]
        self.sql = self._written() if self.is_rewritten else sent.sql

    @property
    def is_rewritten(self) -> bool:
        """Whether it is another statement than the one that was sent."""
        return bool(self._places or self._documents)

    def processors(self) -> list[tuple[int, Processor]]:
        """What is done to the values of its rows; see `DriverStatement.processors`."""
        return self._sent.processors(self._oids)

    def rows(self, records: Sequence[Any], processors: Sequence[tuple[int, Processor]]) -> Rows:
        """The driver's records as rows of the statement that was sent, processed."""
        width = len(self._oids)
        if self._documents:
            read = [list(record) for record in records]
            for row, place in product(read, self._documents):
                row[place] = None if row[place] is None else read_document(row[place])
            records = read
        if not self._places:
            return processed([tuple(record) for record in records], processors)
        found = processed([record[:width] for record in records], processors)
        texts = list(map(itemgetter(width), records))
        return self._with_texts(found, texts) if any(texts) else found

    def _with_texts(self, rows: Rows, texts: Sequence[Sequence[str | None] | None]) -> Rows:
        found = [list(row) for row in rows]
        for row, listed in zip(found, texts, strict=True):
            for place, text in zip(self._places, listed or (), strict=False):
                if text is not None:
                    row[place] = text if self._oids[place] in _PLAIN_TEXTS else Unfit(text)
        return found

    def _written(self) -> str:
        odd = [
            f"CASE WHEN {_of(READABLE[self._oids[place]], place)} THEN NULL"
            f" ELSE {_of(SPELLED[self._oids[place]], place)} END"
            for place in self._places
        ]
        fits = " AND ".join(
            f"coalesce({_of(READABLE[self._oids[place]], place)}, true)" for place in self._places
        )
        names = ", ".join(f"c{place}" for place in range(len(self._oids)))
        texts = [f"CASE WHEN NOT ({fits}) THEN ARRAY[{', '.join(odd)}] END"] if odd else []
        outputs = ", ".join([*self._outputs(), *texts])
        return f"SELECT {outputs} FROM ({self._sent.sql}) AS r({names})"  # noqa: S608 - SQLAlchemy's, and ours

    def _outputs(self) -> Iterator[str]:
        for place, oid in enumerate(self._oids):
            name = f"r.c{place}"
            if place in self._documents:
                yield _of(_DOCUMENTS[oid], place)
            else:
                yield f"CASE WHEN {_of(READABLE[oid], place)} THEN {name} END" if oid in READABLE else name


async def prepare(connection: AsyncConnection, sql: str) -> Any:
    """A statement that asyncpg prepared."""
    opened = connection.sync_connection
    assert opened is not None
    # Behind a pooler, an application gives its statements names that no other client has.
    adapted: Any = opened.connection.dbapi_connection
    return await driver_of(connection).prepare(sql, name=adapted._prepared_statement_name_func())


async def prepare_readably(
    connection: AsyncConnection, sent: DriverStatement, prepared: Any
) -> tuple[Readable, Any]:
    """The statement that `prepared` is in a readable form, and that form prepared."""
    readable = Readable(sent, prepared.get_attributes())
    return readable, await prepare(connection, readable.sql) if readable.is_rewritten else prepared


async def fetch_readably(connection: AsyncConnection, sent: DriverStatement) -> Rows:
    """All rows of a statement."""
    prepared = await prepare(connection, sent.sql)
    readable, prepared = await prepare_readably(connection, sent, prepared)
    return readable.rows(await prepared.fetch(*sent.parameters), readable.processors())


def are_read_otherwise(codes: Sequence[Any]) -> bool:
    """Whether asyncpg reads values of a type as others: a month as 30 days, the end of a range as 9999-12-31."""
    return not _READ_OTHERWISE.isdisjoint(codes)


def are_cut(rows: Rows, codes: Sequence[Any], dialect: Any) -> bool:
    """Whether documents of the rows have floats, which asyncpg reads with 17 digits in an engine that is not ours."""
    if _DOCUMENTS.keys().isdisjoint(codes) or not reads_floats(dialect):
        return False
    places = [place for place, code in enumerate(codes) if code in _DOCUMENTS]
    return any(has_float(row[place]) for row in rows for place in places)


def _of(expression: str, place: int) -> str:
    return expression.replace("{c}", f"r.c{place}")
