"""Packages that come with an extra; the rule: whoever lacks one is told which."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from dualsql_client.errors import MissingExtraError


def needed(module: str, extra: str) -> Any:
    """The module, which `dualsql-client[extra]` brings.

    Raises:
        MissingExtraError: it is not installed.
    """
    try:
        return import_module(module)
    except ImportError as error:
        raise MissingExtraError(
            f"This needs {module.partition('.')[0]}, which is not installed.",
            hint=f'pip install "dualsql-client[{extra}]"',
            details={"extra": extra},
        ) from error
