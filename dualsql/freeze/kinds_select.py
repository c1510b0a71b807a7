"""Statements, and the tables, columns and other sources that they read.

A table is stored by its registered name only. Text that is rendered as written is refused unless the registry allows
it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from sqlalchemy import Column, Table, select
from sqlalchemy.dialects.postgresql.ext import DistinctOnClause
from sqlalchemy.sql import elements, selectable
from sqlalchemy.sql.base import SyntaxExtension
from sqlalchemy.sql.elements import ColumnClause
from sqlalchemy.sql.lambdas import LambdaElement
from sqlalchemy.sql.type_api import NULLTYPE, TABLEVALUE
from sqlalchemy.util import immutabledict

from dualsql import sqlalchemy_internals as internals
from dualsql.freeze import sqlalchemy_internals as private, types
from dualsql.freeze.document import expect, malformed, refuse, refuse_changed
from dualsql.freeze.fields import (
    JOIN,
    LEAVE,
    ORM,
    PLAIN_NOTES,
    REQUIRED,
    Field,
    NodeKind,
    check_one,
    choice,
    flag,
    name_,
    needed,
    operands,
    part,
    parts,
)
from dualsql.freeze.kinds_function import as_row, check_rows, function_type
from dualsql.freeze.registry import check
from dualsql.freeze.row_number import ROW_NUMBERS, RowNumber, is_row_number, row_number
from dualsql.freeze.types import DROPPED_OPTIONS
from dualsql.freeze.values import is_bind_name, read_name, write_name

if TYPE_CHECKING:
    from dualsql.freeze.codec import Decoder, Encoder

# Rendered as written, and safe: relationship.any() and .has() select the digit 1 inside EXISTS.
_DIGITS = re.compile(r"[0-9]{1,9}", re.ASCII)


def _write_table(enc: Encoder, kind: NodeKind, table: Any) -> dict[str, Any]:
    name = enc.registry.name_of(table)
    if name is None:
        refuse(f"the table {table.name!r}", enc.registry.how_to_register("the_table"))
    return {"name": name}


def _read_table(dec: Decoder, kind: NodeKind, fields: dict[str, Any]) -> Any:
    return dec.table(fields["name"])


def base_table(source: Any) -> Any:
    """The table under aliases, or the source itself."""
    while isinstance(source, selectable.AliasedReturnsRows):
        source = source.element
    return internals.unannotated(source)


def note_whole(codec: Encoder | Decoder, source: Any) -> None:
    """Add all columns of the tables in `source` to the fingerprint, because they are columns of the result."""
    waiting = [source]
    while waiting:
        part = base_table(waiting.pop())
        if isinstance(part, selectable.Join):
            waiting += [part.left, part.right]
        codec.dependencies.update(codec.registry.columns_in([part]))


def _write_column(enc: Encoder, kind: NodeKind, column: Any) -> dict[str, Any]:
    source = column.table
    name = enc.registry.name_of_column(column)
    if name is not None:
        enc.dependencies.add(name)
        return {"of": enc.ref(source), "key": name[1]}
    if source is None:
        return _write_loose(enc, column)
    key: Any = enc.column_keys(source).get(id(column), column.key)
    # An anonymous name has a different number in every process, so such a column is stored by its position.
    if type(key) is not int and source.c.get(key) is None:
        refuse(
            f"the column {column.name!r}, which its table or subquery does not have"[:160],
            "Add the column to that table or subquery.",
        )
    _note_column(enc, source, key)
    return {"of": enc.ref(source), "key": key}


def _write_row_number(enc: Encoder, kind: NodeKind, column: Any) -> dict[str, Any]:
    if not is_row_number(column):
        return _write_column(enc, kind, column)
    return {"of": enc.ref(column.table), "name": column.name}


def _read_row_number(dec: Decoder, kind: NodeKind, fields: dict[str, Any]) -> Any:
    if "name" not in fields:
        return _read_column(dec, kind, fields)
    column = row_number(dec.source(fields["of"]), expect(fields["name"], str))
    if column.name not in ROW_NUMBERS or not is_row_number(column):
        malformed("number of a row")
    return column


def _write_loose(enc: Encoder, column: Any) -> dict[str, Any]:
    """A column that belongs to no table: column("name"), a star, or literal_column()."""
    fields: dict[str, Any] = {}
    if column.type is not NULLTYPE:
        fields["type"] = enc.type(column.type)
    if isinstance(column, Column):
        key: Any = column.key
        fields["key"] = write_name(column.name if key is None else key, enc.seeds)  # it may be named late
    if not column.is_literal:
        return {"name": write_name(column.name, enc.seeds), **fields}
    if column.name == "*":
        return {"star": True}
    if _DIGITS.fullmatch(column.name):
        return {"digits": str(column.name), **fields}
    enc.note_text(f"literal_column({column.name!r})")
    return {"text": str(column.name), **fields}


def _note_column(codec: Encoder | Decoder, source: Any, key: Any) -> None:
    """Add the column of the table below `source` to the fingerprint."""
    table = source if codec.registry.name_of(source) is not None else base_table(source)
    name = codec.registry.name_of(table)
    if name is not None and isinstance(key, str) and key in table.c:
        codec.dependencies.add((name, str(key)))


def _read_column(dec: Decoder, kind: NodeKind, fields: dict[str, Any]) -> Any:
    if "of" not in fields:
        return _read_loose(dec, fields)
    source, key = dec.source(fields["of"]), fields["key"]
    # SQLAlchemy builds all columns of a source when the first one is read. A forged document could repeat that work.
    if "c" not in source.__dict__:
        dec.spend(len(source.c))
    if type(key) is int:
        column = source.c.values()[key] if key >= 0 else malformed("position of a column")
    else:
        column = source.c.get(expect(key, str))
    name = dec.registry.name_of_column(column)
    if name is not None:
        dec.dependencies.add(name)
        return column
    _note_column(dec, source if column is None else column.table, key if column is None else column.key)
    return refuse_changed() if column is None else column


def _read_loose(dec: Decoder, fields: dict[str, Any]) -> Any:
    kind = dec.type(fields["type"]) if "type" in fields else NULLTYPE
    if fields.get("star") is True:
        return ColumnClause("*", is_literal=True)
    if "digits" in fields:
        digits = expect(fields["digits"], str)
        return (
            ColumnClause(digits, kind, is_literal=True) if _DIGITS.fullmatch(digits) else malformed("digits")
        )
    if "text" in fields:
        dec.note_text()
        return ColumnClause(expect(fields["text"], str), kind, is_literal=True)
    name = read_name(fields["name"], dec.seeds)
    if "key" not in fields:
        return ColumnClause(name, kind)
    return Column(name, kind, key=read_name(fields["key"], dec.seeds))


def _derive_alias(element: Any) -> None:
    name = element.name
    private.set_original_name(element, None if isinstance(name, internals.AnonymousLabel) else name)


def _derive_cte(element: Any) -> None:
    _derive_alias(element)
    for other in (internals.cte_alias(element), internals.restated_cte(element)):
        if not isinstance(other, selectable.CTE | None):
            malformed("CTE linked to something else")


def _derive_rows(element: Any) -> None:
    _derive_alias(element)
    if private.table_value_type(element) is not TABLEVALUE:
        function = element.element
        while isinstance(function, selectable.TableValuedAlias):  # .table_valued(...).alias(name)
            function = function.element
        check_rows(getattr(function, "type", None), private.table_value_type(element))


def _write_prefixes(enc: Encoder, prefixes: Any) -> list[Any]:
    # A prefix in `types.PREFIXES` is a known word. Any other one is free text.
    for text, _dialect in prefixes:
        if not isinstance(text, elements.TextClause) or text.text.upper() not in types.PREFIXES:
            enc.note_text(f"the prefix or suffix {text}")
    return [[text.text, dialect] for text, dialect in prefixes]


def _read_prefixes(dec: Decoder, wire: Any) -> Any:
    for text, dialect in expect(wire, list):
        if expect(text, str).upper() not in types.PREFIXES:
            dec.note_text()
        if dialect is not None:
            expect(dialect, str)
    return tuple([(elements.TextClause(text), dialect) for text, dialect in wire])


# Words before the columns of a SELECT or around the body of a CTE, as (text, dialect).
PREFIXES = Field("prefixes", "_prefixes", _write_prefixes, _read_prefixes)
SUFFIXES = Field("suffixes", "_suffixes", _write_prefixes, _read_prefixes)


def _write_values(enc: Encoder, kind: NodeKind, element: Any) -> dict[str, Any]:
    fields = enc.fields(kind, element.__dict__)
    fields["columns"] = [
        [write_name(column.name, enc.seeds), enc.type(column.type)]
        for column in private.values_columns(element)
    ]
    fields["rows"] = [
        [[_write_cell(enc, cell) for cell in row] for row in rows] for rows in private.values_rows(element)
    ]
    if getattr(element, "_unnamed", False):
        del fields["name"]
    return fields


def _write_cell(enc: Encoder, cell: Any) -> Any:
    is_element = isinstance(cell, elements.ClauseElement)
    return {"node": enc.ref(cell)} if is_element else enc.registry.values.write(cell)


def _read_row(dec: Decoder, row: Any, width: int) -> tuple[Any, ...]:
    if len(expect(row, list)) != width:
        malformed("a row of VALUES with other columns than its head")
    read = dec.registry.values.read
    return tuple([dec.element(cell["node"]) if type(cell) is dict else read(cell) for cell in row])


def _read_values(dec: Decoder, kind: NodeKind, fields: dict[str, Any]) -> Any:
    columns = [
        ColumnClause(read_name(name, dec.seeds), dec.trusted_type(wire))
        for name, wire in fields.pop("columns")
    ]
    data = tuple(
        [[_read_row(dec, row, len(columns)) for row in expect(rows, list)] for rows in fields.pop("rows")]
    )
    # Compiling the statement makes a bound parameter of each cell.
    dec.widen(len(columns) + sum(len(row) for rows in data for row in rows))
    is_literal = expect(fields.get("literal", False), bool)
    if kind.cls is selectable.ScalarValues:
        return selectable.ScalarValues(columns, data, is_literal)
    name = read_name(fields["name"], dec.seeds) if "name" in fields else None
    element = selectable.Values(*columns, name=name, literal_binds=is_literal)
    private.set_values_rows(element, data)
    if expect(fields.get("lateral", False), bool):
        private.set_lateral(element)
    ctes = {name: wire for name, wire in fields.items() if name in ("ctes", "nested")}
    dec.fill_state(kind, ctes, element.__dict__)
    return element


CTES = (
    parts("ctes", "_independent_ctes", absent=LEAVE),
    Field(
        "nested",
        "_independent_ctes_opts",
        lambda enc, value: [bool(opts.nesting) for opts in value],
        lambda dec, wire: tuple([private.CTEOptions(expect(item, bool)) for item in wire]),
    ),
)


def _alias(
    tag: str, cls: Any, *fields: Field, derive: Any = _derive_alias, is_shared: bool = False
) -> NodeKind:
    common = name_(), needed("of", "element"), ORM
    return NodeKind(tag, cls, *common, *fields, ignored="_orig_name", derive=derive, is_shared=is_shared)


def _derive_table_valued_column(element: Any) -> None:
    element.key = element.name
    private.set_labelled_in_columns(element)


_SOURCES = (
    NodeKind("table", Table, write=_write_table, read=_read_table, is_shared=True, is_own=False),
    NodeKind("column", Column, write=_write_column, read=_read_column, is_own=False),
    NodeKind("row number", RowNumber, write=_write_row_number, read=_read_row_number, is_own=False),
    _alias("alias", selectable.Alias),
    _alias("subquery", selectable.Subquery),
    _alias("lateral", selectable.Lateral),
    _alias(
        "cte",
        selectable.CTE,
        flag("recursive"),
        flag("nesting"),
        part("aliases", "_cte_alias"),
        part("restates", "_restates"),
        PREFIXES,
        SUFFIXES,
        derive=_derive_cte,
        is_shared=True,
    ),
    _alias("sample", selectable.TableSample, needed("sampling"), part("seed")),
    _alias(
        "rows of",
        selectable.TableValuedAlias,
        function_type("rows", "_tableval_type", TABLEVALUE),
        flag("derived", "_render_derived", absent=LEAVE),
        flag("typed", "_render_derived_w_types", absent=LEAVE),
        flag("joins", "joins_implicitly", absent=LEAVE),
        flag("lateral", "_is_lateral", absent=LEAVE),
        derive=_derive_rows,
    ),
    NodeKind(
        "table column",
        elements.TableValuedColumn,
        name_(),
        needed("of", "scalar_alias"),
        function_type("type", "type", NULLTYPE),
        ignored="key _render_label_in_columns_clause",
        derive=_derive_table_valued_column,
    ),
    NodeKind("join", selectable.Join, *JOIN, ORM),
    NodeKind("from grouping", selectable.FromGrouping, needed("element"), ORM),
    NodeKind("named grouping", selectable.NamedFromGrouping, needed("element"), ORM),
    *[
        NodeKind(
            tag,
            cls,
            *(name_(absent=LEAVE), flag("literal", "literal_binds"), flag("lateral", "_is_lateral"), *CTES),
            ignored="_column_args _data _unnamed named_with_column type",
            write=_write_values,
            read=_read_values,
        )
        for tag, cls in (("values", selectable.Values), ("scalar values", selectable.ScalarValues))
    ],
)


#
# Statements.


def is_plain_select(cls: type) -> bool:
    """Whether `cls` is a subclass of Select with the same SQL, such as SQLModel's."""
    return issubclass(cls, selectable.Select) and private.compiles_as(cls, selectable.Select)


