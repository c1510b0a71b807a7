"""A schema with every type, and statements of every shape that a Select can have."""

from __future__ import annotations

import datetime as dt
import enum
from decimal import Decimal
from typing import Any
from uuid import UUID

from sqlalchemy import (
    ARRAY,
    JSON,
    Boolean,
    Column,
    ColumnElement,
    Date,
    DateTime,
    Enum,
    Float,
    ForeignKey,
    Integer,
    Interval,
    LargeBinary,
    MetaData,
    Numeric,
    PickleType,
    String,
    Table,
    Time,
    TypeDecorator,
    Uuid,
    and_,
    any_,
    between,
    bindparam,
    case,
    cast,
    column,
    desc,
    except_,
    exists,
    extract,
    false,
    func,
    intersect,
    lateral,
    literal,
    literal_column,
    not_,
    null,
    nulls_last,
    or_,
    select,
    text,
    true,
    try_cast,
    tuple_,
    type_coerce,
    union,
    union_all,
    values,
)
from sqlalchemy.dialects import mysql, postgresql
from sqlalchemy.dialects.postgresql import JSONB, Range, distinct_on
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.ext.hybrid import hybrid_property
from sqlalchemy.orm import (
    Bundle,
    DeclarativeBase,
    Mapped,
    Query,
    aliased,
    contains_eager,
    defer,
    join,
    joinedload,
    load_only,
    mapped_column,
    outerjoin,
    relationship,
    selectinload,
    undefer,
    with_loader_criteria,
    with_polymorphic,
)
from sqlalchemy.sql.functions import FunctionElement

from dualsql.freeze import Registry
from tests.freeze.own import ELEMENTS, Everything, Known, Least, Window


class Status(enum.Enum):
    OPEN = "open"
    SHUT = "shut"


class Money(TypeDecorator[Decimal]):
    """Cents in the database."""

    impl = Integer
    cache_ok = True


class Shouted(FunctionElement[str]):
    """A function of the application's own, with SQL of its own."""

    name = "shouted"
    type = String()
    inherit_cache = True


@compiles(Shouted)
def _(element: Any, compiler: Any, **kw: Any) -> str:
    return f"upper({compiler.process(element.clauses, **kw)})"


metadata = MetaData()
orders = Table(
    "orders",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("customer_id", Integer, ForeignKey("customers.id")),
    Column("order date", Date),
    Column("placed_at", DateTime(timezone=True)),
    Column("opens", Time),
    Column("took", Interval),
    Column("status", Enum(Status)),
    Column("grade", Enum("a", "b", name="grade")),
    Column("price", Numeric(12, 2)),
    Column("cents", Money),
    Column("weight", Float),
    Column("paid", Boolean),
    Column("key", Uuid),
    Column("photo", LargeBinary),
    Column("notes", JSON),
    Column("data", JSONB),
    Column("tags", postgresql.ARRAY(String)),
    Column("scores", ARRAY(Integer)),
    Column("valid", postgresql.TSTZRANGE),
    Column("secret", PickleType),
    schema="sales",
)
customers = Table(
    "customers",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("name", String(50)),
    Column("parent_id", Integer),
)
orders_, customers_ = orders.c, customers.c


class Base(DeclarativeBase):
    pass


class Person(Base):
    __tablename__ = "people"
    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str]
    kind: Mapped[str]
    boss_id: Mapped[int | None] = mapped_column(ForeignKey("people.id"))
    boss: Mapped[Person | None] = relationship(remote_side="Person.id")
    cards: Mapped[list[Card]] = relationship(back_populates="person")
    __mapper_args__ = {"polymorphic_on": "kind", "polymorphic_identity": "person"}

    @hybrid_property
    def shout(self) -> str:
        return self.name.upper()

    @shout.inplace.expression
    @classmethod
    def _shout(cls) -> ColumnElement[str]:
        return func.upper(cls.name)


class Engineer(Person):
    __tablename__ = "engineers"
    id: Mapped[int] = mapped_column(ForeignKey("people.id"), primary_key=True)
    language: Mapped[str]
    __mapper_args__ = {"polymorphic_identity": "engineer"}


class Manager(Person):
    level: Mapped[int | None]
    __mapper_args__ = {"polymorphic_identity": "manager"}


class Card(Base):
    __tablename__ = "cards"
    id: Mapped[int] = mapped_column(primary_key=True)
    number: Mapped[str]
    person_id: Mapped[int] = mapped_column(ForeignKey("people.id"))
    person: Mapped[Person] = relationship(back_populates="cards")


