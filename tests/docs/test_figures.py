# ruff: noqa: E501 - a table
"""Each figure of README and docs is recomputed, or was measured, or is a fact about others."""

from __future__ import annotations

import gzip
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from importlib.resources import files
from math import log2, sqrt
from pathlib import Path
from statistics import median

import pytest
from sqlalchemy.dialects import postgresql

from benchmarks import points, telemetry
from benchmarks.report import FOLDER
from dualsql import Settings, __version__, telemetry as spans
from dualsql.capabilities import LONGEST_PATTERN
from dualsql.catalogue import catalogue, mcp as catalogue_mcp
from dualsql.catalogue.search import MOST_TERMS
from dualsql.changes import ChangeSettings
from dualsql.charts import rows as chart_rows
from dualsql.charts.chart import _LONGEST_TITLE
from dualsql.charts.render import _LONGEST_TEXT, _MOST_DOTS
from dualsql.cli.local_store import _UNUSED
from dualsql.cli.options import DEFAULT_PORT, ServeOptions
from dualsql.cli.workers import _LONGEST_PAUSE
from dualsql.conformance import checks, clients, probe
from dualsql.databases import duckdb, slots
from dualsql.databases.duckdb import CONNECT_ARGUMENTS, MOST_SPILL
from dualsql.databases.duckdb.files import _MOST_COLUMNS, _SAMPLE
from dualsql.databases.duckdb.streams import _ARROW_ROWS
from dualsql.databases.file_cache import _MOST_BYTES, CACHED_FROM
from dualsql.databases.postgresql import _GONE_SECONDS, _HOST_SECONDS, _PENALTY_SECONDS
from dualsql.databases.reflection import MOST_TABLES
from dualsql.databases.session import _UNWINDING
from dualsql.databases.slots import _PRESENT
from dualsql.databases.spark import jobs as spark_jobs
from dualsql.databases.spark.driver import _LATE_JOBS, _PLANNED, _STREAM_PLANNED
from dualsql.databases.sqlite import connection as sqlite_connection, patterns
from dualsql.databases.streams import BATCH_BYTES
from dualsql.databases.text_files import _START
from dualsql.envelope import middleware
from dualsql.envelope.displays import TEXT_BUDGET
from dualsql.envelope.values import Bounds
from dualsql.formats import xlsx
from dualsql.freeze import Registry, codec, freeze, registry
from dualsql.freeze.document import Statement
from dualsql.health import HealthSettings
from dualsql.kept import objects
from dualsql.kept.files import _MOST_SHARES
from dualsql.kept.settings import KeptSettings
from dualsql.log import resource_hash
from dualsql.mcp.resources import MAXIMUM_BYTES, MAXIMUM_SUBSCRIPTIONS
from dualsql.plan import order
from dualsql.profiles.estimates import MOST_ROWS
from dualsql.profiles.findings import _LONGEST_EXCERPT
from dualsql.profiles.settings import ProfileSettings
from dualsql.query import parse as questions
from dualsql.rates import MOST_BUCKETS
from dualsql.results.create import _MOST_LIMITED
from dualsql.results.pages import _LONGEST_CURSOR
from dualsql.serve import listening
from dualsql.serve.application import MAXIMUM_REQUEST_SIZE
from dualsql.serve.stdio import LONGEST_NOTES
from dualsql.sql import lengths, parse
from dualsql.sql.expansion import MAXIMUM_EXPANSION
from dualsql.store import housekeeping
from dualsql.store.sql import SQLResourceStore
from dualsql.web import home, mcp, routes
from dualsql_client import links, object_walk
from dualsql_client.budget import _FREE_BYTES, _SLOW_BYTES, Retry
from dualsql_client.identifiers import ID_ALPHABET, ID_RANDOM
from dualsql_client.transport import _STRANGER_SECONDS
from dualsql_client.view import pages as view
from tests.databases import test_fairness
from tests.schools import Base
from tests.sql import corpus, test_edges, test_forms
from tests.sql.attacks import ATTACKS
from tests.statements import STATEMENTS
from tests.test_docs import PAGES, ROOT

