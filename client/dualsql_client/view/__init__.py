"""A viewer of results for the terminal. It holds a bounded number of pages, however long the result is."""

from __future__ import annotations
