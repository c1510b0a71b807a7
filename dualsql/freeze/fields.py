"""The attributes of an element as JSON and back.

A `NodeKind` is one row of the table tag -> (class, fields) in `kinds`. Most kinds need only their fields. Tables,
functions and ORM entities are references by name and have their own `write` and `read`.

A forged document may put any element anywhere. An element that is rendered without a closing bracket (`x ORDER BY y`,
`x DESC`, a bare list) could absorb or split a condition that is appended later, such as a tenant's. The `check_*`
functions refuse such elements where SQLAlchemy's constructors never put them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

from sqlalchemy.dialects.postgresql import aggregate_order_by, array
from sqlalchemy.orm import Bundle, Mapper
from sqlalchemy.orm.util import AliasedInsp
from sqlalchemy.sql import elements, operators, selectable
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.sql.operators import OperatorClass, custom_op
from sqlalchemy.util import immutabledict

from dualsql import sqlalchemy_internals as internals
from dualsql.freeze import names
from dualsql.freeze.document import expect, malformed, refuse
from dualsql.freeze.types import OPERATOR_NAMES, OPERATORS, POSTGRESQL_OPERATORS

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
_MEMBERSHIP = (operators.in_op, operators.not_in_op)
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
    is_whole = _is_whole(element.__class__) or _is_whole_itself(element)
    return element if is_whole else malformed("an open-ended operand")


@cache
def _is_whole(cls: Any) -> bool:
    """Whether every element of the class is such a unit."""
    if issubclass(cls, elements.ColumnElement):
        return not issubclass(cls, (*_OPEN_ENDED, elements.UnaryExpression, elements.BindParameter))
    return issubclass(cls, _CLOSED)


def _is_whole_itself(element: Any) -> bool:
    if isinstance(element, elements.UnaryExpression):
        return element.modifier is None
    # A list of values is allowed in IN only, because SQLAlchemy's cache keys ignore it.
    return isinstance(element, elements.BindParameter) and not element.expanding


def check_one(element: Any) -> Any:
    """`element`, if it is rendered as one value or is a Bundle. `a, b` would shift the columns after it."""
    is_list = isinstance(element, elements.ClauseList | elements.ElementList) or (
        isinstance(element, elements.ExpressionClauseList) and element.operator is operators.comma_op
    )
    is_bundle = "bundle" in internals.annotations_of(element)
    if is_list and not is_bundle and not isinstance(element, elements.Tuple | array):
        malformed("a list where one value is due")
    return element


def check_right(element: Any, op: Any) -> Any:
    """Check the right operand of `op`: a collation for COLLATE, a slice for an index, otherwise an operand."""
    # `.op("IN")` is rendered like in_(), but its operator is another object.
    if op in _MEMBERSHIP or getattr(op, "opstring", "").upper() in ("IN", "NOT IN"):
        return _check_members(element)
    if op is operators.collate and isinstance(element, elements.CollationClause):
        return element
    if op is operators.getitem and isinstance(element, elements.Slice):
        return element
    return check_operand(element)


def _check_members(element: Any) -> Any:
    """Check the right side of IN. SQLite reads a bare name there as a table, also one that is not registered."""
    bare = element
    while isinstance(bare, elements.Label | elements.TypeCoerce):
        bare = internals.labelled_element(bare) if isinstance(bare, elements.Label) else bare.clause
    if isinstance(bare, elements.NamedColumn):
        malformed("a name where the members of IN are due")
    if isinstance(bare, elements.BindParameter):
        return element if bare.expanding else malformed("one value where the members of IN are due")
    return check_operand(element)


def check_call(element: Any) -> Any:
    """`element`, if it is a function call. OVER, FILTER and WITHIN GROUP are valid after a call only."""
    return element if isinstance(element, _CALLS) else malformed("a clause of a function on something else")


def with_parentheses(element: Any, against: Any) -> Any:
    """`element` with the parentheses that `against` needs, without the `= 1` that a boolean gets beside AND."""
    grouped = element.self_group(against=against)
    return element if isinstance(grouped, elements.AsBoolean) else grouped


# Operators whose right side is a list without parentheses, and the operator of that list.
BARE = {
    operators.between_op: operators.and_,
    operators.not_between_op: operators.and_,
    operators.regexp_replace_op: operators.comma_op,
}


class Bare:
    """A list without parentheses, as between BETWEEN's operands. Only a binary expression accepts it."""

    def __init__(self, element: Any) -> None:
        self._element = element

    def operand_of(self, op: Any) -> Any:
        element = self._element
        if element.operator is not BARE[op]:
            malformed("operands of an operator")
        grouped = [clause.self_group(against=element.operator) for clause in element.clauses]
        # Without parentheses, a hostile OR would apply to conditions that are later added with AND.
        element.clauses = tuple(
            [
                g if isinstance(g, elements.Grouping) else c
                for c, g in zip(element.clauses, grouped, strict=True)
            ]
        )
        return element