def _write_columns(enc: Encoder, columns: Any) -> list[int]:
    for column in columns:
        if isinstance(column, selectable.FromClause):
            note_whole(enc, column)
    return [enc.ref(as_row(enc, part)) for column in columns for part in _parts(enc, column)]


def _parts(enc: Encoder, column: Any) -> Any:
    """The columns of `select(table.c["a", "b"])` or `select(lambda: [a, b])`, which are one item in SQLAlchemy."""
    if isinstance(column, LambdaElement):
        column = enc.resolved(column)
    if type(column) is elements.ClauseList:
        return column.clauses
    return column if isinstance(column, list | tuple) else [column]


def _read_columns(dec: Decoder, wire: Any) -> list[Any]:
    columns = [check_one(dec.element(number)) for number in expect(wire, list)]
    for column in columns:
        # A table in a list of columns selects all its columns. Each counts as a term.
        if isinstance(column, selectable.FromClause):
            note_whole(dec, column)
            dec.widen(len(column.c))
    return columns


def _write_joins(enc: Encoder, joins: Any) -> list[Any]:
    wire = []
    for target, onclause, left, flags in joins:
        if not set(flags) <= {"isouter", "full"}:
            refuse("a join with unknown options", "Use isouter= and full= only.")
        nodes = [None if item is None else enc.ref(item) for item in (target, onclause, left)]
        wire.append([*nodes, bool(flags["isouter"]), bool(flags["full"])])
    return wire


