"""The compiler that replaces every table in a statement by a SELECT with its rules.

SQLAlchemy renders each table in FROM with one method, `visit_table`: for Core and ORM, joins, aliases, secondary tables
of relationships, loaders and hooks. There, `schools` becomes

    (SELECT schools.id, schools.name FROM schools WHERE schools.tenant_id = :tenant) AS schools

Text and tables that are not registered are refused, because the compiler cannot determine what they read.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from itertools import chain
from typing import Any, NoReturn

from sqlalchemy import ColumnElement, Select, select
from sqlalchemy.engine import Dialect
from sqlalchemy.sql import visitors
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.selectable import CTE, TableClause

from dualsql import sqlalchemy_internals as internals
from dualsql.capabilities import Capabilities, DriverValues, capabilities_of
from dualsql.columns.exact import with_all_digits
from dualsql.errors import ConfigurationError, ForbiddenSQLError
from dualsql.formats.cells import read_tolerantly, without_collector
from dualsql.freeze.document import MOST_NAMED
from dualsql.freeze.row_number import is_row_number, row_number
from dualsql.plan.page import PAGE_PARAMETERS, PageParameter

Table = Any
"""A Table or lightweight table of the registry."""


class TableForms:
    """What replaces each table of a registry in the SQL.

    It depends only on the rules and contains no values of a principal, so all principals share the compiled statements.

    Attributes:
        conditions, masks: by id of a table; what replaces its columns, by their keys.
        names: the names of registered tables and of tables in predicates, which no CTE may have; empty without rules.
        dialects: those that compile under it, by the dialect of a database.
        is_open: there is no rule, so text may be rendered if the registry allows it.
    """

    def __init__(
        self,
        tables: Sequence[Table],
        *,
        conditions: Mapping[int, Sequence[ColumnElement[bool]]],
        masks: Mapping[int, Mapping[str, ColumnElement[Any]]],
        is_open: bool,
    ) -> None:
        # By identity: two tables of one name, in two MetaData, are two tables.
        self._served = {id(table) for table in tables}
        self.conditions = conditions
        self.masks = masks
        self._selects: dict[int, Select[Any]] = {}
        self.dialects: dict[Dialect, Dialect] = {}
        self.is_open = is_open
        elements = [] if is_open else [*tables, *chain(*conditions.values())]
        self.names = frozenset(
            part.name.casefold()
            for element in elements
            for part in visitors.iterate(element)
            if isinstance(part, TableClause)
        )

    def serves(self, table: Table) -> bool:
        """Whether the table may be read."""
        return id(table) in self._served

    def has_rules(self, table: Table) -> bool:
        """Whether the table is replaced by a SELECT."""
        return id(table) in self.conditions or id(table) in self.masks

    def hides(self, column: Any) -> bool:
        """Whether a mask replaces this column of a table or of its alias."""
        table = internals.table_under(getattr(column, "table", None))
        return column.key in self.masks.get(id(table), ())

    def select_of(self, table: Table, number_name: str | None = None) -> Select[Any]:
        """The SELECT that replaces a table with rules, with the number of its rows if a statement reads it."""
        replacement = self._selects.get(id(table))
        if replacement is None:
            masks = self.masks.get(id(table), {})
            columns = [masks.get(key, column) for key, column in table.c.items()]
            replacement = select(*columns).select_from(table).where(*self.conditions.get(id(table), ()))
            froms = internals.final_froms(replacement)
            if len(froms) != 1 or any(isinstance(part, CTE) for part in visitors.iterate(replacement)):
                raise ConfigurationError(
                    f"A rule for the table {table.name!r} joins other tables.",
                    hint="Use a subquery: column.in_(select(...)) or exists().",
                )
            self._selects[id(table)] = replacement
        return replacement if number_name is None else replacement.add_columns(row_number(table, number_name))


# Literal columns of SQLAlchemy itself: count(*), EXISTS (SELECT 1 ...), the percent signs of contains(), and the names
# of the classes in the union of concrete inheritance.
_HARMLESS = re.compile(r"\*|[0-9]{1,9}|'[\w .:%-]{0,100}'", re.ASCII)

OWN_NAMES = "dualsql_part_"
"""The prefix of the names of dualsql's own relations. No table and no alias of a text has it."""

