"""What the columns of a result are like; the rule: Selects to be run and rows to be read, never a connection.

    subjects   which figures a column can have; hidden: whose column gives nothing away
    data       the rows that are looked at
    summary    one pass: rows, NULLs, lowest, highest, longest of every column
    values     one column: how many values, the most frequent, ten bins; bins: where these begin and end
    figures    what was found; notes: what a model should hear of it

READ IN THIS ORDER.
"""

from dualsql.profiling.data import Data, all_rows, first_rows
from dualsql.profiling.figures import Found, found
from dualsql.profiling.notes import notes_of, spoken
from dualsql.profiling.summary import read_summary, summary
from dualsql.profiling.values import bins_of, histogram, read_values, values

__all__ = [
    "Data",
    "Found",
    "all_rows",
    "bins_of",
    "first_rows",
    "found",
    "histogram",
    "notes_of",
    "read_summary",
    "read_values",
    "spoken",
    "summary",
    "values",
]