def _read_joins(dec: Decoder, wire: Any) -> tuple[Any, ...]:
    joins = []
    for target, onclause, left, isouter, full in expect(wire, list):
        nodes = [None if number is None else dec.element(number) for number in (target, onclause, left)]
        joins.append((*nodes, {"isouter": expect(isouter, bool), "full": expect(full, bool)}))
    return tuple(joins)


def _read_fetch(dec: Decoder, wire: Any) -> dict[str, bool]:
    if set(expect(wire, dict)) != {"with_ties", "percent"}:
        malformed("options of FETCH")
    return {key: expect(value, bool) for key, value in wire.items()}


def _write_fetch(enc: Encoder, value: Any) -> dict[str, bool]:
    # fetch(**dialect_kw) adds further keys (sql/selectable.py: GenerativeSelect.fetch).
    if set(value) != {"with_ties", "percent"}:
        refuse("FETCH with dialect options", "Leave them out.")
    return {key: bool(item) for key, item in value.items()}


def _write_params(enc: Encoder, value: Any) -> list[Any]:
    return [[key, enc.registry.values.write(item)] for key, item in value.items()]


def _read_params(dec: Decoder, wire: Any) -> Any:
    """Values of the document's own parameters. Others are dropped: they could replace the values of a rule."""
    values = {expect(key, str): dec.registry.values.read(item) for key, item in expect(wire, list)}
    return immutabledict({key: value for key, value in values.items() if dec.is_bind(key)})


