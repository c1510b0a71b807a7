"""What docs/envelope.md prints is what runs: each JSON block is the `answer` of the code above it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import dualsql.envelope

DOCUMENT = (Path(__file__).parents[2] / "docs" / "envelope.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```(python|json)\n(.*?)```", DOCUMENT, re.DOTALL)


def undated(value: Any) -> Any:
    """As printed: without the moment."""
    if isinstance(value, dict):
        return {name: "..." if name == "timestamp" else undated(each) for name, each in value.items()}
    return [undated(each) for each in value] if isinstance(value, list | tuple) else value


def test_each_example_gives_what_is_printed_below_it() -> None:
    names: dict[str, Any] = {"__name__": "docs"}
    for language, block in BLOCKS:
        if language == "python":
            exec(block, names)
        else:
            assert undated(names["answer"]) == json.loads(block)
    assert sum(language == "json" for language, _ in BLOCKS) >= 7


def test_every_public_name_is_sealed() -> None:
    public = {name for name in vars(dualsql.envelope) if not name.startswith("_")}
    modules = {path.stem for path in Path(dualsql.envelope.__file__).parent.glob("*.py")}
    assert public - modules <= set(dualsql.envelope.__all__)
    assert set(dualsql.envelope.__all__) <= public
