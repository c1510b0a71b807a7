"""Pages of the reference about what is called from outside Python: the command line, and the REST resources."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import typer

from dualsql import DualResponseServer, OpenAPI, Pages, default_features
from dualsql.cli.commands import app as dualsql
from dualsql.demo import Base
from dualsql_client.cli.commands import app as dualsql_client

METHODS = ("get", "post", "put", "delete")


def command_line() -> str:
    """Each command of both packages with its arguments and options."""
    text = "# Commands\n\n`dualsql[cli]` has `dualsql`, and `dualsql-client[cli]` has `dualsql-client`.\n"
    for program, app in (("dualsql", dualsql), ("dualsql-client", dualsql_client)):
        group: Any = typer.main.get_group(app)
        for name, command in sorted(group.commands.items()):
            text += f"\n## {program} {name}\n\n{_plain(command.help or '')}\n\n"
            rows = [_option(parameter) for parameter in command.params if parameter.name != "help"]
            text += "| option | meaning |\n|---|---|\n" + "".join(rows) if rows else ""
    return text


def _option(parameter: Any) -> str:
    names = ", ".join(f"`{name}`" for name in [*parameter.opts, *parameter.secondary_opts])
    if parameter.param_type_name == "argument":
        names = f"`{(parameter.metavar or parameter.name).upper()}`"
    sentences = [_plain(getattr(parameter, "help", None) or "")]
    if parameter.envvar:
        sentences.append(f"Also as `{parameter.envvar}`.")
    default = getattr(parameter.default, "value", parameter.default)
    if default not in (None, False, "", ()) and not callable(default):
        sentences.append(f"Default: `{default}`.")
    return f"| {names} | {_cell(' '.join(sentences))} |\n"


def _plain(text: str) -> str:
    """A help text in one paragraph for each of its own."""
    paragraphs = re.split(r"\n\s*\n", text.replace("\f", ""))
    return "\n\n".join(" ".join(each.split()) for each in paragraphs).replace("<", "&lt;")


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def rest_api() -> str:
    """Each operation of the OpenAPI document, with its parameters and answers."""
    server = DualResponseServer(
        "sqlite://",
        base_url="https://api.example.com/resources",
        tables=Base,
        features=default_features(Pages()),
    )
    document = server.features.get(OpenAPI).document()
    text = "# REST\n\nThe operations of the [OpenAPI document](/docs/openapi.md), below the base URL.\n"
    for path, item in document["paths"].items():
        for method in METHODS:
            if method in item:
                text += "".join(_operation(document, f"{method.upper()} {path}", item[method]))
    return text


def _operation(document: dict[str, Any], title: str, operation: dict[str, Any]) -> Iterator[str]:
    yield f"\n## {title}\n\n{_plain(operation['summary'])}\n\n{_plain(operation.get('description', ''))}\n"
    parameters = [_resolve(document, each) for each in operation.get("parameters", [])]
    body = operation.get("requestBody", {}).get("content", {})
    if parameters:
        yield "\n| parameter | in | meaning |\n|---|---|---|\n"
    for each in parameters:
        yield f"| `{each['name']}` | {each['in']} | {_cell(_plain(each.get('description', '')))} |\n"
    for media, content in body.items():
        schema = _resolve(document, content.get("schema", {}))
        yield f"\nBody: `{media}`. {_plain(schema.get('description', ''))}\n"
        if schema.get("properties"):
            yield "\n| key | meaning |\n|---|---|\n"
        for key, value in schema.get("properties", {}).items():
            yield f"| `{key}` | {_cell(_plain(_resolve(document, value).get('description', '')))} |\n"
    yield "\n| status | answer |\n|---|---|\n"
    for status, answer in operation["responses"].items():
        description = answer.get("description") or _resolve(document, answer).get("description", "")
        yield f"| {status} | {_cell(_plain(description))} |\n"


def _resolve(document: dict[str, Any], value: dict[str, Any]) -> dict[str, Any]:
    """What a `$ref` leads to."""
    while "$ref" in value:
        node: Any = document
        for part in value["$ref"].removeprefix("#/").split("/"):
            node = node[part]
        value = node
    return value
