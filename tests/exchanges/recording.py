"""Exchanges as JSON that is the same in every run, and their comparison with what was recorded."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any

LONGEST = 6_000
"""Characters of the longest JSON value or text that a recording holds in full."""
HEAD = 300

_WORDING_KEYS = frozenset(
    {
        "message",
        "hint",
        "description",
        "title",
        "summary",
        "instructions",
        "words",
        "note",
        "notes",
        "usage",
        "statusMessage",
    }
)
"""Keys whose strings are prose."""
WORDS = "<words>"

_TEXT_KEYS = frozenset({"text", "output", "errors", "content"})
"""Keys whose strings are prose around data: rows of tables are kept, and the rest of their lines is not."""

_OPAQUE_KEYS = {
    "next_cursor": "cursor",
    "previous_cursor": "cursor",
    "nextCursor": "cursor",
    "etag": "etag",
    "dualsql-resume": "resume",
    "taskId": "task",
    "incident": "incident",
}
_DURATION_KEYS = frozenset(
    {"seconds", "duration_ms", "executionTime", "execution_time", "executionTimeMs", "elapsed_ms", "duration"}
)

_ID = re.compile(
    r"(?<![A-Za-z0-9_-])(?=[a-z_-]*[0-9A-Z])(?:[A-Za-z0-9_-]{27}|[A-Za-z0-9]{33})(?![A-Za-z0-9_-])"
)
_ESCAPED_ID = re.compile(r"(?<=resource://)[A-Za-z0-9\\_-]*\\[A-Za-z0-9\\_-]*")  # in Markdown
_LINK = re.compile(r"(?<=link=)[A-Za-z0-9_.%~-]{20,}")
_INSTANT = re.compile(
    r"\b(20\d\d-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d+)?)(Z|[+-]00:00)|\b(20\d\d-\d\d-\d\d \d\d:\d\d) UTC"
)
_PATH = re.compile(r"/tmp/[\w./-]*")
_ORIGIN = re.compile(r"127\.0\.0\.1:(?!8000\b)\d{2,5}")
_UUID = re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}\b")
_INCIDENT = re.compile(r"\b(incident|Incident)[ :]+[A-Za-z0-9-]{6,}")
_SECONDS = re.compile(r"\b\d+\.\d+( ?m?s\b| seconds)|(?<=seconds  )\d+\.\d+|(?<=run for )\d+ seconds?")


@dataclass
class Exchanges:
    """The exchanges of one test, with what differs between two runs put into words that do not.

    Attributes:
        begun: instants near it are written as the minutes between, so that lifetimes are compared.
    """

    begun: datetime = field(default_factory=lambda: datetime.now(UTC))
    had: list[dict[str, Any]] = field(default_factory=list)
    _known: dict[str, dict[str, str]] = field(default_factory=dict)

    def add(self, asked: str, answer: Any) -> None:
        """Take what was answered to what was asked."""
        plain = json.loads(json.dumps(answer, default=str, ensure_ascii=False))
        self.had.append({"asked": self._text(asked), "answer": shortened(self._value(plain))})

    def _value(self, value: Any, key: str = "") -> Any:
        if isinstance(value, dict):
            return {self._text(name): self._value(held, name) for name, held in value.items()}
        if isinstance(value, list):
            return [self._value(held, key) for held in value]
        if key == "timestamp" and isinstance(value, int):
            return "<now>"  # in milliseconds
        if key in _DURATION_KEYS and isinstance(value, int | float):
            return "<duration>"
        if key == "ttlMs" and isinstance(value, int):
            return round(value, -4)
        if isinstance(value, str) and value.startswith('{"'):
            return self._embedded(value)
        if isinstance(value, str):
            kind = _OPAQUE_KEYS.get(key)
            return self._named(kind, value) if kind and value else self._text(value)
        return value

    def _embedded(self, text: str) -> Any:
        """A text that holds JSON as what it holds."""
        try:
            return {"$json": self._value(json.loads(text))}
        except ValueError:
            return self._text(text)

    def _text(self, text: str) -> str:
        for kind, values in self._known.items():
            if kind != "id":
                for value, name in values.items():
                    text = text.replace(value, name)
        text = _LINK.sub(lambda found: self._named("link", found[0]), text)
        text = _ESCAPED_ID.sub(lambda found: found[0].replace("\\", ""), text)
        text = _ID.sub(lambda found: self._named("id", found[0]), text)
        text = _UUID.sub(lambda found: self._named("uuid", found[0]), text)
        text = _INSTANT.sub(self._instant, text)
        text = _PATH.sub("<path>", text)
        text = _ORIGIN.sub("<host>", text)
        text = _INCIDENT.sub(r"\1 <incident>", text)
        return _SECONDS.sub("<seconds>", text)

    def _named(self, kind: str, value: str) -> str:
        names = self._known.setdefault(kind, {})
        return names.setdefault(value, f"<{kind}-{len(names) + 1}>")

    def _instant(self, found: re.Match[str]) -> str:
        written = found[1] or found[3]
        instant = datetime.fromisoformat(written.replace(" ", "T")).replace(tzinfo=UTC)
        if not timedelta(hours=-1) < instant - self.begun < timedelta(days=2):
            return found[0]  # of the data
        if found[3]:
            return "<minute>"
        minutes = round((instant - self.begun).total_seconds() / 60)
        return f"<now{minutes:+}m>" if minutes else "<now>"


def shortened(value: Any) -> Any:
    """The value, or of a long one its size, its digests with and without wording, and its beginning."""
    if isinstance(value, dict) and set(value) == {"headers", "status", "body"}:
        return value | {"body": shortened(value["body"])}
    text = value if isinstance(value, str) else written(value)
    if len(text) <= LONGEST:
        return value
    bare = without_wording(value)
    return {
        "$length": len(text),
        "$sha256": _digest(text),
        "$bare": _digest(bare if isinstance(bare, str) else written(bare)),
        "$head": text[:HEAD],
    }


def _digest(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def written(value: Any) -> str:
    """As JSON on one line."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def without_wording(value: Any, key: str = "") -> Any:
    """The value with its prose taken out: structure, codes, names, rows and figures stay."""
    if isinstance(value, dict):
        if "$sha256" in value:
            return {"$bare": value["$bare"]}
        bare = {name: without_wording(held, name) for name, held in value.items()}
        if ("uri" in bare or "mimeType" in bare) and " " in str(bare.get("name")):
            bare["name"] = WORDS  # of a result that was made of another one: what was asked of it
        return bare
    if isinstance(value, list):
        if key in _WORDING_KEYS and all(isinstance(held, str) for held in value):
            return WORDS
        return [without_wording(held, key) for held in value]
    if isinstance(value, str):
        if key in _WORDING_KEYS and value:
            return WORDS
        if key in _TEXT_KEYS:
            return _data_in(value)
    return value


