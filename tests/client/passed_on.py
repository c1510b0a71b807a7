"""Results as hosts, gateways, loggers and buses pass them on, and what is found in each."""

from __future__ import annotations

import json
import quopri
from base64 import b64encode, urlsafe_b64encode
from html import escape
from typing import Any

import yaml  # type: ignore[import-untyped]  # it has no types

from tests.client.carriers import LINK, SENTENCE, STRUCTURE, TEXT, TOOL_RESULT, URI, URL, doubles
from tests.client.hosting import OTHER_ID

OTHER = f"resource://{OTHER_ID}"
QUOTED = f"Plot the rows of {OTHER}, please."
ASKED = {"data_access_id": OTHER}
LINE = json.dumps(STRUCTURE)
PRETTY = json.dumps(STRUCTURE, indent=2, ensure_ascii=False)

WHOLE = [[URI, 2, 565]]
LINKED = [[URI, 0, None]]
NOTHING: list[list[Any]] = []

USER = {"role": "user", "content": QUOTED}
CALL = {
    "role": "assistant",
    "tool_calls": [
        {"id": "c", "type": "function", "function": {"name": "q", "arguments": json.dumps(ASKED)}}
    ],
}
TOOL = {"role": "tool", "tool_call_id": "c", "content": TEXT}
CHAT = [{"role": "system", "content": QUOTED}, USER, CALL, TOOL]


def base64(text: str) -> str:
    return b64encode(text.encode()).decode()


def attributes(**named: str) -> list[dict[str, Any]]:
    """Attributes of a span in OTLP's JSON."""
    return [
        {"key": name.replace("__", "."), "value": {"stringValue": value}} for name, value in named.items()
    ]


def mongo(value: Any) -> Any:
    """MongoDB's extended JSON."""
    if isinstance(value, dict):
        return {name: mongo(item) for name, item in value.items()}
    if isinstance(value, list):
        return [mongo(item) for item in value]
    return {"$numberInt": str(value)} if type(value) is int else value


def middle_cut(text: str, most: int) -> str:
    half = most // 2
    return f"{text[:half]}\n... [{len(text) - most} characters truncated] ...\n{text[-half:]}"


def padded(rows: int) -> dict[str, Any]:
    """A structure with more rows, behind its resource, as an SDK that sorts or reverses names has it."""
    return {
        "metadata": STRUCTURE["metadata"],
        "resource": STRUCTURE["resource"],
        "results": [{"id": number, "name": "College of Ordinary Arts"} for number in range(rows)],
    }


