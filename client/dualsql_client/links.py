"""Links to results in texts, known by the checksums of their ids in any encoding that keeps letters and digits."""

from __future__ import annotations

import re
from collections import deque
from html import unescape
from math import inf
from typing import NamedTuple
from urllib.parse import unquote

from dualsql_client.addresses import resource_id
from dualsql_client.identifiers import ids_in
from dualsql_client.origins import Origins

_MAXIMUM_LINKS = 200
"""Links of one text; the last ones."""
_MAXIMUM_LINKS_IN_ALL = 5_000
_MAXIMUM_CHARACTERS = 4 * 1024 * 1024
_RESERVE = 1_024
"""Characters at the end of each text that are searched in any case, for one link."""
_BEFORE = 400
"""Characters before an id that say what it is."""
_ESCAPED = re.compile(r"(?<!\\)\\+(?:u00|x)([0-9a-f]{2})", re.IGNORECASE)
_ESCAPED_BREAK = re.compile(r"(?<!\\)\\+(?:r(?:\\+n)?|n)")
_TEXT_BREAK = "\v"
"""In the place of an escaped line break, which in a double-quoted text of YAML ends no line of the YAML."""

_URI = re.compile(
    r"([a-z][a-z0-9+.-]{0,31})://(?:[a-z0-9\[][\w.:@~\]-]{0,99}/){0,8}\Z", re.ASCII | re.IGNORECASE
)
_PATH_IN_FORM = r"(?:[a-z0-9.~:/_-]|%(?:25)?(?:2F|5F|7E))*\Z"
_SPACE_IN_FORM = re.compile(
    rf"\+(?=(?:[a-z0-9.-]|%2B){{1,64}}%3A{_PATH_IN_FORM})"
    rf"|%2B(?=(?:[a-z0-9.-]|%252B){{1,64}}%253A{_PATH_IN_FORM})",
    re.ASCII | re.IGNORECASE,
)
"""The space before a URI, as forms encode both, once or twice. A scheme may have a `+` of its own."""
_HOST_SCHEMES = frozenset({"http", "https", "ws", "wss", "ftp", "ftps"})
_URL = re.compile(
    r"(?:(?:https?|wss?|ftps?)://|(?<![a-z0-9:/])//[a-z0-9.-]+/)[^\s\"'<>`\\|,]*\Z", re.IGNORECASE
)
_ENDS_URL = re.compile(r"[\s\"'<>`\\|,]")
_SENTENCE = re.compile(
    r"(?:(?:The|Once\s+the\s+query\s+has\s+run,\s+the)\s+application\s+gets\s+every\s+row\s+from|Rows\s+for\s+the\s+application:)"
    r"\s+[<(\[`*_]{0,4}\Z"
)
_BROKEN_SCHEME = re.compile(r"(?:[\n\v][\s>|]{0,40})?".join("resource://") + r"\Z")
"""The scheme, over two lines of fixed width."""
_IN_RESOURCE = re.compile(
    r"\bresource\b(?:\W+\w{1,14}){0,6}?\W+ur[il]\b(?:\W+\w{1,14}){0,3}?\W*\Z", re.ASCII | re.IGNORECASE
)