def _check_options(enc: Encoder, options: Any) -> Any:
    for option in options:
        if option not in DROPPED_OPTIONS:
            refuse(f"the execution option {option}", "Set the option on the engine, or leave it out.")


# `_check_options` does not write these options: they tune how rows are fetched, which dualsql decides.
_OPTIONS = Field("options", "_execution_options", _check_options, lambda dec, wire: immutabledict())


def _write_compile_options(enc: Encoder, options: Any) -> list[str] | None:
    """Options that the ORM sets on a statement when it compiles it or a Query builds it."""
    # A class means the defaults. An object has changed options.
    if isinstance(options, type):
        return None
    changed = {key for key, value in vars(options).items() if value != getattr(type(options), key, None)}
    if not changed <= _QUERY_OPTIONS:
        refuse("a statement with compile options", "Pass it as select() made it.")
    return sorted(changed) or None


def _read_compile_options(dec: Decoder, wire: Any) -> Any:
    # Names are enough: each option is a flag that differs from its default.
    if not set(expect(wire, list)) <= _QUERY_OPTIONS:
        malformed("compile options")
    default = internals.ORMCompileState.default_compile_options
    return default + {name: not getattr(default, name) for name in wire}


# Attributes that Query sets on its statement. They concern the Session, not the SQL.
_QUERY_ATTRIBUTES = """load_options _last_joined_entity identity_chooser shard_chooser execute_chooser _shard_id
    instance attr _syntax_extensions _enable_assertions"""
