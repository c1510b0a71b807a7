"""File names made of results' names, the hostile ones among them."""

from __future__ import annotations

import re
from email.message import Message
from urllib.parse import unquote

import pytest
from hypothesis import given, strategies as st

from dualsql.http.streaming import content_disposition, file_stem


@pytest.mark.parametrize(
    ("name", "stem"),
    [
        ("Institutions", "Institutions"),
        ("Who enrolled in 2026?", "Who enrolled in 2026"),
        ("Zürich – Größe", "Zürich – Größe"),
        ("東京", "東京"),
        ("../../etc/passwd", "etc passwd"),
        (r"C:\Windows\system32", "C Windows system32"),
        ("rows\r\nSet-Cookie: a=b", "rows Set-Cookie a=b"),
        ('a"; filename="evil.exe', "a filename= evil.exe"),
        (".bashrc", "bashrc"),
        ("--rf", "rf"),
        ("report\u202egpj.exe", "reportgpj.exe"),  # right to left
        ("zero\u200bwidth", "zerowidth"),
        ("nul\x00byte", "nulbyte"),
        ("CON", "rows"),
        ("lpt1.txt", "rows"),
        ("...", "rows"),
        ("", "rows"),
        ("\ud800", "rows"),  # half of a character
        ("x" * 1_000, "x" * 80),
        ("100%.csv", "100 .csv"),
    ],
)
def test_a_stem_is_a_name_on_every_system(name: str, stem: str) -> None:
    assert file_stem(name) == stem


def test_both_forms_are_sent() -> None:
    assert content_disposition("Größe", "csv") == (
        "attachment; filename=\"Groe.csv\"; filename*=UTF-8''Gr%C3%B6%C3%9Fe.csv"
    )


@given(st.text())
def test_the_header_is_one_line_that_parsers_understand(name: str) -> None:
    header = content_disposition(name, "csv")
    assert re.fullmatch(r"attachment; filename=\"[ -~]+\"; filename\*=UTF-8''[A-Za-z0-9%._~-]+", header)
    message = Message()
    message["Content-Disposition"] = header
    actual = message.get_filename()
    assert actual is not None and actual.endswith(".csv")
    exact = unquote(header.rpartition("''")[2])
    assert not set(exact) & set('/\\:*?"<>|%;\r\n\0') and not exact.startswith((".", "-", " "))
