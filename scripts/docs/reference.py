"""The reference: what both packages export, from signatures and docstrings (read by griffe), as Markdown."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import griffe
from typing_extensions import is_typeddict

import dualsql
import dualsql_client
from dualsql.http.problems import KINDS as KINDS_OF_PROBLEMS
from dualsql.settings import Settings

ROOT = Path(__file__).parents[2]
LONGEST_LINE = 88
SETTINGS = set(inspect.signature(Settings).parameters)
GENERATED = {"SyncDualResponseClient", "SyncParsedDualResponse"}
"""Their methods are those of the class without Sync in its name."""


@dataclass(frozen=True, slots=True)
class Part:
    """One page of the reference: names of `dualsql` that come from these rooms, then all names of these packages."""

    file: str
    title: str
    rooms: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    first: tuple[str, ...] = ()
    """What a reader looks for. Then come other classes, functions, what only annotates, and exceptions."""


PARTS = (
    Part(
        "server",
        "The server",
        (
            *(
                "features",
                "feature_list",
                "server",
                "settings",
                "feature",
                "extension",
                "http",
                "charts",
                "dual_mode",
                "health",
            ),
            *("events", "openapi", "profiles", "sql", "telemetry", "web"),
            *("changes", "links", "pending", "rates", "request_log", "samples"),
        ),
        first=("DualResponseServer", "Settings", "Feature"),
    ),
    Part("tools", "Tools", (), ("dualsql.mcp",), ("tool", "Answer")),
    Part(
        "results",
        "Results",
        ("results", "resource", "response"),
        first=("DualResponse", "Principal", "ResultPage"),
    ),
    Part(
        "rules",
        "Callers and rules",
        ("identity", "tenancy"),
        ("dualsql.identity",),
        ("TenantFilter", "RowFilter", "Mask"),
    ),
    Part(
        "statements",
        "Statements and queries",
        ("freeze", "catalogue", "saved_queries", "query", "databases", "mcp"),
        ("dualsql.freeze", "dualsql.sql"),
        ("SavedQuery", "Registry", "freeze", "thaw", "read_select"),
    ),
    Part(
        "stores",
        "Stores",
        ("store", "kept"),
        ("dualsql.store",),
        ("SQLResourceStore", "MemoryStore", "ResourceStore", "LocalResultStorage", "ResultStorage"),
    ),
    Part("formats", "Formats", ("formats",)),
    Part(
        "serving", "Serving without code", (), ("dualsql.serve",), ("serve_app", "build_server", "build_mcp")
    ),
    Part("envelopes", "Envelopes", (), ("dualsql.envelope",)),
    Part("testing", "Testing", (), ("dualsql.testing",)),
    Part("exceptions", "Exceptions", ("errors",), first=("DualResponseError",)),
    Part("json", "JSON", ("wire", "wire_requests")),
    Part(
        "client",
        "The client",
        (),
        ("dualsql_client",),
        ("DualResponseClient", "ParsedDualResponse", "SyncDualResponseClient"),
    ),
)


def pages() -> dict[str, tuple[str, str]]:
    """The title and the Markdown of each page, by its file's name without ending."""
    loader = griffe.GriffeLoader(search_paths=[str(ROOT), str(ROOT / "client")], docstring_parser="google")
    trees = {name: loader.load(name) for name in ("dualsql", "dualsql_client")}
    loader.resolve_aliases(implicit=True)
    described_names: set[str] = set()
    contents = {}
    for part in PARTS:
        modules = {
            name: module for module, name in reversed([*_names_of(part)]) if name not in described_names
        }
        names = [(module, name) for name, module in modules.items()]
        if names:
            described_names |= {name for _, name in names}
            names.sort(key=lambda pair: _rank(part, *pair))
            texts = [_describe(trees[module.partition(".")[0]], module, name) for module, name in names]
            contents[part.file] = (part.title, f"# {part.title}\n\n" + "\n".join(texts))
    return contents


def _rank(part: Part, module: str, name: str) -> int:
    """Where a name stands on its page; see `Part.first`."""
    if name in part.first:
        return part.first.index(name)
    value = getattr(import_module(module), name)
    if inspect.isclass(value):
        return 13 if issubclass(value, Exception) else 10
    return 11 if callable(value) else 12


def _names_of(part: Part) -> Iterator[tuple[str, str]]:
    """The module that a name is imported from, and the name."""
    for name, module in sorted(dualsql._MODULES.items()):  # noqa: SLF001  # where each is defined
        if module.split(".")[1] in part.rooms:
            yield "dualsql", name
    for package in part.packages:
        if find_spec(package):
            for name in import_module(package).__all__:
                yield package, name


