"""A chart is a resource whose data are computed from all rows, on each engine, for whoever looks at it."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import AsyncIterator
from statistics import fmean
from typing import Any
from urllib.parse import quote

import pytest
from sqlalchemy import String, cast, func, literal, null, select, union_all
from sqlalchemy.ext.asyncio import AsyncEngine

from dualsql import (
    BadParameterError,
    DualResponseServer,
    Mask,
    Principal,
    Shared,
    TenantFilter,
    UnknownColumnError,
)
from dualsql.charts import MEDIA_TYPE
from tests.http.application import Application, by_header, problem_of, running
from tests.profiles.things import METADATA, ROWS, things

pytestmark = pytest.mark.quick(50, "sqlite")

ALL = select(things)
COUNTED = {"mark": "bar", "x": "kind", "y": {"aggregate": "count"}}


@pytest.fixture
async def application(engine: AsyncEngine) -> AsyncIterator[Application]:
    async with running(engine, tables=METADATA) as application:
        yield application


async def values_of(dual: DualResponseServer, chart: dict[str, Any], statement: Any = ALL) -> Any:
    """The data that are drawn."""
    result = await dual.create_response(statement, name="Things", sample_size=1)
    response = await dual.charts.create(result, chart)
    resource = await dual.unchecked.get(response.resource_id)
    assert resource is not None
    return (await dual.charts.draw_unchecked(resource))["data"]["values"]


@pytest.mark.quick(1, "sqlite")
async def test_bars_are_figures_of_all_rows(application: Application) -> None:
    chart = {"mark": "bar", "x": "kind", "y": {"aggregate": "avg", "field": "small"}, "color": "tenant"}
    groups: defaultdict[Any, list[int]] = defaultdict(list)
    for row in ROWS:
        if row["small"] is not None:
            groups[row["kind"] or "(NULL)", row["tenant"]].append(row["small"])
    values = await values_of(application.server, chart)
    assert {(value["x"], value["color"]): value["y"] for value in values} == pytest.approx(
        {key: fmean(numbers) for key, numbers in groups.items()}, rel=1e-3
    )


@pytest.mark.quick(1, "sqlite")
async def test_bars_are_sorted_as_it_is_asked(application: Application) -> None:
    chart = {"mark": "bar", "x": "word", "y": {"aggregate": "count"}, "sort": "-y"}
    heights = [value["y"] for value in await values_of(application.server, chart)]
    assert heights == sorted(heights, reverse=True)
    assert sum(heights) == len(ROWS)


async def test_lines_over_months(application: Application) -> None:
    chart = {
        "mark": "line",
        "x": {"field": "seen", "bucket": "month"},
        "y": {"aggregate": "sum", "field": "constant"},
    }
    months: defaultdict[str, int] = defaultdict(int)
    for row in ROWS:
        months[f"{row['seen']:%Y-%m}"] += row["constant"]
    values = await values_of(application.server, chart)
    assert [(value["x"][:7], value["y"]) for value in values] == sorted(months.items())


async def test_points_stand_for_all_rows(application: Application) -> None:
    chart = {"mark": "point", "x": "small", "y": "constant"}
    picture = await drawn_of(application, chart)
    without = len([row for row in ROWS if row["small"] is None])
    assert picture["title"]["subtitle"] == f"Not drawn: {without} rows whose small is NULL"
    values = picture["data"]["values"]
    assert sum(value["times"] for value in values) == len(ROWS) - without
    assert {value["x"] for value in values} == {row["small"] for row in ROWS} - {None}


async def test_a_masked_column_has_no_bins(engine: AsyncEngine) -> None:
    async with running(
        engine, tables=METADATA, hooks=[Mask(things.c.small, lambda column: column % 7), Shared(things)]
    ) as application:
        assert await values_of(application.server, {"mark": "histogram", "x": "small"}) == []


async def drawn_of(application: Application, chart: dict[str, Any], statement: Any = ALL) -> Any:
    """What a reader gets."""
    result = await application.server.create_response(statement, name="Things", sample_size=1)
    response = await application.server.charts.create(result, chart)
    return (await application.http.get(f"/resources/{response.resource_id}/chart")).json()


@pytest.mark.quick(1, "sqlite")
@pytest.mark.parametrize("sort", [None, "-y"])
async def test_more_points_than_fit_are_a_random_sample(application: Application, sort: str | None) -> None:
    pairs = select(things.c.big, things.c.ratio).union_all(select(things.c.big + 1, things.c.ratio))
    chart = {"mark": "point", "x": "big", "y": "ratio", "sort": sort}
    drawn = await drawn_of(application, chart, pairs)
    said, without = drawn["title"]["subtitle"]
    assert said == "A random sample: 1,000 of 1,200 points"
    assert without == f"Not drawn: {1_000 - len(drawn['data']['values'])} rows whose ratio is NULL"
    rows = {(float(row["big"] + more), row["ratio"]) for row in ROWS for more in (0, 1)}
    assert {(float(value["x"]), value["y"]) for value in drawn["data"]["values"]} < rows
    values = sorted(row["big"] for row in ROWS)
    left, right = values[len(values) // 10], values[-len(values) // 10]
    ends = [[value for value in drawn["data"]["values"] if value["x"] < left]]
    ends += [[value for value in drawn["data"]["values"] if value["x"] > right]]
    assert [60 <= len(end) <= 103 for end in ends] == [True, True], (
        "the first in an order would be all, or none"
    )
    assert (await drawn_of(application, chart, pairs))["data"] == drawn["data"], "the same at each read"


@pytest.mark.quick(1, "sqlite")
@pytest.mark.parametrize("mark", ["line", "bar"])
async def test_more_dates_than_fit_are_said_not_to_be_all(application: Application, mark: str) -> None:
    hours = union_all(
        *(select((things.c.big + more).label("big"), things.c.born, things.c.ratio) for more in (0, 1))
    )
    chart = {"mark": "line", "x": "big", "y": {"aggregate": "count"}}
    if mark == "bar":
        chart = {"mark": mark, "x": "born", "y": {"aggregate": "count"}, "color": "big"}
    result = await application.server.create_response(hours.subquery().select(), name="Things")
    response = await application.server.charts.create(result, chart)
    drawn = (await application.http.get(f"/resources/{response.resource_id}/chart")).json()
    assert len(drawn["data"]["values"]) == 1_000
    assert drawn["title"]["subtitle"] == "Not all: only the first 1,000 of 1,200 marks"
    assert "not all are drawn, only the first 1,000 of 1,200 marks" in response.to_text()


CROWDED = {"mark": "bar", "x": "small", "y": {"aggregate": "count"}}


@pytest.mark.quick(1, "sqlite")
@pytest.mark.parametrize("sort", [None, "x", "-x", "y", "-y"])
async def test_bars_are_cut_to_the_largest_and_the_others(application: Application, sort: str | None) -> None:
    drawn = await drawn_of(application, {**CROWDED, "sort": sort})
    counted = Counter(row["small"] for row in ROWS)
    number = len(counted)
    sizes = sorted(counted.values(), reverse=sort != "y")
    if sort == "y":  # a bar of the others would be so high that no other one could be read
        note = f"The 40 smallest of {number} categories, without the others, which are {sum(sizes[40:])} together"
        assert drawn["title"]["subtitle"] == note
        assert [value["y"] for value in drawn["data"]["values"]] == sizes[:40]
        return
    assert drawn["title"]["subtitle"] == f"The 40 largest of {number} categories, the others together"
    *bars, others = drawn["data"]["values"]
    assert others["x"] == f"{number - 40} others"
    known = {"(NULL)" if small is None else str(small): times for small, times in counted.items()}
    assert {value["x"]: value["y"] for value in bars}.items() <= known.items()
    assert others["y"] == len(ROWS) - sum(value["y"] for value in bars)
    assert sorted((value["y"] for value in bars), reverse=True) == sizes[:40]
    shown = [int(value["x"]) for value in bars if value["x"] != "(NULL)"]
    assert sort not in (None, "x", "-x") or shown == sorted(shown, reverse=sort == "-x")
    assert sort != "-y" or [value["y"] for value in bars] == sizes[:40]


@pytest.mark.quick(2, "sqlite")
@pytest.mark.parametrize("aggregate", ["sum", "min", "max", "avg", "count_distinct"])
async def test_what_the_others_are(application: Application, aggregate: str) -> None:
    """Only figures that can be computed of figures are joined."""
    parameters = {**CROWDED, "y": {"aggregate": aggregate, "field": "constant"}, "sort": "-y"}
    drawn = await drawn_of(application, parameters)
    last = drawn["data"]["values"][-1]
    counted = Counter(row["small"] for row in ROWS)
    if aggregate in ("avg", "count_distinct"):
        assert drawn["title"]["subtitle"].endswith("categories, without the others")
        assert len(drawn["data"]["values"]) == 40 and "others" not in str(last["x"])
    else:
        rest = sum(sorted(counted.values())[: len(counted) - 40])
        assert last == {"x": f"{len(counted) - 40} others", "y": 7 * rest if aggregate == "sum" else 7}


async def test_colors_are_cut_as_well(application: Application) -> None:
    parameters = {**CROWDED, "color": "code"}
    drawn = await drawn_of(application, parameters)
    values = drawn["data"]["values"]
    codes, smalls = (Counter(row[name] for row in ROWS) for name in ("code", "small"))
    assert drawn["title"]["subtitle"] == (
        f"The 40 largest of {len(smalls)} categories and the 9 largest of {len(codes)} colors, the others together"
    )
    assert sum(value["y"] for value in values) == len(ROWS)
    colors: Counter[str] = Counter()
    for value in values:
        colors[value["color"]] += value["y"]
    kept = {str(code) if code else "(NULL)": times for code, times in codes.items()}
    assert len(colors) == 10
    assert {
        color: times for color, times in colors.items() if color != f"{len(codes) - 9} others"
    }.items() <= (kept.items())


@pytest.mark.quick(1, "sqlite")
async def test_others_are_told_from_a_category_of_that_name(application: Application) -> None:
    words = [literal(f"{letter}{number}").label("word") for letter in "aA" for number in range(25)]
    several = union_all(*(select(word) for word in [*words, *[literal("10 others").label("word")] * 2]))
    rows = select(several.subquery("several").c.word)
    specification = {"mark": "bar", "x": "word", "y": {"aggregate": "count"}, "sort": "-y"}
    values = (await drawn_of(application, specification, rows))["data"]["values"]
    assert (values[0]["x"], values[0]["y"]) == ("10 others", 2)
    assert values[-1] == {"x": "11 others", "y": 11}
    assert len({value["x"] for value in values}) == 41, "a and A are two"


@pytest.mark.quick(1, "sqlite")
async def test_no_value_is_taken_for_another(application: Application) -> None:
    """In any chart, and where only the largest categories have names."""
    words = ["", "null", "null", '"null"', "(NULL)", "(empty)", *(f"w{number}" for number in range(50))]
    several: Any = union_all(
        *(select(literal(word, String()).label("word")) for word in [*words, *words[:7]]),
        *(select(cast(null(), String(200)).label("word")) for _ in range(9)),
    )
    rows = several.subquery("several").select()
    specification = {"mark": "bar", "x": "word", "y": {"aggregate": "count"}, "sort": "-y"}
    for statement in (
        rows,
        rows.where(rows.selected_columns.word.not_like("w_%") | rows.selected_columns.word.is_(None)),
    ):
        values = await values_of(application.server, specification, statement)
        heights = {value["x"]: value["y"] for value in values}
        assert len(heights) == len(values)
        wanted = {"(empty)": 2, "null": 4, '"null"': 2, '"(NULL)"': 2, '"(empty)"': 2, "(NULL)": 9}
        assert wanted.items() <= heights.items()


@pytest.mark.quick(1, "sqlite")
async def test_without_rows(application: Application) -> None:
    nobody = select(things).where(things.c.id < 0)
    assert await values_of(application.server, COUNTED, nobody) == []
    assert await values_of(application.server, {"mark": "histogram", "x": "small"}, nobody) == []


@pytest.mark.quick(1, "sqlite")
async def test_it_is_a_resource_of_its_own(application: Application) -> None:
    result = await application.server.create_response(ALL, name="Things")
    chart = await application.server.charts.create(result.resource_uri, {**COUNTED, "title": "Kinds"})
    assert (chart.name, chart.mime_type) == ("Kinds", MEDIA_TYPE)
    link = chart.to_structured_content()["resource"]
    assert (link["mimeType"], link["url"]) == (MEDIA_TYPE, chart.resource_url)
    parameters = {"accept": MEDIA_TYPE}
    negotiated = await application.http.get(f"/resources/{chart.resource_id}", headers=parameters)
    assert negotiated.headers["content-type"] == MEDIA_TYPE
    assert negotiated.json() == (await application.http.get(f"/resources/{chart.resource_id}/chart")).json()
    await application.server.unchecked.delete(result.resource_id)
    assert (await application.http.get(f"/resources/{chart.resource_id}/chart")).status_code == 200
    rows = (await application.http.get(f"/resources/{chart.resource_id}?limit=10")).json()["data"]
    assert sum(row["y"] for row in rows) == len(ROWS)
    described = (await application.http.get(f"/resources/{chart.resource_id}")).text
    assert result.resource_id not in described, "who sees the chart has no right to the rows"


async def test_a_tenant_s_chart_has_its_own_rows(engine: AsyncEngine) -> None:
    hooks = [TenantFilter(column="tenant", value=lambda principal: principal.tenant)]
    async with running(engine, tables=METADATA, hooks=hooks, authenticate=by_header) as application:
        ann, eve = Principal(id="ann", tenant="acme"), Principal(id="eve", tenant="zeta")
        result = await application.server.create_response(ALL, name="Things", principal=ann)
        with pytest.raises(Exception, match="no such resource"):
            await application.server.charts.create(result, COUNTED, principal=eve)
        chart = await application.server.charts.create(
            result, {"mark": "bar", "x": "tenant", "y": {"aggregate": "count"}}, principal=ann
        )
        path = f"/resources/{chart.resource_id}/chart"
        drawn = await application.http.get(path, headers={"x-user": "ann", "x-tenant": "acme"})
        own = len([row for row in ROWS if row["tenant"] == "acme"])
        assert drawn.json()["data"]["values"] == [{"x": "acme", "y": own}]
        foreign = await application.http.get(path, headers={"x-user": "eve", "x-tenant": "zeta"})
        assert problem_of(foreign, 404)["code"] == "RESOURCE_NOT_FOUND"


@pytest.mark.quick(3, "sqlite")
@pytest.mark.parametrize(
    "chart",
    [
        None, [], "bar", {}, {"mark": "bar"}, {**COUNTED, "mark": "image"}, {**COUNTED, "mark": ["bar"]},
        {**COUNTED, "data": {"url": "http://127.0.0.1/"}}, {**COUNTED, "transform": []},
        {**COUNTED, "x": {"field": "kind", "expr": "1"}}, {**COUNTED, "x": ["kind"]},
        {**COUNTED, "y": {"aggregate": "count", "signal": "x"}}, {**COUNTED, "y": "small"},
        {**COUNTED, "y": {"aggregate": "stdev", "field": "small"}}, {**COUNTED, "y": {"aggregate": "sum"}},
        {**COUNTED, "sort": "x; DROP TABLE things"}, {**COUNTED, "title": {"signal": "1"}},
        {**COUNTED, "title": "x" * 201}, {**COUNTED, "x": {"field": "kind", "bucket": "century"}},
        {**COUNTED, "x": {"field": "word", "bucket": "year"}},
        {**COUNTED, "y": {"aggregate": "sum", "field": "word"}},
        {"mark": "histogram", "x": "word"}, {"mark": "histogram", "x": "small", "y": {"aggregate": "count"}},
    ],
)  # fmt: skip
async def test_what_is_no_chart_is_refused(application: Application, chart: Any) -> None:
    result = await application.server.create_response(ALL, name="Things")
    with pytest.raises(BadParameterError):
        await application.server.charts.create(result, chart)


@pytest.mark.quick(1, "sqlite")
async def test_a_misspelt_column_is_guessed(application: Application) -> None:
    result = await application.server.create_response(ALL, name="Things")
    with pytest.raises(UnknownColumnError, match="kind"):
        await application.server.charts.create(result, {**COUNTED, "x": "kin"})


@pytest.mark.quick(1, "sqlite")
async def test_other_resources_are_no_charts(application: Application) -> None:
    plain = await application.create(select(things.c.id))
    posing = await application.create(
        select(things.c.id, func.length(things.c.word)), metadata={"chart": COUNTED}
    )
    for path in (plain, posing):
        problem = problem_of(await application.http.get(f"{path}/chart"), 400)
        assert problem["message"] == "This resource is not a chart."


RED = {"column": "kind", "op": "eq", "value": "red"}
ASKED: list[tuple[dict[str, Any], str]] = [
    ({"mark": "bar", "x": "word", "y": {"aggregate": "count"}, "sort": "-y"},
     "mark=bar&x=word&aggregate=count&sort=-y"),
    ({"mark": "bar", "x": "small", "y": {"aggregate": "sum", "field": "constant"}, "color": "tenant", "title": "T"},
     "mark=bar&x=small&y=constant&aggregate=sum&color=tenant&title=T"),
    ({"mark": "line", "x": {"field": "seen", "bucket": "month"}, "y": {"aggregate": "avg", "field": "ratio"}},
     "mark=line&x=seen&bucket=month&y=ratio&aggregate=avg"),
    ({"mark": "point", "x": "small", "y": "ratio", "color": "kind"}, "mark=point&x=small&y=ratio&color=kind"),
    ({"mark": "histogram", "x": "price"}, "mark=histogram&x=price"),
    ({"mark": "histogram", "x": {"field": "small", "scale": "log"}}, "mark=histogram&x=small&scale=log"),
    ({"mark": "heatmap", "x": "word", "y": {"field": "born", "bucket": "year"},
      "color": {"aggregate": "max", "field": "price"}},
     "mark=heatmap&x=word&y=born&y_bucket=year&color=price&aggregate=max"),
    ({"mark": "heatmap", "x": {"field": "seen", "bucket": "quarter"}, "y": "kind", "color": {"aggregate": "count"}},
     "mark=heatmap&x=seen&bucket=quarter&y=kind&aggregate=count"),
]  # fmt: skip


@pytest.mark.quick(3, "sqlite")
@pytest.mark.parametrize(("specification", "query"), ASKED)
async def test_a_chart_that_is_asked_for_is_the_stored_one(
    application: Application, specification: dict[str, Any], query: str
) -> None:
    result = await application.server.create_response(ALL, name="Things", sample_size=1)
    red = await application.server.create_response(
        ALL.where(things.c.kind == "red"), name="Red", sample_size=1
    )
    for response, filters in ((result, ""), (red, f"&filters={quote(json.dumps([RED]))}")):
        stored = await application.server.charts.create(response, specification)
        path = f"/resources/{result.resource_id}/chart?{query}{filters}"
        answer = await application.http.get(path)
        assert answer.json() == (await application.http.get(f"/resources/{stored.resource_id}/chart")).json()
        assert (await application.http.head(path)).status_code == 200
        picture = await application.http.get(f"{path}&format=svg")
        assert (picture.headers["content-type"], picture.content[:4]) == ("image/svg+xml", b"<svg")


@pytest.mark.quick(2, "sqlite")
@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("x=word", 400), ("mark=bar", 400), ("mark=pie&x=word", 400), ("mark=bar&x=word", 400),
        ("mark=bar&x=word&y=small", 400), ("mark=bar&x=wrod&aggregate=count", 422), ("mark=histogram&x=word", 400),
        ("mark=histogram&x=born&scale=log", 400), ("mark=histogram&x=small&bucket=day", 400),
        ("mark=bar&x=word&aggregate=percentile&y=small", 400), ("mark=heatmap&x=word&aggregate=count", 400),
        ("mark=bar&x=word&aggregate=count&filters=%7B", 400), ("mark=bar&x=word&aggregate=count&filters=[{}]", 400),
        ("mark=bar&x=word&aggregate=count&data=http://127.0.0.1/", 400),
    ],
)  # fmt: skip
async def test_charts_that_cannot_be_asked_for(application: Application, query: str, status: int) -> None:
    path = await application.create(ALL)
    for method in ("GET", "HEAD"):
        assert (await application.http.request(method, f"{path}/chart?{query}")).status_code == status
    problem = problem_of(await application.http.get(f"{path}/chart?{query}"), status)
    assert '{"mark"' not in problem["hint"], "an address is no JSON"


@pytest.mark.quick(1, "sqlite")
async def test_formats_and_methods(application: Application) -> None:
    result = await application.server.create_response(ALL, name="Things")
    chart = await application.server.charts.create(result, COUNTED)
    path = f"/resources/{chart.resource_id}/chart"
    get = application.http.get
    assert (await get(path)).headers["content-type"] == MEDIA_TYPE
    assert problem_of(await get(f"{path}?format=pdf"), 400)["code"] == "BAD_PARAMETER"
    assert problem_of(await get(path, headers={"accept": "text/html"}), 406)["code"] == "NOT_ACCEPTABLE"
    assert problem_of(await application.http.post(path), 405)["code"] == "METHOD_NOT_ALLOWED"
    assert (await application.http.head(path)).status_code == 200


@pytest.mark.parametrize("sort", [None, "-y"])
async def test_a_bar_of_others_beside_which_none_could_be_read_is_left_out(
    application: Application, sort: str | None
) -> None:
    several = union_all(*(select(literal(f"category {number}").label("word")) for number in range(500)))
    specification = {"mark": "bar", "x": "word", "y": {"aggregate": "count"}, "sort": sort}
    drawn = await drawn_of(application, specification, several)
    assert [value["y"] for value in drawn["data"]["values"]] == [1] * 40
    assert drawn["title"]["subtitle"] == (
        "The 40 largest of 500 categories, without the others, which are 460 together"
    )