_IS = r"\b['\"]{0,5}(?:[=>]|\s{0,9}:\s{0,9})['\"]{0,5}"
"""Between a name and its value. With spaces around its `=`, it is a condition, as SQL has them."""
ARGUMENTS = (
    rf"(?:\b(?:arguments|args|kwargs|(?:tool|raw|action)[_ ]?(?:input|args)){_IS}"
    r"|\bto=functions\.[^{}\n]{1,80}|tool\u2581sep\uff5c>[^{}]{0,80})"
)
"""What is before the arguments of a call."""
_PERSON = "(?:user|human|system|developer)"
_FAILED = (
    rf"['\"]{{0,5}}\b(?:is_?error{_IS}true|(?:success|succeeded|ok){_IS}false"
    r"|(?:status|state|type)(?:=|['\"]{0,5}\s{0,9}:\s{0,9}['\"])['\"]{0,5}(?:tool-|output-)*(?:error|failed)(?:-text|-json)?)\b"
)
"""The mark of a failure."""
_FAILED_LINE = rf"(?:{_FAILED}|status: (?:error|failed)\b)"
_QUOTED = re.compile(
    "|".join(
        (
            # Arguments: of Python, JSON and others, in XML, and in YAML.
            rf"{ARGUMENTS}\{{[^{{}}\n]*\Z",
            rf"\b(?:tool_?use|tool_?call|function_?call)\w{{0,20}}['\"(][^{{}}()\n]*\binput{_IS}\{{[^{{}}\n]*\Z",
            r"<(?:parameter|arg_value)\b[^<>\n]*>\s{0,9}[^<>\n]*\Z",
            r"(?:^|\n)([ \t]*)(?:arguments|args|kwargs|tool_?input):[ \t]*\n(?:\1[ \t][^\n]*\n)*\1[ \t][^\n]*\Z",
            # Messages of a person: as an object or a block of text in one, as a model's template and as a transcript.
            (
                rf"\b(?:(?:role|type){_IS}|(?:source|from|speaker|author)['\"]{{0,5}}\s{{0,9}}[:=]\s{{0,9}}['\"]){_PERSON}\b"
                rf"[^{{}}()\[\]\n]*(?:\[\{{['\"]{{1,5}}type{_IS}(?:input_)?text\b[^{{}}()\[\]\n]*)?\Z"
            ),
            rf"(?:^|\n)[ \t]*(?:- )?role: {_PERSON}\n[ \t]+\w{{1,20}}: [^\n]*\Z",
            r"\b(?:user|human|system|retryprompt)\w{0,40}\((?:\w{1,20}=\[)?[^{}()\[\]\n]*\Z",
            rf"<(?:\|\w{{1,20}}\|>|start_of_turn>|[|\uff5c]){_PERSON}(?:_token)?\b(?:[|\uff5c]>|<\|\w{{1,20}}\|>)?[^<]*\Z",
            r"(?:\[INST\]|<<SYS>>)[^\[\]<]*\Z",
            (
                r"(?:^|\n)(?:### (?:human|user|system|instruction|input):\s{0,9}|(?:human|user): )"
                r"(?:(?!\w{1,20}(?:=|:\s))[^\n])*\Z"
            ),
            # Failures: by a mark, in XML, and as the error of a result.
            rf"{_FAILED}[^}})\n]*\Z",
            r"<\w{0,20}(?:error|failure|exception)\b[^<]*\Z",
            r"\berr(?:or)?['\"]{0,5}(?:=|\s{0,9}:\s{0,9})(?:['\"]{1,5}(?![\s,;)}\]])[^'\"\n]+|\{[^{}\n]*)\Z",
            r"\bTraceback \(most recent call last\):\n(?:[^\n]*\n)*[\w.]*(?:Error|Exception): [^\n]*\Z",
        )
    ),
    re.ASCII | re.IGNORECASE,
)
"""What is before a link in a quotation or a failure that no parser reads."""
_FAILED_CALL = re.compile(
    r"\s{0,9}(?:(?:an |i encountered an |encountered )?error(?:: | (?:occurred )?(?:while )?"
    r"(?:executing|calling|invoking|running|trying to use|from) [^\n]{0,20}\b(?:tool|function)\b)"
    r"|mcp error |failed to \w{1,20} (?:the )?(?:tool|function)\b|(?:tool|function) call (?:error|failed)\b"
    r"|invoking [^\n]{1,80} failed\b)",
    re.ASCII | re.IGNORECASE,
)
"""What SDKs write at the beginning of the text of a failed call."""
_BEHIND = 600
"""Characters behind an id that say whose it is."""
_MARK_BEHIND = re.compile(
    rf"[^{{}}()\[\]]{{0,400}}?['\"]{{1,5}}role['\"]{{1,5}}\s{{0,9}}:\s{{0,9}}['\"]{{1,5}}{_PERSON}\b"
    rf"|[^{{(]*?\n[ \t]{{0,40}}{_FAILED_LINE}|[^{{(\n]*?(?:['\"][ ,]{{0,3}}|\b(?=is_?error)){_FAILED}",
    re.ASCII | re.IGNORECASE,
)
"""The role of a message whose text is before it, or the mark of a result whose content is."""
_IN_LITERAL = re.compile(r"([({\[])|([)}\]])|\n(?:[ \t]+(?=(['\"({\[])))?")
"""Brackets, and breaks of lines; before a bracket or a quotation mark, such as those of a literal."""
_NEXT_FIELD = re.compile(r"[^\n]*['\"],\n[ \t]+['\"]")
"""The end of a text in a literal whose brackets are out of sight, and the field on the next line."""
_YAML_LINE = re.compile(
    r"([ \t]*)((?:-[ \t]+)*)(['\"]{0,5}[a-z_][\w-]{0,39}['\"]{0,5}:(?:[ \t]|\Z))?", re.ASCII | re.IGNORECASE
)
"""The beginning of a line of YAML: its indent, the marks of list items, and its key."""
_MARKED_LINE = re.compile(rf"[ \t]*(?:-[ \t]+)*{_FAILED_LINE}", re.ASCII | re.IGNORECASE)


