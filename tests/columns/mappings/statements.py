"""Statements over the classes of `people`, and the columns that the rows of each have."""

from __future__ import annotations

from typing import Any, cast

from sqlalchemy import LABEL_STYLE_TABLENAME_PLUS_COL, select, union_all
from sqlalchemy.orm import (
    Bundle,
    Query,
    aliased,
    contains_eager,
    defer,
    joinedload,
    lazyload,
    load_only,
    selectinload,
    undefer,
    undefer_group,
    with_expression,
    with_loader_criteria,
    with_polymorphic,
)

from tests.columns.mappings.people import (
    Account,
    Animal,
    Bill,
    Cat,
    Dog,
    House,
    Invoice,
    Node,
    Refund,
    Room,
    plain,
)

_other_house = aliased(House)
_room = aliased(Room)
_neighbour = aliased(Node, name="neighbour")
_any_animal: Any = with_polymorphic(Animal, [Dog, Cat])
_flat: Any = with_polymorphic(Animal, [Dog], flat=True)
_wrapped: Any = with_polymorphic(Animal, "*", aliased=True)

_HOUSE = "id name size at owner_id"
_ACCOUNT = "id email password_hash at"
_ANIMAL = "id kind name home_x home_y"
_NODE = "id parent_id label weight double siblings"