def _data_in(text: str) -> list[str]:
    """Of prose: its rows of tables, and the resources it names."""
    rows = [line for line in text.splitlines() if line.startswith("|")]
    return rows + re.findall(r"resource://[\w<>-]+", text)


def read(file: Path) -> list[dict[str, Any]]:
    """The recorded exchanges of a file."""
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def write(file: Path, exchanges: list[dict[str, Any]]) -> None:
    """Record them: one exchange is one line."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(f"{written(exchange)}\n" for exchange in exchanges), encoding="utf-8")


def differences(
    recorded: list[dict[str, Any]], had: list[dict[str, Any]], *, any_wording: bool = False
) -> list[str]:
    """Where the exchanges are others than those recorded, in order; none when they are the same."""
    found: list[str] = []
    if [one["asked"] for one in recorded] != [one["asked"] for one in had]:
        found.append(
            f"asked: recorded {[o['asked'] for o in recorded]!r}, now {[o['asked'] for o in had]!r}"[:2000]
        )
    for before, now in zip(recorded, had, strict=False):
        old, new = before["answer"], now["answer"]
        if any_wording:
            old, new = without_wording(old), without_wording(new)
        found += [f"{now['asked']}: {line}" for line in _changes(old, new)]
    return found


def _changes(old: Any, new: Any, path: str = "") -> Iterator[str]:
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        if list(old) != list(new) and set(old) == set(new):
            yield f"{path or '.'}: keys are in another order: recorded {list(old)!r}, now {list(new)!r}"
        for key in [*old, *(key for key in new if key not in old)]:
            if key not in new or key not in old:
                yield f"{path}.{key}: {'gone' if key in old else f'new, {new[key]!r:.300}'}"
            else:
                yield from _changes(old[key], new[key], f"{path}.{key}")
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for number, (one, other) in enumerate(zip(old, new, strict=True)):
            yield from _changes(one, other, f"{path}[{number}]")
    elif type(old) is not type(new) or old != new:
        yield f"{path or '.'}: recorded {old!r:.600}, now {new!r:.600}"
