"""Imports on first use, and of packages that features need, with the error for one that is not installed."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from dualsql.errors import PackageMissingError


def modules_by_name(names: Mapping[str, str]) -> dict[str, str]:
    """The module of each name, from the names of each module with spaces between them."""
    return dict(sorted((name, module) for module, words in names.items() for name in words.split()))


def on_first_use(package: str, modules: Mapping[str, str], name: str) -> Any:
    """The attribute of a package, for its `__getattr__`: imported from the module that has it.

    Raises:
        AttributeError: no module has the name.
    """
    if name not in modules:
        raise AttributeError(f"module {package!r} has no attribute {name!r}")
    return getattr(import_module(modules[name]), name)


@contextmanager
def importing() -> Iterator[None]:
    """Disable garbage collection during the imports of the block, and exclude the imported objects from it.

    Imports create hundreds of thousands of objects and no garbage. Collection took a fifth of a server's start.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


@contextmanager
def extra(name: str) -> Iterator[None]:
    """Imports in the block need the extra `name` of dualsql; if one is missing, the error names the extra.

    Raises:
        ModuleNotFoundError: of the same class, so that an importer can still treat the module as optional.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] == "dualsql":
            raise
        raise ModuleNotFoundError(
            f'{error.name} is not installed. pip install "dualsql[{name}]"', name=error.name
        ) from error


def require_package(package: str, message: str, *, hint: str) -> None:
    """Check that `package` is installed, without importing it: imports are what a server's start takes longest for.

    Raises:
        PackageMissingError: it is not installed; with this message and hint.
    """
    if find_spec(package) is None:
        raise PackageMissingError(message, hint=hint)
