"""An application's type passes through what returns an operand unchanged; all else has the database's type."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from sqlalchemy import (
    Column,
    Double,
    Integer,
    MetaData,
    Numeric,
    Table,
    TypeDecorator,
    case,
    func,
    insert,
    select,
    union_all,
)

from dualsql import Registry
from tests.columns.kinds.results import served
from tests.engines import opened


class Cents(TypeDecorator[Any]):
    """Whole numbers in the database, and amounts in the application."""

    impl = Integer
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: Any) -> Any:
        return None if value is None else int(Decimal(str(value)) * 100)

    def process_result_value(self, value: Any, dialect: Any) -> Any:
        return None if value is None else Decimal(value) / 100


class Measured(TypeDecorator[Any]):
    """A number with a fraction on each database, without code of its own; its impl is another type."""

    impl = Integer
    cache_ok = True

    def load_dialect_impl(self, dialect: Any) -> Any:
        return dialect.type_descriptor(Double() if dialect.name == "sqlite" else Numeric(12, 3))


sales = Table(
    "sales",
    MetaData(),
    Column("id", Integer, primary_key=True),
    Column("paid", Cents),
    Column("weight", Measured),
)
refunds = Table("refunds", sales.metadata, Column("id", Integer, primary_key=True), Column("returned", Cents))
paid, weight, number = sales.c.paid, sales.c.weight, sales.c.id

PASSED: dict[str, Any] = {
    "lag": func.lag(paid).over(order_by=number),
    "lead": func.lead(paid).over(order_by=number),
    "first": func.first_value(paid).over(order_by=number),
    "nullif": func.nullif(paid, paid + 1),
    "case": case((number > 0, paid)),
    "max": func.max(paid),
    "beneath": select(func.max(paid)).scalar_subquery(),
}
COMPUTED: dict[str, tuple[Any, Any]] = {
    "sum": (func.sum(paid), 425),
    "rounded": (func.round(func.sum(paid)), 425),
    "product": (func.sum(paid * 2), 85000),  # 2 is bound as an amount, too
    "absolute": (func.abs(func.sum(paid)), 425),
    "weights": (func.sum(weight), "4.0"),
    "more": (func.max(weight) + Decimal("0.25"), "2.75"),
}


async def test_values_are_the_applications_where_they_are_unchanged(source_url: str) -> None:
    async with opened(source_url) as engine, engine.begin() as connection:
        await connection.run_sync(sales.metadata.create_all)
        rows = [(1, "1.25", "1.5"), (2, "3", "2.5")]
        values: list[dict[str, Any]] = [
            {"id": n, "paid": Decimal(one), "weight": Decimal(two)} for n, one, two in rows
        ]
        if source_url.startswith("sqlite"):
            values = [{**row, "weight": float(row["weight"])} for row in values]
        await connection.execute(insert(sales), values)
        await connection.execute(insert(refunds), {"id": 1, "returned": Decimal("0.5")})
    registry = Registry(sales.metadata, types={"Cents": Cents, "Measured": Measured})
    async with served(source_url, registry) as server:
        for label, value in PASSED.items():
            result = await server.result(select(value.label("v")))
            assert result.columns[0]["encoding"] == "decimal", label
            shown = {row["v"] for row in result.sample} - {None}
            assert shown and {Decimal(one) for one in shown} <= {Decimal("1.25"), Decimal(3)}, label
        united = await server.result(union_all(select(paid.label("v")), select(paid.label("v"))))
        assert sorted(row["v"] for row in united.sample) == ["1.25", "1.25", "3", "3"]
        of_two_tables = union_all(select(paid.label("v")), select(refunds.c.returned))
        assert sorted(row["v"] for row in (await server.result(of_two_tables)).sample) == ["0.5", "1.25", "3"]
        for label, (value, wanted) in COMPUTED.items():
            result = await server.result(select(value.label("v")))
            (row,) = result.sample
            assert Decimal(str(row["v"])) == Decimal(str(wanted)), label
            assert result.columns[0]["encoding"] in {"integer", "float", "decimal"}, label
            assert "$unfit" not in row, label
            assert (await server.rows(result, "arrow")).status_code == 200, label
