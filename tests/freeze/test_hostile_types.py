"""Reading a PickleType unpickles: run for real on SQLite, no document makes it read what is not its column's."""

from __future__ import annotations

import base64
import pickle
from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import (
    Column,
    Engine,
    Integer,
    LargeBinary,
    MetaData,
    PickleType,
    StaticPool,
    Table,
    TypeDecorator,
    create_engine,
    text,
)

from dualsql.errors import TamperedError
from dualsql.freeze import thaw
from tests.freeze.hostile import forged
from tests.freeze.judge import KnownPrints

pytestmark = pytest.mark.filterwarnings("ignore")
_fired: list[str] = []


def fire() -> None:
    _fired.append("unpickled")


class _Bomb:
    def __reduce__(self) -> Any:
        return fire, ()


class ReadsPickles(TypeDecorator[Any]):
    """A type that writes bytes as they are and unpickles what it reads."""

    impl = LargeBinary
    cache_ok = True

    def process_result_value(self, value: Any, dialect: Any) -> Any:
        return None if value is None else pickle.loads(value)


PAYLOAD = pickle.dumps(_Bomb())
WIRE = ["bytes", base64.b64encode(PAYLOAD).decode()]
metadata = MetaData()
notes = Table(
    "notes",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("body", LargeBinary),
    Column("secret", PickleType),
    Column("varied", LargeBinary().with_variant(PickleType(), "sqlite")),
    Column("read", ReadsPickles),
)
REGISTRY = KnownPrints(metadata)


@pytest.fixture
def engine() -> Iterator[Engine]:
    made = create_engine("sqlite://", poolclass=StaticPool)
    metadata.create_all(made)
    with made.begin() as connection:
        connection.execute(text("INSERT INTO notes (id, body) VALUES (1, :payload)"), {"payload": PAYLOAD})
    _fired.clear()
    yield made
    made.dispose()


TABLE = ["table", {"name": "notes"}]
BODY = ["column", {"of": 0, "key": "body"}]
SECRET = ["column", {"of": 0, "key": "secret"}]
OWN = ["=", 2]  # the type of node 2
BIND = ["bind", {"name": "p", "value": WIRE, "type": "LargeBinary"}]
HEAD = [TABLE, BODY, SECRET, BIND]


def _row(name: str) -> list[Any]:
    """Nodes 4 and 5: a select of the payload under `name`."""
    return [["label", {"name": name, "of": 3, "type": "LargeBinary"}], ["select", {"columns": [4]}]]


