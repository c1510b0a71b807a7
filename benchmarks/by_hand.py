"""Tenant conditions as a careful developer writes them. Inner tables in WHERE, nullable sides in ON.

Done to the SQL text of a statement by a parser of its own, so that nothing of dualsql's narrowing is in it. The
two sides of a FULL JOIN, where no condition has a place, become subselects.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from tests.tenancy.tenants.parsed import Tree, parsed, tables_in, written

TENANT = "tenant_id"

Condition = Callable[[exp.Table], Tree]

_OWN = f"{{name}}.{TENANT} = {{value}}"
# Their rows belong to the tenant of another table's row: as tests.tenancy.tenants.rules says it.
_THROUGH = {
    "contractors": "{name}.id IN (SELECT people.id FROM people WHERE people.tenant_id = {value})",
    "document_tags": (
        "EXISTS (SELECT * FROM documents WHERE documents.id = {name}.document_id"
        " AND documents.tenant_id = {value})"
    ),
}


class ByHand:
    """Writes one statement's conditions.

    Args:
        owned: names of the tables that have a tenant's column.
        value: the placeholder of the tenant's number.
    """

    def __init__(self, owned: frozenset[str], value: str, dialect: str) -> None:
        self._owned = owned
        self._value = value
        self._dialect = dialect

    def filtered(self, sql: str) -> str:
        """The statement with its conditions."""
        tree = parsed(sql, self._dialect)
        guarded = {id(table) for table in tables_in(tree) if table.name in self._owned | set(_THROUGH)}
        for select in list(tree.find_all(exp.Select)):
            self._filter(select, guarded)
        for join in tree.find_all(exp.Join):
            if not join.side and not join.args.get("on") and not isinstance(join.this, exp.Lateral):
                # A comma; written as CROSS JOIN, it would command SQLite to keep this order.
                join.set("kind", "INNER")
                join.set("on", exp.true())
        return written(tree, self._dialect)

    def _filter(self, select: exp.Select, guarded: set[int]) -> None:
        source = select.args.get("from_")
        if source is None:
            return
        inner = self._leaves(source.this, select.args.get("joins") or [], guarded)
        for condition in [self._condition(table) for table in inner]:
            select.where(condition, copy=False)

    def _leaves(self, first: Tree, joins: list[exp.Join], guarded: set[int]) -> list[exp.Table]:
        """Tables whose rows every row of the source has; the others get their condition here."""
        inner = self._inner(first, guarded)
        for join in joins:
            right = self._inner(join.this, guarded)
            if join.side == "FULL":
                for table in [*inner, *right]:
                    table.replace(self._subselect(table))
                inner = []
            elif join.side == "LEFT":
                conditions = [self._condition(table) for table in right]
                join.set("on", exp.and_(join.args.get("on"), *conditions))
            else:
                inner += right
        return inner

    def _inner(self, source: Tree, guarded: set[int]) -> list[exp.Table]:
        if isinstance(source, exp.Table):
            joins = source.args.get("joins") or []
            own = [source] if id(source) in guarded else []
            return own if not joins else [*own, *self._joined(joins, guarded)]
        if isinstance(source, exp.Subquery) and isinstance(source.this, exp.Table):
            return self._inner(source.this, guarded)
        return []

    def _joined(self, joins: list[exp.Join], guarded: set[int]) -> list[exp.Table]:
        return self._leaves(exp.Null(), joins, guarded)

    def _condition(self, table: exp.Table) -> Tree:
        name = _quoted(table.alias_or_name)
        if table.db and not table.alias:
            name = f"{_quoted(table.db)}.{name}"
        condition = _THROUGH.get(table.name, _OWN).format(name=name, value=self._value)
        return parsed(f"SELECT * WHERE {condition}", self._dialect).args["where"].this  # type: ignore[no-any-return]

    def _subselect(self, table: exp.Table) -> Tree:
        bare = table.copy()
        bare.set("alias", None)
        alias = exp.TableAlias(this=exp.to_identifier(table.alias_or_name, quoted=True))
        return exp.Subquery(this=exp.select("*").from_(bare).where(self._condition(bare)), alias=alias)


def _quoted(name: str) -> str:
    return exp.to_identifier(name, quoted=True).sql()
