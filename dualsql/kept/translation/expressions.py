"""Translates expressions, by the tables. What has no entry is refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from sqlalchemy import (
    BindParameter,
    Label,
    and_,
    case,
    func,
    or_,
    true,
)
from sqlalchemy.sql import operators
from sqlalchemy.sql.elements import (
    AsBoolean,
    BinaryExpression,
    Case,
    Cast,
    ClauseList,
    ColumnClause,
    ExpressionClauseList,
    Extract,
    False_,
    FunctionFilter,
    Grouping,
    Null,
    Over,
    True_,
    TypeCoerce,
    UnaryExpression,
)
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.sql.selectable import Exists, ScalarSelect, SelectBase

from dualsql import sqlalchemy_internals as internals
from dualsql.columns.instants import AFTER, BEFORE
from dualsql.columns.own_types import Element
from dualsql.kept.translation import aggregates, casts, functions, operators as meanings
from dualsql.kept.translation.aggregates import AggregateTerm
from dualsql.kept.translation.ordering import BYTEWISE, GROUPED, MARIADB, SORTED, SQLITE, nulls_last
from dualsql.kept.translation.terms import (
    Term,
    UntranslatableError,
    boolean,
    constant,
    finite,
    inverse,
    whole,
)
from dualsql.plan.keys import split_modifiers

if TYPE_CHECKING:
    from dualsql.kept.translation.statements import StatementTranslation

_WORDS: Mapping[Any, str] = {
    operators.eq: "=",
    operators.ne: "<>",
    operators.lt: "<",
    operators.le: "<=",
    operators.gt: ">",
    operators.ge: ">=",
    operators.is_distinct_from: "is not",
    operators.is_not_distinct_from: "is",
    operators.add: "+",
    operators.sub: "-",
    operators.mul: "*",
    operators.mod: "%",
    operators.concat_op: "||",
    operators.bitwise_and_op: "&",
    operators.bitwise_or_op: "|",
}
"""SQLAlchemy's operators by the word of the table."""

_LIKES: Mapping[Any, tuple[str, bool]] = {
    operators.like_op: ("like", False),
    operators.not_like_op: ("like", True),
    operators.ilike_op: ("ilike", False),
    operators.not_ilike_op: ("ilike", True),
}


