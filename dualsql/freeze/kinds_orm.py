"""ORM entities and attributes, stored as references to the mapping, because the ORM compares entities by identity."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy.orm import Bundle, DictBundle, Mapper, RelationshipProperty
from sqlalchemy.orm.attributes import QueryableAttribute
from sqlalchemy.orm.util import AliasedClass, AliasedInsp
from sqlalchemy.sql import selectable
from sqlalchemy.sql.annotation import Annotated
from sqlalchemy.sql.selectable import SelectBase
from sqlalchemy.util import immutabledict

from dualsql import sqlalchemy_internals as internals
from dualsql.freeze import sqlalchemy_internals as private
from dualsql.freeze.document import expect, malformed, refuse, refuse_changed
from dualsql.freeze.fields import JOIN, ORM, Field, NodeKind, is_plain_note
from dualsql.freeze.registry import MappedSource, check, mapped_element
from dualsql.freeze.values import read_name, write_name

if TYPE_CHECKING:
    from dualsql.freeze.codec import Decoder, Encoder

_ENTITY_NOTES = frozenset({"parententity", "parentmapper", "entity_namespace", "proxy_owner"})
# The entity of a hybrid is in a wrapper under "entity_namespace".
_HYBRID_NOTE = "hybrid"


def _write_mapper(enc: Encoder, kind: NodeKind, mapper: Mapper[Any]) -> dict[str, Any]:
    name = enc.registry.name_of(mapper)
    if name is None:
        cls = mapper.class_.__qualname__
        refuse(f"the mapped class {cls}", enc.registry.how_to_register(cls))
    enc.dependencies.update(enc.registry.columns_in(mapper.tables))
    return {"name": name}


def _read_mapper(dec: Decoder, kind: NodeKind, fields: dict[str, Any]) -> Mapper[Any]:
    mapper = dec.registry.mappers.get(expect(fields["name"], str))
    if mapper is None:
        refuse_changed()
    dec.dependencies.update(dec.registry.columns_in(mapper.tables))
    # With with_polymorphic="*" in the mapping, a query of one class reads the tables of all its subclasses.
    for relative in mapper.self_and_descendants:
        for name in map(dec.registry.name_of, relative.tables):
            dec.note_source(name)
    return mapper


def _write_mapped(enc: Encoder, kind: NodeKind, element: Any) -> dict[str, Any]:
    """A source of a mapping, by its role there."""
    source = enc.registry.mapped_sources[id(element)]
    fields: dict[str, Any] = {"of": enc.ref(source.mapper), "as": source.role}
    enc.dependencies.update(enc.registry.columns_in(source.tables))
    return fields if source.key is None else {**fields, "key": source.key}


def _read_mapped(dec: Decoder, kind: NodeKind, fields: dict[str, Any]) -> Any:
    mapper = dec.neighbour(fields["of"])
    if not isinstance(mapper, Mapper):
        malformed("something else where a mapped class is due")
    role, key = expect(fields["as"], str), fields.get("key")
    element = mapped_element(mapper, role, key if key is None else expect(key, str))
    source = dec.registry.mapped_sources.get(id(element))
    if source is None:
        refuse_changed()
    dec.dependencies.update(dec.registry.columns_in(source.tables))
    for table in source.tables:
        dec.note_source(dec.registry.name_of(table))
    dec.widen(source.size)
    return element


def _write_aliased(enc: Encoder, kind: NodeKind, entity: Any) -> dict[str, Any]:
    base = private.base_alias(entity)
    if base is not None and base is not entity:
        # with_polymorphic() creates it with the whole entity, which has one for each mapper.
        return {"within": enc.ref(base), "mapper": enc.ref(entity.mapper)}
    target = private.alias_target(entity)
    fields: dict[str, Any] = {
        "of": enc.ref(private.inspected_alias(target) if isinstance(target, AliasedClass) else entity.mapper),
        "selectable": enc.ref(entity.selectable),
    }
    if entity.name is not None:
        fields["name"] = write_name(entity.name, enc.seeds)
    for name, attribute in _ALIASED_FLAGS.items():
        if getattr(entity, attribute):
            fields[name] = True
    if private.is_with_polymorphic(entity):
        fields["polymorphic"] = [enc.ref(mapper) for mapper in entity.with_polymorphic_mappers]
        if entity.polymorphic_on is not None:
            fields["discriminator"] = enc.ref(entity.polymorphic_on)
    return fields


_ALIASED_FLAGS = {
    "by name": "_adapt_on_names",
    "mapper path": "_use_mapper_path",
    "outer": "represents_outer_join",
}


def _read_aliased(dec: Decoder, kind: NodeKind, fields: dict[str, Any]) -> AliasedInsp[Any]:
    if "within" in fields:
        return _read_sub_entity(dec, fields)
    target = dec.element(fields["of"])
    entity = AliasedClass(
        as_entity(target).entity,
        dec.element(fields["selectable"]),
        name=read_name(fields["name"], dec.seeds) if "name" in fields else None,
        adapt_on_names=_is_set(fields, "by name"),
        use_mapper_path=_is_set(fields, "mapper path"),
        represents_outer_join=_is_set(fields, "outer"),
        with_polymorphic_mappers=[dec.neighbour(number) for number in fields.get("polymorphic", ())],
        with_polymorphic_discriminator=(
            dec.neighbour(fields["discriminator"]) if "discriminator" in fields else None
        ),
    )
    dec.keep(entity)  # the inspection object holds it by a weak reference only
    alias: AliasedInsp[Any] = private.inspected_alias(entity)
    return alias


def _read_sub_entity(dec: Decoder, fields: dict[str, Any]) -> AliasedInsp[Any]:
    mapper, whole = dec.neighbour(fields["mapper"]), dec.element(fields["within"])
    entities = private.polymorphic_entities(whole)
    entity: AliasedInsp[Any] = next(each for each in entities if each.mapper is mapper)
    # SQLAlchemy has only a weak reference to the whole, and cannot compile the statement without it.
    private.keep_with_alias(entity, "dualsql.freeze: whole", whole)
    return entity


def _is_set(fields: dict[str, Any], name: str) -> bool:
    return expect(fields.get(name, False), bool)


def as_entity(element: Any) -> Any:
    """`element`, if it is a mapper or an aliased entity."""
    if not isinstance(element, Mapper | AliasedInsp):
        malformed("something else where an entity is due")
    return element


def _attribute(codec: Encoder | Decoder, owner: Any, key: Any) -> Any:
    """An attribute that the mapper lists."""
    # getattr() below runs any property of the class, so only names that the mapper lists are allowed.
    if not isinstance(owner, Mapper | AliasedInsp) or mapped_property(codec, owner, key) is None:
        return None
    return getattr(owner.entity, key, None)


def mapped_property(codec: Encoder | Decoder, owner: Any, key: Any) -> Any:
    """A property of a mapping. A property that leads to an unregistered class or table is refused."""
    property_ = owner.mapper.attrs.get(key)
    if isinstance(property_, RelationshipProperty):
        froms = [] if property_.secondary is None else internals.from_objects(property_.secondary)
        tables = [source for source in froms if not isinstance(source, selectable.Join)]
        if any(codec.registry.name_of(item) is None for item in (property_.mapper, *tables)):
            return None
    return property_


def _write_attribute(enc: Encoder, kind: NodeKind, attribute: Any) -> dict[str, Any]:
    owner = private.parent_entity(attribute)
    if _attribute(enc, owner, attribute.key) is None:
        refuse(f"the attribute {attribute}", "Use a mapped column, or a relationship to a registered class.")
    fields: dict[str, Any] = {"of": enc.ref(owner), "key": attribute.key}
    if private.of_type(attribute) is not None:
        fields["of type"] = enc.ref(private.of_type(attribute))
    if internals.extra_criteria(attribute):
        fields["and"] = [enc.ref(criterion) for criterion in internals.extra_criteria(attribute)]
    return fields


def _read_attribute(dec: Decoder, kind: NodeKind, fields: dict[str, Any]) -> Any:
    attribute = _attribute(dec, dec.source(fields["of"]), fields["key"])
    if "of type" in fields:
        attribute = attribute.of_type(as_entity(dec.element(fields["of type"])).entity)
    if "and" in fields:
        attribute = attribute.and_(*[dec.element(number) for number in fields["and"]])
    return attribute


def _write_note(enc: Encoder, kind: NodeKind, element: Any) -> dict[str, Any]:
    """Write an annotated element: as a mapped attribute or entity if it is one, otherwise as its difference."""
    reference = _write_reference(enc, element)
    if reference is not None:
        return reference
    base = internals.unannotated(element)
    state = vars(base)
    base_kind = enc.kind_of(base)
    if base_kind is None:
        refuse(f"a {type(base).__qualname__}", "Use SQLAlchemy's own constructs.")
    base_fields = base_kind.by_name.values() if base_kind.fields else (ORM,)
    by_attribute = {field.attribute: field for field in base_fields}
    changes = {
        key: value
        for key, value in vars(element).items()
        if key in by_attribute and key not in ("type", "_annotations") and value is not state.get(key)
    }
    fields: dict[str, Any] = {
        "of": enc.ref(base),
        "notes": _write_notes(enc, internals.annotations_of(element)),
    }
    if changes:
        fields["changed"] = {
            by_attribute[key].name: by_attribute[key].write(enc, value) for key, value in changes.items()
        }
    return fields


def _write_notes(enc: Encoder, notes: Any) -> dict[str, Any]:
    wire: dict[str, Any] = {}
    for key, value in notes.items():
        if isinstance(value, private.HybridNamespace):
            wire[_HYBRID_NOTE] = enc.ref(private.hybrid_entity(value))
        elif key in _ENTITY_NOTES and isinstance(value, Mapper | AliasedInsp):
            wire[key] = enc.ref(value)
        elif key == "proxy_key":
            wire[key] = write_name(value, enc.seeds)
        elif key == "bundle":
            wire[key] = enc.ref(value)
        elif key == "entity_namespace" and value is notes.get("bundle"):
            continue
        elif is_plain_note(key, value):
            wire[key] = value
        else:
            refuse(f"an element annotated with {key}", "Use plain columns instead.")
    return wire


def _write_reference(enc: Encoder, element: Any) -> dict[str, Any] | None:
    notes = internals.annotations_of(element)
    owner = notes.get("proxy_owner") or notes.get("parententity")
    # The ORM builds an attribute's expression in two ways. Caching and comparison need the same one as before.
    for form, candidate in _candidates(enc, owner, notes.get("proxy_key")):
        if candidate is element or _is_same(candidate, element):
            reference = {"entity": enc.ref(owner), "form": form}
            return reference if form == "self" else {**reference, "key": notes["proxy_key"]}
    return None


def _candidates(enc: Encoder, owner: Any, key: str | None) -> list[tuple[str, Any]]:
    if not isinstance(owner, Mapper | AliasedInsp):
        return []
    if key is None:
        return [("self", owner.__clause_element__())]
    attribute = _attribute(enc, owner, key)
    if attribute is None:
        return []
    return [(form, _form(attribute, form)) for form in ("expression", "comparator")]


def _form(attribute: Any, form: str) -> Any:
    """The expression of an attribute, in a column list or as an operand."""
    return attribute.expression if form == "expression" else attribute.comparator.__clause_element__()


def _is_same(one: Any, other: Any) -> bool:
    return (
        type(one) is type(other)
        and hash(one) == hash(other)
        and internals.annotations_of(one) == internals.annotations_of(other)
        and private.orm_state(one) == private.orm_state(other)
    )


def _read_note(dec: Decoder, kind: NodeKind, fields: dict[str, Any]) -> Any:
    if "entity" in fields:
        return _read_reference(dec, fields)
    base = dec.element(fields["of"])
    # An Annotated class derives from the plain class. SQLAlchemy merges annotations and does not nest them.
    if isinstance(base, Annotated):
        malformed("annotations on annotations")
    notes = dict(_read_note_item(dec, key, wire) for key, wire in fields["notes"].items())
    if "bundle" in notes:
        notes["entity_namespace"] = notes["bundle"]
    element = internals.annotated(base, notes)
    changes = fields.get("changed")
    if changes:
        base_kind: Any = dec.kind_of(base)
        by_name = base_kind.by_name if base_kind.fields else {"orm": ORM}
        for name, wire in changes.items():
            element.__dict__[by_name[name].attribute] = by_name[name].read(dec, wire)
        base_kind.derive(element)
        if isinstance(element, SelectBase):
            check(element, dec.registry)
    return element


def _read_note_item(dec: Decoder, key: str, wire: Any) -> tuple[str, Any]:
    if key == _HYBRID_NOTE:
        return "entity_namespace", private.HybridNamespace(as_entity(dec.neighbour(wire)))
    if key in _ENTITY_NOTES:
        return key, as_entity(dec.neighbour(wire))
    if key == "proxy_key":
        return key, read_name(wire, dec.seeds)
    if key == "bundle":
        bundle = dec.element(wire)
        if not isinstance(bundle, Bundle):
            malformed("something else where a bundle is due")
        return key, bundle
    return (key, wire) if is_plain_note(key, wire) else malformed("annotation")


def _write_bundle(enc: Encoder, kind: NodeKind, bundle: Any) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "name": write_name(bundle.name, enc.seeds),
        "parts": [enc.ref(part) for part in bundle.exprs],
        "single": bool(bundle.single_entity),
    }
    if internals.annotations_of(bundle):
        fields["notes"] = _write_notes(enc, internals.annotations_of(bundle))
    return fields


def _read_bundle(dec: Decoder, kind: NodeKind, fields: dict[str, Any]) -> Any:
    parts = [dec.element(number) for number in expect(fields["parts"], list)]
    name = read_name(fields["name"], dec.seeds)
    bundle = kind.cls(name, *parts, single_entity=expect(fields["single"], bool))
    notes = dict(_read_note_item(dec, key, wire) for key, wire in fields.get("notes", {}).items())
    return internals.annotated(bundle, notes) if notes else bundle


def _read_reference(dec: Decoder, fields: dict[str, Any]) -> Any:
    owner = as_entity(dec.source(fields["entity"]))
    form = fields["form"]
    if form == "self":
        return owner.__clause_element__()
    if form not in ("expression", "comparator"):
        malformed("form of an attribute")
    return _form(_attribute(dec, owner, fields["key"]), form)


def _write_parent(enc: Encoder, notes: Any) -> int:
    if set(notes) != {"parententity"}:
        refuse("a join with custom annotations", "Use sqlalchemy.orm.join() without custom annotations.")
    return enc.ref(notes["parententity"])


def _read_parent(dec: Decoder, wire: Any) -> immutabledict[str, Any]:
    return immutabledict({"parententity": as_entity(dec.element(wire))})


NOTE = NodeKind("note", Annotated, write=_write_note, read=_read_note, is_own=False)
ATTRIBUTE = NodeKind(
    "attribute", QueryableAttribute, write=_write_attribute, read=_read_attribute, is_own=False
)
MAPPED = NodeKind("mapped source", MappedSource, write=_write_mapped, read=_read_mapped, is_own=False)
KINDS = (
    NOTE,
    ATTRIBUTE,
    MAPPED,
    *[
        NodeKind(tag, cls, write=_write_bundle, read=_read_bundle, is_own=False)
        for tag, cls in (("bundle", Bundle), ("dict bundle", DictBundle))
    ],
    NodeKind("mapper", Mapper, write=_write_mapper, read=_read_mapper, is_shared=True, is_own=False),
    NodeKind("aliased", AliasedInsp, write=_write_aliased, read=_read_aliased, is_own=False),
    NodeKind(
        "orm join",
        private.ORMJoin,
        *JOIN,
        Field("parent", "_annotations", _write_parent, _read_parent),
        ORM,
        ignored="_target_adapter",
        constants={"_left_memo": None, "_right_memo": None, "_target_adapter": None},
    ),
)
