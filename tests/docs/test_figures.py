"""Figures of sizes, limits and defaults in README and docs are recomputed. Those of speed: tests/test_benchmarks.py."""

from __future__ import annotations

import gzip
import re
from collections.abc import Callable
from datetime import timedelta
from importlib.resources import files
from math import log2
from pathlib import Path
from typing import NamedTuple

import pytest

from dualsql import Settings
from dualsql.cli.options import DEFAULT_PORT, ServeOptions
from dualsql.databases.duckdb.files import _MOST_COLUMNS, _SAMPLE
from dualsql.databases.file_cache import CACHED_FROM
from dualsql.databases.reflection import MOST_TABLES
from dualsql.databases.text_files import _START
from dualsql.envelope.values import Bounds
from dualsql.kept.settings import KeptSettings
from dualsql.serve.application import LONGEST_NOTES
from dualsql.sql.parse import MAXIMUM_LENGTH, MAXIMUM_SELECTS, MAXIMUM_TOKENS
from dualsql_client.identifiers import ID_ALPHABET, ID_RANDOM
from tests.test_docs import ROOT

MILLISECOND = timedelta(milliseconds=1)
DEFAULTS, KEPT, SERVE = Settings(), KeptSettings(), ServeOptions()


def _gib(size: int | None) -> str:
    return f"{(size or 0) // 1024**3} GiB"


def _minutes(length: timedelta) -> str:
    return f"{length // timedelta(minutes=1)} minutes"


def _seconds(length: timedelta) -> str:
    return f"{length.total_seconds():g}"


def _programs() -> str:
    with gzip.open(Path(str(files("dualsql.demo"))) / "data" / "programs.csv.gz", "rt") as lines:
        return f"{sum(1 for _ in lines):,}"


class Figure(NamedTuple):
    """A figure: where it stands, what stands around it (`#` is the figure), and how it is computed."""

    document: str
    text: str
    compute: Callable[[], object]


