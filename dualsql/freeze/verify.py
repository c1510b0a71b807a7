"""Proof on writing; the rule: only what compiles to the same SQL, parameters and columns may be stored."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from sqlalchemy.engine import Dialect
from sqlalchemy.engine.default import StrCompileDialect
from sqlalchemy.exc import SQLAlchemyError

from dualsql.errors import NotFreezableError

# Anonymous names differ in their seed, which is an address.
_SEED = re.compile(r"%\(\S+ ")
# SQLAlchemy raises all of these for statements that a dialect cannot render.
_UNCOMPILABLE = (
    SQLAlchemyError,
    RecursionError,
    ArithmeticError,
    LookupError,
    TypeError,
    ValueError,
    AttributeError,
)


def prove_equal(statement: Any, thawed: Any, dialect: Dialect | None) -> None:
    """Raise NotFreezableError unless both statements are the same to `dialect`."""
    dialect = dialect or StrCompileDialect()
    expected = _compiled(statement, dialect)
    found = _compiled(thawed, dialect)
    for aspect, ours in expected.items():
        if not _same(ours, found[aspect]):
            raise NotFreezableError(
                f"The statement cannot be stored: its {aspect} would change.",
                hint="Write it in a simpler way, or report the statement to dualsql.",
                details={"construct": aspect},
            )


def _compiled(statement: Any, dialect: Dialect) -> dict[str, Any]:
    """Everything about a compiled statement that execution depends on."""
    try:
        compiled = statement.compile(dialect=dialect)
        return {
            "SQL": compiled.string,
            "parameters": compiled.params,
            "order of parameters": compiled.positiontup or [],
            "columns": [_column(entry) for entry in compiled._result_columns or ()],
            "types of parameters": {name: _typed(bind.type) for bind, name in compiled.bind_names.items()},
            "literal parameters": sorted(compiled.bind_names[b] for b in compiled.literal_execute_params),
            "expanding parameters": sorted(compiled.bind_names[b] for b in compiled.post_compile_params),
        }
    except (
        SQLAlchemyError,
        RecursionError,
        ArithmeticError,
        LookupError,
        TypeError,
        ValueError,
        AttributeError,
    ) as error:
        raise NotFreezableError(
            f"The statement cannot be stored: {dialect.name} cannot compile it ({type(error).__name__}).",
            hint="Run it once on the database, and store what works there.",
            details={"construct": "statement"},
        ) from error


def _column(entry: Any) -> tuple[Any, ...]:
    return _anonymized(entry.keyname), _anonymized(entry.name), _typed(entry.type)


def _anonymized(name: Any) -> Any:
    return _SEED.sub("%(", name) if isinstance(name, str) else name


def _typed(type_: Any) -> tuple[Any, ...]:
    key = type_._static_cache_key
    return type(type_), repr(key) if isinstance(key, tuple) else repr(type_)


def _same(one: Any, other: Any) -> bool:
    """Equal, with equal types: 1 is not True, and NaN is NaN."""
    return (one == other and list(_leaves(one)) == list(_leaves(other))) or repr(one) == repr(other)


def _leaves(value: Any) -> Iterator[type]:
    if isinstance(value, dict):
        for item in value.values():
            yield from _leaves(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _leaves(item)
    else:
        yield type(value)
