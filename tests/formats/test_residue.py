"""An Arrow stream has zeros in the places of NULLs, and not what the memory of this process held before."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from dualsql.formats.arrow import without_residue

FIXED = (
    *(pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint64(), pa.float32(), pa.float64(), pa.bool_()),
    *(pa.date32(), pa.time64("us"), pa.timestamp("us"), pa.timestamp("us", "UTC"), pa.duration("us")),
    *(pa.decimal128(38, 2), pa.decimal256(60, 2), pa.binary(16)),
)
VALID = 0b0101_0101


def with_residue(type_: Any, length: int = 8, start: int = 0) -> Any:
    """An array of which each second value is NULL, with ones in the places of the NULLs."""
    width = type_.bit_width
    if width == 1:
        values = bytes([0xFF])
    else:
        values = b"".join(bytes([0xFF if place % 2 else 1]) + bytes(width // 8 - 1) for place in range(8))
    buffers = [pa.py_buffer(bytes([VALID])), pa.py_buffer(values)]
    return pa.Array.from_buffers(type_, length, buffers, offset=start)


def residue(array: Any) -> list[int]:
    """The bytes, or of booleans the bits, in the places of NULLs."""
    buffer, width = array.buffers()[1].to_pybytes(), array.type.bit_width
    places = [place for place in range(len(array)) if not array[place].is_valid]
    if width == 1:
        return [buffer[(array.offset + place) // 8] >> ((array.offset + place) % 8) & 1 for place in places]
    size = width // 8
    return [byte for place in places for byte in buffer[(array.offset + place) * size :][:size]]


@pytest.mark.parametrize("type_", FIXED, ids=str)
@pytest.mark.parametrize(("start", "length"), [(0, 8), (1, 6), (3, 1)])
def test_nothing_is_left_in_the_places_of_nulls(type_: Any, start: int, length: int) -> None:
    array = with_residue(type_, length, start)
    assert any(residue(array)), "the test can fail"
    cleaned = without_residue(array)
    assert cleaned.equals(array) and cleaned.null_count == array.null_count
    assert not any(residue(cleaned))
    cleaned.validate(full=True)


def test_nor_in_lists() -> None:
    items = with_residue(pa.int64())
    array = pa.ListArray.from_arrays([0, 3, 8], items)
    cleaned = without_residue(array)
    assert cleaned.equals(array) and not any(residue(cleaned.values))
