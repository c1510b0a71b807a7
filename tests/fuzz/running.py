"""How long the fuzzers run, and what their cases are made of: one number, which a failure names.

`DUALSQL_FUZZ_SECONDS` is for each fuzzer, `DUALSQL_FUZZ_SEED` for the run, and `DUALSQL_FUZZ_CASE` runs one case alone.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from random import Random
from typing import Any, NamedTuple, TypeVar

from dualsql import DualResponseServer, Principal
from dualsql.errors import QueryTimeoutError
from dualsql.http.problems import KINDS

SECONDS = float(os.environ.get("DUALSQL_FUZZ_SECONDS", "0.6"))
SEED = os.environ.get("DUALSQL_FUZZ_SEED", "34")
ONE_CASE = os.environ.get("DUALSQL_FUZZ_CASE")
LONGEST = 20.0
"""Seconds of this process for one case; the servers here stop a query after `LIMIT`."""
LONGEST_WAIT = 120.0
"""Seconds for one case on a machine that does more than this."""
LIMIT = 5.0
FEWEST = 12

# Failures of a server: a mistake of a caller, or of a text, is never one of them.
INTERNAL = {code for code, kind in KINDS.items() if kind.status == 500} | {"DUAL_RESPONSE_ERROR"}

Value = TypeVar("Value")


class Case(NamedTuple):
    """One case: its number, and the choices that it makes."""

    number: int
    choices: Random

    def one_of(self, values: Sequence[Value]) -> Value:
        """One of the values."""
        return self.choices.choice(values)

    @contextmanager
    def about(self, subject: object) -> Iterator[None]:
        """What fails in the block says how it is run again, and that it ended in time."""
        begun, computed = time.monotonic(), time.process_time()
        try:
            yield
            seconds, own = time.monotonic() - begun, time.process_time() - computed
            assert seconds < LONGEST_WAIT and own < LONGEST, f"{seconds:.0f} s, {own:.0f} of them here"
        except BaseException as error:
            error.add_note(f"DUALSQL_FUZZ_SEED={SEED} DUALSQL_FUZZ_CASE={self.number}: {str(subject)[:3000]}")
            raise


def cases() -> Iterator[Case]:
    """At least `FEWEST` cases, and more until the time is over."""
    number = int(ONE_CASE or 0)
    end = time.monotonic() + SECONDS
    while True:
        yield Case(number, Random(f"{SEED}/{number}"))
        number += 1
        if ONE_CASE is not None or (number >= FEWEST and time.monotonic() > end):
            print(f"{number - int(ONE_CASE or 0)} cases, DUALSQL_FUZZ_SEED={SEED}")
            return


async def result_of(server: DualResponseServer, statement: Any, principal: Principal, *, keep: bool) -> str:
    """The path of a new result. A machine that does more than this gets several attempts within `LIMIT`."""
    for attempt in range(10):
        try:
            response = await server.create_response(
                statement, name="Readings", principal=principal, keep=keep
            )
        except QueryTimeoutError:
            if attempt == 9:
                raise
        else:
            break
    return f"/resources/{response.resource_id}"


def check_problem(problem: Any) -> None:
    """An error is ours: a code that is no failure of the server, a message, and a hint or what is self-evident."""
    assert set(problem) >= {"code", "message", "hint", "details"}, problem
    assert problem["code"] not in INTERNAL, problem
    assert problem["message"].strip(), problem


ODD_TEXTS = (
    "",
    " ",
    "a",
    "A",
    "a ",
    "ä",
    "a\u0308",
    "\ufeff=1",
    "=1+1",
    "\t=1",
    "\r\n-1",
    "@a",
    "a'b",
    'a"b',
    "a`b",
    "a]b",
    "\\",
    "\\'",
    "%",
    "%s",
    "%(a)s",
    ":a",
    "::",
    "?",
    "$1",
    "{}",
    "{0}",
    "--",
    "/*",
    "*/",
    ";",
    "\x01",
    "\x1b[2K",
    "\x7f",
    "\u202e",
    "\u2028",
    "\U0001f388",
    "\ufffd",
    "NULL",
    "null",
    "NaN",
    "None",
    "true",
    "0",
    "-0",
    "1e999",
    "a,b",
    "a\nb",
    "a\r\nb",
    "a\tb",
    "<script>",
    "<b>",
    "&amp;",
    "select",
    "ORDER",
    "id",
    "rowid",
    "_rowid_",
    "data",
    "x" * 200,
)


def odd_text(case: Case, *, longest: int = 200) -> str:
    """A text, most often one that means something somewhere."""
    if case.choices.random() < 0.6:
        return case.one_of(ODD_TEXTS)[:longest]
    ends = [case.one_of((0x7F, 0x3FF, 0x2FFF, 0xD7FF, 0x1FFFF)) for _ in range(case.choices.randrange(1, 12))]
    text = "".join(chr(case.choices.randrange(1, end)) for end in ends)
    return text.encode("utf-8", "ignore").decode()[:longest]  # without surrogates
