"""Types of the columns of a statement that only its database knows; loaded with the first database that tells them."""

from __future__ import annotations

from functools import partial

from sqlalchemy.types import NULLTYPE, NullType

from dualsql.databases.explain import described_types
from dualsql.databases.session import in_session
from dualsql.freeze.document import Statement
from dualsql.plan.derived import with_types
from dualsql.results.view import View


async def with_described_types(view: View, statement: Statement) -> Statement | None:
    """The statement with the types that its database describes; None if it describes none that was unknown.

    A database that does not answer fails the creation, as it would fail the sample: otherwise load would decide the
    types of a result.

    Args:
        view: of the statement.
    """
    source, columns = view.source, view.shape.columns
    if not any(column.is_untyped for column in columns):
        return None
    describe = partial(described_types, source, view.shape.select.limit(0), view.rules)
    types = await in_session(source, view.rules, describe, timeout=view.settings.query_timeout)
    unknown = [kind if column.is_untyped else NULLTYPE for kind, column in zip(types, columns, strict=False)]
    if all(isinstance(kind, NullType) for kind in unknown):
        return None
    return with_types(statement, unknown, source.meanings)
