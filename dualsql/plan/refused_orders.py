"""Orders that are refused: the database leaves rows out, or has its values in another order."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy.sql.functions import FunctionElement

from dualsql import sqlalchemy_internals as internals
from dualsql.capabilities import Capabilities
from dualsql.columns.kinds import function_name
from dualsql.columns.result import ResultColumn
from dualsql.errors import BadParameterError, NoTotalOrderError
from dualsql.freeze.document import AnySelect
from dualsql.plan.keys import Key
from dualsql.plan.shape import may_aggregate, unlabelled

_AVERAGES = frozenset(
    {"avg", "std", "stddev", "stddev_pop", "stddev_samp", "var_pop", "var_samp", "variance"}
)


def require_whole_groups(select: AnySelect, keys: Sequence[Key], capabilities: Capabilities) -> None:
    """Refuse DISTINCT groups with an average that are sorted by an expression with an aggregate, such as
    `sum(x) IS NULL`: MariaDB (10.11) leaves some of them out."""
    outputs = map(unlabelled, internals.outputs_of(select))
    if any(function_name(each) in _AVERAGES for each in outputs if isinstance(each, FunctionElement)) and any(
        len(key.clauses(capabilities)) > 1 and may_aggregate(key.expression) for key in keys
    ):
        raise NoTotalOrderError(
            "DISTINCT groups with an average cannot be sorted here: the database leaves some of them out.",
            hint="Put the groups into a subquery, and DISTINCT around it.",
            developer_hint="groups = statement.subquery(); select(groups).distinct()",
        )


def unsortable(column: ResultColumn) -> BadParameterError:
    """The error for a sort by a column whose stored values sort differently from the shown ones."""
    return BadParameterError(
        f"Rows cannot be sorted by {column.name[:80]!r}: the database stores its values in another form "
        f"({column.meaning.name}), whose order may be another one.",
        hint="Sort by another column, or sort the rows after you fetch them.",
        details={"column": column.name},
    )
