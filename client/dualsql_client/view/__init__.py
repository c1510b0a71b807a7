"""A viewer of results for the terminal. It keeps a bounded number of pages in memory."""

from __future__ import annotations
