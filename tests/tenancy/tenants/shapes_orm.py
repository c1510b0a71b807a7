"""Statements over mapped classes: relationships, secondary tables, every kind of inheritance, computed attributes."""

from __future__ import annotations

from typing import Any

from sqlalchemy import and_, func, or_, select, union
from sqlalchemy.orm import aliased, with_polymorphic

from dualsql.freeze.document import Statement
from tests.tenancy.tenants import tpch
from tests.tenancy.tenants.office import (
    Asset,
    AuthorPages,
    Contractor,
    Device,
    Document,
    Employee,
    Laptop,
    Person,
    Phone,
    Room,
    Tag,
    Vehicle,
    document_tags,
)
from tests.tenancy.tenants.tpch import lineitem, orders

# Mapped by __table__, whose columns a type checker does not see.
Customer: Any = tpch.Customer
Order: Any = tpch.Order
LineItem: Any = tpch.LineItem
Part: Any = tpch.Part
Supplier: Any = tpch.Supplier
Nation: Any = tpch.Nation
Pages: Any = AuthorPages
document_count: Any = Person.document_count  # type: ignore[attr-defined]

Manager = aliased(Person, name="manager")
Report = aliased(Person, name="report")
OtherPhone = aliased(Phone, name="other_phone")
Anyone: Any = with_polymorphic(Person, [Employee, Contractor])
Everyone: Any = with_polymorphic(Person, "*", aliased=True)
_long = select(Document).where(Document.pages > 5).subquery("long_documents")
LongDocument = aliased(Document, _long, name="long_document")
_paged = select(Document.author_id, func.sum(Document.pages).label("pages")).group_by(Document.author_id)
_paged_cte = _paged.cte("paged")

ENTITIES: dict[str, Statement] = {
    "entity": select(Document),
    "entity over a composite key": select(Customer).where(Customer.c_acctbal > 0),
    "entity, a tenant's column": select(Document.tenant_id, Document.title),
    "relationship join": select(Person.name, Document.title).join(Person.documents),
    "relationship join by natural keys": select(Customer.c_name, Order.o_comment).join(Customer.orders),
    "relationship outer join": select(Person.name, Document.title).outerjoin(Person.documents),
    "two relationships": select(Customer.c_name, LineItem.l_comment, Part.p_name)
    .join(Customer.orders)
    .join(Order.lines)
    .join(LineItem.part)
    .where(LineItem.l_quantity > 45),
    "relationship to a shared table": select(Customer.c_name, Nation.n_name).join(Customer.nation),
    "secondary": select(Document.title, Tag.label).join(Document.tags),
    "secondary, outer": select(Document.id, Tag.label).outerjoin(Document.tags),
    "secondary from the other side": select(Tag.label, func.count(Document.id))
    .outerjoin(Tag.documents)
    .group_by(Tag.id, Tag.label),
    "secondary that has a tenant": select(Part.p_name, Supplier.s_name).join(Part.suppliers),
    "secondary alone": select(document_tags),
    "secondary in Core": select(document_tags.c.tag_id, Document.title).join(
        Document, Document.id == document_tags.c.document_id
    ),
    "any": select(Person.name).where(Person.documents.any(Document.pages > 5)),
    "not any": select(Person.id, Person.name).where(~Person.documents.any()),
    "has": select(Document.title).where(Document.author.has(Person.salary > 100)),
    "any through a secondary": select(Document.id).where(Document.tags.any(Tag.label.like("tag 1%"))),
    "not any through a secondary": select(Document.id).where(~Document.tags.any()),
    "any in has": select(Document.id).where(
        Document.author.has(Person.devices.any(Device.serial.is_not(None)))
    ),
    "is another's": select(Document.id).where(Document.author == None),  # noqa: E711 - SQLAlchemy's way
    "self-referential join": select(Person.name, Manager.name).join(Person.manager.of_type(Manager)),
    "self-referential outer join": select(Person.id, Manager.name).outerjoin(Person.manager.of_type(Manager)),
    "self-referential, two steps": select(Person.id, Manager.id, Report.id)
    .join(Person.manager.of_type(Manager))
    .outerjoin(Report, Report.manager_id == Manager.id),
    "aliased": select(Manager.name, Manager.salary).where(Manager.salary.is_not(None)),
    "aliased subquery": select(LongDocument.title, LongDocument.pages),
    "aliased subquery, joined": select(Person.name, LongDocument.title).join(
        LongDocument, LongDocument.author_id == Person.id
    ),
    "column property": select(Person.name, document_count.label("documents")),
    "column property filtered and sorted": select(Person.id, Person.name)
    .where(document_count > 1)
    .order_by(document_count.desc(), Person.id),
    "hybrid": select(Document.title, Document.pages).where(Document.is_long),
    "hybrid in SELECT": select(Document.title, Document.is_long, func.count()).group_by(
        Document.id, Document.title, Document.pages
    ),
    "mapped view": select(AuthorPages),
    "mapped view, joined": select(Person.name, Pages.pages).outerjoin(Pages, Pages.author_id == Person.id),
}

