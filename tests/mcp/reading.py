"""Resources as the clients of either SDK read them. What is looked at has crossed the protocol."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import fastmcp
import pytest
from mcp.shared.exceptions import MCPError
from mcp_types import ErrorData, ReadResourceResult, Resource, ResourceTemplateReference, TextResourceContents

from tests.mcp.conftest import Connection


@dataclass(frozen=True)
class Reader:
    """A client that reads resources."""

    connection: Connection

    @property
    def session(self) -> Any:
        return self.connection.session

    @property
    def is_fast(self) -> bool:
        return isinstance(self.session, fastmcp.Client)

    async def read(self, uri: str) -> ReadResourceResult:
        """The whole result."""
        actual = await (
            self.session.read_resource_mcp(uri) if self.is_fast else self.session.read_resource(uri)
        )
        assert isinstance(actual, ReadResourceResult)
        return actual

    async def read_json(self, uri: str) -> Any:
        """What is there."""
        (contents,) = (await self.read(uri)).contents
        assert isinstance(contents, TextResourceContents)
        assert contents.mime_type == "application/json"
        assert str(contents.uri) == uri
        return json.loads(contents.text)

    async def refusal(self, uri: str) -> ErrorData:
        """The error that a reading ends with."""
        with pytest.raises(MCPError) as error:
            await self.read(uri)
        return error.value.error

    async def page(self, cursor: str | None = None) -> tuple[list[Resource], str | None]:
        """One page of the list."""
        listing = self.session.list_resources_mcp if self.is_fast else self.session.list_resources
        actual = await listing(cursor=cursor)
        return actual.resources, actual.next_cursor

    async def everything(self) -> list[str]:
        """The URIs of all pages."""
        uris: list[str] = []
        cursor = None
        for _ in range(100):
            actual, cursor = await self.page(cursor)
            uris += [str(resource.uri) for resource in actual]
            if cursor is None:
                return uris
        raise AssertionError("the list has no end")

    async def templates(self) -> dict[str, str]:
        """Names of templates by what they are."""
        listing = (
            self.session.list_resource_templates_mcp if self.is_fast else self.session.list_resource_templates
        )
        actual = await listing()
        return {template.uri_template: template.name for template in actual.resource_templates}

    async def complete(self, template: str, name: str, value: str, **options: str) -> list[str]:
        """What a host offers to somebody who types `value`."""
        complete = self.session.complete_mcp if self.is_fast else self.session.complete
        reference = ResourceTemplateReference(uri=template)
        actual = await complete(reference, {"name": name, "value": value}, options or None)
        values: list[str] = actual.completion.values
        return values