def bare_copy(element: Any, expected: Any) -> Any:
    """A copy of a list that is rendered without its own parentheses."""
    if element.operator is not expected:
        malformed("operands of an operator")
    cls: Any = type(element)
    bare = cls.__new__(cls)
    bare.__dict__.update(element.__dict__, group=False)
    return bare


REQUIRED: Any = object()
"""`absent` of a field that every node must have."""
LEAVE: Any = object()
"""`absent` of a field whose class has its own default."""

_CONTAINERS = (tuple, list, dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One attribute of a kind.

    Attributes:
        name: its name in the document.
        default: the value that is not written.
        absent: what a missing field means: REQUIRED, LEAVE, a factory (list, dict) or a value.
        empties: container types that are not written when empty.
    """

    name: str
    attribute: str
    write: Callable[[Encoder, Any], Any]
    read: Callable[[Decoder, Any], Any]
    default: Any = None
    absent: Any = None
    empties: tuple[type, ...] = _CONTAINERS


@dataclass(frozen=True, slots=True)
class NodeKind:
    """One kind of node.

    Attributes:
        ignored: attributes that `derive` computes again or that do not matter.
        constants: attributes with the same value in every element of the kind.
        derive: completes a filled element. It computes flags and does not read them from the document.
        write, read: functions of this kind that replace `Encoder.fields` and `Decoder.fill`.
        is_shared: rendered once for all references (a table, a CTE).
        is_own: its elements are new objects of this document, so their origin may be set.
        by_attribute, by_name: the fields, including those that all kinds have.
        writers: attribute -> its field, or None if it is not written. Memoized attributes are added when they occur.
        readers: name of a field -> the attribute it sets, and how it is read.
        required: names of the fields that every node must have.
        factories: (name, attribute, class) of the fields that are a new empty container if the node omits them.
    """

    tag: str
    cls: Any
    fields: Sequence[Field] = ()
    ignored: frozenset[str] = frozenset()
    constants: Mapping[str, Any] = field(default_factory=dict)
    derive: Callable[[Any], None] = lambda element: None
    write: Callable[[Encoder, NodeKind, Any], dict[str, Any]] | None = None
    read: Callable[[Decoder, NodeKind, dict[str, Any]], Any] | None = None
    is_shared: bool = False
    is_own: bool = True
    by_attribute: dict[str, Field] = field(default_factory=dict, init=False)
    by_name: dict[str, Field] = field(default_factory=dict, init=False)
    writers: dict[str, Field | None] = field(default_factory=dict, init=False)
    readers: dict[str, tuple[str, Callable[[Decoder, Any], Any]]] = field(default_factory=dict, init=False)
    required: set[str] = field(default_factory=set, init=False)
    factories: list[tuple[str, str, type]] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "constants", {**_constants(self.fields), **self.constants})
        for each in (*_COMMON, *self.fields):
            self.by_attribute[each.attribute] = self.by_name[each.name] = each
            self.readers[each.name] = each.attribute, each.read
            if each.absent is REQUIRED:
                self.required.add(each.name)
            elif isinstance(each.absent, type) and each.absent is not tuple:
                self.factories.append((each.name, each.attribute, each.absent))
        self.writers.update(self.by_attribute)
        self.writers.update(dict.fromkeys(_MEMOS | self.ignored))

    def skip_or_refuse(self, attribute: str, value: Any) -> None:
        """Skip an attribute that SQLAlchemy memoized, and remember it; refuse any other unknown attribute."""
        descriptor = next((vars(c)[attribute] for c in self.cls.__mro__ if attribute in vars(c)), None)
        # SQLAlchemy's memoized descriptors are internal classes of several names (util/langhelpers.py).
        if descriptor is not None and "memoized" in type(descriptor).__name__:
            self.writers[attribute] = None
        elif not isinstance(value, _CONTAINERS) or value:
            refuse(f"{self.tag} with {attribute}", "Leave that option out: this version cannot store it.")


# SQLAlchemy stores memoized values under these names too, without an attribute of the class.
_MEMOS = {
    "dispatch",
    *(
        "_memoized_keys",
        "_cloned_set",
        "_is_clone_of",
        "description",
        "comparator",
        "proxy_set",
        "_orig",
        "_Annotated__element",
        "_hash",
    ),
    *("c", "_columns", "primary_key", "foreign_keys", "_generate_cache_key", "_annotations_cache_key"),
    *(
        "_from_objects",
        "_all_selected_columns",
        "_deannotated_element",
        "_creation_order",
        "entity_namespace",
    ),
}


def _constants(fields: Sequence[Field]) -> dict[str, Any]:
    """Attribute -> its value if the node omits it, for immutable values that all elements can share."""
    absent = {field.attribute: () if field.absent is tuple else field.absent for field in fields}
    return {
        attribute: value
        for attribute, value in absent.items()
        if value is not REQUIRED and value is not LEAVE and not isinstance(value, type)
    }


def part(name: str, attribute: str | None = None, absent: Any = None) -> Field:
    """An element inside this one, or None."""
    return Field(
        name=name,
        attribute=attribute or name,
        write=lambda enc, element: enc.ref(element),
        read=lambda dec, wire: dec.element(wire),
        absent=absent,
    )


def operands(name: str, attribute: str | None = None, absent: Any = REQUIRED) -> Field:
    """Operands of AND, OR or another operator."""
    return Field(
        name=name,
        attribute=attribute or name,
        write=lambda enc, elements: [enc.ref(element) for element in elements],
        read=lambda dec, wire: tuple([check_operand(dec.element(number)) for number in expect(wire, list)]),
        absent=tuple if absent is REQUIRED else absent,
    )


def operand(name: str, attribute: str | None = None) -> Field:
    """An operand."""
    return _checked_element(name, attribute, check_operand)


def call(name: str, attribute: str | None = None) -> Field:
    """A function call that this element completes."""
    return _checked_element(name, attribute, check_call)


def _checked_element(name: str, attribute: str | None, check: Callable[[Any], Any]) -> Field:
    return Field(
        name=name,
        attribute=attribute or name,
        write=lambda enc, element: enc.ref(element),
        read=lambda dec, wire: check(dec.element(wire)),
        absent=REQUIRED,
    )


def needed(name: str, attribute: str | None = None) -> Field:
    """An element inside this one. It is required."""
    return part(name, attribute, REQUIRED)


def parts(
    name: str,
    attribute: str | None = None,
    *,
    cls: type = tuple,
    absent: Any = REQUIRED,
    empties: tuple[type, ...] = _CONTAINERS,
) -> Field:
    """Elements inside this one, in a tuple or list. A missing field is an empty one."""
    return Field(
        name=name,
        attribute=attribute or name,
        write=lambda enc, elements: [enc.ref(element) for element in elements],
        read=lambda dec, wire: cls([dec.element(number) for number in expect(wire, list)]),
        absent=cls if absent is REQUIRED else absent,
        empties=empties,
    )


def pairs(name: str, attribute: str) -> Field:
    """Tuples of elements, such as the WHENs of a CASE."""
    return Field(
        name=name,
        attribute=attribute,
        write=lambda enc, rows: [[enc.ref(element) for element in row] for row in rows],
        read=lambda dec, wire: [tuple([dec.element(number) for number in row]) for row in expect(wire, list)],
        absent=list,
    )


def flag(name: str, attribute: str | None = None, *, default: bool = False, absent: Any = None) -> Field:
    """A boolean."""
    return Field(
        name=name,
        attribute=attribute or name,
        write=lambda enc, value: write_flag(name, value),
        read=lambda dec, wire: expect(wire, bool),
        default=default,
        absent=default if absent is None else absent,
    )


def write_flag(name: str, value: Any) -> bool:
    """`value`, if it is True or False."""
    if type(value) is not bool:
        refuse(f"{name}={value!r}"[:120], "Pass True or False.")
    return value


def name_(name: str = "name", attribute: str | None = None, absent: Any = REQUIRED) -> Field:
    """A name that every dialect quotes."""
    return Field(
        name=name,
        attribute=attribute or name,
        write=lambda enc, value: names.write_name(value, enc.seeds),
        read=lambda dec, wire: names.read_name(wire, dec.seeds),
        absent=absent,
    )


def word(name: str, attribute: str, allows: Callable[[str], bool], absent: Any = None) -> Field:
    """Text that is rendered as written. It has to be in a fixed set or match a pattern."""

    def write(enc: Encoder, value: Any) -> Any:
        if not isinstance(value, str) or not allows(value):
            refuse(f"{name} {value!r}"[:120], "Use a standard value.")
        return str(value)

    def read(dec: Decoder, wire: Any) -> str:
        if not allows(expect(wire, str)):
            malformed(name)
        text: str = wire
        return text

    return Field(name=name, attribute=attribute, write=write, read=read, absent=absent)


def choice(name: str, attribute: str, values: Any, absent: Any = None, default: Any = None) -> Field:
    """A member of an Enum, by name."""
    return Field(
        name=name,
        attribute=attribute,
        write=lambda enc, value: value.name,
        read=lambda dec, wire: values[expect(wire, str)],
        absent=absent,
        default=default,
    )


def type_(default: Any = None, name: str = "type", attribute: str = "type") -> Field:
    """The SQL type. `default` is used if the document has none."""
    return Field(
        name=name,
        attribute=attribute,
        write=lambda enc, value: enc.type(value),
        read=lambda dec, wire: dec.type(wire),
        default=default,
        absent=REQUIRED if default is None else default,
    )


def value_(name: str, attribute: str) -> Field:
    """A tagged Python value."""
    return Field(
        name=name,
        attribute=attribute,
        write=lambda enc, value: enc.registry.values.write(value),
        read=lambda dec, wire: dec.registry.values.read(wire),
        empties=(),
    )


# SQLAlchemy sets it on elements that it has adapted to an alias. ORDER BY then does not use their label.
_COMMON = (flag("resolves labels", "_allow_label_resolve", default=True, absent=LEAVE),)


# Logical operators on at least one database (|| is OR on MySQL). They always need parentheses under AND.
_LOOSE = frozenset({"||", "&&", "XOR", "OR", "AND", "NOT"})
_POSTGRESQL_NAMES = {op: name for name, op in POSTGRESQL_OPERATORS.items()}


def operator(
    name: str, allowed_names: frozenset[str], attribute: str | None = None, absent: Any = None
) -> Field:
    """An operator, by its name in SQLAlchemy or by its text, if the registry allows that.

    Args:
        allowed_names: the operators that are allowed here.
    """

    def read(dec: Decoder, wire: Any) -> Any:
        if type(wire) is str:
            return OPERATORS[wire] if wire in allowed_names else malformed("operator in a wrong position")
        return _read_custom(dec, wire, is_infix=allowed_names is INFIX)

    return Field(name=name, attribute=attribute or name, write=_write_operator, read=read, absent=absent)


def _write_operator(enc: Encoder, op: Any) -> Any:
    name = OPERATOR_NAMES.get(op)
    if name is not None:
        return name
    if not isinstance(op, custom_op):
        refuse(f"the operator {getattr(op, '__name__', op)}", "Use a standard operator.")
    name = _POSTGRESQL_NAMES.get(op)
    if name is not None and POSTGRESQL_OPERATORS[name] is op:
        return ["postgresql", name]
    if (
        type(op) is not custom_op
        or op.visit_name is not None
        or not enc.registry.allows_operator(op.opstring)
    ):
        refuse(
            f"the operator {op.opstring!r}"[:120], "Register the operator: Registry(..., operators=[text])."
        )
    returns = None if op.return_type is None else enc.type(op.return_type)
    flags = [op.is_comparison, op.natural_self_precedent, op.eager_grouping]
    return ["op", op.opstring, op.precedence, flags, returns, op.operator_class.name]


def _read_custom(dec: Decoder, wire: Any, *, is_infix: bool) -> Any:
    mark, text, *rest = wire
    if text in _LOOSE and not is_infix:
        malformed("operator in a wrong position")
    if mark == "postgresql":
        return POSTGRESQL_OPERATORS[text]
    precedence, flags, returns, operator_class = rest
    if not dec.registry.allows_operator(expect(text, str)) or not -20 <= expect(precedence, int) <= 20:
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


def _is_escape(value: Any) -> bool:
    return type(value) is str and len(value) <= 2 and "\x00" not in value


def _is_flags(value: Any) -> bool:
    return type(value) is str and value.isprintable() and len(value) <= 20


# Keyword arguments of operators: escape= and flags= are rendered as literals, the others add fixed words.
_MODIFIERS: dict[str, Callable[[Any], bool]] = {
    "escape": _is_escape,
    "flags": _is_flags,
    "autoescape": lambda value: type(value) is bool,
    "symmetric": lambda value: type(value) is bool,
    "mysql_boolean_mode": lambda value: type(value) is bool,
    "mysql_natural_language": lambda value: type(value) is bool,
    "mysql_query_expansion": lambda value: type(value) is bool,
    "postgresql_regconfig": lambda value: type(value) is str and names.is_identifier(value),
}


def modifiers(name: str = "with", attribute: str = "modifiers") -> Field:
    """The keyword arguments of an operator."""
    return Field(name=name, attribute=attribute, write=_write_modifiers, read=_read_modifiers, absent=dict)


def _write_modifiers(enc: Encoder, value: Mapping[str, Any]) -> dict[str, Any]:
    wire: dict[str, Any] = {}
    for key, item in value.items():
        if key == "_python_is_types":  # used when the operand was coerced, and not needed after that
            continue
        if key not in _MODIFIERS or not (item is None or _MODIFIERS[key](item)):
            refuse(f"an operator with {key}={item!r}"[:120], "Leave that argument out.")
        wire[key] = item
    return wire


def _read_modifiers(dec: Decoder, wire: Any) -> dict[str, Any]:
    for key, item in expect(wire, dict).items():
        if not (item is None or _MODIFIERS[key](item)):
            malformed("modifier")
    read: dict[str, Any] = wire
    return read


# Annotations that SQLAlchemy reads itself, such as entities. They are never plain values.
_MEANT = frozenset(
    """parententity parentmapper entity_namespace proxy_owner proxy_key bundle dml_table for_loader_criteria
    compile_state_plugin plugin_subject additional_entity_criteria warn_on_attribute_access""".split()
)


def write_plugin(enc: Encoder, value: Any) -> Any:
    """The ORM entity that makes a statement an ORM statement; False for a statement of no entity."""
    if set(value) != {"compile_state_plugin", "plugin_subject"} or value["compile_state_plugin"] != "orm":
        refuse(
            "a statement of a compile plugin other than the ORM", "Use select() of tables or mapped classes."
        )
    subject = value["plugin_subject"]
    return False if subject is None else enc.ref(subject)


def read_plugin(dec: Decoder, wire: Any) -> Any:
    """The reverse of `write_plugin`."""
    subject = None if wire is False else dec.neighbour(wire)
    if not isinstance(subject, Mapper | AliasedInsp | Bundle | None):
        malformed("something else where an entity is due")
    return immutabledict({"compile_state_plugin": "orm", "plugin_subject": subject})


ORM = Field(name="orm", attribute="_propagate_attrs", write=write_plugin, read=read_plugin, absent=LEAVE)


def is_plain_note(key: Any, value: Any) -> bool:
    """Whether SQLAlchemy uses the annotation in the cache key only."""
    # SQLAlchemy sets it on the secondary table of a write-only collection, for filter_by().
    if key == "_no_filter_by":
        return value is True
    is_name = type(key) is str and names.is_identifier(key) and not key.startswith("_") and key not in _MEANT
    return is_name and (
        value is None or type(value) in (bool, int) or (type(value) is str and len(value) < 200)
    )


_UNREAD = frozenset({"deepentity"})
"""Annotation that Query.union() sets on its parts. SQLAlchemy 2.1 never reads it (sqlalchemy/orm/context.py)."""


def _write_plain(enc: Encoder, notes: Any) -> dict[str, Any]:
    for key, value in notes.items():
        if key not in _UNREAD and not is_plain_note(key, value):
            refuse(f"a statement annotated with {key}"[:120], "Pass the statement as select() made it.")
    return {key: value for key, value in notes.items() if key not in _UNREAD}


def _read_plain(dec: Decoder, wire: Any) -> Any:
    if not all(is_plain_note(key, value) for key, value in expect(wire, dict).items()):
        malformed("annotation")
    return immutabledict(wire)


PLAIN_NOTES = Field(
    name="notes", attribute="_annotations", write=_write_plain, read=_read_plain, absent=LEAVE
)
NOTED = (ORM, PLAIN_NOTES)