DEFAULTS, KEPT, SERVE, BOUNDS, RETRY = Settings(), KeptSettings(), ServeOptions(), Bounds(), Retry()
MILLION, KIB, MIB = 1_000_000, 1024, 1024**2


def gib(size: int | None) -> str:
    return f"{(size or 0) // 1024**3} GiB"


def minutes(length: timedelta) -> str:
    return f"{length // timedelta(minutes=1)} minutes"


def seconds(length: timedelta) -> str:
    return f"{length.total_seconds():g}"


def programs() -> str:
    """The rows of the demonstration."""
    with gzip.open(Path(str(files("dualsql.demo"))) / "data" / "programs.csv.gz", "rt") as lines:
        return f"{sum(1 for _ in lines):,}"


def source(name: str, pattern: str) -> str:
    """What a file of the project has at the group of a pattern."""
    [figure] = set(re.findall(pattern, (ROOT / name).read_text(encoding="utf-8")))
    return str(figure).replace("_", "")


def default(function: object, name: str) -> timedelta:
    """The default of a keyword argument."""
    value = function.__init__.__kwdefaults__[name]  # type: ignore[misc]
    assert isinstance(value, timedelta)
    return value


def longest(pattern: str) -> int:
    """The most lines of the files of a pattern."""
    return max(len(path.read_text(encoding="utf-8").splitlines()) for path in ROOT.glob(pattern))


def measured_most(part: str, figure: str) -> int:
    """The largest of a figure in the results of a part."""
    figures = json.loads((FOLDER / f"{part}.json").read_text(encoding="utf-8"))["figures"]
    return max(int(each[figure]) for each in figures if figure in each)


def document_size(statement: Statement) -> int:
    """Bytes of the document of a statement of the tests."""
    return len(freeze(statement, Registry(Base), dialect=postgresql.dialect()))


_KINDS = (DEFAULTS.maximum_concurrent_queries, DEFAULTS.maximum_streams, DEFAULTS.maximum_pending)
CONNECTIONS = (*_KINDS, sum(_KINDS), SQLResourceStore("sqlite:///none").maximum_connections)
"""Of a worker with the defaults: by kind of work, to a database and to a store."""


