"""What is said of tables, views, schemas and databases."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import Column, ForeignKey, Integer, MetaData, String, Table, bindparam, select
from sqlalchemy.schema import CreateView

from dualsql import SavedQuery
from dualsql.catalogue import Catalogue
from dualsql.catalogue.definitions import MOST_CONTENTS, read, table_for_model
from dualsql.catalogue.describe import MOST_COLUMNS
from dualsql.freeze import Registry
from tests.catalogue.library import ANA, BOB, POSTGRESQL, RULES, SQLITE, authors, books, catalogue, wages


def at(found: Catalogue, uri: str, who: Any = ANA) -> Any:
    """What is read at a URI."""
    address = found.addressing.read(uri)
    return None if address is None else read(found.view_for(who), address)


def test_a_table_has_types_keys_and_comments() -> None:
    reading = at(catalogue(), "catalog://main/schema/default/table/books")
    assert reading["definition"] == {
        "kind": "table",
        "source": "main",
        "schema": "default",
        "name": "books",
        "sql_name": "books",
        "comment": "One row for each edition",
        "rows": "all",
        "column_count": 6,
        "columns": [
            {"name": "isbn", "type": "VARCHAR(13)", "nullable": False, "comment": None},
            {"name": "author_id", "type": "INTEGER", "nullable": True, "comment": None},
            {
                "name": "genre",
                "type": "VARCHAR(5)",
                "nullable": True,
                "comment": None,
                "values": ["crime", "verse"],
            },
            {"name": "shelf", "type": "VARCHAR(4)", "nullable": True, "comment": None},
            {"name": "place", "type": "INTEGER", "nullable": True, "comment": None},
            {"name": "extra", "type": "JSON", "nullable": True, "comment": None},
        ],
        "primary_key": ["isbn"],
        "unique": [["author_id"], ["shelf", "place"]],
        "foreign_keys": [
            {
                "columns": ["author_id"],
                "target_schema": "default",
                "target_table": "authors",
                "target_columns": ["id"],
                "target_uri": "catalog://main/schema/default/table/authors",
            }
        ],
    }
    assert reading["metadata"]["kind"] == "table"
    assert reading["metadata"]["parent"] == "catalog://main/schema/default"
    assert reading["metadata"]["description"]
    assert reading["metadata"]["usage"]


def test_types_and_names_are_those_of_the_database() -> None:
    listing = catalogue(sources={"files": SQLITE, "house": POSTGRESQL})
    view = "schema/reports/view/best%20sellers"
    assert at(listing, f"catalog://house/{view}")["definition"]["sql_name"] == 'reports."best sellers"'
    books = at(listing, "catalog://house/schema/default/table/books")["definition"]["columns"]
    assert books[2]["type"] == "genre"


def test_a_view_is_told_from_a_table() -> None:
    metadata = MetaData()
    base = Table("base", metadata, Column("id", Integer, primary_key=True))
    CreateView(select(base), "derived", metadata=metadata)
    listing = catalogue(of=Registry(metadata))
    assert at(listing, "catalog://main/schema/default/view/derived")["definition"]["kind"] == "view"
    assert at(listing, "catalog://main/schema/default/table/derived") is None
    assert at(listing, "catalog://main/schema/default/view/base") is None


def test_a_schema_and_a_database_name_what_is_in_them() -> None:
    listing = catalogue()
    schema = at(listing, "catalog://main/schema/reports")
    assert schema["definition"] == {
        "source": "main",
        "schema": "reports",
        "tables": [],
        "table_count": 0,
        "views": ["best sellers"],
        "view_count": 1,
    }
    assert schema["metadata"]["contents"] == "catalog://main/schema/reports/contents"
    database = at(listing, "catalog://main/catalog")
    assert database["definition"]["schemas"] == ["default", "reports", "staff"]
    assert database["definition"]["dialect"] == "sqlite"
    assert database["definition"]["table_count"] == 4
    assert "parent" not in database["metadata"]


def test_contents_are_a_list_of_uris_and_metadata() -> None:
    listing = catalogue()
    contents = at(listing, "catalog://main/schema/default/contents")
    assert [item["uri"].rpartition("/")[2] for item in contents] == ["authors", "books", "notes"]
    assert contents[0]["metadata"] == {
        "kind": "table",
        "source": "main",
        "name": "authors",
        "uri": contents[0]["uri"],
        "comment": "People who write",
        "schema": "default",
    }
    everything = at(listing, "catalog://main/catalog/contents")
    assert {item["metadata"]["kind"] for item in everything} == {"schema", "table", "view"}
    assert at(listing, "catalog://main/schema/default/table/books/contents") is None


def test_masked_columns_and_filtered_rows_are_said() -> None:
    listing = catalogue(RULES)
    mine = at(listing, "catalog://main/schema/default/table/authors", ANA)["definition"]
    his = at(listing, "catalog://main/schema/default/table/authors", BOB)["definition"]
    assert mine["rows"] == his["rows"] == "filtered"
    assert [column["name"] for column in his["columns"] if column.get("masked")] == ["salary"]
    assert not any(column.get("masked") for column in mine["columns"])
    assert at(listing, "catalog://main/schema/default/table/books", BOB)["definition"]["rows"] == "all"


def test_a_foreign_key_to_what_is_not_seen_is_not_named() -> None:
    """It would say that the table is there."""
    listing = catalogue(RULES)
    uri = "catalog://main/schema/default/table/notes"
    assert "wages" in str(at(listing, uri, ANA)["definition"])
    assert "wages" not in str(at(listing, uri, BOB))


def test_a_foreign_key_to_nowhere_is_left_out() -> None:
    metadata = MetaData()
    Table("orphans", metadata, Column("id", Integer, ForeignKey("nowhere.id"), primary_key=True))
    definition = at(catalogue(of=Registry(metadata)), "catalog://main/schema/default/table/orphans")[
        "definition"
    ]
    assert definition["foreign_keys"] == []


def test_what_is_large_is_cut_and_counted() -> None:
    metadata = MetaData()
    Table("wide", metadata, *[Column(f"c{number}", Integer) for number in range(MOST_COLUMNS + 1)])
    for number in range(MOST_CONTENTS + 5):
        Table(f"t{number:05}", metadata, Column("id", Integer))
    listing = catalogue(of=Registry(metadata))
    wide = at(listing, "catalog://main/schema/default/table/wide")["definition"]
    assert (len(wide["columns"]), wide["column_count"]) == (MOST_COLUMNS, MOST_COLUMNS + 1)
    schema = at(listing, "catalog://main/schema/default")["definition"]
    assert (len(schema["tables"]), schema["table_count"]) == (MOST_CONTENTS, MOST_CONTENTS + 6)
    contents = at(listing, "catalog://main/schema/default/contents")
    assert len(contents) == MOST_CONTENTS + 1
    assert contents[-1]["metadata"]["more"] == 6


@pytest.mark.parametrize("comment", ["a\nb", "a\u202eb", "a" * 5_000])
def test_a_comment_stays_on_one_short_line(comment: str) -> None:
    metadata = MetaData()
    Table("t", metadata, Column("id", Integer, comment=comment), comment=comment)
    definition = at(catalogue(of=Registry(metadata)), "catalog://main/schema/default/table/t")["definition"]
    for said in (definition["comment"], definition["columns"][0]["comment"]):
        assert said.isprintable()
        assert len(said) <= 1_000


def test_tables_of_one_name_are_told_apart() -> None:
    one, other = MetaData(), MetaData()
    Table("t", one, Column("id", Integer))
    Table("t", other, Column("id", String))
    Table("u", one, Column("id", Integer), schema="default")
    listing = catalogue(of=Registry([one, other]))
    uris = [entry.uri for entry in listing.view_for(None).entries]
    assert uris == [
        "catalog://main/catalog",
        "catalog://main/schema/%28default%29",
        "catalog://main/schema/%28default%29/table/t",
        "catalog://main/schema/%28default%29/table/t%232",
        "catalog://main/schema/default",
        "catalog://main/schema/default/table/u",
    ]
    assert at(listing, uris[3])["definition"]["columns"][0]["type"] == "VARCHAR"


SHELF = SavedQuery(
    "books_of_shelf",
    select(books.c.isbn).where(books.c.shelf == bindparam("shelf")),
    description="Books that stand\non one shelf",
)
PAY = SavedQuery("pay", select(authors.c.name).join(wages, wages.c.author_id == authors.c.id))


def test_a_saved_query_says_what_it_takes_and_reads() -> None:
    listing = catalogue(queries=[SHELF])
    reading = at(listing, "catalog://main/query/books_of_shelf")
    assert reading["definition"] == {
        "kind": "query",
        "source": "main",
        "name": "books_of_shelf",
        "comment": "Books that stand on one shelf",
        "parameters": SHELF.schema,
        "reads": ["catalog://main/schema/default/table/books"],
    }
    assert reading["metadata"]["parent"] == "catalog://main/catalog"
    assert at(listing, "catalog://main/catalog")["definition"]["query_count"] == 1


def test_a_saved_query_of_what_is_not_seen_is_not_there() -> None:
    listing = catalogue(RULES, queries=[SHELF, PAY])
    assert [address.name for address in listing.view_for(ANA).queries] == ["books_of_shelf", "pay"]
    assert [address.name for address in listing.view_for(BOB).queries] == ["books_of_shelf"]
    assert at(listing, "catalog://main/query/pay", BOB) is None


def test_a_saved_query_stands_in_its_source() -> None:
    house = SavedQuery("here", select(books.c.isbn), source="house")
    listing = catalogue(sources={"files": SQLITE, "house": POSTGRESQL}, queries=[house, SHELF])
    assert {(address.source, address.name) for address in listing.view_for(None).queries} == {
        ("house", "here"),
        ("files", "books_of_shelf"),
    }


def test_a_model_reads_the_target_of_a_foreign_key_as_sql_names_it() -> None:
    metadata = MetaData()
    Table("customers", metadata, Column("id", Integer, primary_key=True), schema="sales")
    Table("regions", metadata, Column("id", Integer, primary_key=True))
    Table(
        "orders",
        metadata,
        Column("customer_id", ForeignKey("sales.customers.id")),
        Column("region_id", ForeignKey("regions.id")),
        schema="sales",
    )
    view = catalogue(of=Registry(metadata)).view_for(None)
    [orders] = [address for address in view.tables if address.name == "orders"]
    keys = {key["columns"][0]: key["target_table"] for key in table_for_model(view, orders)["foreign_keys"]}
    assert keys == {"customer_id": "sales.customers", "region_id": "regions"}
