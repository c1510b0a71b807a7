"""Everything that dualsql gives of a statement, held against the oracle; each difference is a line of text."""

from __future__ import annotations

import io
import json
import re
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pyarrow as pa
import pyarrow.parquet as pq
from sqlalchemy import TextClause
from sqlalchemy.ext.asyncio import AsyncEngine
from starlette.applications import Starlette
from starlette.routing import Mount

from dualsql import DualResponseServer
from dualsql.errors import DualResponseError
from tests.databases.streams.reading import read_xlsx
from tests.models.oracle import Expected, Row, expected
from tests.models.values import NULL_DOCUMENT, Plain, csv_rows, plain, read, wording
from tests.servers import create_server

BASE = "http://127.0.0.1:8000/resources"

IN_WORDS = re.compile(r"^400 BAD_PARAMETER .*(in another form|has in another)", re.DOTALL)
"""What a question may be answered where a type of the application's own has another order, or none, in the database."""


class RefusedError(Exception):
    """The statement was refused when it was to be stored."""


class AnswerError(Exception):
    """An answer of REST that is no rows."""


@asynccontextmanager
async def judge(url: str, engine: AsyncEngine, tables: Any) -> AsyncIterator[Judge]:
    """A server over the database at `url`, which `engine` reads too."""
    async with create_server(url, base_url=BASE, tables=tables, allow_text=True) as dual:
        transport = httpx.ASGITransport(Starlette(routes=[Mount("/resources", dual.router())]))
        async with httpx.AsyncClient(transport=transport, base_url=BASE + "/") as http:
            yield Judge(dual, http, engine)


class Judge:
    """Compares one statement after another."""

    def __init__(self, dual: DualResponseServer, http: httpx.AsyncClient, engine: AsyncEngine) -> None:
        self._dual = dual
        self._http = http
        self._engine = engine

    async def differences(self, statement: Any, name: str) -> list[str]:
        """Whatever is not as in plain execution.

        Raises:
            RefusedError: it cannot be stored.
        """
        # Without SQLAlchemy's cache, which takes some statements for one another.
        async with self._engine.execution_options(compiled_cache=None).connect() as connection:
            wanted = await connection.run_sync(expected, statement)
        try:
            response = await self._dual.create_response(statement, name=name[:60], count="exact")
        except DualResponseError as error:
            raise RefusedError(f"{error.code}: {error}") from error
        # A place in an order that only the database can read cannot be told: documented in docs/paging.md.
        has_cursors = not any(isinstance(c, TextClause) for c in getattr(statement, "_order_by_clauses", ()))
        case = Case(wanted, response, self._http, has_cursors=has_cursors)
        for check in (
            case.announced,
            case.streams,
            case.pages_by_offset,
            case.pages_by_cursor,
            case.sorts,
            case.filters,
            case.groups,
        ):
            await check()
        return case.found


