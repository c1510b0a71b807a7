"""The attributes of an element as JSON and back.

A `NodeKind` is one row of the table tag -> (class, fields) in `codec`. Most kinds need only their fields. Tables,
functions and ORM entities are references by name and have their own `write` and `read`.

A forged document may put any element anywhere. An element that is rendered without a closing bracket (`x ORDER BY y`,
`x DESC`, a bare list) could absorb or split a condition that is appended later, such as a tenant's. The `check_*`
functions refuse such elements where SQLAlchemy's constructors never put them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import Column
from sqlalchemy.dialects.postgresql import aggregate_order_by, array
from sqlalchemy.orm import Bundle, Mapper
from sqlalchemy.orm.util import AliasedInsp
from sqlalchemy.sql import elements, operators, selectable
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.sql.operators import OperatorClass, custom_op
from sqlalchemy.util import immutabledict

from dualsql import sqlalchemy_internals as internals
from dualsql.freeze import types
from dualsql.freeze.document import expect, malformed, refuse
from dualsql.freeze.types import OPERATOR_NAMES, OPERATORS, POSTGRESQL_OPERATORS, WORD_OPERATORS
from dualsql.freeze.values import is_identifier, read_name, write_name

if TYPE_CHECKING:
    from dualsql.freeze.codec import Decoder, Encoder


# Rendered without parentheses, and self_group() adds none.
_OPEN_ENDED = (
    aggregate_order_by,
    elements.CollationClause,
    elements.Slice,
    internals.LabelReference,
    internals.TextualLabelReference,
)
# Not column expressions, but rendered as a unit: in parentheses, or as text that the registry has to allow.
_CLOSED = (selectable.SelectStatementGrouping, selectable.FromGrouping, elements.TextClause)
_CALLS = (FunctionElement, elements.FunctionFilter, elements.AggregateOrderBy)

PREFIXED = frozenset(
    {"neg", "inv", "distinct_op", "exists", "any_op", "all_op", "bitwise_not_op", "is_true", "is_false"}
)
ORDERING = frozenset({"desc_op", "asc_op", "nulls_first_op", "nulls_last_op"})
CHAINED = frozenset(
    """and_ or_ add mul concat_op comma_op bitwise_and_op bitwise_or_op bitwise_xor_op is_distinct_from
    is_not_distinct_from""".split()
)
_NOT_IN_EXPRESSIONS = frozenset(
    {"from_", "as_", "filter_op", "null_op", "comma_op", "function_as_comparison_op"}
)
INFIX = frozenset(
    name
    for name in vars(operators)
    if name not in PREFIXED | ORDERING | _NOT_IN_EXPRESSIONS and not name.startswith("_")
)


def check_operand(element: Any) -> Any:
    """`element`, if `self_group` makes it a unit that an operator beside it cannot split; otherwise raise."""
    if _is_whole(element.__class__):
        return element
    # A list of values is allowed in IN only, because SQLAlchemy's cache keys ignore it.
    is_whole = (isinstance(element, elements.UnaryExpression) and element.modifier is None) or (
        isinstance(element, elements.BindParameter) and not element.expanding
    )
    return element if is_whole else malformed("an open-ended operand")


@cache
def _is_whole(cls: Any) -> bool:
    """Whether every element of the class is such a unit."""
    if issubclass(cls, elements.ColumnElement):
        return not issubclass(cls, (*_OPEN_ENDED, elements.UnaryExpression, elements.BindParameter))
    return issubclass(cls, _CLOSED)


def check_one(element: Any) -> Any:
    """`element`, if it is rendered as one value or is a Bundle. `a, b` would shift the columns after it."""
    if type(element) is Column:
        return element
    is_list = isinstance(element, elements.ClauseList | elements.ElementList) or (
        isinstance(element, elements.ExpressionClauseList) and element.operator is operators.comma_op
    )
    is_bundle = "bundle" in internals.annotations_of(element)
    if is_list and not is_bundle and not isinstance(element, elements.Tuple | array):
        malformed("a list where one value is due")
    return element


def check_call(element: Any) -> Any:
    """`element`, if it is a function call. OVER, FILTER and WITHIN GROUP are valid after a call only."""
    return element if isinstance(element, _CALLS) else malformed("a clause of a function on something else")


REQUIRED: Any = object()
"""`absent` of a field that every node must have."""
LEAVE: Any = object()
"""`absent` of a field whose class has its own default."""

_CONTAINERS = (tuple, list, dict)


class Field(NamedTuple):
    """One attribute of a kind.

    Attributes:
        name: its name in the document.
        absent: what a missing field means: REQUIRED, LEAVE, a container type (an empty one) or a value.
        default: the value that is not written.
        empties: container types that are not written when empty.
    """

    name: str
    attribute: str
    write: Callable[[Encoder, Any], Any]
    read: Callable[[Decoder, Any], Any]
    absent: Any = LEAVE
    default: Any = None
    empties: tuple[type, ...] = _CONTAINERS


# SQLAlchemy stores memoized values under these names too, without an attribute of the class.
_MEMOS = """dispatch _memoized_keys _cloned_set _is_clone_of description comparator proxy_set _orig
    _Annotated__element _hash c _columns primary_key foreign_keys _generate_cache_key _annotations_cache_key
    _from_objects _all_selected_columns _deannotated_element _creation_order entity_namespace""".split()


class NodeKind:
    """One kind of node.

    Args:
        ignored: attributes that `derive` computes again or that do not matter.
        constants: attributes with the same value in every element of the kind.
        derive: completes a filled element. It computes flags and does not read them from the document.
        write, read: functions of this kind that replace `Encoder.fields` and `Decoder.fill`.
        is_shared: rendered once for all references (a table, a CTE).
        is_own: its elements are new objects of this document, so their origin may be set.

    Attributes:
        by_name: the fields, including those that all kinds have.
        writers: attribute -> its field, or None if it is not written. Memoized attributes are added when they occur.
        required: names of the fields that every node must have.
        factories: the fields that are a new empty container if the node omits them.
    """

    def __init__(
        self,
        tag: str,
        cls: Any,
        *fields: Field,
        ignored: str = "",
        constants: Mapping[str, Any] | None = None,
        derive: Callable[[Any], object] = lambda element: None,
        write: Callable[[Encoder, NodeKind, Any], dict[str, Any]] | None = None,
        read: Callable[[Decoder, NodeKind, dict[str, Any]], Any] | None = None,
        is_shared: bool = False,
        is_own: bool = True,
    ) -> None:
        self.tag, self.cls, self.fields = tag, cls, fields
        self.derive = derive
        self.write, self.read = write, read
        self.is_shared = is_shared
        self.is_own = is_own
        self.by_name: dict[str, Field] = {}
        self.writers: dict[str, Field | None] = {}
        self.required: set[str] = set()
        self.factories: list[Field] = []
        self.constants: dict[str, Any] = {}
        for field in (*_COMMON, *fields):
            self.by_name[field.name] = self.writers[field.attribute] = field
            if field.absent is REQUIRED:
                self.required.add(field.name)
            elif field.absent in (list, dict):
                self.factories.append(field)
            elif field.absent is not LEAVE:
                self.constants[field.attribute] = () if field.absent is tuple else field.absent
        self.constants.update(constants or {})
        self.writers.update(dict.fromkeys([*_MEMOS, *internals.NOTES, *ignored.split()]))

    def skip_or_refuse(self, attribute: str, value: Any) -> None:
        """Skip an attribute that SQLAlchemy memoized, and remember it; refuse any other unknown attribute."""
        if types.is_memoized(self.cls, attribute):
            self.writers[attribute] = None
        elif not isinstance(value, _CONTAINERS) or value:
            refuse(f"{self.tag} with {attribute}", "Leave that option out: this version cannot store it.")


Check = Callable[[Any], Any]


def part(name: str, attribute: str = "", absent: Any = None, check: Check | None = None) -> Field:
    """An element inside this one, or None."""
    return Field(
        name,
        attribute or name,
        lambda enc, element: enc.ref(element),
        (lambda dec, wire: check(dec.element(wire))) if check else (lambda dec, wire: dec.element(wire)),
        absent,
    )


needed = partial(part, absent=REQUIRED)
operand = partial(needed, check=check_operand)
call = partial(needed, check=check_call)


def parts(
    name: str,
    attribute: str = "",
    *,
    cls: type = tuple,
    absent: Any = REQUIRED,
    empties: tuple[type, ...] = _CONTAINERS,
    check: Check = lambda element: element,
) -> Field:
    """Elements inside this one, in a tuple or list. A missing field is an empty one."""
    return Field(
        name,
        attribute or name,
        lambda enc, elements: [enc.ref(element) for element in elements],
        lambda dec, wire: cls([check(dec.element(number)) for number in expect(wire, list)]),
        cls if absent is REQUIRED else absent,
        empties=empties,
    )


operands = partial(parts, check=check_operand)


def pairs(name: str, attribute: str) -> Field:
    """Tuples of elements, such as the WHENs of a CASE."""
    return Field(
        name,
        attribute,
        lambda enc, rows: [[enc.ref(element) for element in row] for row in rows],
        lambda dec, wire: [tuple([dec.element(number) for number in row]) for row in expect(wire, list)],
        list,
    )


def plain(
    name: str, attribute: str, allows: Callable[[Any], bool], absent: Any = None, default: Any = None
) -> Field:
    """A JSON value that is stored as it is. `allows` checks it on both sides."""
    return Field(
        name,
        attribute,
        lambda enc, value: value if allows(value) else refuse(f"{name}={value!r}", "Use a standard value."),
        lambda dec, wire: wire if allows(wire) else malformed(name),
        absent,
        default,
    )


def flag(name: str, attribute: str = "", *, default: bool = False, absent: Any = None) -> Field:
    """A boolean."""
    return plain(name, attribute or name, types.is_flag, default if absent is None else absent, default)


def word(name: str, attribute: str, allows: Callable[[str], bool], absent: Any = None) -> Field:
    """Text that is rendered as written. It has to be in a fixed set or match a pattern."""
    return plain(name, attribute, lambda value: isinstance(value, str) and allows(value), absent)


def name_(name: str = "name", attribute: str = "", absent: Any = REQUIRED) -> Field:
    """A name that every dialect quotes."""
    return Field(
        name,
        attribute or name,
        lambda enc, value: write_name(value, enc.seeds),
        lambda dec, wire: read_name(wire, dec.seeds),
        absent,
    )


def choice(name: str, attribute: str, values: Any, absent: Any = None, default: Any = None) -> Field:
    """A member of an Enum, by name."""
    return Field(
        name, attribute, lambda enc, value: value.name, lambda dec, wire: values[wire], absent, default
    )


def type_(default: Any = None) -> Field:
    """The SQL type. `default` is used if the document has none."""
    return Field(
        "type",
        "type",
        lambda enc, value: enc.type(value),
        lambda dec, wire: dec.type(wire),
        REQUIRED if default is None else default,
        default,
    )


# SQLAlchemy sets it on elements that it has adapted to an alias. ORDER BY then does not use their label.
_COMMON = (flag("resolves labels", "_allow_label_resolve", default=True, absent=LEAVE),)


# Logical operators on at least one database (|| is OR on MySQL). They always need parentheses under AND.
_LOOSE = frozenset({"||", "&&", "XOR", "OR", "AND", "NOT"})
_POSTGRESQL_NAMES = {op: name for name, op in POSTGRESQL_OPERATORS.items()}


def operator(name: str, allowed_names: frozenset[str], attribute: str = "", absent: Any = None) -> Field:
    """An operator, by its name in SQLAlchemy (one of `allowed_names`), or by its text if the registry allows that."""

    def read(dec: Decoder, wire: Any) -> Any:
        if type(wire) is str:
            return OPERATORS[wire] if wire in allowed_names else malformed("operator in a wrong position")
        return _read_custom(dec, wire, is_infix=allowed_names is INFIX)

    return Field(name, attribute or name, _write_operator, read, absent)


def _write_operator(enc: Encoder, op: Any) -> Any:
    name = OPERATOR_NAMES.get(op)
    if name is not None:
        return name
    if not isinstance(op, custom_op):
        refuse(f"the operator {getattr(op, '__name__', op)}", "Use a standard operator.")
    name = _POSTGRESQL_NAMES.get(op)
    if name is not None and POSTGRESQL_OPERATORS[name] is op:
        return ["postgresql", name]
    is_plain = type(op) is custom_op and op.visit_name is None
    if not is_plain or op.opstring not in enc.registry.operators:
        refuse(f"the operator {op.opstring!r}", "Register the operator: Registry(..., operators=[text]).")
    returns = None if op.return_type is None else enc.type(op.return_type)
    flags = [op.is_comparison, op.natural_self_precedent, op.eager_grouping]
    return ["op", op.opstring, op.precedence, flags, returns, op.operator_class.name]


def _read_custom(dec: Decoder, wire: Any, *, is_infix: bool) -> Any:
    mark, text, *rest = wire
    if not is_infix and (text in _LOOSE or text in WORD_OPERATORS):
        # A word before a tuple is the call of a function: REGEXP ('a+', name).
        malformed("operator in a wrong position")
    if mark == "postgresql":
        return POSTGRESQL_OPERATORS[text]
    precedence, flags, returns, operator_class = rest
    if text not in dec.registry.operators or not -20 <= expect(precedence, int) <= 20:
        malformed("operator")
    comparison, natural, eager = (expect(item, bool) for item in flags)
    return custom_op(
        text,
        # AND has the precedence 3 (sql/operators.py): self_group() adds parentheses to operators of 0 or less.
        precedence=min(precedence, 0) if text.upper() in _LOOSE else precedence,
        is_comparison=comparison,
        natural_self_precedent=natural,
        eager_grouping=eager,
        return_type=None if returns is None else dec.type(returns),
        operator_class=OperatorClass[operator_class],
    )


# Annotations that SQLAlchemy reads itself, such as entities. They are never plain values.
_MEANT = frozenset(
    """parententity parentmapper entity_namespace proxy_owner proxy_key bundle dml_table for_loader_criteria
    compile_state_plugin plugin_subject additional_entity_criteria warn_on_attribute_access""".split()
)


def _write_plugin(enc: Encoder, value: Any) -> Any:
    """The ORM entity that makes a statement an ORM statement; False for a statement of no entity."""
    if set(value) != {"compile_state_plugin", "plugin_subject"} or value["compile_state_plugin"] != "orm":
        refuse(
            "a statement of a compile plugin other than the ORM", "Use select() of tables or mapped classes."
        )
    subject = value["plugin_subject"]
    return False if subject is None else enc.ref(subject)


def _read_plugin(dec: Decoder, wire: Any) -> Any:
    subject = None if wire is False else dec.neighbour(wire)
    if not isinstance(subject, Mapper | AliasedInsp | Bundle | None):
        malformed("something else where an entity is due")
    return immutabledict({"compile_state_plugin": "orm", "plugin_subject": subject})


ORM = Field("orm", "_propagate_attrs", _write_plugin, _read_plugin)


def is_plain_note(key: Any, value: Any) -> bool:
    """Whether SQLAlchemy uses the annotation in the cache key only."""
    # SQLAlchemy sets it on the secondary table of a write-only collection, for filter_by().
    if key == "_no_filter_by":
        return value is True
    is_name = type(key) is str and is_identifier(key) and not key.startswith("_") and key not in _MEANT
    return is_name and (
        value is None or type(value) in (bool, int) or (type(value) is str and len(value) < 200)
    )


_UNREAD = frozenset({"deepentity"})
"""Annotation that Query.union() sets on its parts. SQLAlchemy 2.1 never reads it (sqlalchemy/orm/context.py)."""


def _write_plain(enc: Encoder, notes: Any) -> dict[str, Any]:
    for key, value in notes.items():
        if key not in _UNREAD and not is_plain_note(key, value):
            refuse(f"a statement annotated with {key}", "Pass the statement as select() made it.")
    return {key: value for key, value in notes.items() if key not in _UNREAD}


def _read_plain(dec: Decoder, wire: Any) -> Any:
    if not all(is_plain_note(key, value) for key, value in expect(wire, dict).items()):
        malformed("annotation")
    return immutabledict(wire)


PLAIN_NOTES = Field("notes", "_annotations", _write_plain, _read_plain)
NOTED = (ORM, PLAIN_NOTES)


JOIN = (
    needed("left"),
    needed("right"),
    operand("on", "onclause"),
    flag("outer", "isouter"),
    flag("full"),
)
"""A join of tables, or of mapped classes."""
