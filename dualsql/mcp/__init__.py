"""The model's half: functions that return a Select as tools of an MCP server; the rule: an SDK is met when used.

answer      what a function returns when a Select alone does not say enough
tool        the decorators: `DualResponseServer.tool`, and `plain_tool` for functions that return no rows
execute_query  the tools that take a SQL text, or the name of a saved query
results     the tools that go on with an earlier result; staged: what seeds/001 calls them
calls       one call: the function and its result, or the problem
manners     what becomes of what a function returns: a dual response, or plain data
problems    exceptions as problems, in words that were written for callers
schema      what every result looks like, published as outputSchema
wording     what a tool's description says of its results
signatures  a function with the signature of another one
patience    what a call does while its query takes its time
negotiating which half of a result its caller wants
tasks       slow calls of the official SDK as MCP tasks
official    tools of `mcp.server.MCPServer`
fast        tools of `fastmcp.FastMCP`

catalogue            tables and saved queries as resources and tools, as far as a caller may see them
catalogue_shelf      ... the resources
catalogue_tools      ... the tools
resources            stored results as resources, subscriptions, discovery, the prompt
resources_shelf      ... the resources
subscriptions        ... who is told that a result has changed
discovery            the REST half among a server's capabilities
prompt               words that teach a model the pattern
resources_serving    resources of ours beside those of a server, for either SDK

What a result is on the wire stands in `dualsql.response`, and nowhere here.
"""

from dualsql.mcp.answer import Answer
from dualsql.mcp.catalogue import add_catalogue
from dualsql.mcp.execute_query import add_execute_query, add_query
from dualsql.mcp.prompt import system_prompt
from dualsql.mcp.resources import add_resources
from dualsql.mcp.results import add_data_manager, add_result_tools
from dualsql.mcp.tool import Function, PlainToolOptions, ToolOptions, plain_tool, tool

__all__ = [
    "Answer",
    "Function",
    "PlainToolOptions",
    "ToolOptions",
    "add_catalogue",
    "add_data_manager",
    "add_execute_query",
    "add_query",
    "add_resources",
    "add_result_tools",
    "plain_tool",
    "system_prompt",
    "tool",
]
