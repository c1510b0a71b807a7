"""Results that try to pass as dual responses, and results in odd wrappings; both clients read them."""

from __future__ import annotations

import html
import json
import pprint
import shlex
from typing import Any
from urllib.parse import quote, quote_plus

import yaml  # type: ignore[import-untyped]  # it has no types

from tests.client.carriers import SENTENCE, STRUCTURE, TEXT, TOOL_RESULT, URI, URL
from tests.client.hosting import RESOURCE_ID

_ID = RESOURCE_ID
_WORD = "Tq4x9hXv2ZkLwPmB7sYd1RcE0aKLOHLka"
_FLIPPED = _ID[:5] + ("A" if _ID[5] != "A" else "B") + _ID[6:]
_WRITTEN = json.dumps(TOOL_RESULT)
_STRUCTURE = json.dumps(STRUCTURE)


def _table(**resource: str) -> dict[str, Any]:
    return {"results": [{"id": 1}], "resource": resource, "metadata": {"total_count": 1, "columns": []}}


ORDINARY: dict[str, Any] = {
    "flipped char": f"The application gets every row from resource://{_FLIPPED}",
    "lower id": f"resource://{_ID.lower()}",
    "upper id": f"resource://{_ID.upper()}",
    "swapcase": f"resource://{_ID.swapcase()}",
    "reversed": f"resource://{_ID[::-1]}",
    "id minus last": f"resource://{_ID[:-1]}",
    "id minus first": f"resource://{_ID[1:]}",
    "id dash": f"resource://{_ID[:16]}-{_ID[16:]}",
    "id underscore": f"resource://{_ID[:16]}_{_ID[16:]}",
    "id two digits swapped": f"resource://{_ID[:10]}{_ID[11]}{_ID[10]}{_ID[12:]}",
    "fullwidth": "resource://" + "".join(chr(ord(c) + 65248) for c in _ID),
    "cyrillic": f"resource://{_ID.replace('a', 'а').replace('E', 'Е')}",
    "other origin url": f"https://evil.example/resources/{_ID}",
    "other port": f"http://127.0.0.1:2/resources/{_ID}",
    "userinfo trick": f"http://127.0.0.1:1@evil.example/resources/{_ID}",
    "subdomain trick": f"http://127.0.0.1:1.evil.example/resources/{_ID}",
    "scheme differs": f"https://127.0.0.1:1/resources/{_ID}",
    "backslash host": f"http://evil.example\\@127.0.0.1:1/resources/{_ID}",
    "encoded url other": quote(f"https://evil.example/resources/{_ID}", safe=""),
    "html url other": html.escape(f'<a href="https://evil.example/r/{_ID}?a=1&b=2">'),
    "query param other origin": f"https://evil.example/?next={_ID}",
    "fragment": f"https://evil.example/#/{_ID}",
    "protocol relative": f"//evil.example/resources/{_ID}",
    "ftp": f"ftp://evil.example/{_ID}",
    "struct other url": _table(url=f"https://evil.example/resources/{_ID}"),
    "struct uri http other": _table(uri="https://evil.example/resources/1"),
    "struct uri docs": _table(uri="docs://readme"),
    "struct results string": {
        "results": "three",
        "resource": {"uri": "resource://abc"},
        "metadata": {"total_count": 3, "columns": []},
    },
    "struct no total": {"results": [], "resource": {"uri": "resource://abc"}, "metadata": {"columns": []}},
    "struct total text": {
        "results": [],
        "resource": {"uri": "resource://abc"},
        "metadata": {"total_count": "many", "columns": []},
    },
    "struct negative": {
        "results": [],
        "resource": {"uri": "resource://abc"},
        "metadata": {"total_count": -4, "columns": []},
    },
    "mcp list resources": {
        "contents": [
            {
                "uri": "resource://config",
                "mimeType": "application/json",
                "text": json.dumps({"results": [], "metadata": {}}),
            }
        ]
    },
    "user quote list": [{"role": "user", "content": [{"type": "text", "text": SENTENCE}]}],
    "system str": {"role": "system", "content": TEXT},
    "developer": {"role": "developer", "content": [{"type": "input_text", "text": TEXT}]},
    "anthropic tool_use": {"type": "tool_use", "id": "t", "name": "query_result", "input": {"result": URI}},
    "failed tool w structure": {**TOOL_RESULT, "isError": True},
    "jsonrpc error": {
        "jsonrpc": "2.0",
        "id": 1,
        "error": {"code": 1, "message": SENTENCE, "data": STRUCTURE},
    },
    "openai mcp_call error": {
        "type": "mcp_call",
        "name": "q",
        "arguments": json.dumps({"u": URI}),
        "error": SENTENCE,
        "output": None,
    },
    "geojson": {
        "type": "FeatureCollection",
        "features": [],
        "links": [{"rel": "self", "href": f"https://a.example/collections/x/items/{_WORD}"}],
        "numberMatched": 3,
    },
    "hal": {
        "_links": {"self": {"href": "http://127.0.0.1:1/orders"}},
        "results": [],
        "metadata": {"total_count": 3},
    },
    "ckan": {
        "success": True,
        "result": {
            "resource": {"url": "https://data.gov/x.csv", "id": _WORD},
            "results": [],
            "metadata": {"total_count": 0, "columns": []},
        },
    },
    "jwt": "eyJhbGciOiJIUzI1NiJ9." + "eyJzdWIiOiIxMjM0NTY3ODkwIn0." + _WORD,
    "own path deeper no id": _table(url="http://127.0.0.1:1/resources"),
    "own origin, other path": _table(url="http://127.0.0.1:1/health/x"),
    "cell link in plain table": {"columns": ["a"], "rows": [[f"resource://{_WORD}"]]},
    "form, other origin": quote_plus(f"see https://evil.example/resources/{_ID}"),
    "form twice, other origin": quote_plus(quote_plus(f"see https://evil.example/resources/{_ID}")),
}
"""None of them is a dual response."""

