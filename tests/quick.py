"""Which of many cases the quick run takes. The others are `long`, so that none is left out of every run."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from _pytest.mark import ParameterSet


def one_in(step: int, cases: Iterable[Any], *, start: int = 0) -> list[ParameterSet]:
    """The cases as parameters; all but each `step`-th, counted from `start`, are long."""
    return [case_of(case, is_long=number % step != start) for number, case in enumerate(cases)]


def case_of(case: Any, *, is_long: bool) -> ParameterSet:
    """One case as a parameter; a tuple is several values."""
    values = case if isinstance(case, tuple) else (case,)
    return pytest.param(*values, marks=[pytest.mark.long] if is_long else [])
