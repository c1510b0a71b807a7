"""How one attribute of an element becomes JSON and back; the rule: each kind of text has its own check.

A `Kind` is one row of the explicit table `tag -> (class, fields)`. Most kinds are only that; a few (a table, a
function, an ORM entity) bring their own `write` and `read`, because they are references by name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from dualsql.freeze import names
from dualsql.freeze.operands import check_call, check_operand
from dualsql.freeze.refusals import expect, malformed, refuse

if TYPE_CHECKING:
    from dualsql.freeze.decode import Decoder
    from dualsql.freeze.encode import Encoder

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
class Kind:
    """One kind of node.

    Attributes:
        ignored: attributes that `derive` computes again or that do not matter.
        constants: attributes with the same value in every element of the kind.
        derive: completes a filled element; never trusts a flag of the document.
        write, read: what a kind that is more than its fields has instead of `Encoder.fields` and `Decoder.fill`.
        is_shared: rendered once however often it is referred to (a table, a CTE).
        is_own: its elements belong to the document, so that lineage may be set on them.
        by_attribute, by_name: the fields, those of every kind included.
        writers: attribute -> its field, or None for one that is not written; those met so far are included.
        readers: name of a field -> the attribute it sets, and how it is read.
        required: names of the fields that every node must have.
        made: (name, attribute, class) of the fields that are a new empty container when the node leaves them out.
    """

    tag: str
    cls: Any
    fields: Sequence[Field] = ()
    ignored: frozenset[str] = frozenset()
    constants: Mapping[str, Any] = field(default_factory=dict)
    derive: Callable[[Any], None] = lambda element: None
    write: Callable[[Encoder, Kind, Any], dict[str, Any]] | None = None
    read: Callable[[Decoder, Kind, dict[str, Any]], Any] | None = None
    is_shared: bool = False
    is_own: bool = True
    by_attribute: dict[str, Field] = field(default_factory=dict, init=False)
    by_name: dict[str, Field] = field(default_factory=dict, init=False)
    writers: dict[str, Field | None] = field(default_factory=dict, init=False)
    readers: dict[str, tuple[str, Callable[[Decoder, Any], Any]]] = field(default_factory=dict, init=False)
    required: set[str] = field(default_factory=set, init=False)
    made: list[tuple[str, str, type]] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "constants", {**_constants(self.fields), **self.constants})
        for known in (*_COMMON, *self.fields):
            self.by_attribute[known.attribute] = self.by_name[known.name] = known
            self.readers[known.name] = known.attribute, known.read
            if known.absent is REQUIRED:
                self.required.add(known.name)
            elif isinstance(known.absent, type) and known.absent is not tuple:
                self.made.append((known.name, known.attribute, known.absent))
        self.writers.update(self.by_attribute)
        self.writers.update(dict.fromkeys(_MEMOS | self.ignored))

    def skip_or_refuse(self, attribute: str, value: Any) -> None:
        """Pass over a value that SQLAlchemy computed and kept, and remember it; refuse an attribute nobody knows."""
        found = next((vars(c)[attribute] for c in self.cls.__mro__ if attribute in vars(c)), None)
        if found is not None and "memoized" in type(found).__name__:
            self.writers[attribute] = None
        elif not isinstance(value, _CONTAINERS) or value:
            refuse(
                f"{self.tag} with {attribute}",
                "Leave that option out; this version does not know how to store it.",
            )


# Kept by SQLAlchemy under names that no class attribute announces.
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
    """Attribute -> what it is when the node leaves it out, for what all elements can share."""
    absent = {field.attribute: () if field.absent is tuple else field.absent for field in fields}
    return {
        attribute: value
        for attribute, value in absent.items()
        if value is not REQUIRED and value is not LEAVE and not isinstance(value, type)
    }


# --- parts of a statement -------------------------------------------------------------------------------------


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
    """Expressions that stand beside AND, OR or another operator."""
    return Field(
        name=name,
        attribute=attribute or name,
        write=lambda enc, elements: [enc.ref(element) for element in elements],
        read=lambda dec, wire: tuple([check_operand(dec.element(number)) for number in expect(wire, list)]),
        absent=tuple if absent is REQUIRED else absent,
    )


def operand(name: str, attribute: str | None = None) -> Field:
    """An expression that stands beside an operator."""
    return Field(
        name=name,
        attribute=attribute or name,
        write=lambda enc, element: enc.ref(element),
        read=lambda dec, wire: check_operand(dec.element(wire)),
        absent=REQUIRED,
    )


def call(name: str, attribute: str | None = None) -> Field:
    """A function call that this element completes."""
    return Field(
        name=name,
        attribute=attribute or name,
        write=lambda enc, element: enc.ref(element),
        read=lambda dec, wire: check_call(dec.element(wire)),
        absent=REQUIRED,
    )


def needed(name: str, attribute: str | None = None) -> Field:
    """An element inside this one that cannot be missing."""
    return part(name, attribute, REQUIRED)


def parts(
    name: str,
    attribute: str | None = None,
    *,
    cls: type = tuple,
    absent: Any = REQUIRED,
    empties: tuple[type, ...] = _CONTAINERS,
) -> Field:
    """Elements inside this one, in a tuple or list; when missing, an empty one."""
    return Field(
        name=name,
        attribute=attribute or name,
        write=lambda enc, elements: [enc.ref(element) for element in elements],
        read=lambda dec, wire: cls([dec.element(number) for number in expect(wire, list)]),
        absent=cls if absent is REQUIRED else absent,
        empties=empties,
    )


def pairs(name: str, attribute: str) -> Field:
    """Tuples of elements, as the WHENs of a CASE."""
    return Field(
        name=name,
        attribute=attribute,
        write=lambda enc, rows: [[enc.ref(element) for element in row] for row in rows],
        read=lambda dec, wire: [tuple([dec.element(number) for number in row]) for row in expect(wire, list)],
        absent=list,
    )


# --- words ------------------------------------------------------------------------------------------------------


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
    """Text that is rendered as written, and therefore must be one of a known set or match a pattern."""

    def write(enc: Encoder, value: Any) -> Any:
        if not isinstance(value, str) or not allows(value):
            refuse(f"{name} {value!r}"[:120], "Use one of the standard words.")
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
    """The SQL type; `default` is a type object that stands for itself when nothing is written."""
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


# SQLAlchemy sets it on elements that it has adapted to an alias: ORDER BY then never means their label.
_COMMON = (flag("resolves labels", "_allow_label_resolve", default=True, absent=LEAVE),)