def _describe(tree: griffe.Object | griffe.Alias, module: str, name: str) -> str:
    value = getattr(import_module(module), name)
    entity = _find(tree, module, name)
    intro = f"## {name}\n\n```python\nfrom {module} import {name}\n```\n\n"
    if entity is None:  # of another package
        return f"{intro}`{value.__module__}.{name}`, for annotations.\n"
    if entity.is_class:
        return intro + _of_class(entity, name, value)
    if entity.is_function:
        return intro + _signature(name, value, _word(entity)) + _text(entity)
    return intro + _of_value(entity, name) + _text(entity)


def _find(tree: griffe.Object | griffe.Alias, module: str, name: str) -> griffe.Object | None:
    path = [*module.split(".")[1:], name]
    try:
        entity = tree[".".join(path)] if len(path) > 1 else tree[name]
        return entity.final_target if entity.is_alias else entity
    except (griffe.AliasResolutionError, KeyError):
        return None


def _of_class(entity: griffe.Object, name: str, value: Any) -> str:
    first = _signature(name, value) if _is_called(value) else _class_line(entity, name, value)
    text = first + _text(entity) + _codes(value)
    if is_typeddict(value):
        lists = [_text(base).partition("\n**Attributes**\n\n")[2] for base in _hidden_bases(entity)]
        return (
            text + ("" if "**Attributes**" in text else "\n**Attributes**\n\n") * any(lists) + "".join(lists)
        )
    if name in GENERATED:
        return f"{text}\nThe methods are those of `{name.removeprefix('Sync')}`, without `await`.\n"
    members = [member for member in [*entity.members.values(), *_inherited(entity)] if _is_shown(member)]
    attributes = [member for member in members if member.is_attribute]
    if attributes:
        title = "Properties" if "**Attributes**" in text else "Attributes"
        text += f"\n**{title}**\n\n" + "".join(map(_attribute, attributes))
    for method in members:
        if method.is_function:
            heading = f"\n### {method.name} {{#{name}.{method.name}}}\n\n"
            text += (
                heading + _signature(method.name, getattr(value, method.name), _word(method)) + _text(method)
            )
    return text


def _codes(value: type) -> str:
    """What a caller of REST sees of an exception of the server."""
    code = getattr(value, "code", "")
    if not issubclass(value, dualsql.DualResponseError) or code not in KINDS_OF_PROBLEMS:
        return ""
    return f"\nIts code is `{code}`; REST answers {KINDS_OF_PROBLEMS[code].status} ([Errors](/docs/errors.md)).\n"


def _hidden_bases(entity: griffe.Object) -> list[griffe.Object]:
    """The bases of a class that are no public names, and so are described nowhere else."""
    public = {*dualsql.__all__, *dualsql_client.__all__}
    bases = [base for base in entity.mro() if base.path.startswith("dualsql")]
    return [base for base in bases if base.name not in public]


def _inherited(entity: griffe.Object) -> Iterator[griffe.Object]:
    for base in _hidden_bases(entity):
        yield from (member for key, member in base.members.items() if key not in entity.members)


def _is_shown(member: griffe.Object | griffe.Alias) -> bool:
    """Whether it is public and says what it is; of what a protocol takes, its call."""
    is_public = not member.name.startswith("_") or (member.name == "__call__" and not member.is_alias)
    return is_public and not member.is_alias and bool(member.docstring)


def _class_line(entity: griffe.Object, name: str, value: Any) -> str:
    """A class that nobody calls; of a TypedDict with its keys."""
    bases = "TypedDict" if is_typeddict(value) else ", ".join(str(base) for base in entity.bases)
    holders = [entity, *_hidden_bases(entity)] if is_typeddict(value) else []
    keys = [member for holder in holders for member in holder.members.values() if member.is_attribute]
    body = "".join(f"    {key.name}: {key.annotation}{_beside(key)}\n" for key in keys)
    return f"```python\nclass {name}({bases}){':' if body else ''}\n{body}```\n\n"


def _beside(key: griffe.Object) -> str:
    return f"  # {' '.join(key.docstring.value.split())}" if key.docstring else ""


def _word(function: griffe.Object) -> str:
    return "async def " if "async" in function.labels else "def "


def _is_called(value: type) -> bool:
    """Whether a reader makes one: no exception, protocol or TypedDict."""
    return not (issubclass(value, Exception | dict) or getattr(value, "_is_protocol", False))


