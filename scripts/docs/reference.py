"""The reference: what both packages export, from signatures and docstrings (read by griffe), as Markdown."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import griffe

import dualsql
from dualsql.settings import Settings

ROOT = Path(__file__).parents[2]
LONGEST_LINE = 88
SETTINGS = set(inspect.signature(Settings).parameters)
QUOTED = re.compile(r"(?<=: )'([^']*)'")
"""The annotation of a parameter, which is a text to inspect."""
GENERATED = {"SyncDualResponseClient", "SyncParsedDualResponse"}
"""Their methods are those of the class without Sync in its name."""


@dataclass(frozen=True, slots=True)
class Part:
    """One page of the reference: names of `dualsql` that come from these rooms, then all names of these packages."""

    file: str
    title: str
    rooms: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()


PARTS = (
    Part("server", "The server", ("server", "settings")),
    Part("tools", "Tools", (), ("dualsql.mcp",)),
    Part("results", "Results", ("results", "resource", "response")),
    Part("rules", "Callers and rules", ("identity", "tenancy"), ("dualsql.identity",)),
    Part(
        "statements", "Statements and queries",
        ("freeze", "catalogue", "saved_queries", "query", "databases", "mcp"), ("dualsql.freeze", "dualsql.sql"),
    ),
    Part("stores", "Stores", ("store",), ("dualsql.store",)),
    Part("formats", "Formats", ("formats",)),
    Part("serving", "Serving without code", (), ("dualsql.serve",)),
    Part("envelopes", "Envelopes", (), ("dualsql.envelope",)),
    Part("testing", "Testing", (), ("dualsql.testing",)),
    Part("exceptions", "Exceptions", ("errors",)),
    Part("json", "JSON", ("wire",)),
    Part("client", "The client", (), ("dualsql_client",)),
)  # fmt: skip


def pages() -> dict[str, tuple[str, str]]:
    """The title and the Markdown of each page, by its file's name without ending."""
    loaded = griffe.GriffeLoader(search_paths=[str(ROOT), str(ROOT / "client")], docstring_parser="google")
    trees = {name: loaded.load(name) for name in ("dualsql", "dualsql_client")}
    loaded.resolve_aliases(implicit=True)
    written: set[str] = set()
    found = {}
    for part in PARTS:
        names = [pair for pair in _names_of(part) if pair[1] not in written]
        if names:
            written |= {name for _, name in names}
            names.sort(key=lambda pair: _rank(getattr(import_module(pair[0]), pair[1])))
            texts = [_described(trees[module.partition(".")[0]], module, name) for module, name in names]
            found[part.file] = (part.title, f"# {part.title}\n\n" + "\n".join(texts))
    return found


def _rank(value: Any) -> int:
    """Classes first, then functions, then what only annotates."""
    return 0 if inspect.isclass(value) else 1 if callable(value) else 2


def _names_of(part: Part) -> Iterator[tuple[str, str]]:
    """The module that a name is imported from, and the name."""
    for name, module in sorted(dualsql._MODULES.items()):  # noqa: SLF001  # where each is defined
        if module.split(".")[1] in part.rooms:
            yield "dualsql", name
    for package in part.packages:
        if find_spec(package):
            for name in import_module(package).__all__:
                yield package, name


def _described(tree: griffe.Object | griffe.Alias, module: str, name: str) -> str:
    value = getattr(import_module(module), name)
    found = _found(tree, module, name)
    intro = f"## {name}\n\n```python\nfrom {module} import {name}\n```\n\n"
    if found is None:  # of another package
        return f"{intro}`{value.__module__}.{name}`, for annotations.\n"
    if found.is_class:
        return intro + _of_class(found, name, value)
    if found.is_function:
        return intro + _signature(name, value, _word(found)) + _text(found)
    return intro + _of_value(found, name) + _text(found)


def _found(tree: griffe.Object | griffe.Alias, module: str, name: str) -> griffe.Object | None:
    path = [*module.split(".")[1:], name]
    try:
        found = tree[".".join(path)] if len(path) > 1 else tree[name]
        return found.final_target if found.is_alias else found
    except (griffe.AliasResolutionError, KeyError):
        return None


