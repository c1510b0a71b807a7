"""Every row of a result, in the shape it is needed in. Run it beside server.py."""

import asyncio

from mcp import Client

from dualsql_client import DualResponseClient


async def main(origin: str = "http://127.0.0.1:8000") -> None:
    async with Client(f"{origin}/mcp") as model, DualResponseClient(f"{origin}/resources") as application:
        result = await model.call_tool("search_colleges", {"state": "NJ"})
        colleges = application.parse(result, strict=True)

        rows = await colleges.fetch_all(sort={"field": "name"}, limit=10)  # dicts
        table = await colleges.to_arrow(columns=["name", "control"])  # or to_polars(), to_pandas()
        path = await colleges.save("colleges.csv")  # or .ndjson, .arrow, .parquet
        async for batch in colleges.fetch_stream(typed=True):  # never holds more than a batch
            print(f"{len(batch)} rows, the first is {batch[0]['name']}")

        print(f"{len(rows)} dicts, {table.num_rows} rows of {table.num_columns} columns, {path}")


asyncio.run(main())