def _attribute(member: griffe.Object) -> str:
    annotation = f": `{member.annotation}`" if member.annotation else ""
    return f"- `{member.name}`{annotation} {_prose(member.docstring.value)}\n"


def _of_value(entity: griffe.Object, name: str) -> str:
    value = str(entity.value or "")
    return f"```python\n{name} = {value}\n```\n\n" if value else ""


def _signature(name: str, value: Any, word: str = "def ") -> str:
    """As Python, one parameter on a line where all do not fit on one."""
    try:
        signature = inspect.signature(value)
    except ValueError:
        return ""
    shown_parameters = [
        each for key, each in signature.parameters.items() if key != "self" and not key.startswith("_")
    ]
    settings = SETTINGS if name in {"DualResponseServer", "ServerOptions"} else set()
    parameters = [_parameter(each) for each in shown_parameters if each.name not in settings]
    if len(parameters) < len(shown_parameters):
        parameters.append("**each_setting")
    keywords = [number for number, each in enumerate(shown_parameters) if each.kind is each.KEYWORD_ONLY]
    if keywords and not any(each.kind is each.VAR_POSITIONAL for each in shown_parameters):
        parameters.insert(keywords[0], "*")
    return_type = signature.return_annotation
    end = "" if return_type is signature.empty or inspect.isclass(value) else f" -> {_name(return_type)}"
    word = "class " if inspect.isclass(value) else word
    line = f"{word}{name}({', '.join(parameters)}){end}"
    if len(line) > LONGEST_LINE:
        line = f"{word}{name}(\n" + "".join(f"    {each},\n" for each in parameters) + f"){end}"
    return f"```python\n{line}\n```\n\n"


def _parameter(parameter: inspect.Parameter) -> str:
    """As it is written: an annotation is a text to inspect, a factory has no value to show."""
    text = re.sub(r"""(?<=: )(['"])(.*?)\1(?= = |$)""", r"\2", str(parameter))
    text = re.sub(r"ForwardRef\('([^']*)'\)", r"\1", text)
    text = re.sub(r"<function (\w+) at 0x\w+>", r"\1", text)
    text = re.sub(r"<[\w.]+ object at 0x\w+>", "...", text)
    return text.replace("<factory>", "...").replace("datetime.timedelta", "timedelta")


def _name(annotation: Any) -> str:
    return annotation if isinstance(annotation, str) else getattr(annotation, "__name__", str(annotation))


def _text(entity: griffe.Object) -> str:
    """The sections of a docstring."""
    if not entity.docstring:
        return ""
    text = ""
    for section in entity.docstring.parse("google", warnings=False):
        if section.kind is KINDS.text:
            text += f"\n{_prose(section.value)}\n"
        elif section.kind in TITLES:
            text += f"\n**{TITLES[section.kind]}**\n\n"
            for item in section.value:
                indented = _prose(item.description).replace("\n", "\n  ")
                text += f"- {_label(item)}: {indented}\n"
    return text


def _label(item: Any) -> str:
    """What a line of a section is about: one name, or several that it lists."""
    name = getattr(item, "name", None)
    label = f"{name} {item.annotation}" if name and name.endswith(",") else name or _name(item.annotation)
    return ", ".join(f"`{each}`" for each in re.split(r",\s*", re.sub("[()]", "", label)))


KINDS = griffe.DocstringSectionKind
TITLES = {
    KINDS.parameters: "Parameters",
    KINDS.other_parameters: "Further parameters",
    KINDS.attributes: "Attributes",
    KINDS.raises: "Raises",
    KINDS.returns: "Returns",
    KINDS.yields: "Yields",
}


def _prose(text: str) -> str:
    """A docstring's text as Markdown: code is code, pages are links, and what looks like HTML is text."""
    paragraphs = [
        f"```python\n{paragraph}\n```" if _is_code(paragraph) else _sentences(paragraph)
        for paragraph in text.split("\n\n")
    ]
    return "\n\n".join(paragraphs)


def _is_code(paragraph: str) -> bool:
    """Whether it is a program: no sentence is one, but for a single word."""
    try:
        body = ast.parse(paragraph).body
    except SyntaxError:
        return False
    return not all(
        isinstance(each, ast.Expr) and isinstance(each.value, ast.Name | ast.Constant) for each in body
    )


def _sentences(text: str) -> str:
    pieces = re.split(r"(`[^`]*`)", text)
    pieces[::2] = [piece.replace("<", "&lt;") for piece in pieces[::2]]
    return re.sub(r"(?<![\w/(\[`])docs/([\w/-]+)\.md", r"[docs/\1.md](/docs/\1.md)", "".join(pieces))
