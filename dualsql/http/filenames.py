"""The name a download is saved under; the rule: a result's name is data, and no part of it is obeyed.

RFC 6266 with RFC 8187: `filename` for the oldest readers, `filename*` for all others.
"""

from __future__ import annotations

import re
import unicodedata
from urllib.parse import quote

_LONGEST = 80
_UNSAFE = re.compile(r'[\\/:*?"<>|%;\s]+')
# Devices on Windows, whatever their extension.
_RESERVED = re.compile(r"(con|prn|aux|nul|com[0-9¹²³]|lpt[0-9¹²³])(\..*)?", re.IGNORECASE)
_NAMELESS = "rows"


def content_disposition(name: str, extension: str) -> str:
    """The header that saves `name` as a file of `extension`; ASCII, without line breaks, whatever the name is."""
    stem = file_stem(name)
    plain = file_stem(unicodedata.normalize("NFKD", stem).encode("ascii", "ignore").decode())
    exact = quote(f"{stem}.{extension}", safe="")
    return f"attachment; filename=\"{plain}.{extension}\"; filename*=UTF-8''{exact}"


def file_stem(name: str) -> str:
    """A file's name without an extension, that is one on every system: no path, no device, nothing invisible."""
    # A slice first: a name is as long as its maker liked.
    visible = "".join(map(_visible, unicodedata.normalize("NFC", name[: _LONGEST * 4])))
    stem = _UNSAFE.sub(" ", visible).strip(" .'-")[:_LONGEST].rstrip(" .'-")
    return _NAMELESS if not stem or _RESERVED.fullmatch(stem) else stem


def _visible(character: str) -> str:
    # Cc control, Cf format (bidirectional overrides, zero-width), Co private, Cs surrogate, Cn unassigned.
    category = unicodedata.category(character)
    return character if not category.startswith("C") else " " if character.isspace() else ""
