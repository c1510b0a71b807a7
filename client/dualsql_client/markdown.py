"""Values, tables and code blocks in a Markdown answer."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Literal, NamedTuple

from dualsql_client.wire import Row

LONGEST_LINE = 2_000

# With the ideographic colon of Chinese and Japanese.
_COLON = "[:=\\uff1a]"
# Possessive, like _DELIMITER: plain quantifiers took up to 6 seconds for a line of 2,000 spaces or stars.
_LABELLED = re.compile(
    rf"^[\s>*+\-•·\d.)#]*+(?P<label>[^\s:=|\uff1a][^:=|\uff1a]{{0,60}}?)[\s*_`]*+{_COLON}[\s*_`]*+(?P<value>[^|]*+)$"
)
_TWO_CELLS = re.compile(r"^\s*+\|\s*+(?P<label>[^|\s][^|]{0,59}?)\s*+\|(?P<value>[^|]*+)\|\s*+$")
_MARKS = " \t*_`'\"“”«»|,;\u2018\u2019"
# Symbols, modifiers, combining marks, format signs and unassigned code points: the parts of emoji.
_PICTURES = frozenset({"So", "Sk", "Mn", "Cf", "Cn"})


def labels_in(prose: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The label as `comparable_label` has it, and the value of each line that has both, and of rows of two cells."""
    for line in prose:
        if len(line) <= LONGEST_LINE and (match := _TWO_CELLS.match(line) or _LABELLED.match(line)):
            yield comparable_label(match["label"]), strip_decoration(match["value"].strip())


def comparable_label(label: str) -> str:
    """A label, or a word, in the form for comparisons."""
    text = "".join(c for c in unicodedata.normalize("NFKC", label) if c.isalnum() or c in " _'-/")
    return " ".join(text.lower().split()).strip("_- ")


def compact(label: str) -> str:
    """A label without its spelling: `Data Access ID`, `data_access_id` and `dataAccessId` are equal."""
    return re.sub(r"[\s_'-]", "", label).lower()


def strip_decoration(value: str) -> str:
    """A value without the marks and emoji at its ends."""
    start, end = 0, len(value)
    while start < end and _is_decoration(value[start]):
        start += 1
    while start < end and _is_decoration(value[end - 1]):
        end -= 1
    return value[start:end]


def _is_decoration(character: str) -> bool:
    return character in _MARKS or unicodedata.category(character) in _PICTURES


_OPENING = re.compile(
    r"^(?P<indent> {0,3}(?:[-*+>]|\d{1,3}[.)])?\s{0,4})(?P<fence>`{3,}|~{3,})\s*(?P<info>[^`\s]*)[^`]*$"
)


class Fence(NamedTuple):
    """A block of code: its language in small letters, and whether it has an end."""

    language: str
    text: str
    is_closed: bool


def split_fences(text: str) -> tuple[list[str], list[Fence]]:
    """The lines outside of all fences, and the fences."""
    prose: list[str] = []
    fences: list[Fence] = []
    opening: str | None = None
    language, code = "", list[str]()
    for line in text.splitlines():
        if opening is None:
            match = _OPENING.match(line[:200])
            if match is None:
                prose.append(line)
            else:
                opening, language, code = match["fence"], match["info"].lower(), []
        elif len(mark := line.strip()) >= len(opening) and set(mark) == {opening[0]}:
            fences.append(Fence(language, "\n".join(code), is_closed=True))
            opening = None
        else:
            code.append(line)
    if opening is not None:
        fences.append(Fence(language, "\n".join(code), is_closed=False))
    return prose, fences


_MAXIMUM_ROWS = 10_000
_DELIMITER = re.compile(r"\s*+\|?+\s*+:?+-++:?+\s*+(?:\|\s*+:?+-++:?+\s*+)*+\|?+\s*+")
_BETWEEN = re.compile(r"(?<!\\)\|")


def read_tables(lines: Sequence[str]) -> list[list[Row]]:
    """All tables among these lines. Cells are text; an empty one is None.

    A table begins with the line before a line of dashes, and ends before the next table.
    """
    tables: list[list[Row]] = []
    heads = [*_heads(lines), len(lines)]
    for start, end in pairwise(heads):
        if (rows := _rows(lines[start:end])) is not None:
            tables.append(rows)
    return tables


def _heads(lines: Sequence[str]) -> Iterator[int]:
    was_delimiter = False
    for number, line in enumerate(lines):
        is_delimiter = "-" in line and _DELIMITER.fullmatch(line[:2_000]) is not None
        if is_delimiter and number and "|" in lines[number - 1] and not was_delimiter:
            yield number - 1
        was_delimiter = is_delimiter


