"""Write the synchronous client from the asynchronous one: python scripts/make_sync_client.py [--check]

Every public method gets the same signature and docstring, and a body that hands the call to a portal. The tests fail
when what is written is not what this would write.
"""

from __future__ import annotations

import ast
import dataclasses
import importlib
import inspect
import re
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FunctionType
from typing import Any, TypeGuard, get_overloads

from dualsql_client.client import DualResponseClient
from dualsql_client.parsed import ParsedDualResponse

PACKAGE = Path(__file__).parents[1] / "client" / "dualsql_client"

# What is not public and belongs to the surface all the same.
SPECIAL = {"__init__", "__aenter__", "__aexit__", "__rich__", "_repr_html_"}
RENAMED = {"aclose": "close", "__aenter__": "__enter__", "__aexit__": "__exit__"}
WORDS = {"DualResponseClient": "SyncDualResponseClient", "ParsedDualResponse": "SyncParsedDualResponse"}

HEAD = '''"""{purpose}. Written by scripts/make_sync_client.py."""

from __future__ import annotations

'''


def main() -> None:
    stale = [name for name, text in modules().items() if not is_written(name, text)]
    if "--check" in sys.argv and stale:
        raise SystemExit(f"Not up to date: {', '.join(stale)}. Run: python scripts/make_sync_client.py")
    for name in stale:
        (PACKAGE / name).write_text(modules()[name], encoding="utf-8")


def is_written(name: str, text: str) -> bool:
    """Whether the file holds just that."""
    file = PACKAGE / name
    return file.exists() and file.read_text(encoding="utf-8") == text


def modules() -> dict[str, str]:
    """The text of each module by the name of its file."""
    return {
        "sync_client.py": module(
            DualResponseClient,
            "Tool results in, dual responses out, for code that waits",
            "from dualsql_client.portal import Portal\n"
            "from dualsql_client.portal import each_of, step_through\n"
            "from dualsql_client.client import DualResponseClient, _RETRY\n"
            "from dualsql_client.sync_parsed import SyncParsedDualResponse\n",
        ),
        "sync_parsed.py": module(
            ParsedDualResponse,
            "A dual response in the hands of code that waits",
            "from dualsql_client.portal import Portal\n"
            "from contextlib import AbstractContextManager\n"
            "from dualsql_client.parsed import ParsedDualResponse\n",
        ),
    }


def module(kind: type, purpose: str, more_imports: str) -> str:
    """One module with the synchronous form of `kind`, as ruff has it."""
    body = client_class(kind) if kind is DualResponseClient else parsed_class(kind)
    text = f"{HEAD.format(purpose=purpose)}{imports_of(kind, more_imports)}\n\n{body}"
    fix = ["check", "--quiet", "--fix-only", "--select"]
    for command in ([*fix, "F401,F811"], [*fix, "I"], ["format", "--quiet"]):
        text = subprocess.run(
            [sys.executable, "-m", "ruff", *command, "--stdin-filename", str(PACKAGE / "sync.py"), "-"],
            input=text, capture_output=True, text=True, check=True, cwd=PACKAGE.parent,
        ).stdout  # fmt: skip
    return text


def client_class(kind: type) -> str:
    """The client: it opens the portal that its responses use."""
    lines = [f"class Sync{kind.__name__}:", docstring(kind, PORTAL_OF_CLIENT)]
    for function in functions(kind):
        lines += [*overloads(function), method(function, "self._client")]
    return "\n\n".join(lines)


PORTAL_OF_CLIENT = """

    Everything waits, in scripts and in notebooks. The requests are sent from a thread, which ends with `close`.
    """


def parsed_class(kind: type) -> str:
    """A response: what it knows is asked of the asynchronous one, which it has beside it."""
    lines = [f"class Sync{kind.__name__}:", docstring(kind), INIT_OF_PARSED, REPR_OF_PARSED]
    lines += [
        f"    @property\n    def {field.name}(self) -> {field.type}:\n        return self._parsed.{field.name}"
        for field in dataclasses.fields(kind)
        if not field.name.startswith("_")
    ]
    for function in functions(kind):
        lines += [*overloads(function), method(function, "self._parsed")]
    return "\n\n".join(lines)


