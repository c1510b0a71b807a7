"""What the REST resources take and answer: `operations` describes them, and `feature` serves the documents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dualsql.packages import modules_by_name, on_first_use

if TYPE_CHECKING:
    from dualsql.openapi.operations import (
        Operation as Operation,
        Parameter as Parameter,
        Parameters as Parameters,
        Schema as Schema,
    )

# Imported on first use: `service` is needed before all else.
_MODULES = modules_by_name({"dualsql.openapi.operations": "Operation Parameter Parameters Schema"})

__all__ = list(_MODULES)


def __getattr__(name: str) -> Any:
    return on_first_use(__name__, _MODULES, name)