class Link(NamedTuple):
    """A link to a result.

    Attributes:
        uri: made of the id, if the text has no URI.
        url: its address at a configured origin, if the text has one.
    """

    id: str
    uri: str
    url: str | None


class _Mention(NamedTuple):
    """One place of a link in a text."""

    id: str
    uri: str | None
    url: str | None
    is_whole: bool
    is_announced: bool
    begins_paragraph: bool
    is_in_resource: bool


class _YAMLLine(NamedTuple):
    """A line of YAML.

    Attributes:
        column: behind the marks of its list items.
        is_item: it has such marks.
    """

    text: str
    indent: int
    column: int
    has_key: bool
    is_item: bool


class LinkReader:
    """Reads texts up to a number of characters and of links in all, and the ends of further texts.

    Attributes:
        links: those of the texts.
    """

    def __init__(self, origins: Origins) -> None:
        self.links: list[Link] = []
        self._origins = origins
        self._characters = _MAXIMUM_CHARACTERS
        self._occurrences_left = _MAXIMUM_LINKS_IN_ALL

    def read(self, text: str) -> bool:
        """Read a text. Returns whether only dual responses count in JSON within it.

        So they do if the sentence of `dualsql` names its links, and in the text of a failed call, which has none.

        Such sentences are paragraphs, and in a structure that is not read as one, such as a truncated one, the links of
        its `resource` are the result's: then only those count. Where the paragraphs are lost, the last sentence counts.
        Beside a sentence with a whole id, one that is broken over lines may be made of cells.
        """
        end = text[-max(self._characters, _RESERVE) :]
        self._characters -= len(end)
        occurrences = deque(ids_in(end), maxlen=max(min(_MAXIMUM_LINKS, self._occurrences_left), 1))
        self._occurrences_left -= len(occurrences)
        mentions = _mentions(end, occurrences, self._origins)
        if any(each.begins_paragraph and each.is_whole for each in mentions):
            mentions = [each for each in mentions if each.is_whole]
        announced = [each for each in mentions if each.is_announced]
        if not announced and _FAILED_CALL.match(text):
            return True
        results = (
            [each for each in mentions if each.begins_paragraph or each.is_in_resource]
            or announced[-1:]
            or mentions
        )
        links = _by_id(mentions)
        self.links += [links[identifier] for identifier in dict.fromkeys(each.id for each in results)]
        return bool(announced)


