"""The only package that runs statements: in read-only sessions with a time limit."""

from dualsql.databases.backends import Backend, backend_of
from dualsql.databases.comparison import prove_tenants
from dualsql.databases.fetch import RowCounter, Sample, fetch_page, fetch_rows, fetch_sample
from dualsql.databases.proof import (
    SourceHealth,
    compares_by_code_point,
    connection_limit,
    has_policies,
    missing_tables,
    prove,
    prove_read_only,
    prove_row_security,
    unproved_notice,
)
from dualsql.databases.session import ran_too_long
from dualsql.databases.source import Database, Source, chosen_source, open_source, open_sources, reach
from dualsql.databases.streams import StreamJob, stream_rows
from dualsql.formats.writer import Rows

__all__ = [
    "Backend",
    "Database",
    "RowCounter",
    "Rows",
    "Sample",
    "Source",
    "SourceHealth",
    "StreamJob",
    "backend_of",
    "chosen_source",
    "compares_by_code_point",
    "connection_limit",
    "fetch_page",
    "fetch_rows",
    "fetch_sample",
    "has_policies",
    "missing_tables",
    "open_source",
    "open_sources",
    "prove",
    "prove_read_only",
    "prove_row_security",
    "prove_tenants",
    "ran_too_long",
    "reach",
    "stream_rows",
    "unproved_notice",
]