INIT_OF_PARSED = """    def __init__(self, portal: Portal, parsed: ParsedDualResponse) -> None:
        self._portal = portal
        self._parsed = parsed"""

REPR_OF_PARSED = '''    def __repr__(self) -> str:
        return f"Sync{self._parsed!r}"'''


def docstring(kind: type, more: str = "") -> str:
    """The class's own, and what is to be added."""
    text = inspect.getdoc(kind) or ""
    first, _, rest = text.partition("\n")
    indented = textwrap.indent(rest.rstrip(), "    ")
    return f'    """{first}{more.rstrip()}{indented and chr(10)}{indented}\n    """'


def functions(kind: type) -> Iterator[FunctionType]:
    """Its public methods, those of its bases too, in the order in which they are written."""
    methods: dict[str, FunctionType] = {}
    for base in reversed(kind.__mro__[:-1]):
        for name, value in vars(base).items():
            is_public = name in SPECIAL or not name.startswith("_")
            if is_public and isinstance(value, FunctionType) and not is_made(kind, name):
                methods[name] = value
    yield from methods.values()


def is_made(kind: type, name: str) -> bool:
    """Whether nobody wrote it: a dataclass's constructor."""
    return name == "__init__" and dataclasses.is_dataclass(kind)


def overloads(function: Callable[..., Any]) -> list[str]:
    """Its overloads, as they are written."""
    return [f"    @overload\n{signature(parse(each))}: ..." for each in get_overloads(function)]


def synchronous_text(text: str | None) -> str:
    """A docstring in the words of code that waits."""
    return re.sub(r"`(async (?=with|for)|await )", "`", text or "")


def method(function: Callable[..., Any], target: str) -> str:
    """The synchronous form of one method."""
    node = parse(function)
    text = synchronous_text(ast.get_docstring(node, clean=False))
    doc = f'        """{text}"""\n' if text else ""
    return f"{signature(node)}:\n{doc}{body(node, function, target)}"


def body(node: ast.FunctionDef | ast.AsyncFunctionDef, function: Callable[..., Any], target: str) -> str:
    """The lines that hand the call on, and make what comes back synchronous."""
    match node.name:
        case "__init__":
            line = f"        self._client = DualResponseClient({arguments(node)})"
            return f"{line}\n        self._portal = Portal(self._client.aclose)"
        case "__aenter__":
            return "        return self"
        case "__aexit__":
            return "        self.close()"
        case "aclose":
            return "        self._portal.close()"
    function_text, arguments_text = f"{target}.{node.name}", arguments(node)
    if streams := [each.arg for each in node.args.args if takes_stream(each)]:
        arguments_text = re.sub(rf"\b({'|'.join(streams)})\b", r"each_of(\1)", arguments_text)
        call = f"step_through({function_text}({arguments_text}))"
    elif inspect.isasyncgenfunction(inspect.unwrap(function)):
        call = f"self._portal.each({function_text}, {arguments_text})"
    elif inspect.iscoroutinefunction(inspect.unwrap(function)):
        call = f"self._portal.call({function_text}, {arguments_text})"
    elif (ast.unparse(node.returns) if node.returns else "").startswith("AbstractAsyncContextManager"):
        call = f"self._portal.within({function_text}({arguments_text}))"
    else:
        call = f"{function_text}({arguments_text})"
    return return_lines(call.replace(", )", ")"), ast.unparse(node.returns) if node.returns else "")


def takes_stream(argument: ast.arg) -> bool:
    """Whether it is iterated with `async for`; what takes its place is iterated where it is, not in the portal."""
    return argument.annotation is not None and ast.unparse(argument.annotation).startswith("AsyncIterable[")


