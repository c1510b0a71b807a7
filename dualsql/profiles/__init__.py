"""Statistics about the columns of a result."""

from dualsql.profiles.findings import ProfileResult, notes_of, profile_result
from dualsql.profiles.statistics import bins_of, histogram, read_summary, read_values, summary, values
from dualsql.profiles.subjects import ProfiledRows, all_rows, first_rows

__all__ = [
    "ProfileResult",
    "ProfiledRows",
    "all_rows",
    "bins_of",
    "first_rows",
    "histogram",
    "notes_of",
    "profile_result",
    "read_summary",
    "read_values",
    "summary",
    "values",
]
