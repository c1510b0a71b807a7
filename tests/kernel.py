"""A plug-in of pytest that runs the kernel's own tests: `make test-kernel`, `python -m pytest -p tests.kernel`.

They run with the packages that dualsql requires and pytest's, without a feature: whatever else is installed cannot be
imported, and a server that names no features has none.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import metadata
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

TESTS = Path(__file__).parent

FILES = (
    "columns", "databases", "docs/test_tour.py", "formats", "freeze", "http", "plan", "results", "server", "store",
    "tenancy",
)  # fmt: skip
"""Files and folders below tests/."""

OF_FEATURES = frozenset(
    """
    columns/instants
    columns/kinds
    columns/mappings/test_served.py
    columns/own_types
    columns/values
    databases/streams/test_attacks.py
    databases/streams/test_described.py
    databases/streams/test_equal.py
    databases/streams/test_reader_process.py
    databases/test_announced.py
    databases/test_answers.py::test_no_window_ends_mariadb
    databases/test_answers.py::test_statements_of_duckdb_are_parsed_with_the_settings_of_their_database
    databases/test_callbacks.py
    databases/test_claims.py
    databases/test_drivers.py
    databases/test_engines.py
    databases/test_page_process.py
    databases/test_session_end.py
    databases/test_limits.py::test_a_connection_of_psycopg_that_dualsql_opened_keeps_its_loaders
    databases/test_spark.py
    databases/test_every_database.py::TestEveryDatabase::test_a_part_of_a_text_is_found
    databases/test_every_database.py::TestEveryDatabase::test_a_profile
    databases/test_every_database.py::TestEveryDatabase::test_aggregates
    databases/test_every_database.py::TestEveryDatabase::test_any_text_is_found_by_a_filter
    databases/test_every_database.py::TestEveryDatabase::test_buckets_of_dates
    databases/test_every_database.py::TestEveryDatabase::test_each_aggregate_of_each_column
    databases/test_every_database.py::TestEveryDatabase::test_groups
    databases/test_time.py::test_a_creation_whose_rows_would_be_kept_ends_in_time
    databases/test_unproved.py
    databases/test_writing.py::test_a_duckdb_engine_that_has_files_is_refused
    databases/test_writing.py::test_a_duckdb_engine_that_has_none_is_taken
    databases/test_writing.py::test_a_duckdb_of_a_url_takes_a_part_of_the_memory
    databases/test_writing.py::test_duckdb_has_no_files
    databases/test_writing.py::test_mariadb_is_sent_no_text_with_a_semicolon
    databases/test_writing.py::test_a_session_of_duckdb_is_one_transaction
    databases/test_writing.py::test_what_queries_of_duckdb_write_to_the_disk_is_bounded
    formats/test_cells.py
    formats/test_heavy.py
    formats/test_residue.py
    formats/test_streams.py
    formats/test_table.py
    formats/test_xlsx.py
    http/live
    http/test_additions.py
    http/test_dual_mode.py
    http/test_head.py
    http/test_health.py
    http/test_hostile_values.py::test_a_number_that_would_take_gigabytes_to_write_out
    http/test_openapi.py
    http/test_openapi_fuzz.py
    http/test_pages.py::test_long_cells_are_cut_when_asked
    http/test_pages.py::test_null_is_as_if_left_out
    http/test_refusals.py
    http/test_request_log.py
    http/test_rows.py::TestForms::test_ndjson_without_a_summary_is_a_row_a_line
    http/test_rows.py::TestLinks::test_a_link_for_pages_streams_json_and_nothing_else
    http/test_rows.py::TestLinks::test_a_link_to_a_file_is_what_one_clicks_on
    http/test_rows.py::TestLinks::test_a_single_use_ends_with_the_first_stream
    http/test_rows.py::TestLinks::test_it_is_good_for_its_formats_alone
    http/test_rows.py::TestLinks::test_it_is_revoked_as_it_was_given
    http/test_unknown_names.py
    http/typescript
    results/counts/test_later.py
    results/counts/test_pipeline.py
    results/paging/test_cursor_pages.py::test_a_window_in_text_is_computed_before_a_filter
    results/paging/test_database_order.py::test_sorted_as_the_database_sorts
    results/paging/test_row_order.py
    results/pending
    results/sampling/test_samples.py
    server/test_durations.py
    server/test_features.py
    server/test_forms.py::test_what_cannot_be_asked_is_refused_when_it_is_created
    server/test_keywords.py
    server/test_mistakes.py
    server/test_response.py
    server/test_restart.py
    server/test_sqlmodel.py
    server/test_starting.py
    server/test_surface.py
    server/test_told.py
    server/test_watching.py
    store/migrations
    tenancy/tenants/test_noninterference.py
    tenancy/tenants/test_proof.py
    tenancy/tenants/test_stream_backends.py::test_a_stream_is_that_of_the_tenant_s_own_database
    tenancy/tenants/test_text.py
    tenancy/test_pasted.py
    """.split()
)
"""Files, folders and tests among these that need a feature or an optional package."""

FEATURES = {
    "catalogue", "changes", "charts", "cli", "conformance", "demo", "dual_mode", "envelope", "health", "identity",
    "kept", "links", "openapi", "pending", "profiles", "query", "rates", "request_log", "samples", "saved_queries",
    "serve", "sql", "telemetry", "web",
}  # fmt: skip
"""Modules of dualsql that the kernel does not import, and that can be deleted."""

OF_PACKAGES = {"asyncmy", "duckdb", "mariadb", "psycopg", "psycopg2", "pymysql", "zstd"}
"""In the names of cases: databases, drivers and codings of optional packages."""

ON_EACH_DATABASE = ("databases/", "store/", "tenancy/")
"""Folders whose cases run on PostgreSQL too; what others hold on any database is asked of SQLite alone."""

REQUIRED = ("dualsql", "dualsql-client", "pytest", "pytest-timeout", "pytest-xdist", "hypothesis")
"""Distributions that the kernel's tests need, with what those require."""