WRAPPED: dict[str, Any] = {
    "double json of repr of json": json.dumps(json.dumps(repr(_WRITTEN))),
    "triple json text": json.dumps({"a": json.dumps({"b": json.dumps({"c": _WRITTEN})})}),
    "logger dict repr": f"INFO:agent.tools:result -> {TOOL_RESULT!r} (12 ms)",
    "logger json with prefix": f'{{"ts":1,"msg":"tool done","extra":{json.dumps(_STRUCTURE)}}}',
    "cut json 300": _WRITTEN[:-150],
    "cut json double": json.dumps({"output": _WRITTEN})[:-200],
    "cut middle": _STRUCTURE[:60] + " ...[12 KB cut]... " + _STRUCTURE[60 + 40 :],
    "yaml block": yaml.safe_dump({"tool_result": TOOL_RESULT}),
    "yaml double quoted width": yaml.dump({"o": TEXT}, default_style='"', width=40),
    "yaml list": yaml.safe_dump([{"role": "tool", "content": _STRUCTURE}]),
    "xml escaped": f"<out>{html.escape(_WRITTEN)}</out>",
    "xml twice": f"<out>{html.escape(html.escape(_WRITTEN))}</out>",
    "xml numeric": "<out>"
    + _WRITTEN.replace('"', "&#x22;").replace("/", "&#47;").replace(":", "&#58;")
    + "</out>",
    "urlencoded plus": quote(_WRITTEN).replace("%20", "+"),
    "urlencoded thrice": quote(quote(quote(f"u={URI}", safe=""), safe=""), safe=""),
    "urlencoded lower": quote(TEXT, safe="").lower().replace(_ID.lower(), _ID),
    "shell quoted": "echo " + shlex.quote(_WRITTEN),
    "shell ansi-c": "$'" + TEXT.replace("\n", "\\n").replace("'", "\\'") + "'",
    "python bytes repr": repr(_WRITTEN.encode()),
    "python list of tuples": repr(list(TOOL_RESULT.items())),
    "OrderedDict repr": "OrderedDict(" + repr(list(STRUCTURE.items())) + ")",
    "toml": f'[result]\nuri = "{URI}"\ntotal = 565\n',
    "ini": f"[resource]\nuri={URI}\nurl={URL}\n",
    "csv row semicolon": f'1;"q";"{_STRUCTURE.replace(chr(34), chr(34) * 2)}"',
    "tsv": f"1\tq\t{TEXT}".replace("\n", "\\n"),
    "latex": f"\\texttt{{{URI}}}",
    "rst": f"`rows <{URI}>`_",
    "asciidoc": f"{URI}[rows]",
    "org": f"[[{URI}][rows]]",
    "sql insert": "INSERT INTO log VALUES ('" + _WRITTEN.replace("'", "''") + "');",
    "postgres copy": "7\tq\t" + _WRITTEN.replace("\\", "\\\\"),
    "jsonp": f"cb({_WRITTEN});",
    "xssi": ")]}',\n" + _WRITTEN,
    "json5 comment": "// result\n" + _WRITTEN + " // end",
    "python traceback locals": f"    result = {STRUCTURE!r}\n    ^^^^^^\n",
    "docker log": json.dumps({"log": _WRITTEN + "\n", "stream": "stdout"}),
    "journald": json.dumps({"MESSAGE": f"tool: {_WRITTEN}", "PRIORITY": "6"}),
    "content lines split": {
        "content": [{"type": "text", "text": TEXT[:40]}, {"type": "text", "text": TEXT[40:]}]
    },
    "ellipsis repr": repr(TOOL_RESULT)[:700] + "...",
    "rich pprint": pprint.pformat(TOOL_RESULT, width=30),
    "ruby inspect": _STRUCTURE.replace('": ', '"=>'),
    "clojure edn": _STRUCTURE.replace('": ', '" ').replace('"results"', ":results"),
    "lua": f'{{ uri = "{URI}" }}',
    "mixed ctrl": "\x1b[32m" + _WRITTEN + "\x1b[0m",
    "nul joined": f"tool\x00{_WRITTEN}\x00end",
    "crlf": TEXT.replace("\n", "\r\n"),
    "zero width around": "\u200b" + URI + "\u200b",
    "nbsp": "rows:\xa0" + URI + "\xa0!",
    "smart quotes": "“" + URI + "”",
    "japanese brackets": "「" + URI + "」です",
    "prefix own url in prose": f"see {URL}.",
    "url with query": f"{URL}/rows?format=csv&limit=5",
    "form twice": quote_plus(quote_plus(f"rows from {URI} now")),
    "form, own address": quote_plus(f"rows from {URL} now"),
}
"""Exactly the result with `URI` is found in each."""
