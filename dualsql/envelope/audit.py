"""Remember which answers were given; the rule: names and sizes, never a row, a key of the data or a parameter.

The hook is called before the answer leaves. A hook that fails takes the answer with it: a trail with holes is none.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal

from dualsql.envelope.calling import is_async
from dualsql.errors import ConfigurationError

_MOST_TYPES = 20
_LONGEST_WORD = 40
_INCIDENT = re.compile(r"[0-9a-f]{16}")

Envelope = Literal["response", "dual_mode"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerEvent:
    """One answer.

    Attributes:
        tool: the name it was wrapped with.
        envelope: of seeds/004, or of seeds/001.
        code: of a failure, the error's code.
        content_types: the kinds of its content items, at most twenty; of seeds/001, the kind of its display.
        text_characters: of all that is read in it.
        data_bytes: of its data as JSON.
        seconds: how long the tool took.
        incident: of an exception that is not told to callers, its number in the log.
    """

    tool: str
    envelope: Envelope
    success: bool
    code: str | None
    content_types: tuple[str, ...]
    text_characters: int
    data_bytes: int
    seconds: float
    incident: str | None = None
    at: datetime = field(default_factory=lambda: datetime.now(UTC))


AnswerAudit = Callable[[AnswerEvent], None]
"""Takes every event. A plain function that does not wait: it writes to a log, a queue or a counter.

SDKs run plain tools in threads, so it is called from several at once.
"""


def require_plain_function(audit: AnswerAudit | None) -> None:
    """Refuse a coroutine function: its events would never be written.

    Raises:
        ConfigurationError: it is one.
    """
    if audit is not None and is_async(audit):
        raise ConfigurationError(
            "An audit hook of answers is a plain function.", hint="Put events into a queue, and await there."
        )


def event_of(answer: Mapping[str, Any], *, tool: str, envelope: Envelope, seconds: float) -> AnswerEvent:
    """What is remembered of a valid answer in either envelope."""
    shown = answer["content"] if envelope == "response" else [answer.get("display") or {}]
    error = answer.get("error") or {}
    incident = error.get("details", {}).get("incident")
    return AnswerEvent(
        tool=tool,
        envelope=envelope,
        success=answer["success"],
        code=error.get("code"),
        content_types=tuple(item["type"][:_LONGEST_WORD] for item in shown[:_MOST_TYPES] if "type" in item),
        text_characters=sum(_length(item) for item in shown),
        data_bytes=len(json.dumps(answer["data"], ensure_ascii=False).encode()) if "data" in answer else 0,
        seconds=seconds,
        incident=incident if isinstance(incident, str) and _INCIDENT.fullmatch(incident) else None,
    )


def _length(item: Mapping[str, Any]) -> int:
    text = item.get("text", item.get("content", ""))
    return len(text) if isinstance(text, str) else 0


def log_answers(event: AnswerEvent) -> None:
    """A hook that writes one line to the logger "dualsql.audit"."""
    logging.getLogger("dualsql.audit").info(
        "answer tool=%r envelope=%s success=%s code=%r content=%s text=%d data=%d seconds=%.3f incident=%s",
        event.tool,
        event.envelope,
        event.success,
        event.code,
        ",".join(event.content_types),
        event.text_characters,
        event.data_bytes,
        event.seconds,
        event.incident,
    )
