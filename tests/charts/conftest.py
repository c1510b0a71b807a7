"""The things on every engine."""

from __future__ import annotations

from tests.profiles.databases import engine, url

__all__ = ["engine", "url"]