REGISTRY = Registry(
    [metadata, Base],
    types={"Money": Money},
    functions=["my_pure", "shop.price", Shouted],
    elements=ELEMENTS,
    allow_text=True,
)
STRICT = Registry([metadata, Base])


def _part_of(columns: Any) -> Any:
    return columns  # SQLAlchemy's types do not know that select() takes it


_zone = dt.timezone(dt.timedelta(hours=2))
_buyer = customers.alias("buyer")
_anonymous = customers.alias()
_per_customer = (
    select(orders_.customer_id, func.count().label("n"), func.sum(orders_.price).label("total"))
    .group_by(orders_.customer_id)
    .subquery()
)
_tree = (
    select(customers_.id, literal(0).label("depth"))
    .where(customers_.parent_id.is_(None))
    .cte("tree", recursive=True)
)
_tree = _tree.union_all(
    select(customers_.id, _tree.c.depth + 1).join(_tree, _tree.c.id == customers_.parent_id)
)
_first = select(customers_.id).cte("first")
_second = select(_first.c.id).where(_first.c.id > 3).cte("second")
_latest = (
    select(orders_.price)
    .where(orders_.customer_id == customers_.id)
    .order_by(orders_["order date"].desc())
    .limit(3)
    .lateral("latest")
)
_rank = func.rank().over(partition_by=orders_.customer_id, order_by=orders_.price.desc())
_shared = (orders_.price * 2).label("double")
_boss = aliased(Person)
_worker = aliased(Person, name="worker")
_poly = with_polymorphic(Person, [Engineer, Manager])
_named = values(column("a", Integer), column("b", String), name="v").data([(1, "x"), (2, "y")])
_series = func.generate_series(1, 5).table_valued("value")

VALUES: dict[str, Any] = {
    "price": Decimal("1.10"),
    "placed_at": dt.datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=_zone),
    "order date": dt.date(2026, 1, 2),
    "opens": dt.time(8, 30),
    "took": dt.timedelta(days=-1, microseconds=3),
    "status": Status.OPEN,
    "grade": "a",
    "key": UUID(int=5),
    "photo": b"\x00\xff",
    "paid": True,
    "weight": float("inf"),
    "notes": {"a": [1, None, {"b": 1.5}]},
    "data": {"k": "v"},
    "tags": ["x", "y"],
    "scores": [1, 2],
    "valid": Range(dt.datetime(2026, 1, 1, tzinfo=dt.UTC), None, bounds="[)"),
    "cents": Decimal(3),
}

