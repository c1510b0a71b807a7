"""Tables, columns and other sources in FROM. A table is stored by its registered name only."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from sqlalchemy import Column, Table
from sqlalchemy.sql import elements, selectable
from sqlalchemy.sql.elements import ColumnClause
from sqlalchemy.sql.type_api import NULLTYPE, TABLEVALUE

from dualsql import sqlalchemy_internals as internals
from dualsql.freeze import sqlalchemy_internals as private, types
from dualsql.freeze.document import expect, malformed, refuse, refuse_changed
from dualsql.freeze.fields import LEAVE, ORM, Field, NodeKind, flag, name_, needed, operand, part, parts
from dualsql.freeze.kinds_function import check_rows, function_type
from dualsql.freeze.names import read_name, write_name
from dualsql.freeze.row_number import ROW_NUMBERS, RowNumber, is_row_number, row_number

if TYPE_CHECKING:
    from dualsql.freeze.codec import Decoder, Encoder

# Rendered as written, and safe: relationship.any() and .has() select the digit 1 inside EXISTS.
_DIGITS = re.compile(r"[0-9]{1,9}", re.ASCII)


def _write_table(enc: Encoder, kind: NodeKind, table: Any) -> dict[str, Any]:
    name = enc.registry.name_of(table)
    if name is None:
        refuse(f"the table {table.name!r}"[:120], enc.registry.how_to_register("the_table"))
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


JOIN = (
    needed("left"),
    needed("right"),
    operand("on", "onclause"),
    flag("outer", "isouter"),
    flag("full"),
)


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
    enc.note_text(f"literal_column({column.name!r})"[:120])
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
            enc.note_text(f"the prefix or suffix {text}"[:120])
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


KINDS = (
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
