"""Texts of tools without structured content, with the values that each parsing strategy reads.

Each has the text, what the conservative strategy reads, and what the aggressive one reads beyond that. They look like
answers of real tools.
"""

from __future__ import annotations

from typing import Any, NamedTuple

ID = "search_json_1764792555209_7hb77x"


class Answer(NamedTuple):
    """A text and what it says; names are those of MarkdownAnswer, what is not named is None or empty."""

    text: str
    says: dict[str, Any] = {}
    more: dict[str, Any] = {}
    begins: dict[str, Any] = {}
    """What it says because nothing stands before it."""


def staged(text: str, **says: Any) -> Answer:
    """One that names the id of staged data."""
    return Answer(text, {"data_access_id": ID, **says})


ANSWERS: dict[str, Answer] = {
    "staged, as specification S8 has it": staged(
        "**Protein Search Results Data Staged**\n\n**Data Summary:**\n- **Operation:** search_json\n"
        f"- **Payload Size:** 2040KB\n- **Data Access ID:** {ID}",
        operation="search_json",
    ),
    "bold within": staged(f"- Data Access ID: **{ID}**"),
    "with pictures": staged(
        f"🧬 **Data Staged** ✅\n\n🔑 **Data Access ID:** {ID} 🎉\n📊 **Table:** protein", table="protein"
    ),
    "pictures without a space": staged(f"🔑Data Access ID:✨{ID}✨"),
    "in backquotes": staged(f"Data Access ID: `{ID}`"),
    "in quotes": staged(f'data_access_id: "{ID}"'),
    "with an equals sign": staged(f"data_access_id = {ID}"),
    "as a heading": staged(f"### Data Access ID: {ID}"),
    "in a quotation": staged(f"> **Data Access ID:** {ID}"),
    "numbered": staged(
        f"1. Operation: search_json\n2. Data Access ID: {ID}\n3. Table: protein",
        operation="search_json",
        table="protein",
    ),
    "a table of labels": staged(
        f"| Field | Value |\n|---|---|\n| Data Access ID | {ID} |\n| Table | protein |",
        table="protein",
        tables=[[{"Field": "Data Access ID", "Value": ID}, {"Field": "Table", "Value": "protein"}]],
    ),
    "in camel case": staged(f"dataAccessId: {ID}"),
    "with a full-width colon": staged(f"数据访问ID：{ID}\n表：protein", table="protein"),
    "Japanese": staged(
        f"**データアクセスID:** {ID}\n**操作:** search_json\n**テーブル:** protein",
        operation="search_json",
        table="protein",
    ),
    "Spanish": staged(
        f"**Datos preparados**\n- **ID de acceso a datos:** {ID}\n- **Tabla:** proteina\n- **Operación:** buscar",
        table="proteina",
        operation="buscar",
    ),
    "French": staged(f"ID d'accès aux données : {ID}\nTableau : protéines", table="protéines"),
    "German": staged(
        f"Datenzugriffs-ID: {ID}\nTabelle: proteine\nVorgang: suche", table="proteine", operation="suche"
    ),
    "Russian": Answer(
        "Операция: поиск\nОшибка: нет такой таблицы", {"operation": "поиск", "error": "нет такой таблицы"}
    ),
    "said twice": staged(f"Data Access ID: {ID}\n...\n**Data Access ID:** {ID}"),
    "CRLF": staged(f"Data Access ID: {ID}\r\nTable: protein\r\n", table="protein"),
    "no-break spaces": staged(f"Data\u00a0Access\u00a0ID:\u00a0{ID}"),
    "zero-width signs": staged(f"Data Access ID: \u200b{ID}\u200b"),
    "another form of id": Answer(
        "Data Access ID: 8f14e45f-ceea-467f-ab3c-7c1b7e0c2a11",
        {"data_access_id": "8f14e45f-ceea-467f-ab3c-7c1b7e0c2a11"},
    ),
    "an operation of words": Answer("**Operation:** Entity search", {"operation": "Entity search"}),
    "a qualified table": Answer("Table: public.protein_2024", {"table": "public.protein_2024"}),
    "without a label": Answer(f"Your data is staged as {ID}. Ask away!", {}, {"data_access_id": ID}),
    "a label it does not know": Answer(f"ID: {ID}", {}, {"data_access_id": ID}),
    "an SQL example": Answer(
        "Query it:\n```sql\nSELECT * FROM protein LIMIT 10\n```", {}, {"table": "protein"}
    ),
    "an SQL example in a line": Answer("Try `SELECT * FROM protein LIMIT 10`.", {}, {"table": "protein"}),
    "an id in a sentence": Answer(
        'Call data_manager with data_access_id "x" to query it.', {}, {"data_access_id": "x"}
    ),
    "an id in a sentence, bare": Answer(
        "Use data_access_id staged-42 to query.", {}, {"data_access_id": "staged-42"}
    ),
    "an id in an example call": Answer(
        f'data_manager(operation="query", data_access_id="{ID}", sql="SELECT * FROM protein")',
        {},
        {"data_access_id": ID, "table": "protein"},
    ),
    "an id in JSON in a line": Answer(f'{{"data_access_id": "{ID}"}}', {}, {"data_access_id": ID}),
    "two ids in sentences": Answer('data_access_id "x" or data_access_id "y"'),
    "an id that is a kind": Answer('It takes data_access_id "string" and sql.'),
    "an id that is a word": Answer("A data_access_id is needed."),
    "FROM in prose": Answer("Query the rows FROM protein, please.", {}, {"table": "protein"}),
    "a statement in prose": Answer("SELECT * FROM protein LIMIT 10", {}, {"table": "protein"}),
    "a statement in small letters": Answer("Try select * from protein.", {}, {"table": "protein"}),
    "a statement at the end of a sentence": Answer(
        "Run SELECT id FROM public.protein.", {}, {"table": "public.protein"}
    ),
    "two tables in prose": Answer("SELECT * FROM protein\nSELECT * FROM feature"),
    "FROM in a heading": Answer("RESULTS FROM UNIPROT"),
    "a subquery in prose": Answer("SELECT * FROM (SELECT 1)"),
    "two tables in examples": Answer("`SELECT * FROM protein` or `SELECT * FROM feature`"),
    "a join in an example": Answer(
        "```sql\nSELECT * FROM protein p JOIN feature f ON f.id = p.id\n```", {}, {"table": "protein"}
    ),
    "from, in prose": Answer("These are results from UniProt. SELECT what you need from them."),
    "a placeholder": Answer("Data Access ID: <your id>\nTable: <table>"),
    "a template": Answer("Data Access ID: {data_access_id}\nTable: {table}"),
    "a pending one": Answer("Data Access ID: pending\nTable: (not yet known)"),
    "unknown ones": Answer("Data Access ID: not_available\nTable: unknown\nOperation: none"),
    "a remark behind it": Answer(
        f"Data Access ID: {ID} (expires in 10 minutes)\nTable: protein (25 rows)", {}, {"data_access_id": ID}
    ),
    "an example id": Answer("Data Access ID: <search_json_123>"),
    "nothing after the label": Answer("Data Access ID:\nTable:\nOperation: **"),
    "two ids": Answer(f"Data Access ID: {ID}\nData Access ID: search_json_1764792555999_aaaaaa"),
    "two ids without labels": Answer(f"{ID} replaced search_json_1764792555999_aaaaaa"),
    "two tables": staged(f"Data Access ID: {ID}\nTable: protein\nTable: feature"),
    "a label within a sentence": Answer("Pass the Data Access ID: it is in the first message."),
    "about tables": Answer("The table: a history. Operation: none of your business, really!"),
    "an error": Answer("Error: no such table: protein", {"error": "no such table: protein"}),
    "a bold error": Answer(
        "❌ **Error:** Query failed: no such table: protein",
        {"error": "Query failed: no such table: protein"},
    ),
    "an error with a cause": Answer(
        "Data Manager Error: Query failed: no such table: protein",
        begins={"error": "Query failed: no such table: protein"},
    ),
    "an error with a suggestion": Answer(
        "Data Manager Error: no such table\n\n| name |\n|---|\n| entries |",
        {"tables": [[{"name": "entries"}]]},
        begins={"error": "no such table"},
    ),
    "an error below its heading": Answer(
        '**Query Error**\n\nTable "protein" not found. Try: `SELECT * FROM entries`',
        {},
        {"table": "entries"},
        begins={"error": 'Table "protein" not found. Try: `SELECT * FROM entries'},
    ),
    "a failure": Answer(
        "Search failed: upstream timed out after 30 s", begins={"error": "upstream timed out after 30 s"}
    ),
    "a failure with a picture": Answer(
        "⚠️ Request failed: 429 Too Many Requests", begins={"error": "429 Too Many Requests"}
    ),
    "a statistical error": Answer("Standard error: 0.03\nMean: 5.2"),
    "failed checks": Answer("Checks failed: 3 of 25"),
    "a report on errors": Answer("# Types of error\n\n- syntax\n- semantics"),
    "no error": Answer("Errors: none\nRows: 5"),
    "errors, counted": Answer("Errors: 0"),
    "an error in a cell": Answer(
        "| id | message |\n|---|---|\n| 1 | Error: disk full |",
        {"tables": [[{"id": "1", "message": "Error: disk full"}]]},
    ),
    "an error in code": Answer("Example:\n```\nError: this is how errors look\n```"),
    "failed, in prose": Answer("None of the 25 checks failed, and the error rate: low."),
    "two errors": Answer("Error: one\nError: two", begins={"error": "one"}),
    "a German error": Answer("Fehler: Tabelle nicht gefunden", {"error": "Tabelle nicht gefunden"}),
    "a Chinese error": Answer("错误：找不到表", {"error": "找不到表"}),
    "a block": Answer('Result:\n```json\n{"rows": [{"id": 1}]}\n```', {"blocks": [{"rows": [{"id": 1}]}]}),
    "a block of a list": Answer('```json\n[{"id": 1}, {"id": 2}]\n```', {"blocks": [[{"id": 1}, {"id": 2}]]}),
    "a block without a language": Answer('```\n{"id": 1}\n```', {"blocks": [{"id": 1}]}),
    "a block in tildes": Answer('~~~json\n{"id": 1}\n~~~', {"blocks": [{"id": 1}]}),
    "an indented block": Answer('- First:\n  ```json\n  {"id": 1}\n  ```', {"blocks": [{"id": 1}]}),
    "fences within fences": Answer(
        '````markdown\n```json\n{"id": "inner"}\n```\n````\n\n```json\n{"id": "outer"}\n```',
        {"blocks": [{"id": "outer"}]},
    ),
    "braces within strings": Answer(
        '```json\n{"note": "} ``` {", "id": 1}\n```', {"blocks": [{"note": "} ``` {", "id": 1}]}
    ),
    "a broken block": Answer('```json\n{"id": 1,}\n```'),
    "a cut block": Answer('```json\n{"id": 1}'),
    "labels within a block": Answer(f"```\nData Access ID: {ID}\nTable: protein\n```"),
    "Python within a fence": Answer('```python\n{"id": 1}\n```'),
    "two blocks": Answer('```json\n{"a": 1}\n```\n```json\n{"b": 2}\n```', {"blocks": [{"a": 1}, {"b": 2}]}),
    "a table": Answer(
        "| id | name |\n|---:|:---|\n| 1 | Ana |\n| 2 | |",
        {"tables": [[{"id": "1", "name": "Ana"}, {"id": "2", "name": None}]]},
    ),
    "a table without outer bars": Answer(
        "id | name\n---|---\n1 | Ana", {"tables": [[{"id": "1", "name": "Ana"}]]}
    ),
    "a table with bars in cells": Answer(
        "| a | b |\n|-|-|\n| x \\| y | `z` |", {"tables": [[{"a": "x | y", "b": "z"}]]}
    ),
    "a table with pictures": Answer(
        "| 🏫 School | 📍 |\n|---|---|\n| 東京大学 | 🗼 |",
        {"tables": [[{"🏫 School": "東京大学", "📍": "🗼"}]]},
    ),
    "a ragged table": Answer("| a | b |\n|---|---|\n| 1 | 2 | 3 |"),
    "a table with a name twice": Answer("| a | a |\n|---|---|\n| 1 | 2 |"),
    "a table in code": Answer("```\n| a | b |\n|---|---|\n| 1 | 2 |\n```"),
    "a rule is no table": Answer("Title\n-----\n\na | b is a choice\n"),
    "all of it": staged(
        f"## ✅ Staged\n\n- **Data Access ID:** `{ID}`\n- **Operation:** search_json\n- **Table:** protein\n\n"
        '| id | name |\n|---|---|\n| P1 | TP53 |\n\n```json\n{"entities": 25}\n```\n\n'
        "```sql\nSELECT * FROM protein LIMIT 10\n```",
        operation="search_json",
        table="protein",
        tables=[[{"id": "P1", "name": "TP53"}]],
        blocks=[{"entities": 25}],
    ),
    "prose": Answer("I found 25 proteins for TP53. The first is P04637."),
    "an address": Answer("See https://example.com/table:protein?operation=x"),
    "a time": Answer("Finished at 10:30:00, operation took 3 s"),
    "empty": Answer(""),
    "JSON alone": Answer('{"dataAccessId": "x"}', {}, {"data_access_id": "x"}),
}
