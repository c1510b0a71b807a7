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
        found = await (
            self.session.read_resource_mcp(uri) if self.is_fast else self.session.read_resource(uri)
        )
        assert isinstance(found, ReadResourceResult)
        return found

    async def read_json(self, uri: str) -> Any:
        """What is there."""
        (contents,) = (await self.read(uri)).contents
        assert isinstance(contents, TextResourceContents)
        assert contents.mime_type == "application/json"
        assert str(contents.uri) == uri
        return json.loads(contents.text)

    async def refusal(self, uri: str) -> ErrorData:
        """The error that a reading ends with."""
        with pytest.raises(MCPError) as caught:
            await self.read(uri)
        return caught.value.error

    async def page(self, cursor: str | None = None) -> tuple[list[Resource], str | None]:
        """One page of the list."""
        listing = self.session.list_resources_mcp if self.is_fast else self.session.list_resources
        found = await listing(cursor=cursor)
        return found.resources, found.next_cursor

    async def everything(self) -> list[str]:
        """The URIs of all pages."""
        uris: list[str] = []
        cursor = None
        for _ in range(100):
            found, cursor = await self.page(cursor)
            uris += [str(resource.uri) for resource in found]
            if cursor is None:
                return uris
        raise AssertionError("the list has no end")

    async def templates(self) -> dict[str, str]:
        """Names of templates by what they are."""
        listing = (
            self.session.list_resource_templates_mcp if self.is_fast else self.session.list_resource_templates
        )
        found = await listing()
        return {template.uri_template: template.name for template in found.resource_templates}

    async def complete(self, template: str, name: str, value: str, **given: str) -> list[str]:
        """What a host offers to somebody who types `value`."""
        complete = self.session.complete_mcp if self.is_fast else self.session.complete
        reference = ResourceTemplateReference(uri=template)
        found = await complete(reference, {"name": name, "value": value}, given or None)
        values: list[str] = found.completion.values
        return values