INHERITANCE: dict[str, Statement] = {
    "joined: the base": select(Person),
    "joined: a subclass": select(Employee),
    "joined: a subclass without a tenant": select(Contractor),
    "joined: a subclass's column": select(Contractor.agency, func.count()).group_by(Contractor.agency),
    "joined: of_type": select(Document.title, Employee.badge).join(Document.author.of_type(Employee)),
    "joined: of_type in any": select(Document.id).where(
        Document.author.of_type(Contractor).has(Contractor.agency.is_not(None))
    ),
    "joined: a subclass's table in Core": select(Contractor.__table__),
    "joined: a subclass's table left join": select(Person.id, Contractor.__table__.c.agency).outerjoin(
        Contractor.__table__, Contractor.__table__.c.id == Person.id
    ),
    "with_polymorphic": select(Anyone),
    "with_polymorphic, filtered": select(Anyone.name).where(
        or_(Anyone.Employee.badge.is_not(None), Anyone.Contractor.agency.is_not(None))
    ),
    "with_polymorphic, aliased": select(Everyone.id, Everyone.name, Everyone.Contractor.agency),
    "with_polymorphic, joined": select(Document.title, Anyone.Employee.badge).join(
        Document.author.of_type(Anyone)
    ),
    "single: the base": select(Device),
    "single: a subclass": select(Laptop),
    "single: of_type": select(Person.name, Phone.number).join(Person.devices.of_type(Phone)),
    "single: two subclasses": select(Laptop.serial, OtherPhone.serial).where(
        Laptop.owner_id != OtherPhone.owner_id
    ),
    "concrete: a subclass": select(Room),
    "concrete: two subclasses": select(Room.label, Vehicle.label).where(Room.seats * 5 < Vehicle.id),
    "concrete: the base": select(Asset.id, Asset.label),
}

MIXED: dict[str, Statement] = {
    "a Core table inside an ORM select": select(Customer.c_name, orders.c.o_comment).join(
        orders, orders.c.o_custkey == Customer.c_custkey
    ),
    "a Core table on the nullable side of an ORM select": select(
        Order.o_orderkey, lineitem.c.l_comment
    ).outerjoin(lineitem, and_(lineitem.c.l_orderkey == Order.o_orderkey, lineitem.c.l_quantity > 48)),
    "a class inside a Core select": select(orders.c.o_orderkey, Customer.c_comment).join_from(
        orders, Customer, orders.c.o_custkey == Customer.c_custkey
    ),
    "select_from a class": select(func.count()).select_from(Document).join(Person, Document.author),
    "outerjoin_from classes": select(Tag.label, Document.title).outerjoin_from(
        Tag, Document, Document.pages == Tag.id
    ),
    "correlated subquery of a class": select(
        Person.name,
        select(func.max(Document.pages))
        .where(Document.author_id == Person.id)
        .correlate(Person)
        .scalar_subquery(),
    ),
    "common table expression of a class": select(Person.name, _paged_cte.c.pages).join(
        _paged_cte, _paged_cte.c.author_id == Person.id
    ),
    "union of classes": union(select(Person.id, Person.name), select(Document.id, Document.title)),
    "window over a class": select(
        Document.id, func.rank().over(partition_by=Document.author_id, order_by=Document.pages)
    ),
    "grouped by a class's key": select(Person.name, Person.joined, func.count(Document.id))
    .outerjoin(Person.documents)
    .group_by(Person.id),
}
