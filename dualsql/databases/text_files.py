"""Text files as DuckDB reads them: their compression, encoding, delimiter and names.

A file that is not UTF-8 is written anew as UTF-8. Its encoding is recognised by a mark at its beginning, by the NULs of
UTF-16, or as cp1252, whose bytes are letters of Western Europe then; any other one has to be named.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import re
import string
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import IO, Any

_START = 256 * 1024
"""Bytes that name encoding, delimiter and names."""
_PIECE = 1024 * 1024
_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_DELIMITERS = ",;\t|"
_WESTERN = frozenset(
    {*range(0xC0, 0xD7), *range(0xD8, 0xF7), *range(0xF8, 0x100), *b"\x8a\x8c\x8e\x9a\x9c\x9e\x9f"}
)
"""The letters of cp1252, beyond ASCII."""
_SIGNS = frozenset(
    {*b"\x80\x82\x84\x85\x8b\x91\x92\x93\x94\x95\x96\x97\x99\x9b", 0xD7, 0xF7, *range(0xA0, 0xC0)}
)
"""What a text of Western Europe has besides its letters."""
_ASCII = bytes(range(0x80))
_NO_LETTERS = bytes({*range(0x100)} - _WESTERN - {*string.ascii_letters.encode()})
_RUNS = re.compile(rb"[\x80-\xff]{3}")
_IN_NO_WORD = re.compile(
    rb"[\xa3\xa5\xaa\xb2\xb3\xb9\xbc\xbe][A-Za-z]"  # letters of Central Europe, in cp1250
    rb"|[a-z][\x8a\x8c\x8e\x9f]|[A-Za-z](?:[\x82\x84]|[\x8a\x8e\x94\x95\x9f][a-z])"  # vowels of Mac Roman and cp850
)
"""What no word has in cp1252: signs before a letter, capitals, bullets and opening quotes after one."""


@dataclass(frozen=True, slots=True)
class TextFile:
    """A text file that DuckDB reads.

    Attributes:
        path: of the file, or of its copy in UTF-8.
        encoding: of the file itself.
    """

    path: Path
    encoding: str


def as_utf8(path: Path, folder: Path, encoding: str | None) -> TextFile:
    """The file, or its copy in `folder` if it is not UTF-8.

    Only its beginning is looked at: see `copy_as_utf8` for a file in which DuckDB finds what is not UTF-8.

    Args:
        encoding: the one to take for a file that is not UTF-8; None to recognise it.

    Raises:
        ValueError: the encoding is not recognised, or some bytes are not of it.
        OSError: it cannot be read.
    """
    start = _start_of(path)
    for mark, name in _MARKS:
        if start.startswith(mark):
            return TextFile(path, "utf-8") if name == "utf-8" else _copy(path, folder, name)
    if start.startswith(b"PK\x03\x04"):
        raise ValueError(
            "It is a workbook, or another archive. Give a workbook the suffix of its kind, such as .xlsx, and unpack "
            "another archive."
        )
    if start.startswith(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"):
        raise ValueError("It is a document of an older office program. Give a workbook the suffix .xls.")
    if b"\0" in start:
        return _copy(path, folder, encoding or _utf16_without_mark(start))
    try:
        codecs.getincrementaldecoder("utf-8")().decode(start, final=len(start) < _START)
    except UnicodeDecodeError:
        return copy_as_utf8(path, folder, encoding)
    return TextFile(path, "utf-8")


def copy_as_utf8(path: Path, folder: Path, encoding: str | None) -> TextFile:
    """A copy in UTF-8 of a file that is not; see `as_utf8`."""
    return _copy(path, folder, encoding or _recognise(path))


def first_fault(path: Path) -> str | None:
    """The error for the first bytes that are not UTF-8; None if there are none."""
    try:
        for _ in _decode(path, "utf-8"):
            pass
    except ValueError as error:
        return str(error)
    return None


@dataclass(frozen=True, slots=True)
class CSVForm:
    """How CSV is written.

    Attributes:
        names: the fields of the first record.
    """

    delimiter: str
    names: Sequence[str]


_HINT_TO_EXCEL = re.compile(r'"?sep=.?"?(?=[\r\n])', re.IGNORECASE)


def csv_form(path: Path, *, has_tabs: bool) -> CSVForm:
    """How a file in UTF-8 is written: the delimiter by which most records have as many fields as the first.

    Raises:
        ValueError: it has no first record, an empty line before it, or one field in it and several in others.
    """
    start = _start_of(path)
    text = start.decode("utf-8-sig", "ignore")
    # DuckDB could skip them, but then leaves out rows of a file whose lines end in different ways.
    if text.strip() and text[0] in "\r\n":
        raise ValueError("Its first line is empty. The first line must hold the names of the columns.")
    if hint := _HINT_TO_EXCEL.match(text):
        raise ValueError(
            f"Its first line is {hint[0]!r}, which only Excel reads. Remove it: the first line must hold the names of "
            "the columns."
        )
    records = {
        delimiter: _records(text, delimiter, is_whole=len(start) < _START)
        for delimiter in ("\t" if has_tabs else _DELIMITERS)
    }
    if not text.strip():
        raise ValueError("It is empty. The first line holds the names of the columns.")
    if not any(records.values()):
        raise ValueError(
            f"Its first line has more than {_START // 1024} KiB, or a field with more than {csv.field_size_limit():,} "
            "characters. The first line must hold the names of the columns."
        )
    delimiter = max(records, key=lambda each: _fit(records[each]))
    head = records[delimiter][0]
    if len(head) == 1:
        for other, rows in records.items():
            longest = max(map(len, rows))
            if longest > 1:
                number = next(n for n, record in enumerate(rows, 1) if len(record) > 1)
                name = "a tab" if other == "\t" else repr(other)
                raise ValueError(
                    f"Its first line has one field, and record {number} has {len(rows[number - 1])} fields that "
                    f"{name} separates. Its first line must hold the names of the columns."
                )
    return CSVForm(delimiter, head)


def _records(text: str, delimiter: str, *, is_whole: bool) -> list[list[str]]:
    """The records of the beginning of a file; empty lines are none."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    records: list[list[str]] = []
    try:
        records += (record for record in reader if record)
    except csv.Error:  # a field longer than the beginning: those before it are whole
        return records
    return records if is_whole else records[:-1]


