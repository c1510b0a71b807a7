"""Samples that are not the first rows: which rows they are, on every engine; that they come again; who is refused."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import func, select, union_all
from sqlalchemy.ext.asyncio import AsyncEngine

from dualsql import BadParameterError, DualResponse, DualResponseServer, NoTotalOrderError, PageRequest
from dualsql.freeze.document import Statement
from dualsql.plan.sampling import even_ranks
from tests.profiles.things import COUNT, METADATA, ROWS, things
from tests.servers import create_server

pytestmark = pytest.mark.quick(50, "sqlite")

SIZE = 7
IDS = [row["id"] for row in ROWS]


@pytest.fixture(scope="module")
async def dual(engine: AsyncEngine) -> AsyncIterator[DualResponseServer]:
    async with create_server(
        engine,
        base_url="http://127.0.0.1:8000/resources",
        tables=METADATA,
        count_budget=timedelta(seconds=30),
        allow_text=True,
    ) as server:
        yield server


_numbered = select(things.c.id, things.c.small)
STATEMENTS: dict[str, Statement] = {
    "by its key": _numbered,
    "backward": _numbered.order_by(things.c.id.desc()),
    "with ties and NULLs": _numbered.order_by(things.c.small),
    "two keys": _numbered.order_by(things.c.small.desc(), things.c.id),
    "the author's limit": _numbered.order_by(things.c.big).limit(60).offset(5),
    "distinct": select(things.c.small, things.c.tenant).distinct(),
    "groups": select(things.c.small, func.count().label("times")).group_by(things.c.small),
    "a union": union_all(select(things.c.id), select(things.c.id)).order_by("id"),
    "a window": select(things.c.id, func.rank().over(order_by=things.c.small).label("place")),
    "by a label": select(things.c.id, (things.c.id % 10).label("last")).order_by("last"),
    "without a key": select(things.c.word, things.c.born),
}


async def answer(dual: DualResponseServer, statement: Statement, **options: Any) -> DualResponse:
    return await dual.create_response(statement, name="Things", **{"sample_size": SIZE, **options})


async def _paged(dual: DualResponseServer, statement: Statement) -> Sequence[dict[str, Any]]:
    """All rows in the order in which they are paged."""
    response = await answer(dual, statement)
    resource = await dual.unchecked.get(response.resource_id)
    assert resource is not None
    return (await dual.unchecked.read_page(resource, None, PageRequest(limit=10_000))).rows


@pytest.mark.quick(4, "sqlite")
@pytest.mark.parametrize("name", [name for name in STATEMENTS if name != "without a key"])
async def test_the_last_rows_are_those_of_the_last_page(dual: DualResponseServer, name: str) -> None:
    rows = await _paged(dual, STATEMENTS[name])
    response = await answer(dual, STATEMENTS[name], sample="tail")
    assert list(response.sample) == list(rows[-SIZE:])
    assert (response.sampled, response.total_count) == ("tail", len(rows))


@pytest.mark.parametrize("name", [name for name in STATEMENTS if name != "without a key"])
async def test_spread_rows_are_at_even_ranks(dual: DualResponseServer, name: str) -> None:
    rows = await _paged(dual, STATEMENTS[name])
    response = await answer(dual, STATEMENTS[name], sample="spread", count="none")
    assert list(response.sample) == [rows[rank - 1] for rank in even_ranks(len(rows), SIZE)]
    assert (response.sampled, response.total_count, response.total_count_kind) == (
        "spread", len(rows), "exact",
    )  # fmt: skip


@pytest.mark.quick(4, "sqlite")
@pytest.mark.parametrize("name", STATEMENTS)
async def test_a_seed_repeats_its_rows(dual: DualResponseServer, name: str) -> None:
    rows = [
        str(row) for row in (await answer(dual, STATEMENTS[name], sample_size=1_000, sample="tail")).sample
    ]
    seeds = ("random", "random:0", "random:1", "random:987654321")
    samples = [(await answer(dual, STATEMENTS[name], sample=seed)).sample for seed in seeds]
    assert samples[0] == samples[1] == (await answer(dual, STATEMENTS[name], sample="random")).sample
    assert len({str(sample) for sample in samples}) == 3
    if len(rows) < 1_000:
        for sample in samples:
            assert not Counter(map(str, sample)) - Counter(rows), "each row as often as it is there"


async def test_random_rows_come_from_everywhere(dual: DualResponseServer) -> None:
    statement = select(things.c.id)
    seen = Counter[int]()
    for seed in range(40):
        response = await answer(dual, statement, sample=f"random:{seed}", sample_size=30, count="none")
        seen.update(row["id"] for row in response.sample)
    assert seen.total() == 1_200
    quarters = Counter((number - 1) * 4 // COUNT for number in seen.elements())
    assert all(220 <= quarters[quarter] <= 380 for quarter in range(4)), quarters
    assert len(seen) > 400, "hardly a row is out of reach"
    assert max(seen.values()) < 12, "and none is always there"


@pytest.mark.parametrize("asked", ["tail", "random", "spread"])
async def test_what_is_everything_is_in_its_own_order(dual: DualResponseServer, asked: str) -> None:
    statement = select(things.c.id).order_by(things.c.big).limit(SIZE)
    response = await answer(dual, statement, sample=asked)
    expected = [row["id"] for row in sorted(ROWS, key=lambda row: row["big"])[:SIZE]]
    assert [row["id"] for row in response.sample] == expected
    assert (response.sampled, response.total_count) == ("head", SIZE)


@pytest.mark.quick(1, "sqlite")
@pytest.mark.parametrize("asked", ["tail", "random:3", "spread"])
async def test_without_rows_or_of_no_size(dual: DualResponseServer, asked: str) -> None:
    empty = await answer(dual, select(things.c.id).where(things.c.id < 0), sample=asked)
    assert (empty.sample, empty.total_count) == ([], 0)
    none = await answer(dual, select(things.c.id), sample=asked, sample_size=0)
    assert (none.sample, none.total_count) == ([], COUNT)
    assert len((await answer(dual, select(things.c.id), sample=asked, sample_size=1)).sample) == 1


@pytest.mark.parametrize("asked", ["tail", "random", "spread"])
async def test_an_order_that_moves_is_refused(
    dual: DualResponseServer, engine: AsyncEngine, asked: str
) -> None:
    moves = func.rand() if engine.dialect.name == "mysql" else func.random()
    with pytest.raises(NoTotalOrderError) as refused:
        await answer(dual, select(things.c.id).order_by(moves), sample=asked)
    assert 'sample="head"' in refused.value.hint


async def test_the_answer_says_which_rows_it_shows(dual: DualResponseServer) -> None:
    notes = {}
    for question in ("head", "tail", "random:5", "spread"):
        response = await answer(dual, select(things.c.id), sample=question)
        metadata = response.to_structured_content()["metadata"]
        assert metadata.get("sample", "head") == question
        notes[question] = response.to_text().splitlines()[0].partition(". ")[0]
    assert notes == {
        "head": "Things: showing 7 of 600 rows",
        "tail": "Things: showing 7 of 600 rows, the last ones",
        "random:5": "Things: showing 7 of 600 rows, at random (random:5)",
        "spread": "Things: showing 7 of 600 rows, at even distances",
    }
    cut = replace(await answer(dual, select(things), sample="spread", sample_size=50), text_budget=1_000)
    assert " of 600 rows, at even distances (the first " in cut.to_text()
    assert " of 50 such), " in cut.to_text()


@pytest.mark.parametrize(
    "asked",
    ["middle", "", "random:", "random:-1", "random:1e9", "random:9999999999", "random:٣", None, 3, ["tail"]],
)
async def test_a_sample_that_nobody_knows(dual: DualResponseServer, asked: Any) -> None:
    with pytest.raises(BadParameterError):
        await answer(dual, select(things.c.id), sample=asked)
