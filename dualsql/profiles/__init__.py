"""Statistics of the columns of a result.

columns     the rows and columns of a profile, and the statistics that each column has
statistics  the statements: one for all columns (rows, NULLs, range, longest text), one for each column (distinct
            values, the most frequent ones, ten bins)
findings    the profile in the shape of the wire, and notes for a model
service     runs the statements within a time budget
"""

from dualsql.profiles.columns import profiled_rows
from dualsql.profiles.statistics import (
    count_bins,
    counted_values,
    read_bins,
    read_summary,
    spread_statement,
    summary_statement,
)

__all__ = [
    "count_bins",
    "counted_values",
    "profiled_rows",
    "read_bins",
    "read_summary",
    "spread_statement",
    "summary_statement",
]
