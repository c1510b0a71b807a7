"""The only package that runs statements: in read-only sessions with a time limit."""

from dualsql.databases.backends import Backend, backend_of
from dualsql.databases.fetch import RowCounter, Sample, described_types, fetch_rows, fetch_sample
from dualsql.databases.opening import Database, open_source, open_sources
from dualsql.databases.proof import (
    connection_limit,
    has_policies,
    missing_tables,
    prove,
    prove_read_only,
    prove_row_security,
    unproved_notice,
)
from dualsql.databases.session import ran_too_long
from dualsql.databases.slots import Shares
from dualsql.databases.source import Source, chosen_source
from dualsql.databases.streams import StreamJob, stream_rows
from dualsql.formats.writer import Rows

__all__ = [
    "Backend",
    "Database",
    "RowCounter",
    "Rows",
    "Sample",
    "Shares",
    "Source",
    "StreamJob",
    "backend_of",
    "chosen_source",
    "connection_limit",
    "described_types",
    "fetch_rows",
    "fetch_sample",
    "has_policies",
    "missing_tables",
    "open_source",
    "open_sources",
    "prove",
    "prove_read_only",
    "prove_row_security",
    "ran_too_long",
    "stream_rows",
    "unproved_notice",
]