FIGURES: dict[str, list[tuple[object, ...]]] = {
    "README.md": [
        ("the whole idea on # real college programs", programs()),
        ("carry # random bits and expire after #.", int(ID_RANDOM * log2(len(ID_ALPHABET))), minutes(DEFAULTS.default_expiration)),
    ],
    "client/README.md": [
        ("without a new row (# s by default)", seconds(RETRY.budget)),
        ("given up after # seconds", f"{_STRANGER_SECONDS:g}"),
    ],
    "docs/alternatives.md": [("is young: version #,", __version__.rpartition(".")[0])],
    "docs/catalogue.md": [
        ("matches for up to # terms", MOST_TERMS),
        ("in pages of #. Completion", catalogue_mcp._PAGE),
        ("with their comments, # a page", source("dualsql/catalogue/mcp.py", r"limit: Limit = (\d+)")),
        ("a list of up to # names", catalogue.MOST_TABLES),
    ],
    "docs/charts.md": [
        ("up to # characters |", _LONGEST_TITLE), ("are cut to # characters", _LONGEST_TEXT),
        ("| `point` | # points |", f"{chart_rows.MOST_MARKS:,}"),
        ("texts, numbers or flags | # categories |", chart_rows.MOST_BARS),
        ("| its `color` | # | the largest", chart_rows.MOST_COLORS),
        ("more than # categories or # parts", chart_rows.MOST_BARS, f"{chart_rows.MOST_MARKS:,}"),
        ("their bar would be more than # times as high", chart_rows._GIANT),
        ("`bar` of dates | # marks |", f"{chart_rows.MOST_MARKS:,}"),
        ("Lines of more than # marks have no dots", _MOST_DOTS),
    ],
    "docs/client.md": [
        ("is bounded: # values, # levels, # million characters of JSON, # million of other texts and # links", f"{object_walk.MAXIMUM_NODES:,}", object_walk.MAXIMUM_DEPTH, object_walk.MAXIMUM_JSON_CHARACTERS // MIB, links._MAXIMUM_CHARACTERS // MIB, f"{links._MAXIMUM_LINKS_IN_ALL:,}"),
        ("unless it is more than # times as long", object_walk._MOST_EXPANSION),
        ("DuckDB may take # MB", source("client/dualsql_client/database_files.py", r'"memory_limit": "(\d+)MB"')),
        ("for up to # seconds without a new row", seconds(RETRY.budget)),
        ("without a new row. # KiB of an incomplete row count as a new row | # seconds |", _SLOW_BYTES // KIB, seconds(RETRY.budget)),
        ("that brought less than # MiB each; pages without new rows | # |", _FREE_BYTES // MIB, RETRY.times),
        ("takes for each batch | # hours |", RETRY.total // timedelta(hours=1)),
        ("that it doubles to | # and # seconds |", seconds(RETRY.first), seconds(RETRY.longest)),
    ],
    "docs/counts.md": [
        ("`count_budget` (# ms)", DEFAULTS.count_budget // timedelta(milliseconds=1)),
        ("`count_cap`\" (#)", f"{DEFAULTS.count_cap:,}"),
        ("a LIMIT of up to # rows", _MOST_LIMITED),
    ],
    "docs/databases.md": [
        ("server sends for # Selects", len(STATEMENTS)),
        ("checks its clock every # instructions", f"{sqlite_connection._INSTRUCTIONS:,}"),
        ("slots of statements (# of #) is for reading", DEFAULTS.maximum_concurrent_queries // 5, DEFAULTS.maximum_concurrent_queries),
        ("a caller of # endless queries keeps its third, # of # slots", test_fairness.HEAVY, DEFAULTS.maximum_concurrent_queries // 3, DEFAULTS.maximum_concurrent_queries),
        ("event loop: by #, as with", sqlite_connection._LOWER),
        ("when it has run for # seconds, and its session is closed # seconds", f"{_PLANNED:g}", f"{_LATE_JOBS:g}"),
        ("begins later than # seconds", f"{_LATE_JOBS:g}"),
        ("an answer may take # seconds and # MB", f"{spark_jobs._SECONDS:g}", spark_jobs._MOST_BYTES // MIB),
        ("is closed # seconds after its reader", f"{_STREAM_PLANNED:g}"),
        ("`memory_limit` to # %", CONNECT_ARGUMENTS["config"]["memory_limit"].strip("%")),
        ("at most # of all queries of the process", gib(MOST_SPILL)),
        ("patterns have at most # characters, texts #.", f"{LONGEST_PATTERN:,}", f"{patterns.LONGEST_TEXT:,}"),
        ("of more than # classes", patterns._FEW_STATES),
        ("`maximum_concurrent_queries` statements (#) and `maximum_streams` streams (#)", DEFAULTS.maximum_concurrent_queries, DEFAULTS.maximum_streams),
        ("statements (#) wait, for `queue_timeout` (# s)", DEFAULTS.maximum_queued_queries, seconds(DEFAULTS.queue_timeout)),
        ("has taken a slot within # seconds", f"{_PRESENT:g}"),
    ],
    "docs/databases/adding.md": [
        ("have # seconds each", f"{_UNWINDING:g}"),
        ("goes on # seconds after its stop", f"{_UNWINDING:g}"),
        ("a module of # lines", round(longest("plugins/*/dualsql_*.py"), -1)),
    ],
    "docs/envelope.md": [
        ("(# values, # million characters, # levels)", f"{BOUNDS.values:,}", BOUNDS.characters // MILLION, BOUNDS.depth),
        ("is cut to # characters", f"{TEXT_BUDGET:,}"),
        ("complete within # KiB", middleware.LIMIT // KIB),
    ],
    "docs/errors.md": [
        ("or # steps of large SQL", slots._MOST_WAITING_TEXTS),
    ],
    "docs/hosts.md": [
        ("(# and # characters) keep both", f"{DEFAULTS.text_budget:,}", f"{DEFAULTS.results_budget:,}"),
        ("Each has less than # lines", 10 * -(-longest("examples/hosts/with_*") // 10)),
    ],
    "docs/identity.md": [("at most # principals, # links and # addresses", *3 * [f"{MOST_BUCKETS:,}"])],
    "docs/kept-results.md": [
        ("among at most # files, a quarter", _MOST_SHARES),
        ("after `keep_after` (# seconds), or", seconds(KEPT.keep_after)),
        ("end after # seconds and are repeated", objects._REQUEST_SECONDS),
        ("in parts of # MiB", objects._PART_BYTES // MIB),
        ("upload ends after #", minutes(default(objects.ObjectResultStorage, "timeout"))),
        ("Every # seconds the server asks", seconds(default(objects.ObjectResultStorage, "recheck"))),
        ("`keep_quota` (#)", gib(KEPT.keep_quota)),
        ("`keep_total` (#)", gib(KEPT.keep_total)),
        ("`keep_memory` (#)", gib(KEPT.keep_memory)),
        ("`keep_cache_bytes` (#)", gib(KEPT.keep_cache_bytes)),
        ("(\"slow\"), `keep_after` (# seconds), `keep_for` (# day), `keep_rows` (# million), `keep_bytes` (#)", seconds(KEPT.keep_after), KEPT.keep_for.days, KEPT.keep_rows // MILLION, gib(KEPT.keep_bytes)),
    ],
    "docs/mcp.md": [
        ("`text_budget` (# characters) and `results_budget` (#)", f"{DEFAULTS.text_budget:,}", f"{DEFAULTS.results_budget:,}"),
        ("less than # characters with both parts, # when columnar", *(f"{int(source('tests/mcp/test_results.py', rf'{kind}., ([0-9_]+)[)]')):,}" for kind in ("rows", "columnar"))),
        ("has at most # KB", MAXIMUM_BYTES // KIB),
        ("`watch_interval` (# seconds,", seconds(ChangeSettings().watch_interval)),
        ("at most # results, a server `maximum_watched` (#)", MAXIMUM_SUBSCRIPTIONS, f"{ChangeSettings().maximum_watched:,}"),
    ],
    "docs/operations.md": [
        ("four workers of # connections need #", CONNECTIONS[-1] + CONNECTIONS[-2], 4 * (CONNECTIONS[-1] + CONNECTIONS[-2])),
        ("with the defaults # + # + # = # to each database and # to its store", *CONNECTIONS),
        ("Up to # of them wait until", spans._MOST_WAITING),
        ("`health_timeout` (# seconds)", seconds(HealthSettings().health_timeout)),
        ("the first # digits of a SHA-256", len(resource_hash(""))),
        ("`slow_query` (# seconds)", seconds(DEFAULTS.slow_query)),
        ("go on for `drain_timeout` (# seconds)", seconds(DEFAULTS.drain_timeout)),
        ("waits # seconds for requests", listening.GRACE_SECONDS),
        ("`drain_timeout` and # seconds more", 2 * listening.GRACE_SECONDS),
        ("after up to # seconds if it dies again", f"{_LONGEST_PAUSE:g}"),
        ("| # MiB for `/mcp`, `maximum_body_size` (# KiB)", MAXIMUM_REQUEST_SIZE // MIB, DEFAULTS.maximum_body_size // KIB),
        ("twice `queue_timeout` and `query_timeout` (# seconds), a pause of a reader `stream_stall_timeout` (# seconds)", seconds(2 * DEFAULTS.queue_timeout + DEFAULTS.query_timeout), seconds(DEFAULTS.stream_stall_timeout)),
        ("keeps them for # seconds", listening.KEEP_ALIVE_SECONDS),
        ("five starts in # seconds", source("examples/operations/dualsql.service", r"StartLimitIntervalSec=(\d+)")),
        ("In CPU it took # to # times", *(source("docs/decisions/0049-workers-share-a-socket-of-their-parent.md", pattern) for pattern in (r"workers took (\d\.\d+) to", r"workers took \d\.\d+ to (\d\.\d+)"))),
        ("pages of # rows in turns", telemetry.PAGE),
        ("every request take more than # % of the pages a second, or spans of one request in 100 more than # %", *(f"{limit:.0%}".strip("%") for limit in telemetry.LIMITS.values())),
    ],
    "docs/pages.md": [
        ("gives, and # pixels", source("dualsql/web/static/app.js", r"TALLEST = (\d+)")),
        ("(of a long one # characters are shown", f"{int(source('dualsql/web/static/dialogs.js', r'LAID_OUT = ([0-9_]+)')):,}"),
        ("The database has # s for the columns", source("dualsql/web/static/summaries.js", r"BUDGET = (\d+)")),
        ("up to # columns, and # aggregates", questions.MAXIMUM_GROUPS, questions.MAXIMUM_MEASURES),
        ("a page has # rows, or as many as `limit` names, and at most # cells", routes.ROWS, f"{routes.MOST_CELLS:,}"),
        ("save up to # rows as CSV", f"{int(source('dualsql/web/static/app.js', r'MOST_SAVED = ([0-9_]+)')):,}"),
        ("at most # rows and # characters a call", mcp.MOST_ROWS, f"{mcp.MOST_CHARACTERS:,}"),
    ],
    "docs/paging.md": [
        ("at most # KiB", _LONGEST_CURSOR // KIB),
        ("has more than # keys", order._MOST_KEYS),
    ],
    "docs/pending.md": [
        ("`maximum_pending` (#)", DEFAULTS.maximum_pending),
        ("`pending_timeout` (#)", minutes(DEFAULTS.pending_timeout)),
        ("`pending_lease` (# seconds)", seconds(DEFAULTS.pending_lease)),
    ],
    "docs/performance.md": [("at most # ms of CPU; a collection", int(1000 * test_edges.LONGEST_STEP))],
    "docs/profile.md": [
        ("`profile_sample` rows (#)", f"{ProfileSettings().profile_sample:,}"),
        ("`maximum_profile_columns` (#)", ProfileSettings().maximum_profile_columns),
        ("shown up to # characters", _LONGEST_EXCERPT),
        ("`profile_budget` (# s)", seconds(ProfileSettings().profile_budget)),
        ("from about # rows, each", f"{MOST_ROWS:,}"),
        ("within # points, 95 times of 100", f"{100 * 1.96 * sqrt(0.25 / MOST_ROWS):.1f}"),
    ],
    "docs/querying.md": [
        ("limits are # groups, # aggregates, # conditions, # levels of conditions, and # values", questions.MAXIMUM_GROUPS, questions.MAXIMUM_MEASURES, questions.MAXIMUM_CONDITIONS, questions.MAXIMUM_DEPTH, f"{questions.MAXIMUM_VALUES:,}"),
        ("After # rows were shown", DEFAULTS.default_sample_size),
    ],
    "docs/reliability.md": [
        ("`MINUTES` (#)", source("Makefile", r"MINUTES\),(\d+)")),
        ("a file system of # MB", source("tests/failures/test_sqlite.py", r"size=(\d+)m")),
    ],
    "docs/scaling.md": [
        ("# workers on one store of # results, # connections of callers and of one PostgreSQL, # GB of kept rows", points.WORKERS, f"{points.RESULTS:,}", f"{points.CONNECTIONS:,}", f"{points.GIGABYTES:g}"),
        ("with more than # workers; with more than # sessions", measured_most("scaling", "workers"), measured_most("scaling", "connections")),
        ("does not answer for # seconds", f"{_HOST_SECONDS:g}"),
        ("after the others for # seconds", f"{_PENALTY_SECONDS:g}"),
        ("acknowledges nothing for # seconds", _GONE_SECONDS),
        ("the # seconds above", _GONE_SECONDS),
        ("of the store (# s, and one more where its reader tries first), `queue_timeout` (# s)", seconds(default(SQLResourceStore, "timeout")), seconds(DEFAULTS.queue_timeout)),
        ("every `watch_interval` (# s)", seconds(ChangeSettings().watch_interval)),
        ("every `cleanup_interval` (# s) for a sweep, which deletes # results", seconds(DEFAULTS.cleanup_interval), housekeeping._BATCH),
    ],
    "docs/serve.md": [
        ("at most # times as long as a server of the SDK", source("tests/serve/test_startup.py", r"median\(ratios\) <= ([\d.]+)")),
        ("The limit is # tables", f"{MOST_TABLES:,}"),
        ("A file has at most # columns, and their names at most # KiB", f"{_MOST_COLUMNS:,}", _START // KIB),
        ("Files of # MiB and more", CACHED_FROM // MIB),
        ("copies take more than #,", gib(_MOST_BYTES)),
        ("with more than # rows has 18 or 38 digits", f"{_SAMPLE:,}"),
        ("127.0.0.1 and #;", DEFAULT_PORT),
        ("these copies may take; default #", gib(SERVE.keep_cache_bytes)),
        ("with its query or after # seconds", seconds(DEFAULTS.query_timeout)),
        ("too large to show whole; default #", DEFAULTS.default_sample_size),
        ("lower bound; default #", seconds(DEFAULTS.count_budget)),
        ("no server used for # days", _UNUSED // 86_400),
        ("so they may have # characters", f"{LONGEST_NOTES:,}"),
    ],
    "docs/specification.md": [
        ("`--port` (#)", DEFAULT_PORT),
        ("an expiration (#), a sample size (# rows", minutes(DEFAULTS.default_expiration), DEFAULTS.default_sample_size),
        ("The default is #", minutes(DEFAULTS.default_expiration)),
    ],
    "docs/sql.md": [
        ("up to # steps wait in turn", slots._MOST_WAITING_TEXTS),
        ("expands to more than # parts", f"{MAXIMUM_EXPANSION:,}"),
        ("- # attacks are refused in five dialects", len(ATTACKS)),
        ("- # analytic queries", len(list(corpus.texts()))),
        ("compared: # on SQLite, # on PostgreSQL, # on MariaDB, # on DuckDB", *(len(corpus.texts_for(name)) for name in corpus.ENGINES)),
        ("Limits: # KiB, # tokens, # SELECTs, brackets # deep, parts nested # deep", parse.MAXIMUM_LENGTH // KIB, f"{parse.MAXIMUM_TOKENS:,}", parse.MAXIMUM_SELECTS, parse.MAXIMUM_BRACKETS, parse.MAXIMUM_DEPTH),
        ("takes at most # ms of a quiet core", int(1000 * test_forms.MOST)),
        ("takes at most # ms of CPU for a step", int(1000 * test_edges.LONGEST_STEP)),
        ("within a function: # million characters; # million where they become JSON or a list; a product of # million", lengths.LONGEST_TEXT // MILLION, lengths.LONGEST_DOCUMENT // MILLION, lengths.MOST_SEARCH_WORK // MILLION),
        ("looked for in it, # million for regular", lengths.MOST_SEARCH_WORK // lengths._PATTERN_WORK // MILLION),
        ("DuckDB computes # rows at once", f"{_ARROW_ROWS:,}"),
        ("makes at most # characters", f"{duckdb._LONGEST_TEXT:,}"),
    ],
    "docs/standard/README.md": [
        ("each have at most # characters", f"{checks._LONGEST_RESULT:,}"),
        ("must return # to # rows", probe.FEWEST_ROWS, f"{probe.MOST_ROWS:,}"),
        ("it sends at most # requests, reads at most # MiB", f"{probe.MOST_REQUESTS:,}", probe.MOST_BYTES // MIB),
        ("one JSON object of at most # MiB", clients.MOST_BYTES // MIB),
        ("It has # seconds; then it is ended", f"{clients.SECONDS:g}"),
    ],
    "docs/storage.md": [
        ("a **document** of about # bytes", round(median(map(document_size, STATEMENTS.values())), -2)),
        ("# MiB before compression (`maximum_size` of a `Registry`), # nodes, # terms when written out, # levels", registry.ONE_MEBIBYTE // MIB, f"{codec.MOST_NODES:,}", f"{codec.MOST_TERMS:,}", codec.DEEPEST),
    ],
    "docs/streams.md": [
        ("a few pieces of about # KB", BATCH_BYTES // KIB),
        ("A sheet has at most # rows", f"{xlsx.MOST_ROWS + 1:,}"),
        ("A result of more than # columns", f"{xlsx.MOST_COLUMNS:,}"),
        ("A text of more than # characters", f"{xlsx.MOST_CHARACTERS:,}"),
    ],
    "docs/threat-model.md": [
        ("with more than # addresses", f"{MOST_BUCKETS:,}"),
        ("| # random bits", int(ID_RANDOM * log2(len(ID_ALPHABET)))),
        ("for its # hours", home._SESSION_SECONDS // 3600),
        ("together at most # or", gib(MOST_SPILL)),
    ],
    "docs/viewer.md": [
        ("A page has # rows. The last # pages", view.ROWS_OF_A_PAGE, view.PAGES_IN_MEMORY),
        ("cut at # characters", view.CELL_CHARACTERS),
    ],
}  # fmt: skip
"""What stands around figures of a page, `#` for each, and the figures as they are computed."""

NOT_OURS = {
    "SECURITY.md": ["at most 90 days"],
    "docs/charts.md": ["1, 2 or 5 times a power of ten", "98 (or 90) of 100 values"],
    "docs/databases.md": ["may take 80 % of the memory", "the network of 64 bits"],
    "docs/hosts.md": ["above 25,000 tokens or about 50,000 characters, a preview of 2 KB", "from 10 KB on", "after 5 seconds: set `read_timeout_seconds`"],
    "docs/identity.md": ["404, byte for byte"],
    "docs/kept-results.md": ["of more than 100,000 rows", "an aggregate of 10 million rows", "beyond 64 bits"],
    "docs/operations.md": ["(60 seconds): 75 seconds", "(its default is 5 seconds)", "whose minutes last 4 seconds", "after 5 restarts in 25 seconds"],
    "docs/pages.md": ["A result with 250,000 rows", "250,000 flights in SQLite"],
    "docs/paging.md": ["after 500 characters"],
    "docs/profile.md": ["95 times of 100", "In all 1,010,328 rows", "showing 15 of 15,191 rows"],
    "docs/querying.md": ["integers have 64 bits"],
    "docs/scaling.md": ["with 100,000 results", "10, 100 and 1,000 workers"],
    "docs/serve.md": ["more than 38 digits", "up to 38 digits", "up to 15 digits", "18 or 38 digits"],
    "docs/standard/README.md": ["more than 15 digits", "at most 64 bits"],
    "docs/standard/implementing.md": ["100 rows are usual"],
    "docs/streams.md": ["keeps 15 digits", "at most 15 digits", "shows 15 digits", "ISO 8601 texts"],
    "docs/threat-model.md": ["up to 90 % of the free disk"],
    "docs/types.md": ["up to 24 bits", "as 30 days"],
    "docs/viewer.md": ["80 by 24 characters"],
}  # fmt: skip
"""Figures of other programs, of formats, of examples, and of what a test or a screenshot is of."""

MEASURED = {"docs/alternatives.md", "docs/performance.md"}
"""Pages whose figures are of benchmarks/results."""

LEFT_OUT = {
    "CHANGELOG.md",  # what was, when it was written
    "CONTRIBUTING.md",  # its limits are held by tests/test_house.py
    "docs/settings.md",  # made by a script
    "docs/tutorial.md",  # followed by tests
    "docs/architecture.md",  # N+1 rows
}
"""Pages whose figures are not looked at."""

NUMBER = (
    r"(?<![\w.,/#^+-])\d[\d,]*(?:\.\d+)?(?=(?:,? (?:and|to|or) (?:after )?(?:about )?\d[\d,.]*)* "
    r"(?:%|times|m?s|(?:micro)?seconds?|minutes?|hours?|days?|million|[KMG]i?B|"
    r"(?:row|character|byte|bit|column|table|digit|result|name|cell|level|value|token|condition|group|aggregate|node|term|link|text|item|page|"
    r"screen|SELECT|point|mark|key|Select|step|part|attack|instruction|pixel|slot|worker|session|line|file|flight)s?|"
    r"categor(?:y|ies)|(?:[a-z]+ )?queries|addresses|connections|deep|on (?:SQLite|PostgreSQL|MariaDB|DuckDB))(?![\w/-]))"
    # In parentheses behind the name of a setting, and not the status of an error.
    r"|(?<=` \()(?![45]\d\d\))\d[\d,]*(?=\))"
)


def words_of(name: str) -> str:
    """The prose and the tables of a page, without code and without what programs wrote or printed."""
    page = (ROOT / name).read_text(encoding="utf-8")
    blocks = r"<!-- (?:[^>]*benchmarks\.|printed by make )[^>]*-->.*?<!-- end -->"
    page = re.sub(blocks, "", page, flags=re.DOTALL)
    page = re.sub(
        r"```(\w+)(.*?)```", lambda block: block[2] if block[1] == "bash" else "", page, flags=re.DOTALL
    )
    return " ".join(page.split())


def places(name: str, page: str) -> Iterator[tuple[int, int]]:
    """Where the figures of a page stand."""
    for text, *values in FIGURES.get(name, []):
        filled = "".join(
            part + value for part, value in zip(str(text).split("#"), [*map(str, values), ""], strict=True)
        )
        assert filled in page, filled
        yield page.index(filled), page.index(filled) + len(filled)
    for text in NOT_OURS.get(name, []):
        assert text in page, text
        yield page.index(text), page.index(text) + len(text)


def further_figures(name: str, pattern: str) -> Iterator[tuple[str, str]]:
    """The other figures of a page, with the words around each."""
    page = words_of(name)
    spans = list(places(name, page))
    prose = re.sub(r"`[^`]*`|\]\([^)]*\)|decision \d+", lambda match: "`" * len(match[0]), page)
    for match in re.finditer(pattern, prose):
        if not any(start <= match.start() < end for start, end in spans):
            yield match[0], page[max(0, match.start() - 60) : match.end() + 20]


@pytest.mark.parametrize("name", sorted(FIGURES))
def test_figures_are_what_is_computed(name: str) -> None:
    assert list(places(name, words_of(name)))


def test_no_other_figure_stands_there() -> None:
    """A number with a unit is recomputed, or was measured, or is said to be no claim about this project."""
    pages = [
        name
        for name in PAGES
        if re.fullmatch(r"(client/|client-js/|docs/(databases/|standard/)?)?[\w-]+\.md", name)
        and name not in LEFT_OUT | MEASURED
    ]
    assert [(name, words) for name in pages for _, words in further_figures(name, NUMBER)] == []


@pytest.mark.parametrize("name", sorted(MEASURED))
def test_figures_of_measurements_are_those_that_were_measured(name: str) -> None:
    measured = "\n".join(path.read_text(encoding="utf-8") for path in FOLDER.glob("*.md"))
    figures = dict(further_figures(name, rf"(?<![\w.,-])\d[\d,]*\.\d+(?![\w.])|\d,\d{{3}}|{NUMBER}"))
    assert len(figures) >= 8
    assert [
        words
        for figure, words in figures.items()
        if not re.search(rf"(?<![\d.,]){re.escape(figure)}(?![\d])", measured)
    ] == []


@pytest.mark.long
def test_the_table_of_the_readme_is_what_the_demonstration_measures(tmp_path: Path) -> None:
    demo = subprocess.run(
        [sys.executable, "-c", "from dualsql.cli import main; main()", "demo", "--port", "0"],
        env={**os.environ, "XDG_CACHE_HOME": str(tmp_path), "COLUMNS": "80"},
        capture_output=True,
        text=True,
        check=True,
    )
    readme = (ROOT / "README.md").read_text(encoding="utf-8")

    def numbers(pattern: str, text: str) -> list[list[int]]:
        return [
            [int(each.replace(",", "")) for each in match]
            for match in re.findall(pattern, text, re.MULTILINE)
        ]

    cell = r" +([\d,]+) "
    model, application = (
        numbers(f"│ {who}[^│]*│{cell}│{cell}│", demo.stdout) for who in ("model:", "application:")
    )
    table = numbers(rf"^\| [^|]+ \|{cell}\|{cell}\|{cell}\|{cell}\|$", readme)
    assert len(table) == 3
    assert [row[2:] for row in table] == application
    assert [row[0] for row in table] == [rows for rows, _ in model]
    # The port has other digits, and a count that has no time is a lower bound.
    assert [row[1] for row in table] == [pytest.approx(size, rel=0.05) for _, size in model]