# Query.statement sets these. Others, such as _enable_single_crit, would disable criteria.
_QUERY_OPTIONS = frozenset(
    {"_render_for_subquery", "_for_statement", "_use_legacy_query_style", "_enable_eagerloads"}
)


def _check_dialect_options(enc: Encoder, options: Any) -> None:
    for dialect, values in options.items():
        if private.non_default_options(values):
            refuse(f"an option of the dialect {dialect}", "Leave it out.")


def _write_distinct(enc: Encoder, value: Any) -> Any:
    """True, or the word that MySQL's compiler renders instead, as written."""
    if isinstance(value, str):
        enc.note_text(f"distinct={value!r}")
    elif type(value) is not bool:
        refuse(f"distinct={value!r}", "Pass True or False.")
    return value


def _read_distinct(dec: Decoder, wire: Any) -> Any:
    if type(wire) is not str:
        return expect(wire, bool)
    dec.note_text()
    return wire


# A hint is rendered as free text, so it needs the permission of text().
def _write_hints(enc: Encoder, hints: Any) -> list[Any]:
    enc.note_text("a hint")
    return [[enc.ref(table), dialect, text] for (table, dialect), text in hints.items()]


def _read_hints(dec: Decoder, wire: Any) -> Any:
    dec.note_text()
    return immutabledict({(dec.element(n), expect(d, str)): expect(text, str) for n, d, text in wire})


def _write_statement_hints(enc: Encoder, hints: Any) -> list[Any]:
    enc.note_text("a hint")
    return [[dialect, text] for dialect, text in hints]


def _read_statement_hints(dec: Decoder, wire: Any) -> Any:
    dec.note_text()
    return tuple([(expect(dialect, str), expect(text, str)) for dialect, text in wire])


def _extension(name: str, attribute: str) -> Field:
    """A separate clause, such as DISTINCT ON. Any other element there would be read as part of the clause before it."""

    def read(dec: Decoder, wire: Any) -> Any:
        element = dec.element(wire)
        for clause in element.clauses if isinstance(element, elements.ElementList) else [element]:
            if not isinstance(clause, SyntaxExtension):
                malformed("clause in a wrong position")
            # The class defines its position: apply_to_select() adds it there.
            if getattr(select().ext(clause), attribute) is not clause:
                malformed("clause of another position")
        return element

    return Field(name, attribute, lambda enc, value: enc.ref(value), read)


def _write_loader_options(enc: Encoder, options: Any) -> list[int] | None:
    if enc.leaves_options_out:
        return None
    # Other options are for a Session and its events. SQLAlchemy's compiler ignores them.
    return [enc.ref(option) for option in options if private.is_compile_state_option(option)] or None


def _read_loader_options(dec: Decoder, wire: Any) -> tuple[Any, ...]:
    from dualsql.freeze.kinds_options import read_options

    return read_options(dec, wire)


_COLUMNS = Field("columns", "_raw_columns", _write_columns, _read_columns, list)
_JOINS = Field("joins", "_setup_joins", _write_joins, _read_joins)
_PARAMS = Field("params", "_params", _write_params, _read_params)
_LOADER_OPTIONS = Field("loader options", "_with_options", _write_loader_options, _read_loader_options)


def _write_lock(enc: Encoder, lock: Any) -> int:
    # `plan.shape` removes the lock of the statement itself before it runs.
    if enc.is_inside_another:
        refuse("with_for_update() in a subquery", "Leave it out: dualsql reads rows and locks none.")
    return enc.ref(lock)