def _rows(lines: Sequence[str]) -> list[Row] | None:
    names = _cells(lines[0])
    if not all(names) or len(set(names)) < len(names) or len(_cells(lines[1])) != len(names):
        return None
    rows: list[Row] = []
    for line in lines[2 : 2 + _MAXIMUM_ROWS]:
        if "|" not in line:
            break
        cells = _cells(line)
        if len(cells) != len(names):
            return None
        rows.append({name: cell or None for name, cell in zip(names, cells, strict=True)})
    return rows


def _cells(line: str) -> list[str]:
    inner = line.strip().removeprefix("|")
    inner = inner[:-1] if inner.endswith("|") and not inner.endswith("\\|") else inner
    return [cell.replace("\\|", "|").strip().strip("*`").strip() for cell in _BETWEEN.split(inner)]


ParseStrategy = Literal["conservative", "aggressive"]

MAXIMUM_CHARACTERS = 1024 * 1024
_LONGEST_VALUE = 500

# With a digit: no word, such as "pending", is an id.
_ID = re.compile(r"(?=\D*\d)[A-Za-z0-9][A-Za-z0-9_.:-]{4,127}", re.ASCII)
_IDENTIFIER = re.compile(r"[A-Za-z0-9][\w.:-]{0,127}", re.ASCII)
TABLE_NAME = re.compile(r"[^\W\d]\w{0,62}(?:\.[^\W\d]\w{0,62}){0,2}")
_OPERATION = re.compile(r"[^\W\d][\w .:/-]{0,79}")


def _words(text: str) -> frozenset[str]:
    return frozenset(word.strip() for word in text.split("|"))


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
    "|string|str|text|id|value|data_access_id|none|no|null|0|false|na|n/a|nil|unknown|undefined|pending|unavailable|tbd|todo|true|yes|example|placeholder|"
    "keine|keiner|unbekannt|ninguno|ninguna|desconocido|aucun|aucune|inconnu|nessuno|nenhum|无|なし|нет"
)

