"""SQL about a stored result to a Select over it; the rule: it knows one relation, and no table of the database."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import CompoundSelect, MetaData, select

from dualsql.asking.question import Question, TextQuestion
from dualsql.asking.reading import read_question
from dualsql.asking.statements import RELATION, answering_question
from dualsql.dialects import Capabilities
from dualsql.errors import BadParameterError, ConfigurationError
from dualsql.freeze import Registry
from dualsql.plan import Shape, ordered, relation_in_order, shape
from dualsql.plan.options import with_criteria_of
from dualsql.plan.ties import is_table, leaves_of
from dualsql.statement import AnySelect
from dualsql.suggesting import refuse_unknown

MAXIMUM_PARAMETERS = 100

TEXT_KEYS = ("sql", "parameters", "columns", "limit", "offset")
"""Of a question in SQL."""

_NOTHING = Registry(MetaData())


def read_text(values: Any) -> TextQuestion:
    """The question that `{"sql": "SELECT ... FROM data", "parameters": {"state": "NJ"}}` is.

    Raises:
        BadParameterError: it is none. Whether its SQL can be read is not known here.
    """
    if not isinstance(values, Mapping):
        raise BadParameterError(
            "A question is a JSON object.", hint='Such as {"sql": "SELECT count(*) FROM data"}.'
        )
    refuse_unknown(values, TEXT_KEYS, "key")
    sql, parameters = values.get("sql"), values.get("parameters") or {}
    if not isinstance(sql, str) or not sql.strip():
        raise BadParameterError(
            "sql is a text.", hint="Such as SELECT state, count(*) FROM data GROUP BY state."
        )
    if not isinstance(parameters, Mapping) or len(parameters) > MAXIMUM_PARAMETERS:
        raise BadParameterError(f"parameters is an object of at most {MAXIMUM_PARAMETERS} values.")
    for name, value in parameters.items():
        if not isinstance(name, str) or not isinstance(value, str | int | float | None):
            raise BadParameterError(
                "A parameter is a text, a number, true, false or null.", details={"name": name}
            )
    rest = read_question({key: values[key] for key in TEXT_KEYS[2:] if key in values})
    return TextQuestion(
        sql,
        tuple(sorted(parameters.items())),
        columns=rest.columns,
        limit=rest.limit,
        offset=rest.offset,
    )


def answering_text(
    text: TextQuestion, result: Shape, capabilities: Capabilities, dialect: str, *, is_fenced: bool
) -> AnySelect:
    """The Select that the text is, reading nothing but `result`; `is_fenced` computes nothing of other rows.

    Raises:
        InvalidSQLError, ForbiddenSQLError, UnknownTableError, UnknownColumnError: see `dualsql.sql`.
        ConfigurationError: the extra `sql` is not installed.
    """
    try:
        from dualsql.sql import read_select
    except ImportError as error:
        raise ConfigurationError("SQL needs an extra.", hint='pip install "dualsql[sql]"') from error
    relation, orders = relation_in_order(ordered(result, capabilities), RELATION, text.sql)
    known = dict.fromkeys((RELATION, *_table_names(result)), relation)
    hides = (lambda _: True) if is_fenced else None
    made = read_select(
        text.sql,
        _NOTHING,
        dialect,
        dict(text.parameters),
        relations=known,
        orders=orders,
        hides=hides,
        meanings=result.meanings,
    )
    if isinstance(made, CompoundSelect):
        made = select(*made.subquery("answer").c)
    if text.columns is not None or text.limit is not None or text.offset:
        part = Question(columns=text.columns, limit=text.limit, offset=text.offset)
        made = answering_question(part, shape(made), capabilities)
    return with_criteria_of(result.select, made)


def _table_names(result: Shape) -> list[str]:
    """What clients of staged data call it: the table that it is of, where there is one."""
    leaves = list(leaves_of(result.select))
    if len(leaves) != 1 or not is_table(leaves[0]):
        return []
    named: Any = leaves[0]
    return [named.name.lower()]