def _fit(records: Sequence[Sequence[str]]) -> tuple[bool, float, int]:
    """How well a delimiter fits: several names, the share of records with as many fields, and their number."""
    if not records:
        return False, 0.0, 0
    width = len(records[0])
    same = Counter(map(len, records))[width]
    return width > 1, round(same / len(records), 1), width


def _start_of(path: Path) -> bytes:
    with open_bytes(path) as file:
        return file.read(_START)


@contextmanager
def open_bytes(path: Path) -> Iterator[IO[bytes]]:
    """The bytes of a file, which may be compressed.

    Raises:
        ValueError: they are damaged, or a package is missing.
    """
    name = path.name.lower()
    opening: Callable[..., Any] = Path.open
    damage: tuple[type[Exception], ...] = ()
    if name.endswith(".gz"):
        opening, damage = gzip.open, (EOFError, gzip.BadGzipFile)
    elif name.endswith(".zst"):
        zstd = _zstd()
        opening, damage = zstd.open, (EOFError, zstd.ZstdError)
    try:
        with opening(path, "rb") as file:
            yield file
    except damage as error:
        raise ValueError(f"It is damaged: {error}") from error


def _zstd() -> Any:
    with suppress(ImportError):
        return import_module("compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd")
    raise ValueError('Reading .zst needs a package that is not installed: pip install "dualsql[zstd]"')


def _utf16_without_mark(start: bytes) -> str:
    """UTF-16 without a mark: of ASCII, every second byte is NUL."""
    even, odd = start[0::2].count(0), start[1::2].count(0)
    pairs = len(start) // 2
    if pairs and odd > 0.6 * pairs and even < 0.1 * pairs:
        return "utf-16-le"
    if pairs and even > 0.6 * pairs and odd < 0.1 * pairs:
        return "utf-16-be"
    raise ValueError(
        "It has bytes that are NUL, as no text in UTF-8 has. Remove them, or name its encoding: --encoding utf-16-le"
    )


def _recognise(path: Path) -> str:
    """cp1252, if the bytes beyond ASCII are what a text of Western Europe has."""
    signs: Counter[int] = Counter()
    runs = letters = within = 0
    with open_bytes(path) as file:
        while piece := file.read(_PIECE):
            beyond = piece.translate(None, _ASCII)
            signs.update({sign: beyond.count(sign) for sign in set(beyond)})
            runs += len(_RUNS.findall(piece))
            within += len(_IN_NO_WORD.findall(piece))
            letters += len(piece.translate(None, _NO_LETTERS))
    western = sum(signs[sign] for sign in _WESTERN)
    strange = sum(signs.values()) - western - sum(signs[sign] for sign in _SIGNS)
    if strange or within or runs * 20 > letters or western > letters // 3 + 1:
        fault = first_fault(path)
        raise ValueError(f"It is not UTF-8: {fault} Name its encoding, such as --encoding cp1252.")
    return "cp1252"


def _decode(path: Path, encoding: str) -> Iterator[str]:
    """The text in pieces.

    Raises:
        ValueError: some bytes are not of this encoding; it names the line.
    """
    try:
        decoder = codecs.getincrementaldecoder(encoding)()
    except LookupError as error:
        raise ValueError(f"There is no encoding {encoding[:40]!r}. Name one that Python knows.") from error
    lines = 1
    with open_bytes(path) as file:
        while True:
            piece = file.read(_PIECE)
            try:
                text = decoder.decode(piece, final=not piece)
            except UnicodeDecodeError as error:
                line = lines + error.object[: error.start].count(b"\n")
                byte = error.object[error.start]
                raise ValueError(
                    f"Line {line} has the byte 0x{byte:02X}, which is not {encoding}."
                ) from error
            lines += text.count("\n")
            yield text
            if not piece:
                return


def _copy(path: Path, folder: Path, encoding: str) -> TextFile:
    copy = folder / "text.utf8"
    with copy.open("w", encoding="utf-8", newline="") as file:
        for position, text in enumerate(_decode(path, encoding)):
            file.write(text.removeprefix("\ufeff") if not position else text)
    return TextFile(copy, encoding)
