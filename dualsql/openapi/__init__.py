"""What the REST resources take and answer: `operations` describes them, and `feature` serves the documents."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dualsql.openapi.operations import (
        Operation as Operation,
        Parameter as Parameter,
        Parameters as Parameters,
        Schema as Schema,
    )

__all__ = ["Operation", "Parameter", "Parameters", "Schema"]


def __getattr__(name: str) -> Any:
    # Imported on first use: `service` is needed before all else.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("dualsql.openapi.operations"), name)
