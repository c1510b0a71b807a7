"""A host of your own, on the MCP SDK: each tool result goes to model and client. Run it beside server.py."""

# /// script
# requires-python = ">=3.11"
# dependencies = ["mcp>=2.3,<3", "dualsql-client"]
# ///

import asyncio
import json

from mcp import Client

from dualsql_client import DualResponseClient


def scripted_model(conversation):
    """In place of yours: it asks for colleges, and then says what it read."""
    if len(conversation) == 1:
        return {"tool": "search_colleges", "arguments": {"state": "NJ"}}
    return {"says": conversation[-1].splitlines()[0]}


async def main(origin="http://127.0.0.1:8000"):
    async with Client(f"{origin}/mcp") as tools, DualResponseClient(f"{origin}/resources") as application:
        conversation = ["Which colleges are in New Jersey?"]
        responses = []
        while "tool" in (answer := scripted_model(conversation)):
            result = await tools.call_tool(answer["tool"], answer["arguments"])
            conversation += [json.dumps(answer), result.content[0].text]  # all that the model reads
            responses += application.find(result)
        print(f"The model says: {answer['says']}")
        for parsed in responses:
            print(f"The application has {len(await parsed.fetch_all())} rows of {parsed.name}.")


if __name__ == "__main__":
    asyncio.run(main())