def is_left_out(path: Path) -> bool:
    """Whether a file of tests, or a folder, is not one of the kernel's."""
    if not path.is_relative_to(TESTS) or (path.suffix == ".py" and not path.name.startswith("test_")):
        return False
    name = path.relative_to(TESTS)
    around = {each.as_posix() for each in (name, *name.parents)}
    is_above = any(Path(file).is_relative_to(name) for file in FILES)
    return not (is_above or around & {*FILES}) or bool(around & OF_FEATURES)


def is_optional(item: pytest.Item) -> bool:
    """Whether a test of the kernel's files, or a case, needs a feature or an optional package."""
    test, _, case = item.nodeid.removeprefix(f"{TESTS.name}/").partition("[")
    words = {part.partition(" ")[0].lower() for part in case.rstrip("]").split("-")}
    if "postgresql" in words and not test.startswith(ON_EACH_DATABASE):
        return True
    return test in OF_FEATURES or not words.isdisjoint(OF_PACKAGES)


def required_distributions() -> set[str]:
    """The names of `REQUIRED` and of all that they require here."""
    found: set[str] = set()
    waiting = {(name, "") for name in REQUIRED}
    seen: set[tuple[str, str]] = set()
    while waiting:
        name, extra = each = waiting.pop()
        seen.add(each)
        found.add(name)
        for requirement in map(Requirement, metadata.requires(name) or []):
            if requirement.marker is None or requirement.marker.evaluate({"extra": extra}):
                extras = {"", *requirement.extras}
                waiting |= {(canonicalize_name(requirement.name), extra) for extra in extras} - seen
    return found


class OnlyTheKernel(MetaPathFinder):
    """Finds no feature of dualsql, and no package beyond `REQUIRED`."""

    def __init__(self) -> None:
        allowed = required_distributions()
        self.blocked = {
            package
            for package, distributions in metadata.packages_distributions().items()
            if allowed.isdisjoint(map(canonicalize_name, distributions))
        }

    def blocks(self, name: str) -> bool:
        """Whether a module cannot be imported."""
        top, _, rest = name.partition(".")
        return top in self.blocked or (top == "dualsql" and rest.partition(".")[0] in FEATURES)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """See `MetaPathFinder`."""
        if self.blocks(fullname):
            raise ModuleNotFoundError(f"{fullname} is no part of the kernel", name=fullname)
        return None


def pytest_load_initial_conftests() -> None:
    """From here on, nothing else can be imported, and a server has no feature unless it is given some."""
    assert "dualsql" not in sys.modules
    sys.meta_path.insert(0, OnlyTheKernel())
    from dualsql import feature_list

    feature_list.default_features = lambda **_: []


@pytest.hookimpl(tryfirst=True)
def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Other files are not imported."""
    return True if is_left_out(collection_path) else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out single tests and cases."""
    config.hook.pytest_deselected(items=[item for item in items if is_optional(item)])
    items[:] = [item for item in items if not is_optional(item)]
