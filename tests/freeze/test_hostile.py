"""No forged document runs code, names a stranger's table, brings its own text, or costs time or memory."""

from __future__ import annotations

import random
import re
import resource
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from dualsql.errors import DualResponseError, NotFreezableError, TamperedError
from dualsql.freeze import freeze, thaw
from dualsql.freeze.document import MAGIC, VERSION, pack, unpack
from tests.freeze.hostile import ALL_KINDS, BODIES, MARKER, WORDS, at, leaves, mutate, mutate_bytes, replaced
from tests.freeze.judge import MARKERS, OPEN, SIZE, TOUCHED_TABLES, judged, judged_body, unquoted
from tests.freeze.shop import REGISTRY, SHAPES, STRICT
from tests.quick import case_of, one_in

# Forged statements make SQLAlchemy warn: that is no failure here, but an error elsewhere in these tests.
pytestmark = pytest.mark.filterwarnings("ignore")

# --- what the interpreter itself sees ---------------------------------------------------------------------------

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
# SQLAlchemy writes a small function for each class of elements, once, from names of the class's own attributes.
_GENERATED = re.compile(r"b['\"]def _generated_\w+\(self, \w+\):")


def _audit(event: str, args: Any) -> None:
    if _watching and event.startswith(_FORBIDDEN) and not _is_sqlalchemys(event, args):
        _seen.append(f"{event} {args!r}"[:200])


def _is_sqlalchemys(event: str, args: Any) -> bool:
    is_its = sys._getframe(2).f_code.co_filename.endswith("sqlalchemy/util/langhelpers.py")
    return is_its and (event == "exec" or _GENERATED.match(repr(args[0])) is not None)


@contextmanager
def nothing_happens() -> Iterator[None]:
    """Nothing is executed, compiled, imported, opened or unpickled inside, and memory stays what it is."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    _seen.clear()
    _watching.append(True)
    try:
        yield
    finally:
        _watching.clear()
    assert _seen == []
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 500_000  # kilobytes


@pytest.fixture(scope="module", autouse=True)
def warm() -> None:
    """What SQLAlchemy imports when a kind of statement is first compiled is not the forger's doing."""
    sys.addaudithook(_audit)  # for good, so not in workers that run no test of this module
    for body in BODIES.values():
        assert judged_body(body) is not None
    for name in ("psycopg.types.range", "psycopg.types.multirange"):
        with suppress(ModuleNotFoundError):  # the kernel's own tests have no psycopg
            import_module(name)


@pytest.mark.quick(2)
@pytest.mark.parametrize(
    "code", ["open('/dev/null')", "exec('1')", "compile('1', 'x', 'eval')", "__import__('this')"]
)
def test_the_watcher_sees(code: str) -> None:
    with pytest.raises(AssertionError), nothing_happens():
        eval(code)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT gold FROM vault",
        "SELECT 1 WHERE 1 IN vault",
        "SELECT name FROM sqlite_master",
        "SELECT sqlite_version()",
    ],
)
def test_the_watchman_sees(sql: str) -> None:
    with pytest.raises(AssertionError):
        TOUCHED_TABLES.check(sql, 0)


def test_quotes_are_read_as_each_database_reads_them() -> None:
    assert "x" not in unquoted("SELECT 'a\\'' || 'x'", "mysql").replace("SELECT", "")
    assert "x" in unquoted("SELECT 'a\\' || x || '", "postgresql")
    assert "x" in unquoted("SELECT [a, x]", "postgresql")
    assert "x" not in unquoted("SELECT [a, x]", "mssql")


# --- a marker in every leaf -------------------------------------------------------------------------------------


def _marked(name: str, markers: list[str]) -> None:
    body = BODIES[name]
    for path in list(leaves(body)):
        if not isinstance(at(body, path), list | dict):
            for marker in markers:
                for wire in (marker, f"x{marker}", ["anon", 0, marker], ["quoted", marker, False]):
                    judged_body(replaced(body, path, wire))


@pytest.mark.quick(3)
@pytest.mark.parametrize("name", one_in(3, BODIES))
def test_a_marker_in_any_leaf_is_never_rendered_as_written(name: str) -> None:
    with nothing_happens():
        _marked(name, [MARKERS[len(name) % len(MARKERS)]])


@pytest.mark.parametrize("part", [case_of(part, is_long=True, is_exhaustive=part > 0) for part in range(8)])
def test_no_marker_in_any_leaf_is_rendered_as_written(part: int) -> None:
    with nothing_happens():
        for name in list(BODIES)[part::8]:
            _marked(name, MARKERS)


@pytest.mark.quick(3)
@pytest.mark.parametrize("name", one_in(9, BODIES))
def test_numbers_are_numbers_everywhere(name: str) -> None:
    """Huge, negative, not whole, a bool for a number, a number beyond JSON's."""
    body = BODIES[name]
    numbers = [
        2**31,
        2**63 - 1,
        -1,
        -(2**63),
        1.5,
        -0.0,
        1e308,
        True,
        ["float", "1e999"],
        ["float", "nan"],
        ["int", "9" * 3999],
    ]
    with nothing_happens():
        for path in list(leaves(body)):
            if isinstance(at(body, path), int | float):
                for number in numbers:
                    judged_body(replaced(body, path, number))


# --- mutations --------------------------------------------------------------------------------------------------


def _fuzz(seed: int, count: int) -> int:
    """The number of mutants that were thawed, and found harmless."""
    rng = random.Random(seed)
    bodies = list(BODIES.values())
    return sum(judged_body(mutate(rng.choice(bodies), rng)) is not None for _ in range(count))