def link_in(address: str, origins: Origins) -> Link | None:
    """The last link of a text that is a URI or a URL."""
    occurrences = deque(ids_in(address), maxlen=1)
    return next(iter(_by_id(_mentions(address, occurrences, origins)).values()), None)


def _by_id(mentions: list[_Mention]) -> dict[str, Link]:
    """One link of all that a text says about one result."""
    uris: dict[str, str] = {}
    urls: dict[str, str] = {}
    for each in mentions:
        if each.uri:
            uris.setdefault(each.id, each.uri)
        if each.url:
            urls.setdefault(each.id, each.url)
    return {
        each.id: Link(each.id, uris.get(each.id, f"resource://{each.id}"), urls.get(each.id))
        for each in mentions
    }


def _mentions(text: str, occurrences: deque[tuple[int, str]], origins: Origins) -> list[_Mention]:
    mentions = (_mention(text, start, identifier, origins) for start, identifier in occurrences)
    return [each for each in mentions if each is not None]


def _mention(text: str, start: int, identifier: str, origins: Origins) -> _Mention | None:
    """The link at a position; None for a URL at another origin, and for one that may be."""
    before = _BROKEN_SCHEME.sub("resource://", _text_before(text, start))
    uri = _URI.search(before)
    own = uri if uri and uri[1].lower() not in _HOST_SCHEMES else None
    url = None if own else _URL.search(before)
    if url and not origins.has_origin(f"{url.group()}{identifier}"):
        return None
    match = own or url
    # The scheme of a long URL is before these characters.
    if match is None and start > _BEFORE and not _ENDS_URL.search(before):
        return None
    words_before = before[: match.start()] if match else before
    sentence = _SENTENCE.search(words_before)
    is_in_resource = _IN_RESOURCE.search(words_before) is not None
    behind = text[start + len(identifier) : start + _BEHIND]
    if sentence is None and not is_in_resource and _is_quoted(words_before, behind):
        return None
    address = f"{own.group()}{identifier}" if own else ""
    return _Mention(
        id=identifier,
        uri=address if resource_id(address) == identifier else None,
        url=f"{url.group()}{identifier}" if url else None,
        is_whole=text.startswith(identifier, start),
        is_announced=sentence is not None,
        begins_paragraph=sentence is not None and _ends_paragraph(words_before[: sentence.start()]),
        is_in_resource=is_in_resource,
    )


def is_quotation(text: str, start: int, end: int) -> bool:
    """Whether what is there in a text is in a quotation or a failure that no parser reads."""
    return _is_quoted(_text_before(text, start), text[end : end + _BEHIND])


def _text_before(text: str, start: int) -> str:
    before = _decode(_SPACE_IN_FORM.sub(" ", text[max(start - _BEFORE, 0) : start]))
    return f"…{before}" if start > _BEFORE else before  # a text that was cut here does not start here


def _is_quoted(before: str, behind: str) -> bool:
    """Whether a mark says so: on the line of the link, in a bracket around it, or beside a key around it."""
    is_cut = before.startswith("…")
    before, behind = before.replace("+", " "), _decode(behind).replace("+", " ")
    above, below = before.replace(_TEXT_BREAK, "\n"), behind.replace(_TEXT_BREAK, "\n")
    closed = (_most_closed(below) or int(_NEXT_FIELD.match(below) is not None)) if is_cut else 0
    line, depth, _ = _in_one_line(above, closed)
    rest, _, end = _in_one_line(below, closed if is_cut else depth)
    if _QUOTED.search(line) or _MARK_BEHIND.match(rest[:end]):
        return True
    if _is_beside_failure(above.split("\n"), below.split("\n"), is_cut=is_cut):
        return True
    has_text_breaks = _TEXT_BREAK in f"{before}{behind}"
    return has_text_breaks and _is_beside_failure(before.split("\n"), behind.split("\n"), is_cut=is_cut)


