"""Make rows without the collector of cycles; the rule: for the length of one batch, and on again whatever happens.

Python looks through new objects every few hundred of them, for cycles that nobody refers to. A batch is tens of
thousands of objects without any: looking through them takes up to two fifths of the time of a stream.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_collector() -> Iterator[None]:
    """No collection in the block, in any thread; an application that has switched it off finds it off."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