def _fuzz_bytes(seed: int, count: int) -> None:
    """Half of them damage the compressed document, half the JSON inside."""
    rng = random.Random(seed)
    documents = [pack({**body, "print": "known"}, SIZE) for body in BODIES.values()]
    for number in range(count):
        document = rng.choice(documents)
        if number % 2:
            judged(mutate_bytes(document, rng))
        else:
            plain = mutate_bytes(zlib.decompress(document[6:]), rng)
            judged(document[:2] + len(plain).to_bytes(4, "big") + zlib.compress(plain, 1))


@pytest.mark.long
def test_mutations_do_nothing() -> None:
    with nothing_happens():
        accepted = _fuzz(seed=20261121, count=1_500)
        _fuzz_bytes(seed=20261121, count=500)
    assert accepted > 200  # the fuzzer reaches behind the checks


@pytest.mark.parametrize("seed", [case_of(seed, is_long=True, is_exhaustive=seed > 0) for seed in range(20)])
def test_many_mutations_do_nothing(seed: int) -> None:
    """200,000 together."""
    with nothing_happens():
        _fuzz(seed, count=9_000)
        _fuzz_bytes(seed, count=1_000)


_json = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(MARKERS) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
) | st.sampled_from(WORDS)  # fmt: skip
_places = st.sampled_from([(name, path) for name, body in BODIES.items() for path in leaves(body)])


def _try_place(place: tuple[str, tuple[Any, ...]], value: Any) -> None:
    name, path = place
    with nothing_happens():
        judged_body(replaced(BODIES[name], path, value))


def _fields_of_bodies() -> Iterator[tuple[str, tuple[Any, ...]]]:
    """Every field that a node of each kind may have, of one node of the kind, whether it has it or not."""
    tags = {
        node[0]: (name, place) for name, body in BODIES.items() for place, node in enumerate(body["nodes"])
    }
    for tag, (name, place) in tags.items():
        for field in ALL_KINDS[tag].fields:
            yield name, ("nodes", place, 1, field.name)


@pytest.mark.quick(9)
@pytest.mark.parametrize("wire", ["JSON.JSONPathType", "String", ["table", [["a", "Integer"]]], 0, [0], True])
def test_any_field_of_any_kind_does_nothing(wire: Any) -> None:
    """Also one that a node does not have: a type where SQLAlchemy asks for a cache key, for instance."""
    for place in _fields_of_bodies():
        _try_place(place, wire)


_quiet = settings(deadline=None, database=None, suppress_health_check=list(HealthCheck))


@given(_places, _json)
@settings(_quiet, max_examples=300)
def test_any_json_anywhere_does_nothing(place: tuple[str, tuple[Any, ...]], value: Any) -> None:
    _try_place(place, value)


@pytest.mark.exhaustive
@given(_places, _json)
@settings(_quiet, max_examples=20_000)
def test_much_json_anywhere_does_nothing(place: tuple[str, tuple[Any, ...]], value: Any) -> None:
    _try_place(place, value)


@pytest.mark.parametrize("body", [[], "x", 1, None, {}, {"nodes": []}, {"nodes": {}, "clones": []}, [[]]])
def test_json_that_is_no_body_is_refused(body: Any) -> None:
    plain = orjson.dumps(body)
    with pytest.raises(TamperedError):
        thaw(bytes([MAGIC, VERSION]) + len(plain).to_bytes(4, "big") + zlib.compress(plain), STRICT)


# --- bytes ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", list(BODIES)[::7])
def test_changed_bytes_are_refused_in_one_way(name: str) -> None:
    document = pack({**BODIES[name], "print": "known"}, SIZE)
    rng = random.Random(7)
    for _ in range(60):
        forged = bytearray(document)
        forged[rng.randrange(len(forged))] ^= 1 << rng.randrange(8)
        try:
            statement = thaw(bytes(forged), OPEN)
        except DualResponseError:
            continue
        # A bit that zlib does not look at: the padding of its last block.
        assert str(statement) == str(thaw(document, OPEN))
    for length in (0, 1, 5, 6, 7, len(document) // 2, len(document) - 1):
        with pytest.raises(TamperedError):
            thaw(document[:length], OPEN)
    with pytest.raises(TamperedError):
        thaw(document + b"x", OPEN)


def test_an_unknown_version_is_refused_clearly() -> None:
    document = bytearray(freeze(SHAPES["columns"], STRICT))
    document[1] = 99
    with pytest.raises(NotFreezableError, match="format version 99"):
        thaw(bytes(document), STRICT)


# --- text -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "mark"), [("text", False), ("columns", True), ("text", None)])
def test_a_document_says_whether_it_has_text(name: str, mark: object) -> None:
    body = unpack(freeze(SHAPES[name], REGISTRY), SIZE)
    thaw(pack(body, SIZE), REGISTRY)
    with pytest.raises(TamperedError):
        thaw(pack({**body, "text": mark}, SIZE), REGISTRY)


def test_text_of_a_server_that_allowed_it_is_refused_by_one_that_does_not() -> None:
    with pytest.raises(TamperedError):
        thaw(freeze(SHAPES["text"], REGISTRY), STRICT)


def test_the_marker_is_noticed() -> None:
    assert "zq" in unquoted(f"SELECT {MARKER}", "sqlite")
    assert OPEN.maximum_size == STRICT.maximum_size
