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
from dualsql.databases.file_cache import CACHED_FROM
from dualsql.databases.reflection import MOST_TABLES
from dualsql.kept.settings import KeptSettings
from dualsql.serve.application import LONGEST_NOTES
from dualsql_client.addresses import ID_ALPHABET, ID_RANDOM
from tests.test_docs import ROOT

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
]


@pytest.mark.parametrize("figure", FIGURES, ids=lambda figure: f"{figure.document}: {figure.text}")
def test_a_figure_is_what_is_computed(figure: Figure) -> None:
    page = " ".join(re.sub(r"```bash|```", "", (ROOT / figure.document).read_text(encoding="utf-8")).split())
    assert figure.text.replace("#", str(figure.compute())) in page, figure.compute()
