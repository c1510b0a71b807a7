"""What callers are told of errors: never what only the server's developer can do."""

from __future__ import annotations

import ast
import datetime as dt
import importlib
import json
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Column, DateTime, Enum, Integer, MetaData, Table, TypeDecorator, select

import dualsql
from dualsql import Registry
from dualsql.envelope.responses import error_of
from dualsql.errors import DualResponseError
from dualsql.formats.ndjson import problem
from dualsql.formats.writer import StreamEnd
from dualsql.http.problems import problem_response
from dualsql.mcp.calls import problem_for as problem_of_tool
from dualsql.resource import problem_of as kept_problem
from tests.columns.instants.conftest import serving

_CODE = re.compile(
    r"pip install|create_response|Registry\(|select\(|subquery\(|SQLAlchemy|TypeDecorator|hooks\b|\badd_\w+\("
    r"|literal\w*\(|Settings\b|statement\.|Annotate|connect_args|\.label\(|bindparam|DualResponseServer|dual\."
    r"|allow_\w+=|elements=|functions=|poolclass|Register the"
)
"""Words that only somebody who changes the server's code can follow."""


def _classes() -> list[type[DualResponseError]]:
    for module in pkgutil.walk_packages(dualsql.__path__, "dualsql."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    found: list[type[DualResponseError]] = [DualResponseError]
    for cls in found:
        found += [sub for sub in cls.__subclasses__() if sub.__module__.startswith("dualsql.")]
    return found


CLASSES = _classes()


def _raised(cls: type[DualResponseError]) -> DualResponseError:
    error = cls.__new__(cls)
    DualResponseError.__init__(error, "MESSAGE", hint="HINT", developer_hint="DEVELOPER")
    error.challenge, error.known, error.retry_after = "Bearer", (), 1  # type: ignore[attr-defined]
    return error


def _edges(error: DualResponseError) -> Iterator[str]:
    yield bytes(problem_response(error).body).decode()
    yield json.dumps(problem_of_tool(error, "tool"))
    yield json.dumps(kept_problem(error))
    yield json.dumps(problem(error, StreamEnd(0, complete=False)))
    yield json.dumps(error_of(error, "tool"))


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_no_edge_tells_a_caller_what_a_developer_is_told(cls: type[DualResponseError]) -> None:
    error = _raised(cls)
    for text in _edges(error):
        assert "DEVELOPER" not in text
        assert ("HINT" in text) is (cls.caller_words is None)
        assert ("MESSAGE" in text) is (cls.caller_words is None)
    assert "DEVELOPER" in str(error)
    for words in (cls.default_hint, *(cls.caller_words or ())):
        assert not _CODE.search(words), words


def _hints(path: Path) -> Iterator[tuple[str, str]]:
    """Each hint that is written for callers, and where."""
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.Call):
            continue
        raised = ast.unparse(node.func).rpartition(".")[2]
        for keyword in node.keywords:
            if keyword.arg == "hint":
                texts = [one.value for one in ast.walk(keyword.value) if isinstance(one, ast.Constant)]
                yield f"{path}:{node.lineno} {raised}", " ".join(map(str, texts))


def test_hints_for_callers_speak_of_no_code() -> None:
    names = {cls.__name__ for cls in CLASSES if cls.caller_words is not None}
    names.add("require_package")  # raises ConfigurationError, which has caller_words
    folder = Path(dualsql.__file__).parent
    wrong = [
        (where, hint)
        for path in folder.rglob("*.py")
        for where, hint in _hints(path)
        if where.rpartition(" ")[2] not in names and _CODE.search(hint)
    ]
    assert not wrong


def test_the_law_sees_what_it_is_for(tmp_path: Path) -> None:
    (tmp_path / "wrong.py").write_text('raise BadParameterError("No.", hint="pip install dualsql[arrow]")')
    [(where, hint)] = _hints(tmp_path / "wrong.py")
    assert where.endswith("BadParameterError")
    assert _CODE.search(hint)


class Stamp(TypeDecorator[dt.datetime]):
    """A type of the application's."""

    impl = DateTime
    cache_ok = True


stamped = Table(
    "stamped",
    MetaData(),
    Column("id", Integer, primary_key=True),
    Column("at", Stamp),
    Column("word", Enum("a", "b", name="word")),
)


async def test_no_refinement_is_a_failure_of_the_server(sqlite_url: str, make_engine: Any) -> None:
    """What cannot be stored of a caller's own question is the caller's to mend."""
    engine = make_engine(sqlite_url)
    async with engine.begin() as connection:
        await connection.run_sync(stamped.metadata.create_all)
    async with serving(engine, Registry(stamped.metadata)) as application:
        seen = set()
        for statement in (select(stamped), select(stamped).union(select(stamped))):
            result = await application.result(statement)
            questions: tuple[dict[str, Any], ...] = (
                {"limit": 1},
                {"columns": ["at"]},
                {"order_by": ["at"]},
                {"group_by": ["word"], "aggregates": ["count"]},
                *({"aggregates": [{"function": name, "column": "at"}]} for name in ("min", "max")),
            )
            for question in questions:
                answer = await application.http.post(
                    f"{result.resource_url}/refine", json={**question, "name": "y"}
                )
                assert answer.status_code in (201, 400, 413), answer.text
                assert not _CODE.search(answer.text)
                seen.add(answer.status_code)
        assert 201 in seen


def test_a_developer_reads_what_to_do() -> None:
    error: Any = dualsql.NotFreezableError("A text() column has no name.", hint="Use literal_column().")
    assert str(error) == "A text() column has no name. Use literal_column()."
    assert "literal_column" not in error.for_caller.hint


def _calls_of_errors(node: ast.AST, within: str = "") -> Iterator[tuple[str, ast.Call]]:
    """Calls of error classes, by their names, and of `super().__init__` in them."""
    for child in ast.iter_child_nodes(node):
        match child:
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
                yield within if name == "__init__" else name, child
        yield from _calls_of_errors(child, child.name if isinstance(child, ast.ClassDef) else within)


def _has_hint(call: ast.Call) -> bool:
    hints = [each.value for each in call.keywords if each.arg in {"hint", None}]
    texts = [part for hint in hints for part in ast.walk(hint) if isinstance(part, ast.Constant)]
    return bool(hints) and not any(text.value == "" for text in texts)


def test_no_error_is_without_a_hint() -> None:
    """A class has one for all of its errors, or every place that makes one says what to do next."""
    need = {cls.__name__ for cls in CLASSES if not cls.default_hint and cls.caller_words is None}
    own = {cls.__name__ for cls in CLASSES if "__init__" in vars(cls) and cls is not DualResponseError}
    calls = [
        (f"{file.name}:{call.lineno}", name, call)
        for file in Path(dualsql.__path__[0]).rglob("*.py")
        for name, call in _calls_of_errors(ast.parse(file.read_text(encoding="utf-8")))
    ]
    made = {name for _, name, call in calls}
    assert made >= {"DualResponseError", "InvalidSQLError", "NotAcceptableError", "TooManyQueriesError"}
    is_super = {
        id(call) for _, name, call in calls if name in own and ast.unparse(call.func) == "super().__init__"
    }
    assert [
        where
        for where, name, call in calls
        if name in need and (id(call) in is_super if name in own else "super()" not in ast.unparse(call.func))
        if not _has_hint(call)
    ] == []
    names = {cls.__name__ for cls in CLASSES}
    assert [
        where
        for where, name, call in calls
        if name in names and any(each.arg == "hint" for each in call.keywords) and not _has_hint(call)
    ] == []
