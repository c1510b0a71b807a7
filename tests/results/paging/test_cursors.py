"""A cursor is its reader's alone: whatever is changed in it, or in what it is used for, it is refused in one way."""

from __future__ import annotations

import datetime as dt
import math
import struct
from collections.abc import Mapping
from decimal import Decimal
from ipaddress import ip_address
from time import thread_time
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings, strategies as st

from dualsql import BadParameterError
from dualsql.errors import BadCursorError
from dualsql.freeze import Seal
from dualsql.plan import KeysetPosition
from dualsql.results.pages import _LONGEST_CURSOR, Cursor, Cursors
from dualsql.results.view import CursorScope

OLD, NEW = "the secret of last year, 32 characters", "the secret of this year, 32 characters"
SCOPE = CursorScope("resource", "ana", "north", b"o" * 32)
HERE = Cursor(KeysetPosition(values=(1, "a", None)), row=17)
CURSORS = Cursors(Seal([NEW]))


def _without_fold(value: Any) -> Any:
    # It means something in a zone with summer time, which no database gives.
    return value.replace(fold=0)


_ZONES = st.sampled_from([None, dt.UTC, dt.timezone(dt.timedelta(hours=-3, minutes=-30))])
_VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(),
    # No database has signalling NaNs.
    st.decimals(places=None).filter(lambda value: not value.is_snan()),
    st.text(st.characters(exclude_categories=())),
    st.binary(),
    st.uuids(),
    st.datetimes(timezones=_ZONES).map(_without_fold),
    st.dates(),
    st.times().map(_without_fold),
    st.timedeltas(),
    st.ip_addresses(),
    st.lists(st.integers(), max_size=3),
)


def written(cursor: Cursor = HERE, scope: CursorScope = SCOPE) -> str:
    text = CURSORS.write(cursor, scope)
    assert text is not None
    return text


def exact(value: Any) -> Any:
    """A value with its type; of a float, every bit."""
    if isinstance(value, float) and not math.isnan(value):
        return struct.pack(">d", value)
    return type(value), repr(value)


@given(st.lists(_VALUES, max_size=6), st.booleans(), st.integers(0, 2**53), st.none() | st.integers(0, 99))
@settings(max_examples=150, deadline=None)
def test_every_value_comes_back_as_it_was(values: list[Any], back: bool, row: int, left: int | None) -> None:
    place = KeysetPosition(values=tuple(values), is_backward=back, equal_before=3, equal_after=left)
    read = CURSORS.read(written(Cursor(place, row, has_rows_behind=not back)), SCOPE)
    assert read._replace(position=read.position._replace(values=())) == Cursor(
        place._replace(values=()), row, has_rows_behind=not back
    )
    assert list(map(exact, read.position.values)) == list(map(exact, values))


def test_types_that_look_alike_stay_apart() -> None:
    values = (
        1,
        1.0,
        True,
        Decimal("1.0"),
        Decimal("1.00"),
        "1",
        b"1",
        -0.0,
        0.0,
        UUID(int=1),
        ip_address("::1"),
    )
    read = CURSORS.read(written(Cursor(KeysetPosition(values=values), 0)), SCOPE).position.values
    assert list(map(exact, read)) == list(map(exact, values))


def test_one_place_is_one_text() -> None:
    """So that a page that did not change stays equal to itself."""
    assert written() == written()
    assert written() != written(HERE._replace(row=18))


def test_nothing_of_the_row_is_to_be_seen() -> None:
    cursor = written(Cursor(KeysetPosition(values=("a very private name",)), 0))
    assert "private" not in cursor
    assert "cHJpdmF0ZS" not in cursor


OTHERS: Mapping[str, CursorScope] = {
    "resource": SCOPE._replace(key="another"),
    "order": SCOPE._replace(order=b"p" * 32),
    "user": SCOPE._replace(reader="ben"),
    "tenant": SCOPE._replace(tenant="south"),
    "no tenant": SCOPE._replace(tenant=None),
    "nobody": SCOPE._replace(reader=None, tenant=None),
    "parts moved": SCOPE._replace(key="resourcea", reader="na"),
}


@pytest.mark.parametrize("name", OTHERS)
def test_it_is_good_for_nothing_else(name: str) -> None:
    with pytest.raises(BadCursorError):
        CURSORS.read(written(), OTHERS[name])


def test_every_bit_counts() -> None:
    cursor = written()
    for place in range(len(cursor)):
        for other in "A_9z":
            changed = cursor[:place] + other + cursor[place + 1 :]
            if changed != cursor:
                with pytest.raises(BadCursorError):
                    CURSORS.read(changed, SCOPE)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "A",
        "AQ",
        "AQ" + "A" * 22,
        "AQ" * _LONGEST_CURSOR,
        "é",
        "\x00",
        "=" * 40,
        " ",
        "-_-_",
        "AQ==",
        "\ud800",
        "AQ" + "A" * 40 + "\n",
    ],
)
def test_what_is_no_cursor(text: str) -> None:
    with pytest.raises(BadCursorError):
        CURSORS.read(text, SCOPE)


@pytest.mark.long
@given(st.text() | st.text("ABCDabcd0189-_=", max_size=200))
@settings(max_examples=150, deadline=None)
def test_no_text_is_anything_but_refused(text: str) -> None:
    with pytest.raises(BadCursorError):
        CURSORS.read(text, SCOPE)


def test_cut_or_lengthened() -> None:
    cursor = written()
    for wrong in (
        *(cursor[:end] for end in range(len(cursor))),
        cursor + "A",
        cursor + "=",
        cursor + "\n",
        " " + cursor,
        cursor * 2,
    ):
        with pytest.raises(BadCursorError):
            CURSORS.read(wrong, SCOPE)


def test_all_refusals_say_the_same() -> None:
    messages = set()
    for text, scope in ((written(), OTHERS["user"]), ("AQAA", SCOPE), (written()[:-1], SCOPE), ("", SCOPE)):
        with pytest.raises(BadCursorError) as refused:
            CURSORS.read(text, scope)
        messages.add((refused.value.message, refused.value.hint, str(refused.value.details)))
        assert refused.value.__cause__ is None
    assert len(messages) == 1
    assert issubclass(BadCursorError, BadParameterError)


def test_secrets_rotate() -> None:
    old, both, new = Cursors(Seal([OLD])), Cursors(Seal([NEW, OLD])), CURSORS
    cursor = old.write(HERE, SCOPE)
    assert cursor is not None
    assert both.read(cursor, SCOPE) == HERE
    assert new.read(written(), SCOPE) == both.read(written(), SCOPE)
    with pytest.raises(BadCursorError):
        new.read(cursor, SCOPE)


def test_what_cannot_be_written_exactly_has_no_cursor() -> None:
    assert CURSORS.write(Cursor(KeysetPosition(values=(object(),)), 0), SCOPE) is None
    assert CURSORS.write(Cursor(KeysetPosition(values=("x" * _LONGEST_CURSOR,)), 0), SCOPE) is None


def test_a_long_text_is_not_decoded() -> None:
    text = "A" * 50_000_000  # decoding takes more than 50 ms
    begun = thread_time()
    with pytest.raises(BadCursorError):
        CURSORS.read(text, SCOPE)
    assert thread_time() - begun < 0.005
    assert CURSORS.write(None, SCOPE) is None


def test_a_seal_s_signature_is_no_cursor_s_key() -> None:
    seal = Seal([NEW])
    assert seal.subkeys(b"one") != seal.subkeys(b"another")
    assert seal.sign(b"dualsql.cursors/1") != seal.subkeys(b"dualsql.cursors/1")[0]
