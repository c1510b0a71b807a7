"""The options of the decorators `tool` and `plain_tool`."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from dualsql.resource import Count
from dualsql.results.create import ProfileOption, SampleOption
from dualsql.settings import KeepOption

if TYPE_CHECKING:
    from dualsql.mcp.calls import PrincipalOf
    from dualsql.mcp.negotiation import Envelope
    from dualsql.response import LinkForm
    from dualsql.settings import ResultsFormat, TextFormat

PlainEnvelope = Literal["none", "dual_mode"]
"""The envelope of plain data: none, or the dual-mode answer (specification S8) around it."""


class RegistrationOptions(TypedDict, total=False):
    """How a tool is registered: the options of `tool` and of `plain_tool`.

    Attributes:
        name, title, description: of the tool; by default those of the function.
        principal: gives the principal of a verified access token; by default `principal_of_token`. It must agree with
            the server's `authenticate`.
        registration: further keyword arguments of the SDK's own registration: icons, meta; with fastmcp also tags,
            timeout and auth.
    """

    name: str
    title: str
    description: str
    principal: PrincipalOf
    registration: Mapping[str, Any]


class PlainToolOptions(RegistrationOptions, total=False):
    """The options of `plain_tool`: how it is registered, and its answer.

    Attributes:
        envelope: "none", the default, or "dual_mode" (see docs/envelope.md).
    """

    envelope: PlainEnvelope


class ResultKeywords(TypedDict, total=False):
    """The options that a tool may set for all of its responses: those fields of `CreateOptions`, as a test compares."""

    sample_size: int | None
    sample: SampleOption
    expiration: timedelta | None
    count: Count
    profile: ProfileOption
    source: str | None
    wait: timedelta | None
    keep: KeepOption | None


class ResultOptions(ResultKeywords, total=False):
    """The options of the results of tools.

    sample_size, sample, expiration, count, profile, source, wait and keep are as for
    `DualResponseServer.create_response`. They hold for every result unless its `Answer` overrides them.

    Attributes:
        links: whether the link is a content block of its own; by default "auto".
        text_format: how the text shows rows; by default "markdown".
        results_format: how the structured content holds rows; by default "rows".
        envelope: "dual_response", the default, or "dual_mode" (see docs/envelope.md).
    """

    links: LinkForm
    text_format: TextFormat
    results_format: ResultsFormat
    envelope: Envelope


class ToolOptions(RegistrationOptions, ResultOptions, total=False):
    """The options of `tool`: how it is registered, and its results."""