# Each would read the payload through a PickleType, one way or another.
ATTACKS: dict[str, list[Any]] = {
    "coerce": [*HEAD, ["coerce", {"of": 1, "type": OWN}], ["select", {"columns": [4]}]],
    "cast": [*HEAD, ["cast", {"of": 1, "type": OWN}], ["select", {"columns": [4]}]],
    "label": [*HEAD, ["label", {"name": "x", "of": 1, "type": OWN}], ["select", {"columns": [4]}]],
    "case": [*HEAD, ["case", {"whens": [[1, 1]], "else": 1, "type": OWN}], ["select", {"columns": [4]}]],
    "concatenation": [
        *HEAD,
        ["binary", {"left": 1, "right": 1, "operator": "concat_op", "type": OWN}],
        ["select", {"columns": [4]}],
    ],
    "function": [
        *HEAD,
        ["list", {"clauses": [1]}],
        ["grouping", {"element": 4}],
        ["function", {"name": "max", "arguments": 5, "type": OWN}],
        ["select", {"columns": [6]}],
    ],
    "literal": [
        *HEAD,
        ["bind", {"name": "l", "value": WIRE, "type": OWN, "literal": True}],
        ["select", {"columns": [4]}],
    ],
    "bind of a type that only reads": [
        TABLE,
        BODY,
        ["column", {"of": 0, "key": "read"}],
        ["bind", {"name": "p", "value": WIRE, "type": OWN}],
        ["select", {"columns": [3]}],
    ],
    "variant": [
        TABLE,
        BODY,
        ["column", {"of": 0, "key": "varied"}],
        ["coerce", {"of": 1, "type": OWN}],
        ["select", {"columns": [3]}],
    ],
    "loose column": [
        *HEAD,
        ["column", {"name": "body", "type": OWN}],
        ["select", {"columns": [4], "from": [0]}],
    ],
    "union": [
        *HEAD,
        ["select", {"columns": [2]}],
        ["select", {"columns": [1]}],
        ["compound", {"selects": [4, 5], "keyword": "UNION_ALL"}],
    ],
    "scalar subquery": [
        *HEAD,
        ["select", {"columns": [1]}],
        ["scalar", {"element": 4}],
        ["label", {"name": "x", "of": 5, "type": OWN}],
        ["select", {"columns": [6]}],
    ],
    "annotated select": [
        *HEAD,
        ["coerce", {"of": 1, "type": OWN}],
        ["select", {"columns": [1]}],
        ["note", {"of": 5, "notes": {"foreign": True}, "changed": {"columns": [4]}}],
    ],
    "values": [
        *HEAD,
        ["values", {"columns": [["a", OWN]], "rows": [[[WIRE]]], "name": "v"}],
        ["select", {"columns": [4]}],
    ],
    "rows of a function": [
        *HEAD,
        ["list", {"clauses": [3]}],
        ["grouping", {"element": 4}],
        ["function", {"name": "json_each", "arguments": 5, "type": ["table", [["value", OWN]]]}],
        ["rows of", {"name": "e", "of": 6, "rows": ["table", [["value", OWN]]]}],
        ["select", {"columns": [7]}],
    ],
    "star": [
        *(*HEAD, *_row("x"), ["subquery", {"name": "s", "of": 5}], ["column", {"star": True}]),
        ["label", {"name": "x", "of": 2, "type": OWN}],
        ["select", {"columns": [7, 8], "from": [6]}],
    ],
    "two columns for one": [
        *(
            *HEAD,
            *_row("secret"),
            ["subquery", {"name": "s", "of": 5}],
            ["column", {"of": 6, "key": "secret"}],
        ),
        ["chain", {"clauses": [7, 7], "operator": "comma_op"}],
        ["select", {"columns": [8, 2]}],
    ],
    "a list for one": [
        *(
            *HEAD,
            *_row("secret"),
            ["subquery", {"name": "s", "of": 5}],
            ["column", {"of": 6, "key": "secret"}],
        ),
        ["list", {"clauses": [7, 7]}],
        ["select", {"columns": [8, 2]}],
    ],
    "two columns in a coercion": [
        *(
            *HEAD,
            *_row("secret"),
            ["subquery", {"name": "s", "of": 5}],
            ["column", {"of": 6, "key": "secret"}],
        ),
        ["chain", {"clauses": [7, 7], "operator": "comma_op"}],
        ["coerce", {"of": 8, "type": "LargeBinary"}],
        ["select", {"columns": [9, 2]}],
    ],
    "CTE called like the table": [
        *(*HEAD, *_row("secret"), ["cte", {"name": "notes", "of": 5}]),
        ["select", {"columns": [2], "ctes": [6], "nested": [False]}],
    ],
    "CTE in capitals": [
        *(*HEAD, *_row("secret"), ["cte", {"name": ["quoted", "NOTES", None], "of": 5}]),
        ["select", {"columns": [2], "ctes": [6], "nested": [False]}],
    ],
    "CTE that restates another": [
        *HEAD,
        ["label", {"name": "secret", "of": 3, "type": "LargeBinary"}],
        ["select", {"columns": [4]}],
        ["select", {"columns": [2]}],
        ["cte", {"name": "c", "of": 6}],
        ["cte", {"name": "c", "of": 5, "restates": 7}],
        ["column", {"of": 7, "key": "secret"}],
        ["select", {"columns": [9], "from": [8]}],
    ],
    "alias of an outer query": [
        *(*HEAD, *_row("secret"), ["subquery", {"name": "notes", "of": 5}]),
        ["select", {"columns": [2], "correlate": [0]}],
        ["scalar", {"element": 7}],
        ["select", {"columns": [8], "from": [6], "correlate": [0]}],
        ["scalar", {"element": 9}],
        ["select", {"columns": [10], "from": [0]}],
    ],
    "equal names": [
        *HEAD,
        ["label", {"name": "x", "of": 3, "type": "LargeBinary"}],
        ["label", {"name": "x", "of": 2, "type": OWN}],
        ["select", {"columns": [4, 5], "labels": "LABEL_STYLE_NONE"}],
        ["subquery", {"name": "s", "of": 6}],
        ["column", {"of": 7, "key": 1}],
        ["select", {"columns": [8]}],
    ],
    "names that differ in capitals": [
        *HEAD,
        ["label", {"name": "x", "of": 3, "type": "LargeBinary"}],
        ["label", {"name": "X", "of": 2, "type": OWN}],
        ["select", {"columns": [4, 5]}],
        ["subquery", {"name": "s", "of": 6}],
        ["column", {"of": 7, "key": "X"}],
        ["select", {"columns": [8]}],
    ],
}


@pytest.mark.parametrize("name", ATTACKS)
def test_nothing_foreign_is_unpickled(engine: Engine, name: str) -> None:
    with pytest.raises(TamperedError):
        _run(engine, ATTACKS[name])
    assert not _fired


def _run(engine: Engine, nodes: list[Any]) -> None:
    statement = thaw(forged({"nodes": nodes, "clones": [], "text": False}), REGISTRY)
    with engine.connect() as connection:
        connection.execute(statement).all()


def test_the_payload_would_fire(engine: Engine) -> None:
    with engine.begin() as connection:
        connection.execute(text("UPDATE notes SET secret = body"))
    _run(engine, [*HEAD, ["select", {"columns": [2]}]])
    assert _fired


HONEST: dict[str, list[Any]] = {
    "all columns": [TABLE, ["select", {"columns": [0]}]],
    "twice": [TABLE, BODY, SECRET, ["select", {"columns": [0, 2]}]],
    "an alias beside its table": [
        *(TABLE, BODY, SECRET, ["alias", {"name": ["anon", 0, "notes"], "of": 0}]),
        ["column", {"of": 3, "key": "secret"}],
        ["select", {"columns": [2, 4]}],
    ],
    "through a subquery": [
        *(TABLE, BODY, SECRET, ["select", {"columns": [0]}], ["subquery", {"name": "s", "of": 3}]),
        ["column", {"of": 4, "key": "secret"}],
        ["select", {"columns": [5]}],
    ],
}


@pytest.mark.parametrize("name", HONEST)
def test_its_own_column_is_read(engine: Engine, name: str) -> None:
    _run(engine, HONEST[name])
