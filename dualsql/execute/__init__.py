"""The only package that runs the caller's SQL; the rule: read-only and bounded in time."""

from dualsql.execute.counting import Counter
from dualsql.execute.failures import ran_too_long
from dualsql.execute.lanes.job import Job
from dualsql.execute.pages import fetch_page
from dualsql.execute.proof import prove, prove_read_only, prove_row_security
from dualsql.execute.reaching import reach
from dualsql.execute.reflection import Reflected, Selection, reflect
from dualsql.execute.rows import Rows, fetch_rows
from dualsql.execute.sample import Sample, fetch_sample
from dualsql.execute.source import Database, Source, chosen_source, open_source, open_sources
from dualsql.execute.streaming import stream_rows

__all__ = [
    "Counter",
    "Database",
    "Job",
    "Reflected",
    "Rows",
    "Sample",
    "Selection",
    "Source",
    "chosen_source",
    "fetch_page",
    "fetch_rows",
    "fetch_sample",
    "open_source",
    "open_sources",
    "prove",
    "prove_read_only",
    "prove_row_security",
    "ran_too_long",
    "reach",
    "reflect",
    "stream_rows",
]
