"""The statements of the corpus, by name; see the modules for whose ways of asking they are."""

from __future__ import annotations

from typing import Any

from tests.models.statements import experiments, orders, people, sources, traces, workflows

STATEMENTS: dict[str, Any] = {
    **workflows.STATEMENTS,
    **experiments.STATEMENTS,
    **people.STATEMENTS,
    **traces.STATEMENTS,
    **orders.STATEMENTS,
    **sources.STATEMENTS,
}
"""On every engine."""

POSTGRESQL: dict[str, Any] = {
    **workflows.POSTGRESQL,
    **experiments.POSTGRESQL,
    **people.POSTGRESQL,
    **traces.POSTGRESQL,
    **orders.POSTGRESQL,
}
"""On PostgreSQL alone."""

REFUSED: frozenset[str] = frozenset()
"""What is refused when it is to be stored."""
