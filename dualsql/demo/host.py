"""Acts as a host application: calls tools as a model does, then fetches the rows that the model does not see.

It uses only the MCP SDK's client and `dualsql_client`, over real sockets.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from time import perf_counter

from mcp import Client
from mcp_types import CallToolResult, TextContent
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from dualsql_client import DualResponseClient, ParsedDualResponse

BATCH_SIZE = 10_000


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the closing table. `size` is what was received, in bytes of JSON."""

    who: str
    rows: int
    size: int
    seconds: float


async def act(origin: str, console: Console) -> None:
    """Run one conversation with the server at `origin`, and print it."""
    async with (
        Client(f"{origin}/mcp") as model,
        DualResponseClient(f"{origin}/resources") as application,
    ):
        lines = []
        for tool, arguments in (
            ("search_institutions", {"state": "NJ"}),
            ("search_programs", {"min_earnings": 60_000}),
            ("search_programs", {}),
        ):
            words = ", ".join(f"{name}={value!r}" for name, value in arguments.items())
            console.rule(f"[bold]{tool}[/bold]({words})")
            start = perf_counter()
            result = await model.call_tool(tool, arguments)
            elapsed = perf_counter() - start
            parsed = application.parse(result, strict=True)
            whole = result.model_dump_json(by_alias=True, exclude_none=True)
            line = Line(f"model: {tool}", len(parsed.sample), len(whole.encode()), elapsed)
            _show_text(result, console)
            console.print(f"The model saw {line.rows} rows in {len(whole):,} characters.\n")
            lines += [line, await _fetch_everything(parsed, console)]
        await _use_the_last(parsed, console)
        console.print(_closing_table(lines))


def _show_text(result: CallToolResult, console: Console) -> None:
    text = next(block.text for block in result.content if isinstance(block, TextContent))
    lines = text.split("\n")
    head, foot = lines[:9], lines[-1:]
    for line in (*head, "...", *foot) if len(lines) > 12 else lines:
        console.print(escape(line), style="dim", overflow="ellipsis", no_wrap=True)


async def _fetch_everything(parsed: ParsedDualResponse, console: Console) -> Line:
    columns = (TextColumn("The application fetches"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    start, rows, size = perf_counter(), 0, 0
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("rows", total=parsed.total_count)
        async for batch in parsed.fetch_stream(batch_size=BATCH_SIZE):
            rows += len(batch)
            size += len(json.dumps(batch, ensure_ascii=False, separators=(",", ":")).encode())
            progress.update(task, completed=rows)
    console.print()
    return Line("application: all rows", rows, size, perf_counter() - start)


async def _use_the_last(parsed: ParsedDualResponse, console: Console) -> None:
    console.rule("[bold]what else a link is good for[/bold]")
    page = await parsed.fetch(limit=3, sort={"field": "debt", "order": "desc"})
    console.print("Sorted by debt, the first three:")
    for row in page.data:
        console.print(
            escape(f"  {row['debt']:>9,}  {row['institution']}: {row['field']}"),
            overflow="ellipsis",
            no_wrap=True,
        )
    await parsed.pin()
    metadata = await parsed.get_metadata()
    console.print(f"Pinned: status {metadata.status}, read {metadata.access_count} times.")
    await parsed.delete()
    console.print("Deleted: the link is dead.\n")


def _closing_table(lines: list[Line]) -> Table:
    table = Table(title="Who got what")
    table.add_column("who")
    for heading in ("rows", "bytes", "seconds"):
        table.add_column(heading, justify="right")
    for line in lines:
        table.add_row(
            line.who,
            f"{line.rows:,}",
            f"{line.size:,}",
            f"{line.seconds:.2f}",
            end_section=line.who.startswith("application"),
        )
    return table
