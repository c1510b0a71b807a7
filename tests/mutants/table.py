"""Mutants: each changes one check of access, a signature, a rule, a limit or a total; a test has to fail.

`mutants.toml` lists them, and `scripts/mutants` runs them.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import NamedTuple


class Mutant(NamedTuple):
    """One change of one place in the code.

    Attributes:
        name: what the changed code does.
        file: from the root of the checkout.
        text, changed: what stands there once, and what stands there instead.
        tests: node ids or files below tests/, of which one test fails.
    """

    name: str
    file: str
    text: str
    changed: str
    tests: tuple[str, ...]


_PLACES = tomllib.loads(Path(__file__).with_name("mutants.toml").read_text())["place"]

MUTANTS = tuple(
    Mutant(
        one["name"],
        place["file"],
        one["text"],
        one["changed"],
        tuple(one.get("tests", place["tests"])),
    )
    for place in _PLACES
    for one in place["mutant"]
)
