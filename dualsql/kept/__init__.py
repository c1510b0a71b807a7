"""Kept results: the rows of one run in a file, from which pages, streams and questions are read.

`storage` is where the files are, `objects` has them in an object store, `files` writes and opens them, `cells` says how
the cells of each type are kept, and `service` decides whether the rows of a resource are read from its file.
"""

from dualsql.kept.objects import ObjectResultStorage, storage_at
from dualsql.kept.storage import LocalResultStorage, ResultStorage, StoredFile

__all__ = [
    "LocalResultStorage",
    "ObjectResultStorage",
    "ResultStorage",
    "StoredFile",
    "storage_at",
]
