"""Messages, arguments and failures, as hosts, loggers and buses pass them on beside results."""

from __future__ import annotations

import json
from base64 import b64encode
from typing import Any

from tests.client.passed_on import ASKED, OTHER, QUOTED, USER, attributes, base64

FAILED = f"RESULT_EXPIRED: {OTHER} has expired. Call q again."

REQUEST = {"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": {"name": "q", "arguments": ASKED}}

OTHERS: dict[str, Any] = {
    "OpenTelemetry: arguments": {
        "name": "execute_tool q",
        "attributes": attributes(gen_ai__tool__call__arguments=json.dumps(ASKED)),
    },
    "OpenTelemetry: arguments as an object": {
        "attributes": {"gen_ai.tool.call.arguments": json.dumps(ASKED)}
    },
    "OpenTelemetry: a question": {
        "attributes": attributes(
            gen_ai__input__messages=json.dumps(
                [{"role": "user", "parts": [{"type": "text", "content": QUOTED}]}]
            )
        )
    },
    "OpenTelemetry: instructions": {
        "attributes": attributes(
            gen_ai__system_instructions=json.dumps([{"type": "text", "content": QUOTED}])
        )
    },
    "OpenTelemetry: the event of a question": {
        "eventName": "gen_ai.user.message",
        "body": {"content": QUOTED},
    },
    "OpenInference: a question": {
        "llm.input_messages.0.message.role": "user",
        "llm.input_messages.0.message.content": QUOTED,
    },
    "OpenInference: a failed tool": {
        "openinference.span.kind": "TOOL",
        "input.value": json.dumps(ASKED),
        "output.value": "none",
        "tool.name": "q",
    },
    "Langfuse: a failed span": {
        "type": "SPAN",
        "name": "q",
        "input": ASKED,
        "output": None,
        "level": "ERROR",
        "statusMessage": FAILED,
    },
    "Langfuse: a question": {
        "type": "TRACE",
        "name": "chat",
        "input": {"messages": [USER]},
        "output": "Done.",
    },
    "LiteLLM: a question": {"call_type": "acompletion", "messages": [USER], "response": {"choices": []}},
    "LiteLLM: a failed call": {
        "call_type": "call_mcp_tool",
        "status": "failure",
        "error_str": FAILED,
        "response": {},
    },
    "LangSmith: a failed run": {
        "run_type": "tool",
        "name": "q",
        "inputs": {"input": repr(ASKED)},
        "error": f"ToolException({FAILED!r})",
        "outputs": None,
    },
    "LangChain: on_tool_start": {
        "event": "on_tool_start",
        "name": "q",
        "data": {"input": ASKED},
        "metadata": {},
    },
    "LangChain: on_tool_error": {
        "event": "on_tool_error",
        "name": "q",
        "data": {"error": FAILED, "input": ASKED},
    },
    "LangChain: on_chat_model_start": {
        "event": "on_chat_model_start",
        "data": {"input": {"messages": [[{"type": "human", "content": QUOTED}]]}},
    },
    "MLflow: inputs": {"spans": [{"name": "q", "attributes": {"mlflow.spanInputs": json.dumps(ASKED)}}]},
    "Weave: inputs": {"op_name": "q", "inputs": ASKED, "output": None, "exception": FAILED},
    "Datadog: inputs": {
        "name": "q",
        "meta": {"kind": "tool", "input": {"value": json.dumps(ASKED)}, "output": {"value": "none"}},
    },
    "Celery: failed": {
        "task_id": "t",
        "status": "FAILURE",
        "result": {"exc_type": "ToolError", "exc_message": [FAILED]},
    },
    "Step Functions: failed": {"Error": "ToolError", "Cause": FAILED, "toolName": "q"},
    "Haystack: failed": {
        "role": "tool",
        "content": [
            {
                "tool_call_result": {
                    "result": FAILED,
                    "origin": {"tool_name": "q", "arguments": ASKED},
                    "error": True,
                }
            }
        ],
    },
    "Haystack: a question": {"_role": "user", "_content": [{"text": QUOTED}], "_meta": {}},
    "the AI SDK: tool-output-error": {"type": "tool-output-error", "toolCallId": "c", "errorText": FAILED},
    "the AI SDK: tool-input-available": {
        "type": "tool-input-available",
        "toolCallId": "c",
        "toolName": "q",
        "input": ASKED,
    },
    "the AI SDK: the text of an error": {
        "type": "dynamic-tool",
        "toolName": "q",
        "state": "output-error",
        "input": ASKED,
        "errorText": FAILED,
    },
    "AG-UI: arguments": {"type": "TOOL_CALL_ARGS", "toolCallId": "c", "delta": json.dumps(ASKED)},
    "AG-UI: a run's error": {"type": "RUN_ERROR", "message": FAILED},
    "AG-UI: a run's input": {
        "threadId": "t",
        "runId": "r",
        "messages": [{"id": "1", **USER}],
        "tools": [],
        "state": {},
    },
    "ACP: a prompt": {
        "jsonrpc": "2.0",
        "id": 2,
        "method": "session/prompt",
        "params": {"prompt": [{"type": "text", "text": QUOTED}]},
    },
    "ACP: a person's chunk": {
        "sessionUpdate": "user_message_chunk",
        "content": {"type": "text", "text": QUOTED},
    },
    "Claude Code: a prompt": {"hook_event_name": "UserPromptSubmit", "session_id": "s", "prompt": QUOTED},
    "Claude Code: before a call": {
        "hook_event_name": "PreToolUse",
        "tool_name": "mcp__a__q",
        "tool_input": ASKED,
    },
    "MCP: tools/call": REQUEST,
    "MCP: resources/read": {"jsonrpc": "2.0", "id": 4, "method": "resources/read", "params": {"uri": OTHER}},
    "MCP: sampling": {
        "jsonrpc": "2.0",
        "id": 5,
        "method": "sampling/createMessage",
        "params": {"messages": [{"role": "user", "content": {"type": "text", "text": QUOTED}}]},
    },
    "MCP: an error's data": {
        "jsonrpc": "2.0",
        "id": 6,
        "error": {"code": -32602, "message": "no", "data": {"uri": OTHER}},
    },
    "MCP: resources/list": {
        "resources": [{"uri": "resource://greeting", "name": "greeting", "mimeType": "text/plain"}]
    },
    "Semantic Kernel: a question": {
        "Role": {"Label": "user"},
        "Items": [{"$type": "TextContent", "Text": QUOTED}],
    },
    "Semantic Kernel: a call": {
        "$type": "FunctionCallContent",
        "Id": "c",
        "FunctionName": "q",
        "Arguments": ASKED,
    },
    "Microsoft.Extensions.AI: a question": {"role": "user", "contents": [{"$type": "text", "text": QUOTED}]},
    "n8n: a question": {"sessionId": "s", "action": "sendMessage", "chatInput": QUOTED},
    "Dify: a question": {"event": "message", "query": QUOTED, "inputs": {}, "answer": "Done."},
    "Flowise: a call": {"usedTools": [{"tool": "q", "toolInput": ASKED, "toolOutput": "none"}]},
    "CrewAI: a call": {"type": "tool_usage_started", "tool_name": "q", "tool_args": json.dumps(ASKED)},
    "CrewAI: a failed call": {
        "type": "tool_usage_error",
        "tool_name": "q",
        "tool_args": json.dumps(ASKED),
        "error": FAILED,
    },
    "Bedrock: a call": {"toolUse": {"toolUseId": "c", "name": "q", "input": ASKED}},
    "Bedrock: a prompt of a trace": {
        "trace": {"orchestrationTrace": {"rationale": {"text": "I call q."}}},
        "inputText": QUOTED,
    },
    "Gemini: a live call": {"toolCall": {"functionCalls": [{"id": "c", "name": "q", "args": ASKED}]}},
    "ADK: an error": {"author": "agent", "errorCode": "TOOL", "errorMessage": FAILED, "content": None},
    "Cohere: a plan": {
        "role": "assistant",
        "tool_plan": "I call q.",
        "tool_calls": [{"name": "q", "parameters": ASKED}],
    },
    "OpenAI: a run step": {
        "type": "tool_calls",
        "tool_calls": [{"function": {"name": "q", "arguments": json.dumps(ASKED), "output": None}}],
    },
    "DSPy: a call": {"trajectory": {"tool_name_0": "q", "tool_args_0": ASKED, "observation_0": "none"}},
    "Temporal: a failure": {"failure": {"message": FAILED, "applicationFailureInfo": {"type": "ToolError"}}},
    "OpenTelemetry: a log of a failure": {"level": "error", "msg": FAILED},
    "a message in Python's repr": repr(USER),
    "a message of LangChain in Python's repr": f"HumanMessage(content={QUOTED!r}, additional_kwargs={{}})",
    **{
        f"a call with the state {state}": {"tool": "q", "state": state, "output": FAILED}
        for state in ("ERRORED", "rejected", "Crashed", "TIMED_OUT", "permission-denied", "TaskFailed")
    },
    "Codex: a failed call": {
        "type": "mcp_tool_call_end",
        "invocation": {"tool": "q", "arguments": ASKED},
        "result": {"Err": FAILED},
    },
    "arguments in a log": f"tool=q arguments={json.dumps(ASKED)}",
    "a call in Python's repr": f"ToolCallPart(tool_name='q', args={ASKED!r}, tool_call_id='c')",
    "the result of another server in Python's repr": repr(
        {"results": [], "resource": {"uri": "resource://greeting"}, "metadata": {"total_count": 0}}
    ),
    "a request in a log": f"POST /mcp {json.dumps(REQUEST)}",
    "server-sent events of arguments": "event: response.function_call_arguments.done\ndata: "
    + json.dumps({"type": "response.function_call_arguments.done", "arguments": json.dumps(ASKED)})
    + "\n\n",
    "base64 of a question": {"value": base64(json.dumps(USER))},
    "base64 of an image": {
        "type": "image",
        "data": b64encode(bytes(range(256)) * 40).decode(),
        "mimeType": "image/png",
    },
    "GitHub: GraphQL's resource": {
        "data": {"resource": {"url": "https://github.com/o/r", "__typename": "Repository"}}
    },
    "Kubernetes: a review": {
        "kind": "SubjectAccessReview",
        "spec": {"resource": {"resource": "pods", "uri": "/api"}},
        "metadata": {},
    },
    "OData: a delta": {
        "@odata.context": "https://x/$metadata",
        "value": [],
        "resource": {"uri": "resource://a"},
        "metadata": {"count": 1},
    },
    "a page of the REST service": {
        "data": [{"id": 1}],
        "metadata": {"total_count": 1, "limit": 50, "offset": 0},
    },
    "a path on the configured origin": {
        "results": [],
        "resource": {"url": "http://127.0.0.1:1/health"},
        "metadata": {"total_count": 0},
    },
    "KSUIDs": {
        "items": [{"id": "2DgkQLEbRC7bTGYZ3PHmVSNKRTZ"}, {"id": "cus_NffrFeUfNV2HibNffrFeUfNV2HibQW"}]
    },
    "signatures": {
        "sig": "3045022100" + "a9B" * 21,
        "jwk": {"n": "sXchDaQebHnPiGvyDOAT4saGEUetSyo9MKLOoWFsueri23bOdgWp4Dy1Wl"},
    },
}
"""Nothing is found in any."""