def _in_one_line(text: str, depth: int) -> tuple[str, int, int]:
    """A text without the line breaks of a literal, the brackets open at its end, and where the first line of it ends.

    Args:
        depth: the brackets open before it, which continue a line.
    """
    pieces: list[str] = []
    at, length, end = 0, 0, -1
    for match in _IN_LITERAL.finditer(text):
        opening, closing, is_literal = match.groups()
        if opening or closing:
            depth = depth + 1 if opening else max(depth - 1, 0)
        elif depth == 0:
            end = length + match.start() - at if end < 0 else end
        elif is_literal:
            pieces += (text[at : match.start()], " ")
            length += match.start() - at + 1
            at = match.end()
    line = "".join((*pieces, text[at:]))
    return line, depth, len(line) if end < 0 else end


def _most_closed(text: str) -> int:
    """How many of the brackets before a text it closes."""
    depth = least = 0
    for character in text:
        depth += (character in "([{") - (character in ")]}")
        least = min(least, depth)
    return -least


def _is_beside_failure(above: list[str], below: list[str], *, is_cut: bool) -> bool:
    """Whether a failure is marked by a sibling of the key of a link's text, or of a key around it, in YAML.

    Args:
        above: the lines before the link; the last is the part of its own.
        below: the lines behind it; the first is the rest of its own.
        is_cut: there are more lines above, or more of the only one.
    """
    keys, level = _keys_around(above)
    if any(_MARKED_LINE.match(key.text) for key in keys):
        return True
    own = f"{above[0]}{below[0]}"
    # Of a text whose line begins out of sight: its end closes a quotation mark that none before it opens.
    is_text = is_cut and len(above) == 1 and own.endswith('"') and own.count('"') % 2 == 1
    level = inf if is_text else level
    columns = {key.column for key in keys}
    lowest = inf
    for line in map(_yaml_line, filter(str.strip, below[1:])):
        lowest = min(lowest, line.indent)
        is_sibling = line.column in columns or (is_cut and line.column <= level)
        if is_sibling and not line.is_item and line.column == lowest and _MARKED_LINE.match(line.text):
            return True
        if not line.has_key and not line.is_item and line.indent <= max(columns, default=0):
            return False
    return False


def _keys_around(above: list[str]) -> tuple[list[_YAMLLine], float]:
    """The lines of keys around a link's text, and beside those above it, and the column of a further key; -1 for none.

    Args:
        above: the lines before the link.
    """
    line = _yaml_line(above[-1])
    lines = [line._replace(text="")] if line.has_key else []
    level = line.indent if line.is_item else line.column if line.has_key else line.indent - 1
    for text in reversed(above[:-1]):
        if not text.strip() or text.startswith("…"):
            continue
        line = _yaml_line(text)
        if line.has_key and line.column <= level:
            lines.append(line)
            level = line.indent if line.is_item else line.column
        elif not line.has_key and not line.is_item and line.indent <= level:  # words of a text
            return lines, -1
    return lines, level


def _yaml_line(text: str) -> _YAMLLine:
    match = _YAML_LINE.match(text)
    assert match is not None  # each part of the pattern is optional
    indent, items, key = match.groups()
    return _YAMLLine(text, len(indent), len(indent + items), key is not None, items != "")


def _ends_paragraph(text: str) -> bool:
    words = text.rstrip()
    return not words or text.replace(_TEXT_BREAK, "\n").count("\n", len(words)) > 1


def _decode(text: str) -> str:
    """Without percent-encoding and character references, up to four deep, and backslashes."""
    for _ in range(4):
        text = unescape(unquote(text))
    text = _ESCAPED.sub(lambda match: chr(int(match[1], 16)), text).replace("\r\n", "\n").replace("\r", "\n")
    return _ESCAPED_BREAK.sub(_TEXT_BREAK, text).replace("\\", "")
