"""Loader options and criteria of the ORM, by registered attributes.

An option is stored only if the SQL differs without it (see `freeze`). Most options shape objects, and rows here are
plain columns. The others add joins, columns or, as with_loader_criteria() does, conditions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from sqlalchemy.orm.interfaces import MapperProperty
from sqlalchemy.orm.path_registry import PathRegistry, PathToken
from sqlalchemy.orm.strategy_options import Load
from sqlalchemy.orm.util import LoaderCriteriaOption
from sqlalchemy.util import EMPTY_DICT, immutabledict

from dualsql import sqlalchemy_internals as internals
from dualsql.freeze import registry, sqlalchemy_internals as private
from dualsql.freeze.document import expect, malformed, refuse
from dualsql.freeze.fields import NodeKind, check_operand
from dualsql.freeze.kinds_orm import as_entity, mapped_property

if TYPE_CHECKING:
    from dualsql.freeze.codec import Decoder, Encoder


def _write_path(enc: Encoder, path: Any) -> list[Any]:
    """A path from an entity over its attributes to others: numbers are entities, texts are properties or wildcards."""
    return [
        ["token", str(step)]
        if isinstance(step, PathToken)
        else ["property", step.key]
        if isinstance(step, MapperProperty)
        else enc.ref(step)
        for step in path.path
    ]


def _read_path(dec: Decoder, wire: Any) -> Any:
    path: Any = PathRegistry.root
    entity: Any = None
    for step in expect(wire, list):
        if type(step) is int:
            entity = as_entity(dec.element(step))
            path = path[entity]
            continue
        mark, text = step
        if mark == "token":
            path = path[private.path_token(text)]
        else:
            path = path[mapped_property(dec, entity, text)]
    return path


# SQLAlchemy looks strategies up by these keys and values. They are not rendered.
_STRATEGY_KEYS = frozenset(
    "lazy deferred instrument raiseload query_expression selectinload_polymorphic do_nothing".split()
)
_STRATEGY_WORDS = frozenset(
    "joined subquery selectin select immediate noload raise raise_on_sql baked_select dynamic write_only".split()
)
_OPTION_WORDS = frozenset({"nested", "unnested"})
_PLAIN_OPTIONS = frozenset("innerjoin recursion_depth chunksize raiseload undefer_pks autoflush".split())


def _is_plain(value: Any, words: frozenset[str]) -> bool:
    return value is None or type(value) in (bool, int) or (type(value) is str and value in words)


def _is_strategy(strategy: Any) -> bool:
    return strategy is None or all(
        key in _STRATEGY_KEYS and _is_plain(value, _STRATEGY_WORDS) for key, value in strategy
    )


def _write_strategy(enc: Encoder, strategy: Any) -> Any:
    return strategy if _is_strategy(strategy) else refuse(f"a loader option with {strategy}", _HINT)


def _read_strategy(dec: Decoder, wire: Any) -> Any:
    if not _is_strategy(wire):
        malformed("strategy of a loader option")
    return None if wire is None else tuple([(key, value) for key, value in expect(wire, list)])


def _write_local(enc: Encoder, options: Any) -> dict[str, Any]:
    wire: dict[str, Any] = {}
    for key, value in options.items():
        if key == "entities":
            wire[key] = [enc.ref(entity) for entity in value]
        elif key == "eager_from_alias":
            wire[key] = None if value is None else enc.ref(value)
        elif _is_option(key) and _is_plain(value, _OPTION_WORDS):
            wire[key] = value
        else:
            refuse(f"a loader option with {key}", _HINT)
    return wire


def _is_option(key: str) -> bool:
    return key in _PLAIN_OPTIONS or key.startswith("undefer_group_")


def _read_local(dec: Decoder, wire: Any) -> Any:
    read: dict[str, Any] = {}
    for key, value in expect(wire, dict).items():
        if key == "entities":
            read[key] = [as_entity(dec.element(number)) for number in expect(value, list)]
        elif key == "eager_from_alias":
            read[key] = None if value is None else dec.element(value)
        elif _is_option(key) and _is_plain(value, _OPTION_WORDS):
            read[key] = value
        else:
            malformed("loader option")
    return immutabledict(read) if read else EMPTY_DICT


_HINT = "Leave the option out. Rows are plain columns: list the columns you want in select()."


def _write_load(enc: Encoder, kind: NodeKind, load: Any) -> dict[str, Any]:
    return {
        "path": _write_path(enc, load.path),
        "parts": [enc.ref(part) for part in load.context],
        "sources": [enc.ref(entity) for entity in load.additional_source_entities],
        "deep": load.propagate_to_loaders,
    }


def _read_load(dec: Decoder, kind: NodeKind, fields: dict[str, Any]) -> Any:
    load = Load.__new__(Load)
    load.path = _read_path(dec, fields["path"])
    parts = tuple([dec.element(number) for number in expect(fields["parts"], list)])
    if not all(isinstance(part, private.LoadElement) for part in parts):
        malformed("part of a loader option")
    load.context = parts
    sources = [as_entity(dec.element(number)) for number in expect(fields["sources"], list)]
    load.additional_source_entities = tuple(sources)
    load.propagate_to_loaders = expect(fields["deep"], bool)
    return load


def _write_part(enc: Encoder, kind: NodeKind, part: Any) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "path": _write_path(enc, part.path),
        "strategy": _write_strategy(enc, part.strategy),
        "with": _write_local(enc, part.local_opts),
        "and": [enc.ref(criterion) for criterion in internals.extra_criteria(part)],
        "deep": part.propagate_to_loaders,
        "merged": private.is_merged_option(part),
    }
    if isinstance(part, private.AttributeLoad) and private.of_type(part) is not None:
        fields["of type"] = enc.ref(private.of_type(part))
        fields["polymorphic path"] = _write_path(enc, private.polymorphic_path(part))
    return fields


def _read_part(dec: Decoder, kind: NodeKind, fields: dict[str, Any]) -> Any:
    part: Any = kind.cls.__new__(kind.cls)
    part.path = _read_path(dec, fields["path"])
    part.strategy = _read_strategy(dec, fields["strategy"])
    part.local_opts = _read_local(dec, fields["with"])
    criteria = tuple([_criterion(dec, number) for number in expect(fields["and"], list)])
    part.propagate_to_loaders = expect(fields["deep"], bool)
    is_merged = None if fields["merged"] is None else expect(fields["merged"], bool)
    private.fill_option(part, criteria, is_merged=is_merged)
    # The class of a part fixes the kind of its path. A forged document could combine them differently.
    if part.is_token_strategy != part.path.is_token:
        malformed("path of a loader option")
    if isinstance(part, private.AttributeLoad):
        typed = "of type" in fields
        entity = as_entity(dec.element(fields["of type"])) if typed else None
        path = _read_path(dec, fields["polymorphic path"]) if typed else None
        private.fill_typed_option(part, entity, path)
    return part


def _criterion(dec: Decoder, number: Any) -> Any:
    element = check_operand(dec.element(number))
    # with_expression() adds it to the columns.
    registry.check_column(element, dec.registry)
    return element


def _write_wildcard(enc: Encoder, kind: NodeKind, load: Any) -> dict[str, Any]:
    (token,) = load.path
    return {
        "token": str(token),
        "strategy": _write_strategy(enc, load.strategy),
        "with": _write_local(enc, load.local_opts),
    }


def _read_wildcard(dec: Decoder, kind: NodeKind, fields: dict[str, Any]) -> Any:
    load = private.WildcardLoad()
    load.path = (str(private.path_token(expect(fields["token"], str))),)
    load.strategy = _read_strategy(dec, fields["strategy"])
    load.local_opts = _read_local(dec, fields["with"])
    return load


def _write_criteria(enc: Encoder, kind: NodeKind, option: Any) -> dict[str, Any]:
    """Write criteria. A function is called for each of its classes, and its results are stored, because code is not."""
    criteria = enc.once(option, lambda: [_resolved(option, entity) for entity in _targets(option)])
    return {
        "for": [[enc.ref(entity), enc.ref(where)] for entity, where in criteria],
        "aliases": option.include_aliases,
        "deep": option.propagate_to_loaders,
    }


def _resolved(option: Any, entity: Any) -> tuple[Any, Any]:
    criteria = option.where_criteria
    return entity, private.criteria_for(
        criteria, entity.entity
    ) if option.deferred_where_criteria else criteria


def _targets(option: Any) -> Sequence[Any]:
    """The entity of the option, or the topmost mapped classes below its mixin."""
    if option.entity is not None:
        return [option.entity]
    mappers = list(private.mappers_of_criteria(option))
    # An option for a class applies to its subclasses, so options for the topmost classes are enough.
    return [mapper for mapper in dict.fromkeys(mappers) if mapper.inherits not in mappers]


def _read_criteria(dec: Decoder, kind: NodeKind, fields: dict[str, Any]) -> Any:
    options = []
    for number, where in expect(fields["for"], list):
        entity = as_entity(dec.element(number))
        options.append(
            LoaderCriteriaOption(
                entity.entity,
                check_operand(dec.element(where)),
                include_aliases=expect(fields["aliases"], bool),
                propagate_to_loaders=expect(fields["deep"], bool),
            )
        )
    return Criteria(options)


class Criteria(list[LoaderCriteriaOption]):
    """The options of one with_loader_criteria(): one for each class."""


def read_options(dec: Decoder, wire: Any) -> tuple[Any, ...]:
    """The options of a statement."""
    options: list[Any] = []
    for number in expect(wire, list):
        option = dec.element(number)
        if isinstance(option, Criteria):
            options += option
        elif isinstance(option, Load | private.WildcardLoad):
            options.append(option)
        else:
            malformed("something else where an option is due")
    return tuple(options)


KINDS = tuple(
    NodeKind(tag, cls, write=write, read=read, is_own=False)
    for tag, cls, write, read in (
        ("load", Load, _write_load, _read_load),
        ("load attribute", private.AttributeLoad, _write_part, _read_part),
        ("load token", private.TokenLoad, _write_part, _read_part),
        ("load class", private.ClassLoad, _write_part, _read_part),
        ("load all", private.WildcardLoad, _write_wildcard, _read_wildcard),
        ("criteria", LoaderCriteriaOption, _write_criteria, _read_criteria),
    )
)
