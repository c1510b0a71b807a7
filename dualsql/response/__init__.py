"""The response of a tool, and its shape in MCP.

Text and structured content are each complete, because a host forwards one or the other to its model. Neither holds a
secret, because some hosts show the model both.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, overload

from dualsql.errors import ConfigurationError
from dualsql.formats import json
from dualsql.formats.samples import unlinked
from dualsql.resource import MIME_TYPE, RELATION
from dualsql.settings import ResultsFormat, TextFormat
from dualsql_client.wire import (
    Column,
    ColumnarContent,
    Profile,
    ProfileNotes,
    Row,
    StructuredContent,
    TotalCountKind,
)

if TYPE_CHECKING:
    from mcp_types import CallToolResult

LinkForm = Literal["resource_link", "text", "auto"]
"""Whether the link is also a content block. It is always in the text.

Several hosts fail on the block (docs/decisions/0004). "auto" sends it only to hosts that are known to read it.
"""

ResponseStatus = Literal["pending", "ready"]
"""Whether the query has run when the tool answers. A failed query is an error and no response."""

_LINK_READERS = ("Visual Studio Code",)
"""Prefixes of the names of clients that read a resource_link block: microsoft/vscode#250353."""


class Picture(NamedTuple):
    """An image and its media type."""

    content: bytes
    media_type: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DualResponse:
    """The response to a tool call: a sample of a stored result, its total and its link.

    Attributes:
        resource_id: opaque; it identifies the result and gives no right to read it.
        resource_uri: for the model, such as resource://abc123.
        resource_url: for the application, which reads the rows there over REST.
        sample: some of the rows, as plain JSON values.
        mime_type: of the content at `resource_url`.
        image: a picture for the model, drawn from all rows.
        sampled: how the rows of the sample were chosen; see `create_response`.
        as_of: when the run began that the rows are of, if they are kept; aware, UTC.
        total_count, total_count_kind: the number of rows, and whether it is exact, estimated, a lower bound or unknown.
        status: "pending" while the query still runs: no row is shown or counted yet.
        created_at, expires_at: aware, UTC; expires_at is None for a pinned resource.
        profile: statistics of the columns, if they were asked for.
        profile_notes, profile_text: notes on columns that the sample misrepresents, and what the text says of them.
        text_budget, results_budget: characters of the sample in the text, and of the structured content.
        page_in_text: the text names `resource_url`, which is a page for a person, and the file with all rows.
        notes: remarks on how the query was read and answered.
    """

    resource_id: str
    resource_uri: str
    resource_url: str
    name: str
    sample: Sequence[Row]
    total_count: int | None
    total_count_kind: TotalCountKind
    columns: Sequence[Column]
    created_at: datetime
    expires_at: datetime | None
    description: str | None = None
    text_budget: int = 4_000
    results_budget: int = 16_000
    status: ResponseStatus = "ready"
    mime_type: str = MIME_TYPE
    image: Picture | None = None
    sampled: str = "head"
    as_of: datetime | None = None
    profile: Profile | None = None
    profile_notes: ProfileNotes | None = None
    profile_text: str = ""
    page_in_text: bool = False
    notes: Sequence[str] = ()

    def to_text(self, *, text_format: TextFormat = "markdown") -> str:
        """The result for a model that sees text only; with `text_format="json"`, the structured content as JSON."""
        from dualsql.response.content import text_of

        return text_of(self, text_format)

    def to_mcp_content(
        self,
        *,
        links: LinkForm = "resource_link",
        text_format: TextFormat = "markdown",
        client: str | None = None,
    ) -> list[dict[str, Any]]:
        """The `content` blocks of a tool result.

        Args:
            client: the name that the client sent at initialization, for `links="auto"`.
        """
        blocks: list[dict[str, Any]] = [text_block(self.to_text(text_format=text_format))]
        if self.image is not None:
            encoded = b64encode(self.image.content).decode("ascii")
            blocks.append({"type": "image", "data": encoded, "mimeType": self.image.media_type})
        if links == "resource_link" or (links == "auto" and (client or "").startswith(_LINK_READERS)):
            link = {"uri": self.resource_uri, "name": unlinked(self.name), "mimeType": self.mime_type}
            about = {} if self.description is None else {"description": unlinked(self.description)}
            blocks.append({"type": "resource_link", **link, **about})
        return blocks

    @overload
    def to_structured_content(self, *, results_format: Literal["rows"] = "rows") -> StructuredContent: ...
    @overload
    def to_structured_content(self, *, results_format: Literal["columnar"]) -> ColumnarContent: ...
    @overload
    def to_structured_content(
        self, *, results_format: ResultsFormat
    ) -> StructuredContent | ColumnarContent: ...

    def to_structured_content(
        self, *, results_format: ResultsFormat = "rows"
    ) -> StructuredContent | ColumnarContent:
        """The `structuredContent` of a tool result, in at most `results_budget` characters.

        A host may hand it on as a text that no parser reads, so it has no other link either.
        """
        from dualsql.response.content import content_of

        content = content_of(self, self.results_budget, results_format)
        if results_format == "rows":
            return content
        names = [column["name"] for column in content["metadata"]["columns"]]
        values = {name: [row[name] for row in content["results"]] for name in names}
        return ColumnarContent(results=values, resource=content["resource"], metadata=content["metadata"])

    def to_staged_content(self, *, operation: str, results_format: ResultsFormat = "rows") -> dict[str, Any]:
        """The `data` of a dual-mode answer (specification S8): the structured content, and how its rows are queried.

        Args:
            operation: the name of the tool.
        """
        size = None
        if self.total_count is not None and self.sample:
            # Of all rows, estimated unless the sample has them all. An estimated total may be below the sample's.
            size = round(len(json.dumps(list(self.sample))) * max(self.total_count / len(self.sample), 1))
        staged = {
            "dataAccessId": self.resource_id,
            "operation": operation,
            "payloadSize": size,
            "entities": self.total_count,
            "table": RELATION,
            "queryAccess": {"endpoint": "/sql", "example": f"SELECT * FROM {RELATION} LIMIT 10"},  # noqa: S608 - ours
            **self.to_structured_content(results_format=results_format),
        }
        return {name: value for name, value in staged.items() if value is not None}

    def to_mcp_tool_result(
        self,
        *,
        links: LinkForm = "resource_link",
        text_format: TextFormat = "markdown",
        results_format: ResultsFormat = "rows",
        client: str | None = None,
    ) -> dict[str, Any]:
        """The tool result as plain JSON, for servers that speak MCP without an SDK."""
        return {
            "content": self.to_mcp_content(links=links, text_format=text_format, client=client),
            "structuredContent": self.to_structured_content(results_format=results_format),
            "isError": False,
        }

    def to_call_tool_result(
        self,
        *,
        links: LinkForm = "auto",
        text_format: TextFormat = "markdown",
        results_format: ResultsFormat = "rows",
        client: str | None = None,
    ) -> CallToolResult:
        """The tool result as an object that both Python SDKs pass on unchanged.

        A returned dict would become JSON text without structured content.

        Raises:
            ConfigurationError: the extra `mcp` is not installed.
        """
        return call_tool_result(
            self.to_mcp_tool_result(
                links=links, text_format=text_format, results_format=results_format, client=client
            )
        )


def call_tool_result(plain: Mapping[str, Any]) -> CallToolResult:
    """A tool result in plain JSON as the object of the SDKs.

    Raises:
        ConfigurationError: the extra `mcp` is not installed.
    """
    try:
        from mcp_types import CallToolResult
    except ImportError as error:
        raise ConfigurationError(
            "to_call_tool_result() requires the MCP SDK.", hint='pip install "dualsql[mcp]"'
        ) from error
    return CallToolResult.model_validate(plain)


def text_block(text: str) -> dict[str, Any]:
    """A content block of text, as plain JSON."""
    return {"type": "text", "text": text}