# With underscores and a long number, as servers of specification S8 generate them.
_GENERATED_ID = re.compile(r"(?<![\w-])[a-z][a-z0-9]*(?:_[a-z0-9]+)*_\d{10,16}_[a-z0-9]{4,16}(?![\w-])")
# In a sentence: `data_access_id "x"`, or before an id with a digit.
_ID_AFTER_NAME = re.compile(
    r"\bdata[_ ]?access[_ ]?id[\"'`]?[\s:=]{1,4}(?:([\"'`])([A-Za-z0-9][\w.:-]{0,127})\1"
    r"|((?=[\w.:-]*\d)[A-Za-z0-9][\w.:-]{3,126}\w)(?![\w}>]))",
    re.IGNORECASE | re.ASCII,
)
_STATEMENT = re.compile(r"\s*(?:SELECT|WITH)\b", re.IGNORECASE)
# A name at the end of a sentence has a full stop.
_FROM = re.compile(rf"\bFROM\s+({TABLE_NAME.pattern})(?![\w(]|\.\w)", re.IGNORECASE)
# In prose: `FROM protein` in capitals before a name that is not, or `select * from protein`.
_FROM_IN_PROSE = re.compile(
    rf"(?:\bFROM|(?i:\bselect\s+\*\s+from))\s+(?=\w*[^\W\dA-Z_])({TABLE_NAME.pattern})(?![\w(]|\.\w)"
)
_FAILED = re.compile(
    r"^\W{0,6}(?:[\w ]{1,40} )?(?:error|failed|exception)[*_`]*:\s*(?P<message>[^\s|].*)$", re.IGNORECASE
)
_FAILED_HEADING = re.compile(r"^\W{0,6}(?:[\w ]{1,40} )?(?:error|failed|exception)[\W_]{0,6}$", re.IGNORECASE)
_ITEM = re.compile(r"\s*(?:[-*+|>#]|\d+[.)])\s")
# "Standard error: 0.03", "Checks failed: 3 of 25"; "Request failed: 429 Too Many Requests" is a status.
_FIGURE = re.compile(r"[^\w]*(?![45]\d\d [^\W\d])\d")


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkdownAnswer:
    """Values read from a text; None or empty if the text has none, or has several.

    Attributes:
        table: of the staged data.
        fields: the values of `expected_fields`, as text, by these names.
        blocks: the JSON blocks, decoded.
        tables: the tables, as rows of text; empty cells are None.
        error: the error, in one line.
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
        parts = self.blocks or self.tables
        return parts[0] if len(parts) == 1 else None

    @property
    def is_empty(self) -> bool:
        """Whether nothing was read."""
        values = (self.data_access_id, self.table, self.operation, self.error)
        return not any((*values, self.fields, self.blocks, self.tables))


def parse_markdown(
    text: str, *, strategy: ParseStrategy = "conservative", expected_fields: Sequence[str] = ()
) -> MarkdownAnswer:
    """Read the values in `text`, of which at most the first million characters are used.

    Args:
        strategy: "conservative" reads labelled values, and an error message at the beginning. "aggressive" also reads
            an id in the form that servers generate or behind `data_access_id`, the table of the only SQL example or
            after `FROM`, and an error message in any line.
        expected_fields: other labels to read; case, spaces and underscores do not matter.
    """
    prose, fences = split_fences(text[:MAXIMUM_CHARACTERS])
    labels = list(labels_in(prose))
    values = {
        "data_access_id": _only(_values_labelled(labels, _ID_LABELS), _ID),
        "table": _only(_values_labelled(labels, _TABLE_LABELS), TABLE_NAME),
        "operation": _only(_values_labelled(labels, _OPERATION_LABELS), _OPERATION),
        "error": _failure(_values_labelled(labels, _ERROR_LABELS)) or _first_failure(prose),
    }
    if strategy == "aggressive":
        guesses = _guesses([line for line in prose if len(line) <= LONGEST_LINE], fences)
        values = {name: guesses.get(name) if value is None else value for name, value in values.items()}
    return MarkdownAnswer(
        raw_text=text,
        fields=dict(_values_by_name(labels, expected_fields)),
        blocks=list(_json_blocks(fences)),
        tables=read_tables(prose),
        **values,
    )


def _values_labelled(labels: Iterable[tuple[str, str]], names: frozenset[str]) -> set[str]:
    return {value for label, value in labels if label in names and value}


def _only(values: set[str], form: re.Pattern[str]) -> str | None:
    if len(values) != 1:
        return None
    [value] = values
    return value if form.fullmatch(value) and value.lower() not in _NO_VALUE else None


def _failure(values: set[str]) -> str | None:
    if len(values) != 1:
        return None
    [message] = values
    return None if comparable_label(message) in _NO_VALUE else message[:_LONGEST_VALUE]


def _first_failure(prose: Sequence[str]) -> str | None:
    """The error in the first line, such as `Query Error: no such table`, or below a heading such as `Error`.

    Servers that return text only report errors in this form. Further down, such a line may have another meaning.
    """
    lines = [line for line in prose if line.strip()][:2]
    if not lines or len(lines[0]) > LONGEST_LINE:
        return None
    match = _FAILED.match(lines[0])
    if match is None and _FAILED_HEADING.match(lines[0]):
        return _failure(
            {strip_decoration(line[:LONGEST_LINE]) for line in lines[1:] if not _ITEM.match(line)}
        )
    message = strip_decoration(match["message"]) if match else ""
    return None if not message or _FIGURE.match(message) else _failure({message})


def _guesses(prose: Sequence[str], fences: Sequence[Fence]) -> dict[str, str | None]:
    messages = [strip_decoration(match["message"]) for line in prose if (match := _FAILED.match(line))]
    failures = {message for message in messages if not _FIGURE.match(message)}
    ids = {value for line in prose for value in _GENERATED_ID.findall(line)}
    ids |= {quoted or bare for line in prose for _, quoted, bare in _ID_AFTER_NAME.findall(line)}
    tables = {name for sql in _examples(prose, fences) for name in _FROM.findall(sql)}
    tables |= {name for line in prose for name in _FROM_IN_PROSE.findall(line)}
    return {
        "data_access_id": _only(ids, _IDENTIFIER),
        "table": _only(tables, TABLE_NAME),
        "error": _failure(failures),
    }


def _examples(prose: Sequence[str], fences: Sequence[Fence]) -> Iterator[str]:
    """The SQL in fences and between backquotes."""
    quoted = (piece for line in prose for piece in re.findall(r"`([^`]{1,500})`", line))
    fenced = (fence.text[:LONGEST_LINE] for fence in fences if fence.language in {"sql", ""})
    yield from (text for text in (*fenced, *quoted) if _STATEMENT.match(text))


def _values_by_name(labels: Sequence[tuple[str, str]], names: Iterable[str]) -> Iterator[tuple[str, str]]:
    by_label: dict[str, set[str]] = {}
    for label, value in labels:
        if value:
            by_label.setdefault(compact(label), set()).add(value)
    for name in names:
        values = by_label.get(compact(name), set())
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