SHAPES: dict[str, tuple[Any, list[list[Any]]]] = {
    "OpenTelemetry: messages of a tool": (
        {
            "name": "chat",
            "attributes": attributes(
                gen_ai__input__messages=json.dumps(
                    [
                        {"role": "user", "parts": [{"type": "text", "content": QUOTED}]},
                        {
                            "role": "tool",
                            "parts": [{"type": "tool_call_response", "id": "c", "response": LINE}],
                        },
                    ]
                )
            ),
        },
        WHOLE,
    ),
    "OpenTelemetry: arguments and result": (
        {
            "name": "execute_tool q",
            "attributes": attributes(
                gen_ai__tool__call__arguments=json.dumps(ASKED),
                gen_ai__tool__call__result=json.dumps(TOOL_RESULT),
            ),
        },
        WHOLE,
    ),
    "OpenTelemetry: attributes as an object": (
        {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.call.arguments": json.dumps(ASKED),
            "gen_ai.tool.call.result": TEXT,
        },
        LINKED,
    ),
    "OpenInference: a tool": (
        {
            "openinference.span.kind": "TOOL",
            "tool.name": "q",
            "input.value": json.dumps(ASKED),
            "input.mime_type": "application/json",
            "output.value": json.dumps(TOOL_RESULT),
        },
        WHOLE,
    ),
    "OpenInference: messages of a model": (
        {
            "llm.input_messages.0.message.role": "user",
            "llm.input_messages.0.message.content": QUOTED,
            "llm.input_messages.1.message.role": "tool",
            "llm.input_messages.1.message.content": TEXT,
        },
        LINKED,
    ),
    "Langfuse: a span": (
        {
            "type": "SPAN",
            "name": "q",
            "input": ASKED,
            "output": TOOL_RESULT,
            "level": "DEFAULT",
            "metadata": {"scope": {}},
        },
        WHOLE,
    ),
    "Langfuse: a generation": (
        {
            "type": "GENERATION",
            "name": "chat",
            "input": CHAT,
            "output": {"role": "assistant", "content": "Done."},
        },
        LINKED,
    ),
    "Langfuse: an export": (
        {"type": "SPAN", "name": "q", "input": json.dumps(ASKED), "output": json.dumps(TOOL_RESULT)},
        WHOLE,
    ),
    "LiteLLM: a logged call": (
        {
            "id": "chatcmpl-1",
            "call_type": "acompletion",
            "status": "success",
            "messages": CHAT,
            "response": {"choices": [{"message": {"role": "assistant", "content": "Done."}}]},
            "metadata": {"user_api_key_alias": None},
        },
        LINKED,
    ),
    "LiteLLM: MCP gateway": (
        {
            "call_type": "call_mcp_tool",
            "status": "success",
            "metadata": {
                "mcp_tool_call_metadata": {"name": "q", "arguments": ASKED, "namespaced_tool_name": "a/q"}
            },
            "response": TOOL_RESULT,
        },
        WHOLE,
    ),
    "LiteLLM: repr": (f"Message(content={TEXT!r}, role='tool', tool_call_id='c', tool_calls=None)", LINKED),
    "LangSmith: a run": (
        {
            "run_type": "tool",
            "name": "q",
            "inputs": {"input": repr(ASKED)},
            "error": None,
            "outputs": {
                "output": {
                    "type": "tool",
                    "content": TEXT,
                    "status": "success",
                    "artifact": {"structured_content": STRUCTURE},
                }
            },
        },
        WHOLE,
    ),
    "MLflow": (
        {
            "spans": [
                {
                    "name": "q",
                    "status": {"code": "STATUS_CODE_OK"},
                    "attributes": {
                        "mlflow.spanType": '"TOOL"',
                        "mlflow.spanInputs": json.dumps(ASKED),
                        "mlflow.spanOutputs": json.dumps(TOOL_RESULT),
                    },
                }
            ]
        },
        WHOLE,
    ),
    "Weave": ({"op_name": "q", "inputs": ASKED, "output": {"_type": "CallToolResult", **TOOL_RESULT}}, WHOLE),
    "Datadog": (
        {
            "name": "q",
            "meta": {"kind": "tool", "input": {"value": json.dumps(ASKED)}, "output": {"value": LINE}},
        },
        WHOLE,
    ),
    "Sentry, to a depth": (
        {
            "extra": {
                "result": {
                    "structuredContent": {
                        "results": "[Array]",
                        "resource": STRUCTURE["resource"],
                        "metadata": "[Object]",
                    }
                }
            }
        },
        LINKED,
    ),
    "Kafka: base64": (
        {
            "topic": "tools",
            "partition": 0,
            "offset": 12,
            "key": "czE=",
            "value": base64(json.dumps(TOOL_RESULT)),
        },
        WHOLE,
    ),
    "Kafka: base64 of a text": ({"topic": "tools", "value": base64(TEXT)}, LINKED),
    "Pub/Sub": ({"message": {"data": base64(TEXT), "messageId": "1", "attributes": {"tool": "q"}}}, LINKED),
    "Kinesis": ({"Records": [{"kinesis": {"data": base64(f"\n{PRETTY}\n")}}]}, WHOLE),
    "base64 for URLs, without padding": (
        {
            "payload": urlsafe_b64encode(json.dumps(TOOL_RESULT, ensure_ascii=False).encode())
            .decode()
            .rstrip("=")
        },
        WHOLE,
    ),
    "base64 in lines": (
        "\n".join(base64(json.dumps(TOOL_RESULT))[at : at + 76] for at in range(0, 4_000, 76)).strip(),
        WHOLE,
    ),
    "base64 twice": ({"payload": base64(base64(LINE))}, WHOLE),
    "base64 of a message with a header": (
        {"value": b64encode(b"\0\0\0\0\7" + LINE.encode()).decode()},
        WHOLE,
    ),
    "base64 of UTF-16": ({"payload": b64encode(LINE.encode("utf-16")).decode()}, WHOLE),
    "JSON of code points alone": (
        '{"out": "' + "".join(f"\\u{ord(letter):04x}" for letter in SENTENCE) + '"}',
        LINKED,
    ),
    "DSPy": (
        {"trajectory": {"tool_name_0": "q", "tool_args_0": ASKED, "observation_0": json.dumps(TOOL_RESULT)}},
        WHOLE,
    ),
    "OpenTelemetry: a list of values with their types": (
        {
            "attributes": [
                {
                    "key": "result",
                    "value": {
                        "kvlistValue": {
                            "values": [
                                {"key": "resource", "value": {"kvlistValue": {"values": attributes(uri=URI)}}}
                            ]
                        }
                    },
                }
            ]
        },
        LINKED,
    ),
    "the input of the next step": ({"node_input": STRUCTURE, "event": "prompt_completed"}, WHOLE),
    "Codex": (
        {
            "type": "mcp_tool_call_end",
            "invocation": {"tool": "q", "arguments": ASKED},
            "result": {"Ok": TOOL_RESULT},
        },
        WHOLE,
    ),
    "arguments, then a result": (f"q arguments={json.dumps(ASKED)} result={json.dumps(TOOL_RESULT)}", WHOLE),
    "a person's name, then a result": (f"user=ann role=admin result={URI}", LINKED),
    "a role in a cell, then the resource": (f"note='role=user', resource=Resource(uri={URI!r})", LINKED),
    "a data URI": (f"data:application/json;base64,{base64(LINE)}", WHOLE),
    "CloudEvents": (
        {"specversion": "1.0", "type": "tool.done", "source": "/q", "data_base64": base64(LINE)},
        WHOLE,
    ),
    "Temporal": (
        {"metadata": {"encoding": "anNvbi9wbGFpbg=="}, "data": base64(json.dumps(TOOL_RESULT))},
        WHOLE,
    ),
    "SNS in SQS": (
        {"Records": [{"body": json.dumps({"Type": "Notification", "Message": json.dumps(TOOL_RESULT)})}]},
        WHOLE,
    ),
    "EventBridge": ({"source": "agent", "detail-type": "done", "detail": {"output": STRUCTURE}}, WHOLE),
    "a Redis stream": ([["1700-0", ["tool", "q", "result", json.dumps(TOOL_RESULT)]]], WHOLE),
    "a Redis stream's repr": (f"[(b'1700-0', {{b'tool': b'q', b'result': {TEXT.encode()!r}}})]", LINKED),
    "Celery": ({"task_id": "t", "status": "SUCCESS", "result": TOOL_RESULT, "traceback": None}, WHOLE),
    "MongoDB": ({"_id": {"$oid": "65f0"}, "output": mongo(STRUCTURE)}, WHOLE),
    "Avro": ({"output": {"string": json.dumps(TOOL_RESULT)}}, WHOLE),
    "YAML, a literal": (
        "tool: q\noutput: |\n" + "".join(f"  {line}\n" for line in PRETTY.splitlines()),
        WHOLE,
    ),
    "YAML, folded": (yaml.safe_dump({"tool": "q", "output": TEXT}, width=60), LINKED),
    "XML attributes": (f'<result tool="q" uri="{URI}" total="565"><row id="1"/></result>', LINKED),
    "a dataclass's repr": (
        f"Called(output=Dual(results=[Row(id=1)], resource=Resource(uri={URI!r}, url={URL!r}), metadata=None))",
        LINKED,
    ),
    "pydantic's str": (
        f"content=[TextContent(type='text', text={TEXT!r})] structuredContent={STRUCTURE!r} isError=False",
        LINKED,
    ),
    "JavaScript's inspect": (
        (
            "{\n  content: [\n    { type: 'text', text: 'Schools: showing 2 of 565 rows.\\n' +\n      '\\n' +\n"
            f"      'The application gets every row from {URI} (kept).' }}\n  ],\n"
            f"  structuredContent: {{ results: [ [Object] ], resource: {{ uri: '{URI}' }} }}\n}}"
        ),
        LINKED,
    ),
    "Go": (
        f"&{{Content:[0xc00011] StructuredContent:map[resource:map[name:Schools uri:{URI} url:{URL}] results:[]]}}",
        LINKED,
    ),
    "Go's JSON": (
        {"Results": [{"id": 1}], "Resource": {"URI": URI, "URL": URL}, "Metadata": {"TotalCount": 565}},
        LINKED,
    ),
    "Java": (
        f"CallToolResult[content=[TextContent[text=rows]], resource={{uri={URI}, name=Schools}}]",
        LINKED,
    ),
    "Rust": (
        f'CallToolResult {{ structured: Some(Object {{"resource": Object {{"uri": String("{URI}")}}}}) }}',
        LINKED,
    ),
    "Ruby": (f'{{"results"=>[{{"id"=>1}}], "resource"=>{{"uri"=>"{URI}", "url"=>"{URL}"}}}}', LINKED),
    "PHP": (f'a:1:{{s:8:"resource";a:1:{{s:3:"uri";s:{len(URI)}:"{URI}";}}}}', LINKED),
    "psql": (f" id | tool | output\n----+------+--------\n  1 | q    | {LINE}\n(1 row)\n", WHOLE),
    "server-sent events of several lines": (
        "event: done\n" + "".join(f"data: {line}\n" for line in PRETTY.splitlines()) + "\n",
        WHOLE,
    ),
    "server-sent events of OpenAI": (
        "event: response.output_item.done\ndata: "
        + json.dumps(
            {
                "type": "response.output_item.done",
                "item": {"type": "mcp_call", "arguments": json.dumps(ASKED), "output": TEXT},
            }
        )
        + "\n\n",
        LINKED,
    ),
    "Slack: text": (
        "*Result*\n>" + escape(TEXT, quote=False).replace("\n", "\n>").replace(URI, f"<{URI}|{URI}>"),
        LINKED,
    ),
    "Slack: blocks": (
        {"blocks": [{"type": "section", "text": {"type": "mrkdwn", "text": f"```{LINE}```"}}]},
        WHOLE,
    ),
    "Teams: a card": (
        {
            "type": "message",
            "attachments": [
                {
                    "contentType": "application/vnd.microsoft.card.adaptive",
                    "content": {"type": "AdaptiveCard", "body": [{"type": "TextBlock", "text": TEXT}]},
                }
            ],
        },
        LINKED,
    ),
    "Teams: HTML": (
        {
            "messageType": "message",
            "body": {"contentType": "html", "content": "<p>" + escape(TEXT).replace("\n", "<br>") + "</p>"},
        },
        LINKED,
    ),
    "Teams: without breaks in words": (TEXT.replace("://", ":/\u200b/\u200b"), LINKED),
    "HTML: an attribute": (
        f'<tool-call name="q" data-result="{escape(json.dumps(TOOL_RESULT))}"></tool-call>',
        LINKED,
    ),
    "HTML: a page with JSON": (
        f'<script type="application/json">{LINE.replace("<", chr(92) + "u003c")}</script>',
        WHOLE,
    ),
    "Open WebUI": (
        (
            f'<details type="tool_calls" done="true" name="q" arguments="{escape(json.dumps(json.dumps(ASKED)))}"'
            f' result="{escape(json.dumps(json.dumps(TOOL_RESULT)))}">\n<summary>Tool Executed</summary>\n</details>'
        ),
        LINKED,
    ),
    "a mail": (quopri.encodestring(TEXT.encode()).decode(), LINKED),
    "a terminal's colours": (f"\x1b[2mresult\x1b[0m=\x1b[32m'{URI}'\x1b[0m \x1b[1m{URL}\x1b[0m", LINKED),
    "syslog": (f"<14>1 2026-11-27T10:00:00Z host agent 12 - - {TEXT}".replace("\n", "#012"), LINKED),
    "CRI": (f"2026-11-27T10:00:00Z stdout F {json.dumps(TOOL_RESULT)}\n", WHOLE),
    "Loki": (
        {"streams": [{"stream": {"app": "agent"}, "values": [["1700", json.dumps(TOOL_RESULT)]]}]},
        WHOLE,
    ),
    "a byte order mark": ("\ufeff" + json.dumps(TOOL_RESULT), WHOLE),
    "superjson": ({"json": {"output": TOOL_RESULT}, "meta": {"values": {}}}, WHOLE),
    "React's flight": (f'0:["$@1",["development"]]\n1:{json.dumps(TOOL_RESULT)}\n', WHOLE),
    "tRPC": ({"result": {"data": {"json": TOOL_RESULT}}}, WHOLE),
    "AG-UI": (
        "\n\n".join(
            f"data: {json.dumps(event)}"
            for event in (
                {"type": "TOOL_CALL_ARGS", "toolCallId": "c", "delta": json.dumps(ASKED)},
                {
                    "type": "TOOL_CALL_RESULT",
                    "toolCallId": "c",
                    "role": "tool",
                    "content": json.dumps(TOOL_RESULT),
                },
            )
        ),
        WHOLE,
    ),
    "ACP": (
        {
            "sessionUpdate": "tool_call_update",
            "toolCallId": "c",
            "status": "completed",
            "rawInput": ASKED,
            "content": [{"type": "content", "content": {"type": "text", "text": TEXT}}],
            "rawOutput": TOOL_RESULT,
        },
        WHOLE,
    ),
    "Claude Code's hook": (
        {
            "hook_event_name": "PostToolUse",
            "tool_name": "mcp__a__q",
            "tool_input": ASKED,
            "tool_response": TOOL_RESULT,
        },
        WHOLE,
    ),
    "n8n": ([{"json": {"response": [{"type": "text", "text": LINE}]}, "pairedItem": {"item": 0}}], WHOLE),
    "Dify": (
        {
            "event": "agent_thought",
            "tool": "q",
            "tool_input": json.dumps({"q": ASKED}),
            "observation": json.dumps({"q": LINE}),
        },
        WHOLE,
    ),
    "Cohere": (
        {"role": "tool", "tool_call_id": "c", "content": [{"type": "document", "document": {"data": LINE}}]},
        WHOLE,
    ),
    "Haystack": (
        {
            "role": "tool",
            "content": [
                {
                    "tool_call_result": {
                        "result": LINE,
                        "origin": {"tool_name": "q", "arguments": ASKED},
                        "error": False,
                    }
                }
            ],
        },
        WHOLE,
    ),
    "Bedrock's trace": (
        {"trace": {"orchestrationTrace": {"observation": {"actionGroupInvocationOutput": {"text": TEXT}}}}},
        LINKED,
    ),
    "OpenAI's run step": (
        {
            "step_details": {
                "type": "tool_calls",
                "tool_calls": [
                    {
                        "type": "function",
                        "function": {"name": "q", "arguments": json.dumps(ASKED), "output": TEXT},
                    }
                ],
            }
        },
        LINKED,
    ),
    "Hermes": (f'<tool_response>\n{{"name": "q", "content": {LINE}}}\n</tool_response>', WHOLE),
    "Llama": (f"<|start_header_id|>ipython<|end_header_id|>\n\n{LINE}<|eot_id|>", WHOLE),
    "Harmony": (f"<|start|>functions.q to=assistant<|channel|>commentary<|message|>{LINE}<|end|>", WHOLE),
    "Jira's code": (f"Result: {{code:json}}{LINE}{{code}} of q", WHOLE),
    "GitHub's details": (f"<details><summary>Result</summary>\n\n```json\n{PRETTY}\n```\n</details>", WHOLE),
    "a quotation in a mail": ("".join(f"> {line}\n" for line in PRETTY.splitlines()), WHOLE),
    "a table's cell": (
        "| tool | output |\n|-|-|\n| q | " + TEXT.replace("|", "\\|").replace("\n", "<br>") + " |",
        LINKED,
    ),
    **{
        f"JSON cut at {most:,} characters": (json.dumps(padded(200))[:most] + "… [truncated]", LINKED)
        for most in (500, 1_000, 2_000)
    },
    **{
        f"a tool's message cut at {most:,} characters": (
            {"role": "tool", "content": json.dumps({"structuredContent": padded(200)})[:most] + "..."},
            LINKED,
        )
        for most in (500, 1_000, 2_000)
    },
    **{
        f"a text with its middle cut to {most:,} characters": (
            middle_cut(TEXT.replace("|-|-|\n", "|-|-|\n" + "|3|College|\n" * 400), most),
            LINKED,
        )
        for most in (500, 1_000, 2_000)
    },
    "protobuf's doubles in a task": (
        {
            "kind": "task",
            "status": {"state": "TASK_STATE_COMPLETED"},
            "artifacts": [{"parts": [{"data": {"data": doubles(STRUCTURE)}}]}],
        },
        WHOLE,
    ),
    "an entity for each quotation mark": (f"<code>{LINE.replace(chr(34), '&#34;')}</code>", LINKED),
    "quotation marks as code points": (f"msg={LINE.replace(chr(34), chr(92) + 'u0022')}", LINKED),
    "a link of Markdown with a title": (f'Rows: [Schools]({URI} "565 rows")', LINKED),
    "an object of links": ({"links": {"self": {"href": "/q/1"}, "rows": {"href": URI}}}, LINKED),
    "an embedded link": (
        {"kind": "tool", "parts": [{"kind": "file", "file": {"uri": URI, "name": "Schools"}}]},
        LINKED,
    ),
    "a resource_link's repr": (repr(LINK), LINKED),
}
"""What is found in each."""
