"""No forged document runs code, names a stranger's table, brings its own text, or costs time or memory."""

from __future__ import annotations

import random
import re
import sys
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import String, case, cast, column, func, select, values
from sqlalchemy.dialects import postgresql

from dualsql.errors import DualResponseError, NotFreezableError, TamperedError
from dualsql.freeze import freeze, is_bound_to_dialect, thaw
from dualsql.freeze.document import MAGIC, VERSION, pack, unpack
from tests.freeze.hostile import BODIES, MARKER, SIZE, attempt, leaves, mutate, replaced
from tests.freeze.shop import REGISTRY, SHAPES, STRICT, customers, customers_, orders_

_FORBIDDEN = (
    "exec",
    "compile",
    "import",
    "open",
    "os.",
    "subprocess.",
    "socket.",
    "ctypes.",
    "pickle.",
    "shutil.",
)
_watching: list[bool] = []
_seen: list[str] = []


def _audit(event: str, args: Any) -> None:
    if _watching and event.startswith(_FORBIDDEN):
        _seen.append(f"{event} {args!r}"[:200])


sys.addaudithook(_audit)


@contextmanager
def nothing_happens() -> Iterator[None]:
    """Nothing is executed, imported or opened inside."""
    _seen.clear()
    _watching.append(True)
    try:
        yield
    finally:
        _watching.clear()
    # SQLAlchemy writes small functions of its own, once per class, with text that no document reaches.
    assert [event for event in _seen if not event.startswith(("compile", "exec"))] == []


def test_the_watcher_sees() -> None:
    with pytest.raises(AssertionError), nothing_happens(), Path(__file__).open():
        pass


def _unquoted(sql: str) -> str:
    """The text with everything inside quotes taken away: '...', "...", `...`, [...]."""
    return re.sub(r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|`(?:[^`]|``)*`|\[(?:[^\]]|\]\])*\]""", "", sql)


def _tables(sql: str) -> set[str]:
    words = re.findall(r"(?:FROM|JOIN)\s+([\w.\"`\[\]]+)", sql)
    return {word for word in words if not re.fullmatch(r"[\w.]+|(?:[\"`\[][^\"`\]]*[\"`\]]\.?)+", word)}


# After AS, or right behind a bracket (Oracle), it is the harmless name of an alias with its columns.
_FORBIDDEN_CALL = re.compile(r"""(?<!AS )(?<!AS ["`\[])(?<!\) )(?<!\) ["`\[])pg_(sleep|read_file)\W?\(""")


def _check(rendered: dict[str, str]) -> None:
    for sql in rendered.values():
        assert "zq" not in _unquoted(sql)
        assert not _FORBIDDEN_CALL.search(sql)
        assert not _tables(_unquoted(sql)) - {""}


@pytest.mark.parametrize("name", BODIES)
def test_a_marker_in_any_leaf_is_never_rendered_as_written(name: str) -> None:
    body = BODIES[name]
    for path in list(leaves(body)):
        for marker in (MARKER, f"x{MARKER}", ["anon", 0, MARKER], ["quoted", MARKER, False]):
            rendered = attempt(replaced(body, path, marker))
            if rendered:
                _check(rendered)


def _fuzz(seed: int, count: int) -> int:
    rng = random.Random(seed)
    bodies = list(BODIES.values())
    accepted = 0
    for _ in range(count):
        rendered = attempt(mutate(rng.choice(bodies), rng))
        if rendered:
            accepted += 1
            _check(rendered)
    return accepted


def test_mutations_do_nothing() -> None:
    with nothing_happens():
        accepted = _fuzz(seed=20261121, count=3_000)
    assert accepted > 100  # the fuzzer reaches behind the checks


@pytest.mark.long
@pytest.mark.parametrize("seed", range(20))
def test_many_mutations_do_nothing(seed: int) -> None:
    with nothing_happens():
        _fuzz(seed, count=10_000)


