"""The documents that statements are stored as, and the SQL that they give on the dialects that have it."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

import pytest

from tests.exchanges.recording import Exchanges
from tests.exchanges.subject import document_of
from tests.freeze.dialects import DIALECTS
from tests.freeze.shop import REGISTRY, SHAPES

SHOWN = ("sqlite", "postgresql", "mysql")
PARTS = 4


def sql_of(statement: Any, dialect: str) -> Any:
    """The text and the parameters, or how the dialect refuses it."""
    try:
        compiled = statement.compile(dialect=DIALECTS[dialect])
    except Exception as error:  # noqa: BLE001 - each dialect says in its own way what it lacks
        return {"refused": type(error).__name__}
    return {
        "sql": str(compiled),
        "parameters": {name: repr(value) for name, value in compiled.params.items()},
    }


def stored(statement: Any) -> tuple[str, Any] | None:
    """Its document by the first dialect that compiles it."""
    for dialect in DIALECTS.values():
        try:
            return document_of(statement, REGISTRY, dialect)
        except Exception:  # noqa: BLE001 - of another dialect
            continue
    return None


@pytest.mark.parametrize("part", range(PARTS))
def test_documents(part: int, exchanges: Exchanges) -> None:
    for name in sorted(SHAPES)[part::PARTS]:
        actual = stored(SHAPES[name])
        if actual is None:
            exchanges.add(name, "no dialect has it")
            continue
        document, thawed = actual
        answer: dict[str, Any] = {
            "document": {
                "length": len(document),
                "sha256": sha256(document.encode()).hexdigest(),
                "head": document[:160],
            }
        }
        texts = {dialect: sql_of(thawed, dialect) for dialect in SHOWN}
        # What dialects write alike is told once.
        answer |= {
            dialect: "as sqlite" if dialect != "sqlite" and text == texts["sqlite"] else text
            for dialect, text in texts.items()
        }
        exchanges.add(name, answer)