STATEMENTS: dict[str, tuple[Any, str]] = {
    # Eager loads and deferred columns.
    "eager": (select(House), _HOUSE),
    "eager, ordered": (select(House).order_by(House.name.desc(), House.id), _HOUSE),
    "eager, limited": (select(House).order_by(House.name, House.id).limit(3), _HOUSE),
    "eager, distinct": (select(House).distinct(), _HOUSE),
    "eager collection": (select(Account), _ACCOUNT),
    "eager tree": (select(Node), _NODE),
    "eager, aliased": (select(_other_house).order_by(_other_house.size, _other_house.id), _HOUSE),
    "eager, joined": (select(House).join(House.owner).join(House.rooms), _HOUSE),
    "eager with a criterion": (select(House).options(with_loader_criteria(House, House.id > 2)), _HOUSE),
    "inner eager": (select(Room), "room_no room_title house_id"),
    "inner eager, limited": (
        select(House)
        .options(
            lazyload(House.rooms),
            joinedload(House.owner, innerjoin=True).lazyload(Account.houses),
            defer(House.at),
        )
        .order_by(House.id.desc())
        .limit(3),
        "id name size owner_id",
    ),
    "inner eager, beyond an outer join": (
        select(Account, Room).outerjoin(Account.houses).outerjoin(House.rooms),
        f"{_ACCOUNT} room_no room_title house_id",
    ),
    "inner eager of what is joined": (
        select(House, Room.id)
        .outerjoin(House.rooms)
        .options(contains_eager(House.rooms).joinedload(Room.house, innerjoin=True)),
        f"{_HOUSE} room_no",
    ),
    "inner eager of an alias that is joined": (
        select(House, _room.id)
        .outerjoin(House.rooms.of_type(_room))
        .options(
            contains_eager(House.rooms.of_type(_room)).joinedload(_room.house, innerjoin=True).lazyload("*")
        ),
        f"{_HOUSE} room_no",
    ),
    "inner eager by option": (select(House).options(joinedload(House.owner, innerjoin=True)), _HOUSE),
    "inner eager, taken away": (select(Room).options(lazyload(Room.house)), "room_no room_title house_id"),
    # Options.
    "load_only": (select(House).options(load_only(House.size)), "id size"),
    "defer": (select(House).options(defer(House.size), defer(House.at)), "id name owner_id"),
    "undefer": (select(House).options(undefer(House.plan)), "id plan name size at owner_id"),
    "undefer_group": (select(House).options(undefer_group("large")), "id name photo size at owner_id"),
    "undefer all": (select(House).options(undefer("*")), "id plan name photo size at owner_id"),
    "with_expression": (
        select(Node).options(with_expression(Node.calculated, Node.weight + 1)),
        f"calculated {_NODE}",
    ),
    "joinedload": (select(House).options(joinedload(House.rooms)), _HOUSE),
    "selectinload": (select(Account).options(selectinload(Account.houses)), _ACCOUNT),
    "contains_eager": (select(House).join(House.owner).options(contains_eager(House.owner)), _HOUSE),
    # What is named twice, and what has the name of another.
    "column and class": (select(House.name, House), "name id size at owner_id"),
    "class and column": (select(House, House.name), f"{_HOUSE} house_name"),
    "class twice": (select(House, House), _HOUSE),
    "column twice": (select(House.name, House.name.label("x"), House.name), "name x house_name"),
    "labels of one name": (select(House.id.label("x"), House.size.label("x")), "x x_2"),
    "two classes": (
        select(House, Account).join(House.owner),
        f"{_HOUSE} account_id email password_hash account_at",
    ),
    "two classes, long labels": (
        select(House, Account).join(House.owner).set_label_style(LABEL_STYLE_TABLENAME_PLUS_COL),
        f"{_HOUSE} account_id email password_hash account_at",
    ),
    "class and alias": (
        select(House, _other_house).join(_other_house, _other_house.id == House.id),
        f"{_HOUSE} id_2 name_2 size_2 at_2 owner_id_2",
    ),
    "own types of one name": (select(House.at, Account.at).join(House.owner), "at account_at"),
    "class and table": (select(House, plain).where(plain.c.id == House.id), f"{_HOUSE} plain_id plain_name"),
    # Bundles, composites, synonyms, hybrids, computed columns.
    "bundle": (select(Bundle("b", House.id, Bundle("c", House.name)), House.name), "id name house_name"),
    "composite": (select(Animal.name, Animal.home), "name home_x home_y"),
    "synonym": (select(Node.caption), "label"),
    "hybrid": (select(Node.heavy, Node.id), "heavy id"),
    "computed": (select(_neighbour), _NODE),
    "self-referential": (
        select(Node.label, _neighbour.label).join(Node.children.of_type(_neighbour)),
        "label neighbour_label",
    ),
    # Inheritance.
    "all of its classes": (select(Animal), f"{_ANIMAL} dog_id tricks cat_id lives"),
    "one of its classes": (select(Dog), "id animal_id kind name home_x home_y tricks"),
    "an alias of one": (
        select(aliased(Dog)),
        "dog_id animal_id animal_kind animal_name animal_home_x animal_home_y dog_tricks",
    ),
    "a flat alias of one": (select(aliased(Dog, flat=True)), "id id_2 kind name home_x home_y tricks"),
    "with_polymorphic": (select(_any_animal), f"{_ANIMAL} dog_id tricks cat_id lives"),
    "with_polymorphic, filtered": (
        select(_any_animal).where(_any_animal.Dog.tricks > 1),
        f"{_ANIMAL} dog_id tricks cat_id lives",
    ),
    "with_polymorphic, flat": (select(_flat), f"{_ANIMAL} id_2 tricks"),
    "with_polymorphic, wrapped": (
        select(_wrapped),
        "animal_id animal_kind animal_name animal_home_x animal_home_y dog_id dog_tricks cat_id cat_lives",
    ),
    "columns of two classes": (select(_any_animal.name, _any_animal.Dog.tricks), "name tricks"),
    "one table": (select(Bill), "id kind total due"),
    "one table, one class": (select(Invoice), "id kind total due"),
    "one table, another class": (select(Refund), "id kind total reason"),
    # Other ways to say it.
    "lambda": (select(cast("Any", lambda: House)), _HOUSE),
    "columns taken away": (
        select(House).join(House.owner).with_only_columns(House.id, Account),
        "id account_id email password_hash at",
    ),
    "query": (Query(House).order_by(House.id).statement, _HOUSE),
    "union": (
        union_all(select(House.id, House).where(House.id < 3), select(House.id, House)),
        "id plan name photo size at owner_id",
    ),
    "union of all classes": (
        union_all(select(Animal), select(Animal)),
        f"{_ANIMAL} id_1 tricks diary id_2 lives",
    ),
    "subquery": (select(select(House).subquery()), "id plan name photo size at owner_id"),
    "class of a subquery": (
        select(aliased(House, select(House).where(House.id > 1).subquery())),
        _HOUSE,
    ),
    "common table expression": (
        select(select(Animal).cte()),
        f"{_ANIMAL} id_1 id_2 tricks diary id_3 id_4 lives",
    ),
}
