"""What a program can use out of an answer that was written for people; the rule: what is uncertain stays None.

For servers that know no structure (seeds/001). A value counts where the text gives it a label, in a form that only such
a value has; two different ones under one label are none.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from dualsql_client.fences import Fence, split_fences
from dualsql_client.labels import LONGEST_LINE, compact, labels_in, plain, undecorated
from dualsql_client.markdown_tables import read_tables
from dualsql_client.wire import Row

ParseStrategy = Literal["conservative", "aggressive"]

MAXIMUM_CHARACTERS = 1024 * 1024
_LONGEST_VALUE = 500

# With a digit: no word, such as "pending", is an id.
_ID = re.compile(r"(?=\D*\d)[A-Za-z0-9][A-Za-z0-9_.:-]{4,127}", re.ASCII)
_NAME = re.compile(r"[^\W\d]\w{0,62}(?:\.[^\W\d]\w{0,62}){0,2}")
_OPERATION = re.compile(r"[^\W\d][\w .:/-]{0,79}")


def _words(written: str) -> frozenset[str]:
    return frozenset(word.strip() for word in written.split("|"))


_ID_LABELS = _words(
    "data access id|dataaccessid|data_access_id|data id|access id|dataset id|id de acceso a datos|"
    "identificador de dados|id d'accès aux données|datenzugriffs-id|datenzugriffs id|"
    "数据访问id|数据访问 id|データアクセスid"
)
_TABLE_LABELS = _words("table|table name|tabelle|tabla|tableau|tabela|テーブル|表|таблица")
_OPERATION_LABELS = _words("operation|operación|opération|vorgang|operação|操作|операция")
_ERROR_LABELS = _words(
    "error|error message|errors|fehler|erreur|errore|erro|mensaje de error|错误|エラー|ошибка"
)
_NO_VALUE = _words(
    "|none|no|null|0|false|na|n/a|nil|unknown|undefined|pending|unavailable|tbd|todo|true|yes|example|placeholder|"
    "keine|keiner|unbekannt|ninguno|ninguna|desconocido|aucun|aucune|inconnu|nessuno|nenhum|无|なし|нет"
)

# With an underscore and a long number, as servers of seeds/001 make them; a person writes no such word.
_MADE_ID = re.compile(r"(?<![\w-])[a-z][a-z0-9]*(?:_[a-z0-9]+)*_\d{10,16}_[a-z0-9]{4,16}(?![\w-])")
_STATEMENT = re.compile(r"\s*(?:SELECT|WITH)\b", re.IGNORECASE)
_FROM = re.compile(r"\bFROM\s+([^\W\d]\w{0,62}(?:\.[^\W\d]\w{0,62}){0,2})(?![\w.(])", re.IGNORECASE)
_FAILED = re.compile(
    r"^\W{0,6}(?:[\w ]{1,40} )?(?:error|failed|exception)[*_`]*:\s*(?P<said>[^\s|].*)$", re.IGNORECASE
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkdownAnswer:
    """What was read out of a text; None and empty where it says nothing, or nothing certain.

    Attributes:
        table: where staged data are to be queried.
        fields: other labelled values that were asked for, as text, by the name they were asked by.
        blocks: the JSON blocks, read.
        tables: the tables, as rows of text; cells that are empty are None.
        error: what went wrong, in one line.
    """

    raw_text: str
    data_access_id: str | None = None
    table: str | None = None
    operation: str | None = None
    error: str | None = None
    fields: dict[str, str] = field(default_factory=dict)
    blocks: list[Any] = field(default_factory=list)
    tables: list[list[Row]] = field(default_factory=list)

    @property
    def data(self) -> Any:
        """The only block, or else the only table; None when there are several."""
        found = self.blocks or self.tables
        return found[0] if len(found) == 1 else None

    @property
    def is_empty(self) -> bool:
        """Whether nothing was read."""
        named = (self.data_access_id, self.table, self.operation, self.error)
        return not any((*named, self.fields, self.blocks, self.tables))


def parse_markdown(
    text: str, *, strategy: ParseStrategy = "conservative", expected_fields: Sequence[str] = ()
) -> MarkdownAnswer:
    """What `text` says; only its first million characters are read.

    Args:
        strategy: "conservative" takes what has a label. "aggressive" takes, too, an id that looks made by a server, the
            table of the only SQL example, and a line that begins with a failure.
        expected_fields: other labels to look for; case, spaces and underscores do not matter.
    """
    prose, fences = split_fences(text[:MAXIMUM_CHARACTERS])
    labels = list(labels_in(prose))
    said = {
        "data_access_id": _only(_labelled(labels, _ID_LABELS), _ID),
        "table": _only(_labelled(labels, _TABLE_LABELS), _NAME),
        "operation": _only(_labelled(labels, _OPERATION_LABELS), _OPERATION),
        "error": _failure(_labelled(labels, _ERROR_LABELS)),
    }
    if strategy == "aggressive":
        guessed = _guessed([line for line in prose if len(line) <= LONGEST_LINE], fences)
        said = {name: guessed.get(name) if value is None else value for name, value in said.items()}
    return MarkdownAnswer(
        raw_text=text,
        fields=dict(_expected(labels, expected_fields)),
        blocks=list(_json_blocks(fences)),
        tables=read_tables(prose),
        **said,
    )


def _labelled(labels: Iterable[tuple[str, str]], names: frozenset[str]) -> set[str]:
    return {value for label, value in labels if label in names and value}


def _only(values: set[str], form: re.Pattern[str]) -> str | None:
    if len(values) != 1:
        return None
    [value] = values
    return value if form.fullmatch(value) and value.lower() not in _NO_VALUE else None


def _failure(values: set[str]) -> str | None:
    if len(values) != 1:
        return None
    [said] = values
    return None if plain(said) in _NO_VALUE else said[:_LONGEST_VALUE]


def _guessed(prose: Sequence[str], fences: Sequence[Fence]) -> dict[str, str | None]:
    failures = {undecorated(match["said"]) for line in prose if (match := _FAILED.match(line))}
    return {
        "data_access_id": _only({made for line in prose for made in _MADE_ID.findall(line)}, _ID),
        "table": _only({name for sql in _examples(prose, fences) for name in _FROM.findall(sql)}, _NAME),
        "error": _failure(failures),
    }


def _examples(prose: Sequence[str], fences: Sequence[Fence]) -> Iterator[str]:
    """The SQL in fences and between backquotes."""
    quoted = (piece for line in prose for piece in re.findall(r"`([^`]{1,500})`", line))
    fenced = (fence.text[:LONGEST_LINE] for fence in fences if fence.language in {"sql", ""})
    yield from (text for text in (*fenced, *quoted) if _STATEMENT.match(text))


def _expected(labels: Sequence[tuple[str, str]], names: Iterable[str]) -> Iterator[tuple[str, str]]:
    for name in names:
        values = {value for label, value in labels if compact(label) == compact(name) and value}
        if len(values) == 1:
            yield name, next(iter(values))[:_LONGEST_VALUE]


def _json_blocks(fences: Iterable[Fence]) -> Iterator[Any]:
    for fence in fences:
        is_json = fence.language in {"json", ""} and fence.text.lstrip()[:1] in {"{", "["}
        if is_json and fence.is_closed:
            try:
                yield json.loads(fence.text)
            except (ValueError, RecursionError):
                continue