class Case:
    """One stored statement, and the differences found so far."""

    def __init__(
        self, wanted: Expected, response: Any, http: httpx.AsyncClient, *, has_cursors: bool
    ) -> None:
        self.wanted = wanted
        self.has_cursors = has_cursors
        self.response = response
        self.columns: list[Mapping[str, Any]] = list(response.columns)
        self.names = [column["name"] for column in self.columns]
        self.http = http
        self.found: list[str] = []

    # --- what is compared -------------------------------------------------------------------------------------

    async def announced(self) -> None:
        """Total, names, sample."""
        if self.response.total_count != len(self.wanted.rows):
            self.found.append(f"total: {self.response.total_count}, not {len(self.wanted.rows)}")
        if len(set(self.names)) != len(self.names) or len(self.names) != len(self.wanted.names):
            self.found.append(f"columns: {self.names}, not {list(self.wanted.names)}")
        elif not all(map(_may_be_called, self.names, self.wanted.names)):
            self.found.append(f"names: {self.names}, not {list(self.wanted.names)}")
        sample = self._of_json(self.response.sample)
        if len(sample) < min(10, len(self.wanted.rows)) or Counter(sample) - Counter(self._rows()):
            self.found.append(f"sample: {sample[:3]}")

    async def streams(self) -> None:
        """Six formats."""
        readers = {
            "ndjson": self._of_ndjson,
            "json": lambda data: self._of_json(json.loads(data)),
            "csv": self._of_csv,
            "arrow": lambda data: self._of_table(pa.ipc.open_stream(data).read_all()),
            "parquet": lambda data: self._of_table(pq.read_table(io.BytesIO(data))),
            "xlsx": self._of_xlsx,
        }
        for kind, reader in readers.items():
            try:
                answer = await self.http.get(f"{self._id}/rows", params={"format": kind})
                rows = reader(_whole(answer).content)
            except Exception as error:  # noqa: BLE001 - whatever it is, it is a difference
                self.found.append(f"{kind}: {type(error).__name__} {error}"[:300])
            else:
                self._compare(kind, rows)

    async def pages_by_offset(self) -> None:
        """Three pages or four, counted."""
        rows: list[Row] = []
        size = self._size
        while len(rows) <= len(self.wanted.rows):
            page = await self._page("offset", {"offset": len(rows), "limit": size})
            if page is None:
                return
            rows += self._of_json(page["data"])
            if not page["has_next"]:
                break
        self._compare("offset", rows)

    async def pages_by_cursor(self) -> None:
        """Forward to the end, and back to the beginning."""
        rows: list[Row] = []
        page = await self._page("cursor", {"limit": self._size})
        while page is not None and len(rows) <= len(self.wanted.rows):
            rows += self._of_json(page["data"])
            if not page["has_next"]:
                break
            if not page.get("next_cursor"):
                if self.has_cursors:
                    self.found.append("cursor: no next_cursor before the end")
                return
            page = await self._page("cursor", {"limit": self._size, "cursor": page["next_cursor"]})
        if page is None:
            return
        self._compare("cursor", rows)
        back = self._of_json(page["data"])
        while page.get("previous_cursor") and len(back) <= len(rows):
            page = await self._page("backward", {"limit": self._size, "cursor": page["previous_cursor"]})
            if page is None:
                return
            back = self._of_json(page["data"]) + back
        if back != rows:
            self.found.append(f"backward: {len(back)} rows, not the {len(rows)} of the way there")

    async def sorts(self) -> None:
        """By each column, downwards: the same rows, and pages that are slices of one whole."""
        for name in self.names:
            sort = [{"field": name, "order": "desc"}]
            whole = await self._page(f"sort {name}", {"limit": 1000, "sort": sort})
            if whole is None:
                continue
            if Counter(map(_text, whole["data"])) != Counter(map(_text, await self._all())):
                self.found.append(f"sort {name}: other rows")
            first = await self._page(f"sort {name}", {"limit": self._size, "sort": sort})
            if first is None or not first["has_next"] or first["data"] != whole["data"][: self._size]:
                if first is not None and first["has_next"]:
                    self.found.append(f"sort {name}: another first page")
                continue
            cursor = {"cursor": first["next_cursor"]} if first.get("next_cursor") else {"offset": self._size}
            second = await self._page(f"sort {name}", {"limit": self._size, "sort": sort, **cursor})
            if second is not None and second["data"] != whole["data"][self._size :][: self._size]:
                self.found.append(f"sort {name}: another second page")

    async def filters(self) -> None:
        """Rows that have a value, for a value of each column; rows without one."""
        rows = self._rows()
        shown = await self._all()
        for position, column in enumerate(self.columns):
            name = column["name"]
            # A JSON null is no SQL NULL: documented in docs/types.md.
            missing = sum(row[position] is None for row in self.wanted.rows)
            await self._counted(f"null {name}", {"column": name, "op": "is_null"}, missing)
            values = [row[name] for row in shown if row[name] is not None]
            if not values or column["encoding"] in {"json", "array"}:
                continue
            value = values[len(values) // 2]
            same = sum(row[position] == read(value, column) for row in rows)
            await self._counted(f"filter {name}", {"column": name, "op": "eq", "value": value}, same)
            await self._counted(f"in {name}", {"column": name, "op": "in", "value": [value]}, same)

    async def groups(self) -> None:
        """How many rows each value of a column has, for each column."""
        rows = self._rows()
        for position, column in enumerate(self.columns):
            name, encoding = column["name"], column["encoding"]
            # Refused: documented in docs/querying.md.
            if encoding in {"json", "array", "base64", "interval"}:
                continue
            values = [row[position] for row in rows]
            group = {"column": name, "as": "value"}
            if encoding == "datetime":
                group["bucket"], values = "day", [value and ("date", value[1][:10]) for value in values]
            answer = await self.http.post(
                f"{self._id}/query", json={"group_by": [group], "aggregates": ["count"], "limit": 1000}
            )
            if answer.status_code == 400 and len(set(values)) == len(rows) and "of its own" in answer.text:
                continue  # a key: each row would be a group
            if answer.status_code == 400 and "quotients, of which not all digits are shown" in answer.text:
                continue  # doubles that differ are shown as one: documented in docs/querying.md
            page = self._answered(f"group {name}", answer)
            if page is not None:
                actual = {read(row["value"], page["columns"][0]): row["count"] for row in page["data"]}
                if actual != dict(Counter(values)):
                    self.found.append(f"group {name}: {actual}, not {dict(Counter(values))}"[:300])

    # --- how it is asked --------------------------------------------------------------------------------------

    @property
    def _id(self) -> str:
        return str(self.response.resource_id)

    @property
    def _size(self) -> int:
        return max(2, len(self.wanted.rows) // 3)

    async def _all(self) -> list[dict[str, Any]]:
        if not hasattr(self, "_shown"):
            page = await self._page("whole", {"limit": 1000})
            self._shown: list[dict[str, Any]] = [] if page is None else page["data"]
        return self._shown

    async def _page(self, what: str, body: dict[str, Any]) -> Any:
        return self._answered(what, await self.http.post(self._id, json=body))

    async def _counted(self, what: str, condition: dict[str, Any], count: int) -> None:
        question = {"filters": [condition], "aggregates": ["count"]}
        page = self._answered(what, await self.http.post(f"{self._id}/query", json=question))
        if page is not None and page["data"] != [{"count": count}]:
            self.found.append(f"{what}: {page['data']} for {condition.get('value')!r}, not {count}"[:300])

    def _answered(self, what: str, answer: httpx.Response) -> Any:
        try:
            return _whole(answer).json()
        except AnswerError as error:
            if not IN_WORDS.search(str(error)):
                self.found.append(f"{what}: {error}")
            return None

    # --- how it is read ---------------------------------------------------------------------------------------

    def _rows(self) -> list[Row]:
        """The expected rows as the announced columns show them."""
        return [
            tuple(_shown(value, column) for value, column in zip(row, self.columns, strict=True))
            for row in self.wanted.rows
        ]

    def _compare(self, kind: str, rows: Sequence[Row]) -> None:
        wanted = self._rows()
        if len(rows) != len(wanted):
            self.found.append(f"{kind}: {len(rows)} rows, not {len(wanted)}")
        elif (ours := self.wanted.blocks(rows)) != (theirs := self.wanted.blocks(wanted)):
            extra, missing = (
                sum(ours, Counter()) - sum(theirs, Counter()),
                sum(theirs, Counter()) - sum(ours, Counter()),
            )
            what = (
                f"{list(extra)[:1]}, not {list(missing)[:1]}" if extra else "the same rows in another order"
            )
            self.found.append(f"{kind}: {what}"[:600])

    def _of_json(self, data: Sequence[Mapping[str, Any]]) -> list[Row]:
        if any(list(row) != self.names for row in data):
            return [(("keys", tuple(row)),) for row in data]
        return [tuple(read(row[c["name"]], c) for c in self.columns) for row in data]

    def _of_ndjson(self, data: bytes) -> list[Row]:
        *lines, last = [json.loads(line) for line in data.splitlines()]
        if last != {"$summary": {"rows": len(lines), "complete": True}}:
            raise AnswerError(f"its last record is {last}")
        return self._of_json(lines)

    def _of_csv(self, data: bytes) -> list[Row]:
        head, *rows = csv_rows(data.decode())
        if head != self.names:
            raise AnswerError(f"its head is {head}")
        return [tuple(_cell(value, c) for value, c in zip(row, self.columns, strict=True)) for row in rows]

    def _of_xlsx(self, data: bytes) -> list[Row]:
        table = read_xlsx(data)
        if list(table) != self.names:
            raise AnswerError(f"its columns are {list(table)}")
        rows = zip(*table.values(), strict=True)
        return [tuple(_cell(value, c) for value, c in zip(row, self.columns, strict=True)) for row in rows]

    def _of_table(self, table: pa.Table) -> list[Row]:
        if table.column_names != self.names:
            raise AnswerError(f"its columns are {table.column_names}")
        columns = [table.column(number).to_pylist() for number in range(len(self.names))]
        rows = zip(*columns, strict=True) if columns else iter(())
        return [tuple(_cell(value, c) for value, c in zip(row, self.columns, strict=True)) for row in rows]


def _whole(answer: httpx.Response) -> httpx.Response:
    if answer.status_code != 200:
        problem = answer.json()
        raise AnswerError(f"{answer.status_code} {problem['code']} {problem['message']}"[:250])
    return answer


def _text(row: Any) -> str:
    return json.dumps(row, sort_keys=True)


def _may_be_called(name: str, wanted: str | None) -> bool:
    """Whether a column may have this name: SQLAlchemy's, or one made of it where two columns share one."""
    if wanted is None or name == wanted:
        return True
    stem = re.sub(r"(_+\d+)+$", "", wanted)
    return bool(re.fullmatch(rf"(\w+_)?{re.escape(stem)}(_\d+)?", name))


def _cell(value: Any, column: Mapping[str, Any]) -> Plain:
    """A value of a format that has a type for each column, where JSON is a text."""
    if value is not None and column["encoding"] in {"json", "array"} and isinstance(value, str):
        return plain(json.loads(value))
    return (
        ("unread", repr(value)) if value is not None and column["encoding"] == "json" else read(value, column)
    )


def _shown(value: Plain, column: Mapping[str, Any]) -> Plain:
    """An expected value as the column's encoding shows it: of a type nobody knows, the wording."""
    if value is None or value == NULL_DOCUMENT:
        return None
    return value if column["encoding"] != "any" else wording(value)
