"""What a person or a model reads of plain data; the rule: made of the data by us, never taken from it as markup."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, get_args

from typing_extensions import TypedDict

from dualsql.envelope.styles import HTML, Markdown, Text
from dualsql.envelope.values import BOUNDS, Bounds, plain
from dualsql.envelope.writing import written
from dualsql.errors import BadParameterError

DisplayType = Literal["text", "markdown", "html"]

TEXT_BUDGET = 8_000
"""Characters of a text or a display; the strictest host known cuts beyond 10 KB (github/copilot-cli#1732)."""

_DONE = "Done."
_EMPTY = "No entries."


class Display(TypedDict):
    """The human half of an answer (seeds/001)."""

    type: DisplayType
    content: str


_STYLES: Mapping[DisplayType, Text] = {"text": Text(), "markdown": Markdown(), "html": HTML()}
DISPLAY_TYPES: tuple[DisplayType, ...] = get_args(DisplayType)


def readable(data: Any, *, budget: int = TEXT_BUDGET, bounds: Bounds = BOUNDS) -> str:
    """Any value as text for a model: names and values, lists, tables; what is left out is said.

    Raises:
        LimitExceededError, BadParameterError: as `plain` does.
    """
    return display(data, budget=budget, bounds=bounds)["content"]


def display(
    data: Any,
    form: DisplayType = "text",
    *,
    budget: int = TEXT_BUDGET,
    bounds: Bounds = BOUNDS,
) -> Display:
    """Any value for a person's screen, escaped so that no value of it becomes markup.

    Raises:
        LimitExceededError, BadParameterError: as `plain` does; or there is no such form.
    """
    if form not in DISPLAY_TYPES:
        raise BadParameterError(
            "There is no display of that type.", hint=f"One of {', '.join(DISPLAY_TYPES)}."
        )
    made = plain(data, bounds)
    if made is None or made == "":
        made = _DONE
    elif made in ({}, []):
        made = _EMPTY
    return Display(type=form, content=written(made, _STYLES[form], budget))
