"""Results of tools that are no dual responses but look much like one.

They have the shape of what servers for GitHub, Slack, files, search and databases answer; the values are invented.
"""

from __future__ import annotations

import json
from typing import Any

UUID = "8f14e45f-ceea-467f-ab3c-7c1b7e0c2a11"
DRAWN = "q4T-9_hXv2ZkLwPmB7sYd1RcE0a"


def text(said: str) -> dict[str, Any]:
    """A tool result with text alone."""
    return {"content": [{"type": "text", "text": said}], "isError": False}


def both(structure: dict[str, Any]) -> dict[str, Any]:
    """A tool result whose text is the JSON of its structure."""
    said = [{"type": "text", "text": json.dumps(structure)}]
    return {"content": said, "structuredContent": structure, "isError": False}


RESULTS: dict[str, Any] = {
    "GitHub: issues": both(
        {
            "total_count": 2,
            "incomplete_results": False,
            "items": [
                {
                    "id": 1,
                    "number": 7,
                    "title": "resource leak",
                    "html_url": "https://github.com/o/r/issues/7",
                },
                {"id": 2, "number": 9, "title": "metadata is lost", "labels": [{"name": "bug"}]},
            ],
        }
    ),
    "GitHub: file": text(
        '{"name": "README.md", "sha": "3d21ec53a331a6f037a91c368710b99387d012c1", "encoding": "base64"}'
    ),
    "GitHub: file as a resource": {
        "content": [
            {"type": "text", "text": "successfully downloaded text file (SHA: 3d21ec53a331a6f0)"},
            {
                "type": "resource",
                "resource": {
                    "uri": "repo://octo/cat/contents/package.json",
                    "mimeType": "application/json",
                    "text": "{}",
                },
            },
        ]
    },
    "GitHub: code search": both(
        {"total_count": 1, "items": [{"path": "src/resource.py", "repository": {"id": 1}}]}
    ),
    "GitHub: pull request": text(
        json.dumps({"number": 12, "state": "open", "head": {"sha": "a" * 40}, "merged": False})
    ),
    "GitHub: commits": [
        {"sha": "b" * 40, "commit": {"message": "Add resource://docs", "author": {"name": "Ana"}}}
    ],
    "GitHub: GraphQL": both(
        {
            "data": {
                "repository": {"issues": {"totalCount": 4, "nodes": [], "pageInfo": {"hasNextPage": False}}}
            }
        }
    ),
    "GitLab: jobs": both(
        {"items": [{"id": 5, "status": "success", "stage": "test", "web_url": "https://gitlab.com/j/5"}]}
    ),
    "Slack: history": both(
        {
            "ok": True,
            "messages": [
                {"type": "message", "user": "U012", "text": "see resource://guide", "ts": "1700000000.000100"}
            ],
            "has_more": True,
            "response_metadata": {"next_cursor": "bmV4dF90czoxNTEy"},
        }
    ),
    "Slack: channels": both({"ok": True, "channels": [{"id": "C01", "name": "general", "num_members": 4}]}),
    "Slack: failed": both({"ok": False, "error": "channel_not_found"}),
    "Slack: posted": text("Message sent to #general (ts 1700000000.000100)."),
    "files: list": text("[FILE] data.csv\n[DIR] results\n[FILE] resource.json"),
    "files: read": text("id,uri\n1,resource://abc\n2,resource://def\n"),
    "files: read JSON": text('{"name": "package", "version": "1.0.0", "resource": "none", "metadata": {}}'),
    "files: link": {
        "content": [
            {
                "type": "resource_link",
                "uri": "file:///srv/data/results.json",
                "name": "results",
                "mimeType": "application/json",
            }
        ]
    },
    "files: link with an id": {
        "content": [
            {
                "type": "resource_link",
                "uri": f"file:///tmp/{DRAWN}",
                "name": "x",
                "mimeType": "application/json",
            }
        ]
    },
    "files: embedded": {
        "content": [
            {
                "type": "resource",
                "resource": {"uri": "file:///a.txt", "mimeType": "text/plain", "text": "hello"},
            }
        ]
    },
    "files: tree": both(
        {"name": "src", "type": "directory", "children": [{"name": "resource.py", "type": "file"}]}
    ),
    "files: allowed": text("Allowed directories:\n/srv/data"),
    "search: web": both(
        {
            "query": "dual response",
            "results": [
                {
                    "title": "Patterns",
                    "url": "https://example.com/p",
                    "score": 0.83,
                    "content": "A resource link ...",
                }
            ],
            "response_time": 1.2,
        }
    ),
    "search: pages": both({"results": [], "count": 0, "next": None, "previous": None}),
    "search: with metadata": both({"results": [{"id": 1}], "metadata": {"total_count": 1, "took_ms": 3}}),
    "search: Elasticsearch": both(
        {
            "took": 3,
            "hits": {"total": {"value": 2, "relation": "eq"}, "hits": [{"_id": "a", "_source": {"n": 1}}]},
        }
    ),
    "search: Brave": text("Title: Resources\nURL: https://example.com/resources/1\nDescription: All of it."),
    "search: vectors": both({"results": [{"id": UUID, "distance": 0.1, "metadata": {"columns": ["a"]}}]}),
    "SQL: rows": both({"rows": [{"id": 1, "name": "Ana"}, {"id": 2, "name": None}], "row_count": 2}),
    "SQL: rows and columns": both(
        {"columns": ["id", "link"], "rows": [[1, f"resource://{DRAWN}"]], "truncated": False}
    ),
    "SQL: rows as text": text("[{'id': 1, 'uri': 'resource://abc'}]"),
    "SQL: Markdown": text("| id | name |\n|---|---|\n| 1 | Ana |\n\n1 row in 3 ms"),
    "SQL: results, total": both(
        {"results": [{"id": 1}], "total_count": 847, "columns": [{"name": "id", "type": "number"}]}
    ),
    "SQL: nothing": text("Query OK, 0 rows affected"),
    "SQL: tables": text("Tables: institutions, resources, metadata"),
    "SQL: plan": text("Seq Scan on resources  (cost=0.00..1.05 rows=5 width=40)"),
    "SQL: DESCRIBE": both(
        {"columns": [{"name": "uri", "type": "text", "nullable": False}], "table": "resources"}
    ),
    "SQL: staged": text("**Data Staged**\n- **Data Access ID:** search_json_1764792555209_7hb77x"),
    "SQL: BigQuery job": both(
        {"jobReference": {"projectId": "p", "jobId": "job_abc"}, "totalRows": "847", "schema": {"fields": []}}
    ),
    "schema: a tool's": {
        "name": "search",
        "inputSchema": {"type": "object", "properties": {"uri": {"type": "string"}}, "required": ["uri"]},
        "outputSchema": {
            "type": "object",
            "properties": {
                "results": {"type": "array", "items": {"type": "object"}},
                "resource": {
                    "type": "object",
                    "properties": {"uri": {"type": "string"}, "url": {"type": "string"}},
                },
                "metadata": {"type": "object", "properties": {"total_count": {"type": ["integer", "null"]}}},
            },
        },
    },
    "schema: properties alone": {
        "results": {"type": "array"},
        "resource": {"uri": {"type": "string"}, "name": {"type": "string"}},
        "metadata": {"total_count": {"type": "integer"}, "columns": {"type": "array"}},
    },
    "schema: OpenAPI": both(
        {
            "openapi": "3.1.0",
            "paths": {"/resources/{id}": {"get": {"responses": {"200": {"description": "ok"}}}}},
        }
    ),
    "schema: by example": {
        "results": ["..."],
        "resource": {"uri": "resource://{id}", "url": "https://host/resources/{id}"},
        "metadata": {"total_count": "the number of rows"},
    },
    "look-alike: no resource": {"results": [{"id": 1}], "metadata": {"total_count": 1, "columns": []}},
    "look-alike: no metadata": {"results": [{"id": 1}], "resource": {"uri": f"resource://{DRAWN}"}},
    "look-alike: no results": {"resource": {"uri": f"resource://{DRAWN}"}, "metadata": {"total_count": 1}},
    "look-alike: results are numbers": {
        "results": [1, 2],
        "resource": {"uri": f"resource://{DRAWN}"},
        "metadata": {"total_count": 2},
    },
    "look-alike: total is a text": {
        "results": [],
        "resource": {"uri": f"resource://{DRAWN}"},
        "metadata": {"total_count": "about 2"},
    },
    "look-alike: total is true": {
        "results": [],
        "resource": {"uri": f"resource://{DRAWN}"},
        "metadata": {"total_count": True},
    },
    "look-alike: an address": {
        "results": [],
        "resource": {"uri": "https://api.example.com/r?id=1"},
        "metadata": {"total_count": 0},
    },
    "look-alike: resource is a name": {"results": [], "resource": "orders", "metadata": {"total_count": 0}},
    "look-alike: columns without names": {
        "results": [],
        "resource": {"uri": f"resource://{DRAWN}"},
        "metadata": {"total_count": 0, "columns": [{"type": "string"}]},
    },
    "look-alike: ragged columns": {
        "results": {"id": [1, 2], "name": ["Ana"]},
        "resource": {"uri": f"resource://{DRAWN}"},
        "metadata": {"total_count": 2, "columns": []},
    },
    "look-alike: a failed one": {
        "isError": True,
        "structuredContent": {
            "results": [],
            "resource": {"uri": f"resource://{DRAWN}"},
            "metadata": {"total_count": 0},
        },
    },
    "Kubernetes: pod": both(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "web-1", "uid": UUID},
            "status": {"phase": "Running"},
        }
    ),
    "Kubernetes: list": both(
        {"kind": "PodList", "metadata": {"resourceVersion": "10", "remainingItemCount": 4}, "items": []}
    ),
    "AWS: tags": both(
        {
            "ResourceTagMappingList": [{"ResourceARN": "arn:aws:s3:::bucket", "Tags": []}],
            "PaginationToken": "",
        }
    ),
    "Terraform: state": both(
        {"resources": [{"type": "aws_s3_bucket", "name": "b", "instances": []}], "version": 4}
    ),
    "FHIR: bundle": both(
        {
            "resourceType": "Bundle",
            "total": 1,
            "entry": [{"resource": {"resourceType": "Patient", "id": "1"}}],
        }
    ),
    "JSON:API": both(
        {"data": [{"type": "resource", "id": "1"}], "meta": {"total_count": 1}, "links": {"next": None}}
    ),
    "OData": both({"@odata.count": 3, "value": [{"id": 1}], "@odata.nextLink": "https://host/x?$skip=1"}),
    "Stripe: list": both(
        {"object": "list", "data": [{"id": "ch_1"}], "has_more": False, "url": "/v1/charges"}
    ),
    "Notion: search": both(
        {"object": "list", "results": [{"object": "page", "id": UUID}], "next_cursor": None}
    ),
    "Jira: search": both(
        {
            "startAt": 0,
            "maxResults": 50,
            "total": 1,
            "issues": [{"key": "A-1", "fields": {"summary": "resource"}}],
        }
    ),
    "Google Drive: files": both(
        {"files": [{"id": DRAWN, "name": "Plan", "mimeType": "application/vnd.google-apps.document"}]}
    ),
    "mail: list": text("1. From: Ana <ana@example.com> Subject: resource plan"),
    "calendar: events": both(
        {"items": [{"id": UUID, "summary": "Review", "start": {"dateTime": "2026-11-21T10:00:00Z"}}]}
    ),
    "browser: page": text(
        "# Resources\n\n- [Guide](https://example.com/guide)\n- [All results](/results/8f14e45f)"
    ),
    "browser: image": {"content": [{"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"}]},
    "memory: graph": both(
        {
            "entities": [{"name": "Ana", "entityType": "person", "observations": ["likes results"]}],
            "relations": [],
        }
    ),
    "docs: link": {
        "content": [
            {
                "type": "resource_link",
                "uri": "docs://guide/getting-started",
                "name": "Guide",
                "mimeType": "text/markdown",
            }
        ]
    },
    "config: link": {
        "content": [
            {
                "type": "resource_link",
                "uri": "config://settings",
                "name": "Settings",
                "mimeType": "application/json",
            }
        ]
    },
    "images: link": {
        "content": [
            {"type": "resource_link", "uri": f"image://{DRAWN}", "name": "Chart", "mimeType": "image/png"}
        ]
    },
    "UI: link": {
        "content": [
            {
                "type": "resource_link",
                "uri": f"ui://widgets/{DRAWN}",
                "name": "Table",
                "mimeType": "application/json",
            }
        ]
    },
    "weather": text("Berlin: 7 °C, rain. Source: https://weather.example.com/berlin"),
    "calculator": both({"result": 42}),
    "time": text("2026-11-21T10:00:00+00:00"),
    "traceback": text(
        "Traceback (most recent call last):\n  File \"resource.py\", line 3\nKeyError: 'results'"
    ),
    "log": text("[INFO] GET resource://health 200\n[WARN] resource://cache miss"),
    "a model's answer": {
        "role": "assistant",
        "content": "I looked at resource://guide and resource://faq and found nothing.",
    },
    "the code of a dual response": text(
        "return {'results': rows, 'resource': {'uri': uri}, 'metadata': {'total_count': n}}"
    ),
    "several URIs": text(f"Old: resource://{DRAWN}, new: resource://Zk3_qT9vWm-4LxR7bNc1YdPo8Hs"),
}