def return_lines(call: str, annotation: str) -> str:
    """The lines that return it: a response, or several, in their synchronous form."""
    wrapped = "SyncParsedDualResponse(self._portal, {})"
    match annotation.replace(" ", ""):
        case "ParsedDualResponse":
            return f"        return {wrapped.format(call)}"
        case "ParsedDualResponse|None":
            one = wrapped.format("parsed")
            return f"        parsed = {call}\n        return None if parsed is None else {one}"
        case "list[ParsedDualResponse]":
            return f"        return [{wrapped.format('parsed')} for parsed in {call}]"
        case "AsyncGenerator[ParsedDualResponse,None]":
            return f"        for parsed in {call}:\n            yield {wrapped.format('parsed')}"
    if "ParsedDualResponse" in annotation:
        raise NotImplementedError(f"Say here how {annotation} is made synchronous.")
    return f"        return {call}"


def signature(node: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    """Its first line, in the words of the synchronous client."""
    name = RENAMED.get(node.name, node.name)
    returns = ast.unparse(node.returns) if node.returns else "None"
    returns = re.sub(r"AsyncGenerator\[(.+), None\]", r"Generator[\1, None, None]", returns)
    returns = returns.replace("AbstractAsyncContextManager", "AbstractContextManager")
    decorators = map(ast.unparse, node.decorator_list)
    checks = "".join(f"    @{each}\n" for each in decorators if each.startswith("checked_keywords"))
    line = f"{checks}    def {name}({ast.unparse(node.args)}) -> {returns}"
    line = line.replace("AsyncIterable[", "Iterable[")
    for word, sync in WORDS.items():
        line = re.sub(rf"\b{word}\b", sync, line)
    return line


def arguments(node: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    """What is passed on: all but self."""
    parameters = node.args
    positional = [each.arg for each in [*parameters.posonlyargs, *parameters.args]][1:]
    items = [*positional, *([f"*{parameters.vararg.arg}"] if parameters.vararg else [])]
    items += [f"{each.arg}={each.arg}" for each in parameters.kwonlyargs]
    return ", ".join([*items, *([f"**{parameters.kwarg.arg}"] if parameters.kwarg else [])])


def parse(function: Callable[..., Any]) -> ast.FunctionDef | ast.AsyncFunctionDef:
    """The tree of one function's source."""
    [node] = ast.parse(textwrap.dedent(inspect.getsource(function))).body
    assert isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    return node


def imports_of(kind: type, more: str) -> str:
    """All imports and names of the modules its methods are written in; ruff removes those that are too many."""
    lines = ["from collections.abc import Generator, Iterable", *more.splitlines()]
    typing_only: list[str] = []
    modules = dict.fromkeys(base.__module__ for base in kind.__mro__[:-1])
    trees = {name: ast.parse(inspect.getsource(importlib.import_module(name))) for name in modules}
    imported = {alias.asname or alias.name for tree in trees.values() for alias in aliases_in(tree)}
    for module_name, tree in trees.items():
        lines += [ast.unparse(node) for node in tree.body if is_import(node)]
        typing_only += [ast.unparse(each) for node in tree.body if is_for_types(node) for each in node.body]
        if module_name != kind.__module__:
            lines += [f"from {module_name} import {name}" for name in names_in(tree) if name not in imported]
    # ruff keeps a name that a block for type checkers imports once more.
    blocks = [f"    {line}" for line in dict.fromkeys(typing_only) if line not in lines]
    return "\n".join([*dict.fromkeys(lines), *(["if TYPE_CHECKING:", *blocks] if blocks else [])]) + "\n"


def aliases_in(tree: ast.Module) -> Iterator[ast.alias]:
    """All that a module imports."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield from node.names


def names_in(tree: ast.Module) -> Iterator[str]:
    """The public names that a module defines."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield from () if node.name.startswith("_") else (node.name,)
        elif isinstance(node, ast.Assign):
            yield from (each.id for each in node.targets if isinstance(each, ast.Name) and each.id[0] != "_")


def is_import(node: ast.stmt) -> bool:
    if isinstance(node, ast.ImportFrom):
        return node.module != "__future__"
    return isinstance(node, ast.Import)


def is_for_types(node: ast.stmt) -> TypeGuard[ast.If]:
    """Whether it is a block that only type checkers read."""
    return isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"


if __name__ == "__main__":
    main()