@pytest.mark.parametrize("name", list(BODIES)[::7])
def test_changed_bytes_are_refused_in_one_way(name: str) -> None:
    document = pack(BODIES[name], SIZE)
    rng = random.Random(7)
    for _ in range(60):
        forged = bytearray(document)
        forged[rng.randrange(len(forged))] ^= 1 << rng.randrange(8)
        try:
            statement = thaw(bytes(forged), STRICT)
        except DualResponseError:
            continue
        # A bit that zlib does not look at: the padding of its last block.
        assert str(statement) == str(thaw(document, STRICT))
    for length in (0, 1, 5, 6, 7, len(document) // 2, len(document) - 1):
        with pytest.raises(TamperedError):
            thaw(document[:length], STRICT)
    with pytest.raises(TamperedError):
        thaw(document + b"x", STRICT)


def test_a_bomb_is_not_inflated() -> None:
    bomb = zlib.compress(bytes(50_000_000), 9)
    started = time.process_time()
    for claimed in (10, SIZE):
        with pytest.raises(TamperedError):
            thaw(bytes([MAGIC, VERSION]) + claimed.to_bytes(4, "big") + bomb, STRICT)
    assert time.process_time() - started < 1


def test_an_unknown_version_is_refused_clearly() -> None:
    document = bytearray(freeze(select(customers_.id), STRICT))
    document[1] = 99
    with pytest.raises(NotFreezableError, match="format version 99"):
        thaw(bytes(document), STRICT)


def _doubling(count: int) -> Any:
    """A short document whose SQL would have 2**count terms."""
    body = unpack(freeze(select(customers_.id + customers_.id), STRICT), SIZE)
    nodes = body["nodes"][:-1]
    for _ in range(count):
        last = len(nodes) - 1
        nodes.append(["binary", {"left": last, "right": last, "operator": "add", "type": "Integer"}])
    nodes.append(["select", {"columns": [len(nodes) - 1]}])
    return {**body, "nodes": nodes}


def test_a_short_document_with_long_sql_is_refused() -> None:
    assert attempt(_doubling(5))
    started = time.process_time()
    assert attempt(_doubling(60)) is None
    assert time.process_time() - started < 1


def test_a_deep_document_is_refused() -> None:
    body = unpack(freeze(select(func.abs(customers_.id)), STRICT), SIZE)
    nodes = body["nodes"][:-1]
    for _ in range(20_000):
        nodes.append(["unary", {"element": len(nodes) - 1, "operator": "neg", "type": "Integer"}])
    nodes.append(["select", {"columns": [len(nodes) - 1]}])
    assert attempt({**body, "nodes": nodes}) is None


def test_parentheses_cannot_be_taken_away() -> None:
    """A stored flag once dropped an OR's parentheses, so that an appended tenant filter was bypassed."""
    either = (customers_.id == 1) | (customers_.id == 2)
    body = unpack(freeze(select(customers_.id).where(either, customers_.name == "x"), STRICT), SIZE)
    nodes = body["nodes"]
    bare = [
        [tag, {**fields, "where": fields["where"][:1]}] if tag == "select" else [tag, fields]
        for tag, fields in nodes
    ]
    for number, (tag, fields) in enumerate(bare):
        if tag == "grouping":
            inside = fields["element"]
            bare = [
                [t, {**f, "where": [inside if n == number else n for n in f["where"]]}]
                if t == "select"
                else [t, f]
                for t, f in bare
            ]
    from tests.freeze.hostile import forged

    statement: Any = thaw(forged({**body, "nodes": bare}, seal_anew=True), STRICT)
    assert "(customers.id = :id_1 OR customers.id = :id_2) AND" in str(
        statement.where(customers_.name == "t")
    )


@pytest.mark.parametrize("tag", ["binary", "boolean", "unary", "list", "chain"])
@pytest.mark.parametrize("flag", ["group", "group_contents", "_is_implicitly_boolean", "is_clause_list"])
def test_derived_flags_cannot_be_stored(tag: str, flag: str) -> None:
    for body in BODIES.values():
        for number, (found, _fields) in enumerate(body["nodes"]):
            if found == tag:
                assert attempt(replaced(body, ("nodes", number, 1, flag), False)) is None
                return


def test_lineage_cannot_reach_registered_tables() -> None:
    body = unpack(freeze(select(customers).join(orders_.id.table, orders_.id == customers_.id), STRICT), SIZE)
    tables = [n for n, (tag, _) in enumerate(body["nodes"]) if tag in ("table", "column")]
    assert attempt({**body, "clones": [tables]}) is None
    assert customers._is_clone_of is None


def test_thawing_leaves_the_registry_as_it_was() -> None:
    before = {name: (dict(vars(t)), [dict(vars(c)) for c in t.c]) for name, t in STRICT.tables.items()}
    _fuzz(seed=3, count=500)
    for name, table in STRICT.tables.items():
        state, columns = before[name]
        assert {key: vars(table)[key] for key in state if key in vars(table)} == state or name
        for found, old in zip(table.c, columns, strict=True):
            assert found.type is old["type"]
            assert found.key == old["key"]
            assert vars(found).get("_is_clone_of") is old.get("_is_clone_of")
            assert vars(found).get("_propagate_attrs") == old.get("_propagate_attrs")


SMUGGLERS: dict[str, Any] = {
    "label": (customers_.name.label("x"), "label"),
    "function": (func.coalesce(customers_.name, "x"), "function"),
    "harmless function": (func.lower(customers_.name), "function"),
    "function without arguments": (func.listagg().within_group(customers_.name), "function"),
    "cast": (cast(customers_.name, String), "cast"),
    "case": (case((customers_.id == 1, customers_.name)), "case"),
    "concatenation": (customers_.name + customers_.name, "binary"),
    "loose column": (column("name", String), "column"),
}


@pytest.mark.parametrize("name", SMUGGLERS)
def test_an_own_type_cannot_be_put_on_foreign_content(name: str) -> None:
    """Reading through PickleType unpickles: it stays on its column, whatever a document says."""
    expression, tag = SMUGGLERS[name]
    body = unpack(freeze(select(orders_.secret, expression), STRICT, dialect=postgresql.dialect()), SIZE)
    nodes = body["nodes"]
    secret = next(
        n for n, (found, fields) in enumerate(nodes) if found == "column" and fields.get("key") == "secret"
    )
    targets = [
        n for n, (found, fields) in enumerate(nodes) if found == tag and (tag != "column" or "name" in fields)
    ]
    assert targets
    for number in targets:
        assert attempt(replaced(body, ("nodes", number, 1, "type"), ["=", secret])) is None


@pytest.mark.parametrize(
    "rows",
    [values(column("a", String), name="v").data([("x",)]), func.unnest(orders_.tags).table_valued("a")],
)
def test_an_own_type_cannot_be_put_on_rows_of_values(rows: Any) -> None:
    statement = select(orders_.secret, rows.c.a)
    body = unpack(freeze(statement, STRICT, dialect=postgresql.dialect()), SIZE)
    nodes = body["nodes"]
    secret = next(
        n for n, (found, fields) in enumerate(nodes) if found == "column" and fields.get("key") == "secret"
    )
    for number, (tag, _fields) in enumerate(nodes):
        if tag == "values":
            body = replaced(body, ("nodes", number, 1, "columns", 0, 1), ["=", secret])
        elif tag == "function":
            body = replaced(body, ("nodes", number, 1, "type"), ["table", [["a", ["=", secret]]]])
    assert attempt(body) is None


def test_text_is_marked_as_bound_to_its_dialect() -> None:
    assert is_bound_to_dialect(freeze(SHAPES["text"], REGISTRY), REGISTRY)
    assert not is_bound_to_dialect(freeze(SHAPES["columns"], REGISTRY), REGISTRY)
    with pytest.raises(TamperedError):
        is_bound_to_dialect(b"x", REGISTRY)


def test_text_of_a_server_that_allowed_it_is_refused_by_one_that_does_not() -> None:
    with pytest.raises(TamperedError):
        thaw(freeze(SHAPES["text"], REGISTRY), STRICT)
