"""What the signatures of `dualsql.mcp` name can be imported from a public package."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any, ForwardRef

import pytest

import dualsql
from dualsql import catalogue, identity, mcp, serve

EXPORTS = [(module, name) for module in (mcp, serve) for name in module.__all__]
PUBLIC = {*dualsql.__all__, *mcp.__all__, *catalogue.__all__, *identity.__all__, *serve.__all__}


@cache
def own_names(module: ModuleType) -> set[str]:
    """The names of dualsql that a module's annotations may use: what it defines, or imports from dualsql."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(inspect.getsource(module))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("dualsql"):
            found |= {alias.asname or alias.name for alias in node.names}
        elif isinstance(node, ast.ClassDef):
            found.add(node.name)
    for node in ast.parse(inspect.getsource(module)).body:
        if isinstance(node, ast.Assign):
            found |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    return found


def annotated(exported: Any) -> Iterator[Any]:
    """A function; or a class of dualsql, its bases and their public methods."""
    if not inspect.isclass(exported):
        yield inspect.unwrap(exported)
        return
    for kind in exported.__mro__[:-1]:
        if kind.__module__.startswith("dualsql"):
            yield kind
            for name, member in vars(kind).items():
                if inspect.isfunction(member) and (name == "__init__" or not name.startswith("_")):
                    yield inspect.unwrap(member)


def annotations_of(exported: Any) -> Iterator[tuple[ModuleType, str]]:
    """The annotations in the signatures of what is exported, with the modules that they are written in."""
    for written in annotated(exported):
        for annotation in inspect.get_annotations(written).values():
            if isinstance(annotation, str | ForwardRef):
                # A TypedDict has the annotations of its bases as ForwardRefs, which know their modules.
                home = getattr(annotation, "__forward_module__", None) or written.__module__
                text = annotation if isinstance(annotation, str) else annotation.__forward_arg__
                yield import_module(home), text


def named_in(exported: Any) -> set[str]:
    """The names of dualsql in the signature of what is exported."""
    return {
        node.id
        for module, annotation in annotations_of(exported)
        for node in ast.walk(ast.parse(annotation, mode="eval"))
        if isinstance(node, ast.Name) and node.id in own_names(module)
    }


@pytest.mark.parametrize(("module", "name"), EXPORTS, ids=[name for _, name in EXPORTS])
def test_what_a_signature_names_is_exported(module: ModuleType, name: str) -> None:
    exported = getattr(module, name)
    assert not inspect.ismodule(exported), "a module of this name hides it"
    if inspect.isclass(exported) or inspect.isfunction(exported):
        assert named_in(exported) <= PUBLIC


def test_the_names_are_found() -> None:
    assert named_in(mcp.add_execute_query) == {"ResultServer", "ToolOptions", "Visible"}
    assert {"Envelope", "Count"} <= named_in(mcp.ToolOptions)
    assert "Statement" in named_in(mcp.Answer)