# The prefixes of the names of the rules' parameters.
_RESERVED = ("dualsql_tenant_", "dualsql_row_")


def dialect_with_rules(base: Dialect, form: TableForms) -> Dialect:
    """A copy of `base`, a connected dialect, that compiles under `form`, with its own cache of compiled statements."""
    # A copy: the same engine runs statements under other rules, and the application's own.
    dialect = copy.copy(base)
    compiler = base.statement_compiler
    capabilities = capabilities_of(base)
    read_tolerantly(dialect, capabilities.drivers.get(base.driver, DriverValues()))
    with_all_digits(dialect)
    marks = {"form": form, "capabilities": capabilities}
    dialect.statement_compiler = type(f"Ruled{compiler.__name__}", (_RuleCompiler, compiler), marks)
    return dialect


# SQLAlchemy leaves half of its compiler untyped.
_Compiler: Any = SQLCompiler


class _RuleCompiler(_Compiler):  # type: ignore[misc]
    """A mixin for the compiler of a dialect.

    Attributes:
        form: what replaces each table.
        ruled: the tables whose rules were written.
    """

    form: TableForms
    capabilities: Capabilities
    stack: Any
    ctes: Any
    string: Any
    ruled: tuple[Table, ...] = ()
    _rule_of: Any = None  # the table whose rule is being written. Inside a rule, tables are not replaced.
    _sampling = ""
    _has_windows = False

    def __init__(self, *arguments: Any, **options: Any) -> None:
        with without_collector():  # compiling makes thousands of objects, most for a moment
            super().__init__(*arguments, **options)
        if self._has_windows:
            self.string = f"{self.capabilities.before_windows}{self.string}"

    def visit_over(self, over: Any, **kw: Any) -> Any:
        self._has_windows = True
        return super().visit_over(over, **kw)

    @cached_property
    def column_types(self) -> tuple[Any, ...]:
        """The types of the columns of its result, made once: each page of a result asks for them."""
        return tuple([column.type for column in internals.result_columns_of(self)])

    def visit_table(self, table: Any, asfrom: Any = False, **kw: Any) -> Any:
        if self._rule_of is not None:
            sql = super().visit_table(table, asfrom=asfrom, **kw)
            # TABLESAMPLE is for the rule's own table, which is rendered first, not for those of its predicate.
            if asfrom and internals.unannotated(table) is self._rule_of:
                sql, self._sampling = sql + self._sampling, ""
            return sql
        if not asfrom or not self._has_rules(table):
            return super().visit_table(table, asfrom=asfrom, **kw)
        # As in SQLCompiler.visit_table: otherwise SQLAlchemy warns of a cartesian product.
        linter = kw.get("from_linter")
        if linter:
            linter.froms[table] = table.fullname
        rule = self._rule(internals.unannotated(table))
        alias = kw.get("enclosing_alias")
        # visit_alias writes the AS behind what this method returns.
        if alias is not None and alias.element is table:
            return rule
        name = self._name(table, kw.get("ambiguous_table_name_map"))
        return rule + self.get_render_as_alias_suffix(self.preparer.quote(name))

    def visit_tablesample(self, tablesample: Any, asfrom: Any = False, **kw: Any) -> Any:
        if self._rule_of is not None or not self._has_rules(tablesample.element):
            return super().visit_tablesample(tablesample, asfrom=asfrom, **kw)
        # Only a table can be sampled, so the clause goes into the rule's SELECT.
        self._sampling = f" TABLESAMPLE {self.process(internals.sampling_method(tablesample), **kw)}"
        if tablesample.seed is not None:
            self._sampling += f" REPEATABLE ({self.process(tablesample.seed, **kw)})"
        return self.visit_alias(tablesample, asfrom=True, **kw)

    def visit_column(
        self, column: Any, add_to_result_map: Any = None, include_table: Any = True, **kw: Any
    ) -> Any:
        if column.is_literal and not _HARMLESS.fullmatch(column.name):
            self._require_plain("literal_column()", column.name)
        table = column.table
        has_schema = include_table and getattr(table, "schema", None) and self._rule_of is None
        if not has_schema or not self._has_rules(table):
            return super().visit_column(column, add_to_result_map, include_table, **kw)
        # The alias of a rule has no schema.
        bare = super().visit_column(column, add_to_result_map, include_table=False, **kw)
        return f"{self.preparer.quote(self._name(table, None))}.{bare}"

    def _has_rules(self, element: Any) -> bool:
        table = internals.unannotated(element)
        if not isinstance(table, TableClause):
            return False
        if not self.form.serves(table):
            forbid(f"the table {table.name!r}, which this server does not serve")
        return self.form.has_rules(table)

    def _rule(self, table: Any) -> str:
        self.ruled = (*self.ruled, table)
        # A separate stack: a subquery in a predicate must not correlate to the outer statement.
        stack, self.stack = self.stack, []
        # Nor may a nested CTE of the outer statement, which waits for its SELECT, be written here.
        ctes, self.ctes = self.ctes, None
        self.stack.append(
            {"correlate_froms": set(), "asfrom_froms": set(), "selectable": stack[-1]["selectable"]}
        )
        self._rule_of = table
        try:
            replacement = self.form.select_of(table, self._row_numbers.get(id(table)))
            return f"({self.process(replacement, asfrom=True)})"
        finally:
            self.stack, self.ctes, self._rule_of = stack, ctes, None

    @cached_property
    def _row_numbers(self) -> Mapping[int, str]:
        """The names of the row numbers that the statement reads, by the id of their table."""
        parts: Iterable[Any] = () if self.statement is None else internals.elements_of(self.statement)
        return {id(_table_of(part.table)): part.name for part in parts if is_row_number(part)}

    def _name(self, table: Any, ambiguous: Any) -> str:
        """The name of a table with rules in the rest of the statement."""
        if table.schema:
            return f"{table.schema}.{table.name}"
        if ambiguous and table.name in ambiguous:
            return str(self._truncated_identifier("alias", ambiguous[table.name]))
        return str(table.name)

    def group_by_clause(self, select: Any, **kw: Any) -> Any:
        """Add the columns that a primary key in GROUP BY determines: databases infer them only for tables."""
        sql = super().group_by_clause(select, **kw)
        groups, form = list(internals.group_by_clauses(select)), self.form
        if not groups or self._rule_of is not None or form.is_open or not self.capabilities.groups_strictly:
            return sql
        from dualsql.tenancy.grouping import determined_columns

        dependent = determined_columns(groups, select, lambda source: form.has_rules(_table_of(source)))
        return ", ".join([sql, *(self.process(column, **kw) for column in dependent)])

    def visit_function(self, func: Any, *args: Any, **kw: Any) -> Any:
        write = self.capabilities.own_functions.get(func.name.lower())
        is_match = (
            self.capabilities.match_function and func.name.lower() == "regexp" and len(func.clauses) == 2
        )
        if write is None and not is_match:
            return super().visit_function(func, *args, **kw)
        add_to_result_map = kw.pop("add_to_result_map", None)
        if add_to_result_map is not None:
            add_to_result_map(func.name, func.name, (func.name,), func.type)
        if write is None:
            return self._match(*func.clauses, **kw)
        return f"({write(self.process(func.clause_expr.element, **kw))})"

    def _generate_generic_binary(self, binary: Any, opstring: str, **kw: Any) -> Any:
        words = opstring.upper().split() if self.capabilities.match_function else []
        if words not in (["REGEXP"], ["NOT", "REGEXP"]):
            return super()._generate_generic_binary(binary, opstring, **kw)
        match = self._match(binary.right, binary.left, **kw)
        return match if len(words) == 1 else f"(NOT {match})"

    def _match(self, pattern: Any, text: Any, **kw: Any) -> str:
        self.capabilities.require_pattern(None)
        arguments = [self.process(part, **{**kw, "eager_grouping": False}) for part in (pattern, text)]
        return f"{self.capabilities.match_function}({', '.join(arguments)})"

    def _truncate_bindparam(self, bindparam: Any) -> Any:
        name = super()._truncate_bindparam(bindparam)
        if name.startswith(PAGE_PARAMETERS) and not isinstance(bindparam, PageParameter):
            forbid(f"a bound parameter with the name {name!r}", "Rename the bindparam().")
        if self._rule_of is None and not self.form.is_open and name.startswith(_RESERVED):
            # SQLAlchemy would bind both as one parameter, with the type of the last one.
            forbid(
                f"a bound parameter with the name of a rule's parameter, {name!r}",
                "Rename the bindparam().",
            )
        return name

    def render_bind_cast(self, type_: Any, dbapi_type: Any, sqltext: str) -> Any:
        from dualsql.columns.database_types import without_digits

        text = self.capabilities.bound_as_text(dbapi_type)
        sql = sqltext if text is None else f"{sqltext}::{text}"
        return super().render_bind_cast(type_, without_digits(dbapi_type), sql)

    def visit_cte(self, cte: Any, **kw: Any) -> Any:
        name = cte.name
        if isinstance(name, internals.TruncatedLabel):
            name = self._truncated_identifier("alias", name)
        if str(name).casefold() in self.form.names:
            # A subquery of a predicate would read the CTE instead of the table.
            forbid(f"a CTE with the name of the table {name!r}", "Rename the CTE.")
        return super().visit_cte(cte, **kw)

    def visit_textclause(self, textclause: Any, add_to_result_map: Any = None, **kw: Any) -> Any:
        self._require_plain("text()", textclause.text)
        return super().visit_textclause(textclause, add_to_result_map, **kw)

    def visit_tstring(self, tstring: Any, add_to_result_map: Any = None, **kw: Any) -> Any:
        self._require_plain("tstring()")
        return super().visit_tstring(tstring, add_to_result_map, **kw)

    def get_statement_hint_text(self, hint_texts: Any) -> Any:
        hint = super().get_statement_hint_text(hint_texts)
        self._require_plain("a statement hint", hint)
        return hint

    def _setup_select_hints(self, select: Any) -> Any:
        self._require_plain("a hint", " ".join(internals.table_hints(select).values()))
        return super()._setup_select_hints(select)

    def get_select_precolumns(self, select: Any, **kw: Any) -> Any:
        word = internals.distinct_word(select)
        if isinstance(word, str):  # MariaDB's compiler renders it as written
            self._require_plain("text in DISTINCT", word)
        return super().get_select_precolumns(select, **kw)

    def visit_insert(self, *_: Any, **__: Any) -> NoReturn:
        forbid("an INSERT, UPDATE or DELETE")

    visit_update = visit_delete = visit_insert

    def _require_plain(self, construct: str, sql: str = "") -> None:
        """Refuse a construct that may hide a table, and more than one statement in its text."""
        if self._rule_of is not None:
            return
        if not self.form.is_open:
            forbid(f"{construct}, which may hide a table", "Use SQLAlchemy's own constructs.")
        # A second statement could end the read-only transaction, and write.
        if self.capabilities.splits_statements and ";" in sql:
            forbid("text with a semicolon", "Use a single statement, and bind values as parameters.")


def forbid(construct: str, hint: str = "Use the tables and constructs that this server allows.") -> NoReturn:
    """Raise ForbiddenSQLError for a statement with `construct` in it."""
    raise ForbiddenSQLError(
        f"The statement contains {construct[:MOST_NAMED]}.",
        hint="Change the statement: this server does not run it.",
        developer_hint=hint,
    )


def _table_of(source: Any) -> Any:
    """The table of an alias, or of a subquery of only its columns, which SQL texts use with OFFSET 0."""
    while hasattr(source, "element"):
        source = source.element
    is_fence = isinstance(source, Select) and internals.offset_clause(source) is not None
    if is_fence and not internals.where_criteria(source) and len(froms := internals.final_froms(source)) == 1:
        source = froms[0]
    return internals.unannotated(source)