FIGURES = [
    Figure("README.md", "the whole idea on # real college programs", _programs),
    Figure("README.md", "carry # random bits", lambda: int(ID_RANDOM * log2(len(ID_ALPHABET)))),
    Figure("README.md", "bits and expire after #.", lambda: _minutes(DEFAULTS.default_expiration)),
    Figure("docs/kept-results.md", "after `keep_after` (# seconds)", lambda: _seconds(KEPT.keep_after)),
    Figure("docs/kept-results.md", "`keep_for` (# day)", lambda: KEPT.keep_for.days),
    Figure("docs/kept-results.md", "`keep_rows` (# million)", lambda: KEPT.keep_rows // 1_000_000),
    Figure("docs/kept-results.md", "`keep_bytes` (#)", lambda: _gib(KEPT.keep_bytes)),
    Figure("docs/kept-results.md", "`keep_quota` (#)", lambda: _gib(KEPT.keep_quota)),
    Figure("docs/kept-results.md", "`keep_total` (#)", lambda: _gib(KEPT.keep_total)),
    Figure("docs/kept-results.md", "`keep_memory` (#)", lambda: _gib(KEPT.keep_memory)),
    Figure("docs/kept-results.md", "`keep_cache_bytes` (#)", lambda: _gib(KEPT.keep_cache_bytes)),
    Figure("docs/serve.md", "these copies may take; default #", lambda: _gib(SERVE.keep_cache_bytes)),
    Figure("docs/serve.md", "The limit is # tables", lambda: f"{MOST_TABLES:,}"),
    Figure("docs/serve.md", "so they may have # characters", lambda: f"{LONGEST_NOTES:,}"),
    Figure("docs/serve.md", "Files of # MiB and more", lambda: CACHED_FROM // 1024**2),
    Figure("docs/serve.md", "too large to show whole; default #", lambda: DEFAULTS.default_sample_size),
    Figure("docs/serve.md", "lower bound; default #", lambda: _seconds(DEFAULTS.count_budget)),
    Figure("docs/serve.md", "127.0.0.1 and #;", lambda: DEFAULT_PORT),
    Figure("docs/serve.md", "A file has at most # columns", lambda: f"{_MOST_COLUMNS:,}"),
    Figure("docs/serve.md", "their names at most # KiB", lambda: _START // 1024),
    Figure("docs/serve.md", "with more than # rows has 18 or 38 digits", lambda: f"{_SAMPLE:,}"),
    Figure("docs/counts.md", "`count_budget` (# ms)", lambda: DEFAULTS.count_budget // MILLISECOND),
    Figure("docs/mcp.md", "`text_budget` (# characters)", lambda: f"{DEFAULTS.text_budget:,}"),
    Figure("docs/mcp.md", "`results_budget` (#", lambda: f"{DEFAULTS.results_budget:,}"),
    Figure("docs/hosts.md", "(# and", lambda: f"{DEFAULTS.text_budget:,}"),
    Figure("docs/hosts.md", "and # characters) keep both", lambda: f"{DEFAULTS.results_budget:,}"),
    Figure("docs/operations.md", "`slow_query` (# seconds)", lambda: _seconds(DEFAULTS.slow_query)),
    Figure("docs/operations.md", "`drain_timeout` (# seconds)", lambda: _seconds(DEFAULTS.drain_timeout)),
    Figure("docs/operations.md", "`maximum_body_size` (# KiB)", lambda: DEFAULTS.maximum_body_size // 1024),
    Figure(
        "docs/operations.md",
        "`stream_stall_timeout` (# seconds)",
        lambda: _seconds(DEFAULTS.stream_stall_timeout),
    ),
    Figure(
        "docs/operations.md",
        "twice `queue_timeout` and `query_timeout` (# seconds)",
        lambda: _seconds(2 * DEFAULTS.queue_timeout + DEFAULTS.query_timeout),
    ),
    Figure("docs/pending.md", "`pending_timeout` (#)", lambda: _minutes(DEFAULTS.pending_timeout)),
    Figure("docs/pending.md", "`pending_lease` (# seconds)", lambda: _seconds(DEFAULTS.pending_lease)),
    Figure("docs/specification.md", "an expiration (#)", lambda: _minutes(DEFAULTS.default_expiration)),
    Figure("docs/specification.md", "a sample size (# rows", lambda: DEFAULTS.default_sample_size),
    Figure("docs/sql.md", "Limits: # KiB", lambda: MAXIMUM_LENGTH // 1024),
    Figure("docs/sql.md", "KiB, # tokens", lambda: f"{MAXIMUM_TOKENS:,}"),
    Figure("docs/sql.md", "tokens, # SELECTs", lambda: MAXIMUM_SELECTS),
    Figure("docs/envelope.md", "`Bounds` allow (# values", lambda: f"{Bounds().values:,}"),
]


@pytest.mark.parametrize("figure", FIGURES, ids=lambda figure: f"{figure.document}: {figure.text}")
def test_a_figure_is_what_is_computed(figure: Figure) -> None:
    page = " ".join(re.sub(r"```bash|```", "", (ROOT / figure.document).read_text(encoding="utf-8")).split())
    assert figure.text.replace("#", str(figure.compute())) in page, figure.compute()


def test_the_figures_of_a_comparison_are_measured() -> None:
    """Those that the page says are of performance.md, which is written of the kept results of benchmarks."""
    page, measured = (
        (ROOT / "docs" / name).read_text(encoding="utf-8") for name in ("alternatives.md", "performance.md")
    )
    costs = page.partition("## What it costs")[2].partition("\nIt is young")[0]
    [adbc] = [line for line in page.splitlines() if "adbc" in line]
    figures = re.findall(r"(?<![\w.])\d[\d,]*\.\d+|\d,\d{3}|\d{3}", f"{costs} {adbc}")
    assert len(figures) >= 8
    assert [
        figure for figure in figures if not re.search(rf"(?<![\d.,]){re.escape(figure)}(?![\d])", measured)
    ] == []