def _of_class(found: griffe.Object, name: str, value: Any) -> str:
    bases = ", ".join(str(base) for base in found.bases if str(base) != "Generic[T]")
    shown = _signature(name, value) if _is_called(value) else f"```python\nclass {name}({bases})\n```\n\n"
    if issubclass(value, Exception):
        shown += f"An exception of `{bases}`.\n\n"
    text = shown + _text(found)
    if name in GENERATED:
        return f"{text}\nThe methods are those of `{name.removeprefix('Sync')}`, without `await`.\n"
    members = [
        member for key, member in found.members.items() if not key.startswith("_") and not member.is_alias
    ]
    attributes = [member for member in members if member.is_attribute and member.docstring]
    methods = [member for member in members if member.is_function and member.docstring]
    if attributes:
        text += "\n**Attributes**\n\n" + "".join(map(_attribute, attributes))
    for method in methods:
        text += (
            f"\n### {method.name} {{#{name}.{method.name}}}\n\n"
            + _signature(method.name, getattr(value, method.name), _word(method))
            + _text(method)
        )
    return text


def _word(function: griffe.Object) -> str:
    return "async def " if "async" in function.labels else "def "


def _is_called(value: type) -> bool:
    """Whether a reader makes one: no exception, protocol or TypedDict."""
    return not (issubclass(value, Exception | dict) or getattr(value, "_is_protocol", False))


def _attribute(member: griffe.Object) -> str:
    annotation = f": `{member.annotation}`" if member.annotation else ""
    return f"- `{member.name}`{annotation} {_prose(member.docstring.value)}\n"


def _of_value(found: griffe.Object, name: str) -> str:
    value = str(found.value or "")
    return f"```python\n{name} = {value}\n```\n\n" if value else ""


def _signature(name: str, value: Any, word: str = "def ") -> str:
    """As Python, one parameter on a line where all do not fit on one."""
    try:
        signature = inspect.signature(value)
    except ValueError:
        return ""
    given = [parameter for key, parameter in signature.parameters.items() if key != "self"]
    parameters = [
        QUOTED.sub(r"\1", str(parameter))
        for parameter in given
        if name == "Settings" or parameter.name not in SETTINGS
    ]
    if len(parameters) < len(given):
        parameters.append("**each_setting")
    if any(each.kind is each.KEYWORD_ONLY for each in given):
        first = next(number for number, each in enumerate(given) if each.kind is each.KEYWORD_ONLY)
        if not any(each.kind is each.VAR_POSITIONAL for each in given):
            parameters.insert(first, "*")
    returned = signature.return_annotation
    end = "" if returned is signature.empty or inspect.isclass(value) else f" -> {_name(returned)}"
    word = "class " if inspect.isclass(value) else word
    line = f"{word}{name}({', '.join(parameters)}){end}"
    if len(line) > LONGEST_LINE:
        line = f"{word}{name}(\n" + "".join(f"    {each},\n" for each in parameters) + f"){end}"
    return f"```python\n{line}\n```\n\n"


def _name(annotation: Any) -> str:
    return annotation if isinstance(annotation, str) else getattr(annotation, "__name__", str(annotation))


def _text(found: griffe.Object) -> str:
    """The sections of a docstring."""
    if not found.docstring:
        return ""
    text = ""
    for section in found.docstring.parse("google", warnings=False):
        if section.kind is griffe.DocstringSectionKind.text:
            text += _prose(section.value) + "\n"
        elif section.kind in TITLES:
            text += f"\n**{TITLES[section.kind]}**\n\n"
            for item in section.value:
                label = getattr(item, "name", None) or _name(item.annotation)
                text += f"- `{label}`: {_indented(_prose(item.description))}\n"
    return text


KINDS = griffe.DocstringSectionKind
TITLES = {
    KINDS.parameters: "Parameters",
    KINDS.other_parameters: "Further parameters",
    KINDS.attributes: "Attributes",
    KINDS.raises: "Raises",
    KINDS.returns: "Returns",
    KINDS.yields: "Yields",
}


def _indented(text: str) -> str:
    return text.replace("\n", "\n  ")


def _prose(text: str) -> str:
    """A docstring's text as Markdown: pages are links, and what looks like HTML is text."""
    pieces = re.split(r"(`[^`]*`)", text)
    pieces[::2] = [piece.replace("<", "&lt;") for piece in pieces[::2]]
    return re.sub(r"(?<![\w/(\[`])docs/([\w/-]+)\.md", r"[docs/\1.md](/docs/\1.md)", "".join(pieces))