class Expressions:
    """Translates the expressions of one statement.

    Args:
        dialect: of the statement.
        statements: translates the columns and the queries inside an expression.
        by_code_point: whether its database compares and sorts texts by code point.
        compensates: whether it adds doubles with compensation, which DuckDB does not.
    """

    def __init__(
        self, dialect: str, statements: StatementTranslation, *, by_code_point: bool, compensates: bool
    ) -> None:
        self.dialect = dialect
        self._statements = statements
        self._by_code_point = by_code_point
        self._compensates = compensates
        # Elements are kept alive with their terms: one that is written twice stays one parameter.
        self._terms: dict[int, tuple[Any, Term]] = {}

    def term(self, element: Any) -> Term:
        """The translated expression."""
        entry = self._terms.get(id(element))
        if entry is None:
            entry = self._terms[id(element)] = element, self._translate(element)
        return entry[1]

    def truth(self, element: Any) -> Element:
        """The expression as a condition."""
        term = self.term(element)
        write = meanings.TRUTH[self.dialect].get(term.kind)
        if write is None and term.kind != "null":
            raise UntranslatableError(f"a {term.kind} as a condition")
        return term.sql if write is None else write(term)

    def sorts(self, term: Term) -> bool:
        """Whether DuckDB sorts the values as the database does."""
        if term.kind == "text":
            return self._by_code_point or term.is_bytewise
        return term.kind in SORTED[self.dialect] or (term.kind == "quotient" and term.is_exact)

    def groups(self, term: Term) -> bool:
        """Whether DuckDB takes the same values as equal."""
        if term.kind == "text" and self.dialect == SQLITE:
            return self._by_code_point
        return term.kind in GROUPED[self.dialect]

    def sort_key(self, clause: Any) -> Element:
        """A part of ORDER BY, which says where its NULLs stand."""
        element, modifiers = split_modifiers(clause)
        is_descending = operators.desc_op in modifiers
        if operators.nulls_first_op in modifiers:
            is_last = False
        elif operators.nulls_last_op in modifiers:
            is_last = True
        else:
            is_last = nulls_last(self.dialect)[is_descending]
        return self.sort_term(element, is_descending=is_descending, is_last=is_last)

    def sort_term(self, element: Any, *, is_descending: bool, is_last: bool) -> Element:
        """A key of an order."""
        term = finite(self.term(element))
        if not self.sorts(term):
            raise UntranslatableError(f"an order of a {term.kind}")
        key = term.sql.desc() if is_descending else term.sql.asc()
        return key.nulls_last() if is_last else key.nulls_first()

    def group_key(self, element: Any) -> Element:
        """A part of GROUP BY or PARTITION BY."""
        term = self.term(element)
        if not self.groups(term):
            raise UntranslatableError(f"groups of a {term.kind}")
        return finite(term).sql

    def _translate(self, element: Any) -> Term:
        for cls in type(element).__mro__:
            handler = _HANDLERS.get(cls)
            if handler is not None:
                term: Term = getattr(self, handler)(element)
                return term
        raise UntranslatableError(type(element).__name__)

    def _column(self, element: Any) -> Term:
        return self._statements.column(element)

    def _inner(self, element: Any) -> Term:
        return self.term(element.element)

    def _coerce(self, element: Any) -> Term:
        # The same value in the database; what it is announced as is the live statement's matter.
        return self.term(element.clause)

    def _bind(self, element: BindParameter[Any]) -> Term:
        if element.expanding:
            raise UntranslatableError("a list of values")
        return self._constant(element.effective_value)

    def _constant(self, value: Any) -> Term:
        if self.dialect == MARIADB and isinstance(value, Decimal) and not _has_point(value):
            raise UntranslatableError("a number that MariaDB's drivers write as one of another type")
        return constant(value)

    def _keyword(self, element: Any) -> Term:
        return constant(None if isinstance(element, Null) else isinstance(element, True_))

    def _clauses(self, element: Any) -> Term:
        connect = {operators.and_: and_, operators.or_: or_}.get(element.operator)
        if connect is None:
            raise UntranslatableError("a list")
        return boolean(connect(*(self.truth(part) for part in element.clauses)))

    def _unary(self, element: Any) -> Term:
        if element.operator is operators.inv:
            return boolean(inverse(self.truth(element.element)))
        if element.operator is operators.neg:
            return meanings.negate(self._plain(self.term(element.element)), self.dialect)
        raise UntranslatableError("another unary operator")

    def _as_boolean(self, element: Any) -> Term:
        truth = self.truth(element.element)
        return boolean(inverse(truth) if element.operator is operators.is_false else truth)

    def _binary(self, element: Any) -> Term:
        operator = element.operator
        if operator in _LIKES:
            return self._like(element)
        if operator in (operators.in_op, operators.not_in_op):
            return self._in(element)
        if operator in (operators.between_op, operators.not_between_op):
            return self._between(element)
        if operator in (operators.is_, operators.is_not):
            return self._is(element)
        if operator is operators.collate:
            return self._collated(element)
        left, right = element.left, element.right
        if any(isinstance(side, FunctionElement) and side.name in (BEFORE, AFTER) for side in (left, right)):
            # Days around an instant, for an index: the exact comparison stands beside it.
            return boolean(true())
        word = _WORDS.get(operator) or str(getattr(operator, "opstring", ""))
        return self.apply(word, self.term(left), self.term(right))

    def apply(self, word: str, left: Term, right: Term) -> Term:
        """`left word right`, by the table."""
        rows, convert = meanings.OPERATORS[self.dialect], meanings.IMPLICIT[self.dialect]
        for one in (left, self._convert(left, convert)):
            for other in (right, self._convert(right, convert)):
                row = rows.get((word, one.kind, other.kind))
                if row is not None:
                    self._require_collation(word, one, other)
                    return row(one, other)
        raise UntranslatableError(f"{left.kind} {word[:20]} {right.kind}")

    def _convert(self, term: Term, convert: Mapping[Any, Any]) -> Term:
        row = convert.get(term.kind)
        return term if row is None else row[1](term)

    def _plain(self, term: Term) -> Term:
        return self._convert(term, meanings.IMPLICIT[self.dialect])

    def _require_collation(self, word: str, left: Term, right: Term) -> None:
        is_order = word in meanings.ORDER
        is_loose = self.dialect == SQLITE and word in meanings.EQUALITY
        is_known = self._by_code_point or left.is_bytewise or right.is_bytewise
        if (is_order or is_loose) and left.kind == right.kind == "text" and not is_known:
            raise UntranslatableError("texts by a collation")

    def _collated(self, element: Any) -> Term:
        term = self.term(element.left)
        if term.kind != "text" or element.right.collation not in BYTEWISE[self.dialect]:
            raise UntranslatableError("another collation")
        return replace(term, is_bytewise=True)

    def _like(self, element: Any) -> Term:
        word, is_negated = _LIKES[element.operator]
        row = meanings.LIKE.get((self.dialect, word))
        sides = [self._plain(self.term(side)) for side in (element.left, element.right)]
        if row is None or not all(side.kind in row[0] for side in sides):
            raise UntranslatableError(f"{word} of such values")
        match = row[1](sides[0], sides[1], element.modifiers.get("escape"))
        return boolean(inverse(match.sql)) if is_negated else match

    def _with_its_nulls(self, element: Any) -> Term:
        """The term of an expression that is NULL exactly where it is in its database."""
        term = finite(self.term(element))
        if term.kind == "document":
            raise UntranslatableError("whether a document is NULL")
        return term

    def _is(self, element: Any) -> Term:
        is_negated = element.operator is operators.is_not
        if isinstance(element.right, Null):
            term = self._with_its_nulls(element.left)
            return boolean(term.sql.is_not(None) if is_negated else term.sql.is_(None))
        if isinstance(element.right, True_ | False_):
            truth = self.truth(element.left)
            is_true = isinstance(element.right, True_)
            compared = Grouping(truth).is_(is_true)
            return boolean(inverse(compared) if is_negated else compared)
        return self.apply("is not" if is_negated else "is", self.term(element.left), self.term(element.right))

    def _between(self, element: Any) -> Term:
        value = self.term(element.left)
        low, high = (self.term(bound) for bound in element.right.clauses)
        is_between = and_(self.apply(">=", value, low).sql, self.apply("<=", value, high).sql)
        return boolean(inverse(is_between) if element.operator is operators.not_between_op else is_between)

    def _in(self, element: Any) -> Term:
        is_negated = element.operator is operators.not_in_op
        value, right = self.term(element.left), element.right
        while isinstance(right, Grouping):
            right = right.element
        if isinstance(right, SelectBase | ScalarSelect):
            is_member = self._in_query(value, right)
        else:
            is_member = self._in_list(value, self._options(right))
        return boolean(inverse(is_member) if is_negated else is_member)

    def _options(self, right: Any) -> list[Term]:
        if isinstance(right, BindParameter) and right.expanding:
            values: Any = right.effective_value
            return [self._constant(value) for value in values]
        if isinstance(right, ClauseList | ExpressionClauseList):
            return [self.term(option) for option in right.clauses]
        raise UntranslatableError("another list of IN")

    def _in_list(self, value: Term, options: Sequence[Term]) -> Element:
        if not options:
            raise UntranslatableError("an empty list")
        compared = [self.apply("=", value, option) for option in options]
        first = finite(value)
        if all(option.kind == first.kind and option.is_constant for option in options):
            # One list is faster than many comparisons, which would mean the same.
            return first.sql.in_([option.sql for option in options])
        return or_(*(one.sql for one in compared))

    def _in_query(self, value: Term, select: Any) -> Element:
        query, member = self._statements.member(select)
        value = finite(value)
        if value.kind != member.kind or (value.kind == "decimal" and value.scale != member.scale):
            raise UntranslatableError("IN of another kind")
        self.apply("=", value, member)
        is_member: Element = value.sql.in_(query)
        return is_member

    def _case(self, element: Any) -> Term:
        if element.value is not None:
            raise UntranslatableError("CASE of a value")
        conditions = [self.truth(condition) for condition, _ in element.whens]
        values = [self.term(value) for _, value in element.whens]
        values.append(constant(None) if element.else_ is None else self.term(element.else_))
        if len({value.kind for value in values} - {"null"}) > 1:
            values = [self._plain(value) for value in values]
        return functions.one_of(
            values, lambda *sql: case(*zip(conditions, sql[:-1], strict=True), else_=sql[-1])
        )

    def _cast(self, element: Any) -> Term:
        return casts.translate_cast(self.dialect, self.term(element.clause), element.type)

    def _extract(self, element: Any) -> Term:
        return functions.translate_extract(self.dialect, str(element.field), self.term(element.expr))

    def _function(self, element: Any) -> Term:
        return self._call(element, lambda sql: sql, is_window=False)

    def _call(self, element: Any, wrap: Callable[[Element], Element], *, is_window: bool) -> Term:
        name, arguments = element.name.lower(), list(element.clauses)
        if getattr(element, "packagenames", ()):
            raise UntranslatableError("a function of a schema")
        is_scalar = len(arguments) > 1 and name in ("min", "max")
        if name in aggregates.NAMES and not is_scalar:
            return self._aggregate(name, arguments, wrap, is_window=is_window)
        if is_window:
            raise UntranslatableError(f"{name}() in a window")
        return functions.translate_call(self.dialect, name, [self.term(argument) for argument in arguments])

    def _aggregate(
        self, name: str, arguments: list[Any], wrap: Callable[[Element], Element], *, is_window: bool
    ) -> Term:
        if len(arguments) != 1:
            raise UntranslatableError(f"{name}() of {len(arguments)} arguments")
        argument = arguments[0]
        if name == "count" and getattr(argument, "is_literal", False) and argument.name == "*":
            return whole(wrap(func.count()))
        is_distinct = isinstance(argument, UnaryExpression) and argument.operator is operators.distinct_op
        if is_distinct and is_window:
            raise UntranslatableError("DISTINCT in a window, which is refused there")
        term = self._with_its_nulls(argument.element if is_distinct else argument)
        call = AggregateTerm(term, is_distinct, is_window or self._compensates, wrap)
        if is_distinct and not self.groups(term):
            raise UntranslatableError(f"distinct values of a {term.kind}")
        if name == "count":
            return whole(call.apply("count", call.term.sql))
        if term.kind == "text" and not self._by_code_point:
            raise UntranslatableError("texts by a collation")
        return aggregates.translate_aggregate(self.dialect, name, call)

    def _filter(self, element: Any) -> Term:
        condition = self.truth(element.criterion)
        return self._call(element.func, lambda sql: sql.filter(condition), is_window=False)

    def _over(self, element: Any) -> Term:
        partitions = [self.group_key(part) for part in _parts(element.partition_by)]
        keys = _parts(element.order_by)
        order = [self.sort_key(key) for key in keys]
        if any(getattr(element, name, None) is not None for name in ("rows", "range_", "groups", "exclude")):
            raise UntranslatableError("a frame")

        def wrap(sql: Any) -> Element:
            over: Element = sql.over(partition_by=partitions or None, order_by=order or None)
            return over

        inner = element.element
        if isinstance(inner, FunctionFilter):
            condition = self.truth(inner.criterion)
            return self._call(inner.func, lambda sql: wrap(sql.filter(condition)), is_window=True)
        if not isinstance(inner, FunctionElement):
            raise UntranslatableError("another window")
        name = inner.name.lower()
        if name in aggregates.NAMES:
            return self._call(inner, wrap, is_window=True)
        is_total = any(self._statements.is_unique(split_modifiers(key)[0]) for key in keys)
        arguments = [self.term(one) for one in inner.clauses]
        write = aggregates.translate_rank(
            self.dialect, name, arguments, is_sorted=bool(keys), is_total=is_total
        )
        return write(wrap(getattr(func, name)()))

    def _scalar(self, element: Any) -> Term:
        return self._statements.scalar(element.element)

    def _exists(self, element: Any) -> Term:
        return boolean(self._statements.exists(element.element))


def _parts(clauses: Any) -> list[Any]:
    return [] if clauses is None else list(getattr(clauses, "clauses", [clauses]))


def _has_point(value: Decimal) -> bool:
    """Whether its text is a decimal of MariaDB: 3 is a whole number there, and 1E-7 a double."""
    return "." in str(value) and "E" not in str(value)


_HANDLERS: Mapping[type[Any], str] = {
    ColumnClause: "_column",
    Label: "_inner",
    Grouping: "_inner",
    internals.LabelReference: "_inner",
    TypeCoerce: "_coerce",
    BindParameter: "_bind",
    **dict.fromkeys((Null, True_, False_), "_keyword"),
    ExpressionClauseList: "_clauses",
    AsBoolean: "_as_boolean",
    Exists: "_exists",
    UnaryExpression: "_unary",
    BinaryExpression: "_binary",
    Case: "_case",
    Cast: "_cast",
    Extract: "_extract",
    FunctionElement: "_function",
    FunctionFilter: "_filter",
    Over: "_over",
    ScalarSelect: "_scalar",
}
"""By the class of an element: the method that translates it. One without an entry is refused."""