SHAPES: dict[str, Any] = {
    "table": select(customers),
    "columns": select(customers_.id, customers_.name),
    "schema and quoted name": select(orders_["order date"]).where(
        orders_["order date"] > dt.date(2026, 1, 1)
    ),
    "aliases": select(_buyer.c.name, _anonymous.c.id).join(_anonymous, _buyer.c.id == _anonymous.c.parent_id),
    "join by foreign key": select(customers_.name, orders_.price).join_from(customers, orders),
    "outer and full": select(customers_.id)
    .outerjoin(orders, orders_.customer_id == customers_.id)
    .join(_buyer, _buyer.c.id == customers_.id, full=True),
    "nested join": select(customers_.id).select_from(
        customers.join(orders.join(_buyer, _buyer.c.id == orders_.customer_id), true())
    ),
    "cross": select(customers_.id, _buyer.c.id),
    "subquery": select(_per_customer.c.n, _per_customer.c["total"]).where(_per_customer.c.n > 1),
    "cte": select(_second.c.id).join(_first, _first.c.id == _second.c.id),
    "cte of its own": select(customers_.id).add_cte(_first),
    "cte, materialized": select(_first.prefix_with("MATERIALIZED", dialect="postgresql").c.id),
    "recursive": select(_tree).order_by(_tree.c.depth),
    "nested cte": select(select(_first.c.id).add_cte(_first).cte("outer", nesting=True)),
    "aliased cte": select(_first.alias("f1").c.id),
    "scalar subquery": select(
        customers_.id,
        select(func.max(orders_.price))
        .where(orders_.customer_id == customers_.id)
        .scalar_subquery()
        .label("top"),
    ),
    "correlate": select(customers_.id).where(
        select(orders_.id).where(orders_.customer_id == customers_.id).correlate(customers).exists()
    ),
    "correlate except": select(customers_.id).where(
        exists().where(orders_.customer_id == customers_.id).correlate_except(orders)
    ),
    "not exists": select(customers_.id).where(~exists().where(orders_.customer_id == customers_.id)),
    "exists in columns": select(exists(select(orders_.id)).label("any")),
    "in subquery": select(customers_.id).where(customers_.id.not_in(select(orders_.customer_id))),
    "union": union(select(customers_.id), select(orders_.id)).order_by("id").limit(3).offset(1),
    "set operations": union_all(
        except_(select(customers_.id), select(orders_.id)),
        intersect(select(customers_.id), select(_buyer.c.id)),
    ),
    "union in a subquery": select(union_all(select(customers_.id), select(orders_.id)).subquery("u").c.id),
    "union of ordered": union_all(
        select(customers_.id).order_by(customers_.name).limit(1).subquery().select(), select(orders_.id)
    ),
    "rollup": select(orders_.status, orders_.grade, func.count())
    .group_by(func.rollup(orders_.status, orders_.grade))
    .having(func.count() > 2),
    "cube": select(orders_.status).group_by(func.cube(orders_.status, orders_.grade)),
    "grouping sets": select(orders_.status).group_by(
        func.grouping_sets(tuple_(orders_.status, orders_.grade), tuple_(orders_.status))
    ),
    "window": select(
        orders_.id, _rank.label("rank"), func.sum(orders_.price).over(order_by=orders_.id, rows=(None, 0))
    ),
    "frames": select(
        func.sum(orders_.price).over(order_by=orders_.id, rows=(-3, 1)),
        func.sum(orders_.price).over(order_by=orders_.id, range_=(-5, None)),
        func.first_value(orders_.price).over(order_by=orders_.id, groups=(1, 2)),
    ),
    "case": select(
        case((orders_.price > 10, "dear"), (orders_.price > 5, orders_.grade), else_=None),
        case({Status.OPEN: 1, Status.SHUT: 2}, value=orders_.status, else_=0),
    ),
    "casts": select(
        cast(orders_.id, String(20)),
        cast(orders_.notes, JSONB),
        cast(orders_.id, Numeric(10, 2)),
        type_coerce(orders_.id, String),
        cast(orders_.price, Money),
    ),
    "try cast": select(try_cast(orders_.id, String)),
    "extract": select(extract("year", orders_.placed_at), extract("epoch", orders_.took)),
    "in": select(customers_.id).where(
        customers_.id.in_([1, 2, 3]),
        customers_.name.not_in([]),
        customers_.id.in_(bindparam("ids", expanding=True, value=[1])),
    ),
    "tuple in": select(customers_.id).where(tuple_(customers_.id, customers_.name).in_([(1, "a"), (2, "b")])),
    "boolean logic": select(customers_.id).where(
        or_(
            customers_.id == 1, and_(customers_.id > 2, not_(or_(customers_.id < 5, customers_.name == "x")))
        ),
        customers_.name.is_not(None),
    ),
    "constants": select(null(), true(), literal(1), literal("x"), literal_column("1")).where(
        or_(orders_.paid, false())
    ),
    "boolean column": select(orders_.id).where(orders_.paid, ~orders_.paid),
    "like": select(customers_.id).where(
        customers_.name.like("a%", escape="/"),
        customers_.name.ilike("%b"),
        customers_.name.contains("50%", autoescape=True),
        customers_.name.startswith("x"),
        customers_.name.not_like("y"),
        customers_.name.iendswith("z"),
    ),
    "regular expressions": select(customers_.name.regexp_replace("a", "b")).where(
        customers_.name.regexp_match("^a")
    ),
    "between": select(orders_.id).where(
        between(orders_.price, 1, 2), ~orders_.id.between(3, 4), orders_.id.between(1, 2, symmetric=True)
    ),
    "arithmetic": select(
        (orders_.price + 1) * 2 - orders_.weight / 3, orders_.id % 7, -orders_.price, orders_.price // 2
    ),
    "concatenation": select(customers_.name + "x" + customers_.name, customers_.name.concat("y")),
    "bits": select(orders_.id.bitwise_and(1), orders_.id.bitwise_or(2), orders_.id.bitwise_xor(3)),
    "distinct": select(customers_.name).distinct(),
    "distinct on": select(customers).ext(distinct_on(customers_.name)),
    "fetch": select(customers_.id).order_by(customers_.id).fetch(5, with_ties=True).offset(2),
    "order": select(customers_.id, customers_.name.label("n")).order_by(
        nulls_last(desc("n")), customers_.id.asc().nulls_first(), "id", func.lower(customers_.name)
    ),
    "shared label": select(_shared, orders_.id).group_by(_shared, orders_.id).order_by(_shared.desc()),
    "collate": select(customers_.name.collate("C")).order_by(customers_.name.collate("de-x-icu")),
    "filter": select(
        func.count(orders_.id).filter(orders_.price > 3), func.sum(orders_.price).filter(orders_.paid)
    ),
    "within group": select(
        func.percentile_cont(0.5).within_group(orders_.price), func.mode().within_group(orders_.status.desc())
    ),
    "aggregate order": select(func.string_agg(customers_.name, ",").aggregate_order_by(customers_.id.desc())),
    "count distinct": select(func.count(customers_.name.distinct())),
    "lateral": select(customers_.id, _latest.c.price).join(_latest, true()),
    "lateral of values": select(customers_.id).join(
        lateral(select(orders_.id).where(orders_.customer_id == customers_.id)), true()
    ),
    "values": select(_named).where(_named.c.a > 1),
    "values in cte": select(values(column("a", Integer), name="w").data([(1,)]).cte("c")),
    "function table": select(_series.c.value),
    "function columns": select(
        func.json_each(orders_.notes)
        .table_valued("key", column("value", JSON), name="e")
        .render_derived()
        .c.key
    ),
    "function table, aliased": select(
        func.json_each(orders_.notes).table_valued("key", "value").alias("pairs").c.key
    ),
    "columns of a table": select(_part_of(customers_["id", "name"])),
    "own function": select(Shouted(customers_.name), customers_.id).order_by(Shouted(customers_.name)),
    "function as column": select(func.unnest(orders_.tags).column_valued("tag")),
    "ordinality": select(func.unnest(orders_.tags).table_valued("tag", with_ordinality="n").render_derived()),
    "functions": select(
        func.coalesce(orders_.price, 0),
        func.lower(customers_.name),
        func.now(),
        func.current_date(),
        func.my_pure(1),
        func.shop.price(2),
    ),
    "json": select(
        orders_.notes["a"],
        orders_.notes[("a", "b")],
        orders_.data["k"].astext,
        orders_.data[("k", 0)],
        orders_.notes["x"].as_integer(),
    ).where(orders_.data.contains({"k": 1}), orders_.data.has_key("k")),
    "arrays": select(orders_.tags[1], orders_.scores[1:2], postgresql.array([1, 2])).where(
        orders_.tags.contains(["x"]), orders_.tags.overlap(["y"]), any_(orders_.scores) == 3
    ),
    "ranges": select(orders_.id).where(orders_.valid.contains(dt.datetime(2026, 1, 1, tzinfo=dt.UTC))),
    "operators": select(customers_.id).where(customers_.name.op("~*")("x"), orders_.id.op("&")(1) == 1),
    "full text": select(orders_.id).where(customers_.name.match("x")),
    "mysql match": select(customers_.id).where(mysql.match(customers_.name, against="x").in_boolean_mode()),
    "is distinct": select(customers_.id).where(customers_.name.is_distinct_from("x")),
    "for update": select(customers).with_for_update(nowait=True, of=customers),
    "literal execute": select(customers_.id).where(customers_.id == bindparam("x", 3, literal_execute=True)),
    "prefix": select(customers_.id).prefix_with("ALL"),
    "params": select(customers_.id).where(customers_.id == bindparam("x", type_=Integer)).params(x=3),
    "clone": select(customers_.id).where(customers_.id == bindparam("y", 1)).params(y=2),
    "label style": select(customers, _buyer).set_label_style(select(customers)._label_style),
    "tablesample": select(customers.tablesample(func.bernoulli(10)).c.id),
    "text": text("SELECT id FROM customers WHERE id = :x").bindparams(x=1).columns(column("id", Integer)),
    "text inside": select(text("1")).select_from(text("customers")).where(text("id = :i").bindparams(i=2)),
    "text subquery": select(text("SELECT 1 AS id").columns(column("id", Integer)).subquery("s").c.id),
    "orm entity": select(Card),
    "orm attributes": select(Card.id, Card.number.label("n")).where(Card.number == "x").order_by(Card.id),
    "orm relationship join": select(Person, Card).join(Person.cards),
    "orm join to aliased": select(_worker, _boss.name).join(_boss, _worker.boss_id == _boss.id),
    "orm join by aliased relationship": select(_worker.name).join(_worker.boss.of_type(_boss)),
    "orm and": select(Person.id).join(Person.cards.and_(Card.number != "")),
    "orm outer": select(Person).outerjoin(Person.cards).where(Card.id.is_(None)),
    "orm any, plain": select(Person).where(Person.cards.any(Card.number == "x")),
    "orm has": select(Card).where(Card.person.has(Person.name == "x")),
    "orm hybrid": select(Person.shout, Person.id).where(Person.shout != "X").order_by(Person.shout),
    "orm any": select(Person).where(
        Person.cards.any(Card.number == "x"), ~Person.boss.has(Person.name == "y")
    ),
    "orm inheritance": select(Engineer).where(Engineer.language == "x"),
    "orm single inheritance": select(Manager.level),
    "orm aliased inheritance": select(aliased(Engineer)),
    "orm polymorphic": select(_poly).where(or_(_poly.Engineer.language == "x", _poly.Manager.level > 3)),
    "orm polymorphic part": select(_poly.Engineer.language).where(_poly.Engineer.name == "x"),
    "orm aliased subquery": select(aliased(Card, select(Card).where(Card.id > 3).subquery())),
    "orm join function": select(Person.id).select_from(join(Person, Card, Person.cards)),
    "orm outerjoin function": select(Person.id).select_from(
        outerjoin(Person, Card, Card.person_id == Person.id)
    ),
    "orm aggregate": select(Person.name, func.count(Card.id)).join(Person.cards).group_by(Person.name),
    "orm subquery": select(select(Person.id, Person.name).subquery("p").c.name),
    "orm union": union_all(select(Person.id), select(Card.id)),
    "orm in": select(Card).where(Card.person_id.in_(select(Engineer.id))),
    "orm with core": select(Person.name, customers_.name).join(customers, customers_.id == Person.id),
    "orm columns changed": select(Person).join(Person.cards).with_only_columns(Card.number),
    "orm joinedload": select(Person).options(joinedload(Person.cards).load_only(Card.number)),
    "orm load_only": select(Person).options(load_only(Person.name), selectinload(Person.cards)),
    "orm contains_eager": select(Person).join(Person.cards).options(contains_eager(Person.cards)),
    "orm wildcard": select(Person).options(defer("*"), undefer(Person.name)),
    "orm criteria": select(Card).options(with_loader_criteria(Card, Card.number != "x")),
    "orm criteria by function": select(_worker.name, Card.number)
    .join(_worker.cards)
    .options(with_loader_criteria(Person, lambda cls: cls.name != "x", include_aliases=True)),
    "orm option that changes nothing": select(Card).options(selectinload(Card.person)),
    "orm bundle": select(Bundle("card", Card.id, Card.number)).where(Card.id > 1),
    "orm query": Query([Person]).filter(Person.name == "x").statement,
    "orm query in a query": Query([Card]).filter(Card.person_id.in_(Query([Person.id]))).statement,
    "orm query of a query": Query([Card.id, Query([func.max(Person.id)]).scalar_subquery()]).statement,
    "orm union of queries": Query([Person.id]).union(Query([Card.id])).statement,
    "orm query in a union of queries": Query([Card])
    .filter(Card.person_id.in_(Query([Person.id]).union_all(Query([Person.id]).filter(Person.id > 3))))
    .statement,
    "lambda": select(customers_.id).where(lambda: customers_.name != "x"),
    "callable parameter": select(customers_.id).where(
        customers_.id > bindparam("least", callable_=lambda: 1, type_=Integer)
    ),
    "function as comparison": select(func.my_pure(customers_.id, 2).as_comparison(1, 2)),
    "row of values": select(customers_.id, bindparam("listed", [1, 2], expanding=True)),
    "own element": select(Known(customers_.parent_id), Known(customers_.id + 1).label("next")).where(
        Least(customers_.id, Known(customers_.parent_id)) < 3
    ),
    "own clause": select(customers_.id, func.count().over())
    .ext(Window(customers_.parent_id))
    .ext(Everything())
    .where(customers_.id > 1),
    "own element of the orm": select(Known(Person.id), Person.name).where(Least(Person.id, 4) < 3),
    "values with a cte": select(_named.add_cte(select(customers_.id).cte("unused"))),
    "orm cte": select(aliased(Card, select(Card).cte("cards2"), name="c2")),
    **{
        f"value of {name}": select(orders_.id).where(orders_[name] == value) for name, value in VALUES.items()
    },
}