_LIMITS = (
    part("limit", "_limit_clause", LEAVE),
    part("offset", "_offset_clause", LEAVE),
    part("fetch", "_fetch_clause", LEAVE),
    Field("fetch options", "_fetch_clause_options", _write_fetch, _read_fetch),
    Field("for update", "_for_update_arg", _write_lock, lambda dec, wire: dec.element(wire)),
    parts("order", "_order_by_clauses", absent=LEAVE),
    parts("group", "_group_by_clauses", absent=LEAVE),
    choice(
        "labels",
        "_label_style",
        selectable.SelectLabelStyle,
        absent=selectable.LABEL_STYLE_DEFAULT,
        default=selectable.LABEL_STYLE_DEFAULT,
    ),
)
_STATEMENT = (
    *CTES,
    _PARAMS,
    _OPTIONS,
    Field("compile options", "_compile_options", _write_compile_options, _read_compile_options),
    Field(
        "dialect options",
        "dialect_options",
        _check_dialect_options,
        lambda dec, wire: malformed("dialect options"),
    ),
    _LOADER_OPTIONS,
    PLAIN_NOTES,
    ORM,
)


def _write_text(enc: Encoder, kind: NodeKind, element: Any) -> dict[str, Any]:
    enc.note_text(f"text({element.text[:60]!r})")
    fields = enc.fields(kind, element.__dict__)
    return {
        **fields,
        "text": element.text,
        "binds": [[k, enc.ref(b)] for k, b in private.text_parameters(element).items()],
    }


def _read_text(dec: Decoder, kind: NodeKind, fields: dict[str, Any]) -> Any:
    dec.note_text()
    element = elements.TextClause("")
    element.text = expect(fields.pop("text"), str)
    binds = {expect(key, str): dec.element(number) for key, number in fields.pop("binds")}
    if not all(is_bind_name(key) and isinstance(bind, elements.BindParameter) for key, bind in binds.items()):
        malformed("parameters of a text")
    private.set_text_parameters(element, binds)
    dec.fill_state(kind, fields, element.__dict__)
    return element


def _read_statement(dec: Decoder, kind: NodeKind, fields: dict[str, Any]) -> Any:
    element = dec.fill(kind, fields)
    check(element, dec.registry)
    return element


KINDS = (
    *_SOURCES,
    NodeKind(
        "select",
        selectable.Select,
        _COLUMNS,
        parts("earlier", "_memoized_select_entities", absent=LEAVE),
        parts("from", "_from_obj", absent=LEAVE),
        operands("where", "_where_criteria", absent=LEAVE),
        operands("having", "_having_criteria", absent=LEAVE),
        _JOINS,
        parts("correlate", "_correlate", absent=LEAVE),
        parts("correlate except", "_correlate_except", absent=LEAVE, empties=()),
        flag("auto correlate", "_auto_correlate", default=True, absent=LEAVE),
        Field("distinct", "_distinct", _write_distinct, _read_distinct, default=False),
        parts("distinct on", "_distinct_on", absent=LEAVE),
        _extension("after select", "_post_select_clause"),
        _extension("before columns", "_pre_columns_clause"),
        _extension("after criteria", "_post_criteria_clause"),
        _extension("after body", "_post_body_clause"),
        PREFIXES,
        SUFFIXES,
        Field("hints", "_hints", _write_hints, _read_hints),
        Field("statement hints", "_statement_hints", _write_statement_hints, _read_statement_hints),
        *_LIMITS,
        *_STATEMENT,
        ignored=f"_correlate_mode {_QUERY_ATTRIBUTES}",
        read=_read_statement,
    ),
    NodeKind(
        "compound",
        selectable.CompoundSelect,
        parts("selects", cls=list),
        choice("keyword", "keyword", private.CompoundSelectKeyword, REQUIRED),
        *_LIMITS,
        *_STATEMENT,
        ignored="_auto_correlate",
        read=_read_statement,
    ),
    NodeKind("statement grouping", selectable.SelectStatementGrouping, needed("element"), ORM),
    NodeKind(
        "earlier select",
        private.MemoizedSelectEntities,
        *(_COLUMNS, _JOINS, _LOADER_OPTIONS),
        constants={"_with_options": ()},
    ),
    NodeKind(
        "for update",
        selectable.ForUpdateArg,
        parts("of", cls=list, absent=None),
        flag("nowait"),
        flag("read"),
        flag("skip locked", "skip_locked"),
        flag("key share", "key_share"),
    ),
    NodeKind("distinct on", DistinctOnClause, parts("columns", "_distinct_on"), ORM),
    NodeKind(
        "text select",
        selectable.TextualSelect,
        needed("text", "element"),
        parts("columns", "column_args", cls=list),
        flag("positional"),
        *_STATEMENT,
        read=_read_statement,
    ),
    NodeKind(
        "text",
        elements.TextClause,
        *(ORM, _OPTIONS, _PARAMS),
        ignored="text _bindparams _allow_label_resolve type",
        write=_write_text,
        read=_read_text,
    ),
)
