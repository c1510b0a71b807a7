"""The program of test_additions.py: a server of the copied package has what was added to it, everywhere."""

from __future__ import annotations

import asyncio
import json
import re
import tempfile
from html import unescape
from pathlib import Path
from typing import Any

from sqlalchemy import select
from sqlalchemy.ext.asyncio import create_async_engine

import dualsql
from dualsql_client.wire import RESUME_HEADER, row_digest
from tests.http.application import INSTITUTIONS, Application, fill, running

TSV = "text/tab-separated-values"
NAMES = select(INSTITUTIONS.c.id, INSTITUTIONS.c.name).order_by(INSTITUTIONS.c.id).limit(2)
PLAIN = b'id\tname\r\n1\t"Institution 001"\r\n2\t"Institution 002"\r\n'


async def main() -> None:
    """Raises AssertionError where something that was added is missing."""
    assert not Path(dualsql.__file__).is_relative_to(Path(__file__).parents[2]), "this is not the copy"
    with tempfile.TemporaryDirectory() as folder:
        engine = create_async_engine(f"sqlite+aiosqlite:///{folder}/rows.db")
        await fill(engine)
        async with running(engine, pages=True) as application:
            await check_format(application)
            await check_parameter(application)
            await check_question(application)
            await check_documents(application)
            await check_page(application)
        await engine.dispose()


async def check_format(application: Application) -> None:
    """It is served by its name and its media type, and a broken stream of it resumes."""
    path = f"{await application.create(NAMES)}/rows"
    for params, accept in (({"format": "tsv"}, "*/*"), ({}, TSV)):
        got = await application.http.get(path, params=params, headers={"accept": accept})
        assert got.content == PLAIN, got.text
        assert got.headers["content-type"].startswith(TSV)
        assert got.headers["content-disposition"].endswith(".tsv")
    resumed: dict[str, Any] = {
        "format": "tsv",
        "resume": got.headers[RESUME_HEADER],
        "after": 1,
        "last": row_digest(b'1\t"Institution 001"'),
    }
    rest = await application.http.post(path, json=resumed)
    assert rest.content == b'2\t"Institution 002"\r\n', rest.text


async def check_parameter(application: Application) -> None:
    """It is read in a URL and in a body, and refused as others of its kind are."""
    path = f"{await application.create(NAMES)}/rows"
    in_url = await application.http.get(path, params={"format": "tsv", "headless": "true"})
    in_body = await application.http.post(path, json={"format": "tsv", "headless": True})
    assert in_url.content == in_body.content == PLAIN.split(b"\r\n", 1)[1]
    refused = await application.http.get(path, params={"headless": "1"})
    assert refused.json()["message"] == "headless must be true or false."


async def check_question(application: Application) -> None:
    """A question has the operator, by its other spelling too, and the aggregate."""
    path = f"{await application.create()}/query"
    for op in ("same_letters", "EQUALS IGNORING CASE"):
        filters = [{"column": "state", "op": op, "value": "nj"}]
        got = await application.http.post(path, json={"filters": filters, "aggregates": ["span(id)"]})
        assert got.json()["data"] == [{"span_id": 57.0}], got.text
    question = {"columns": ["id"], "filters": filters, "limit": 1, "format": "tsv"}
    assert (await application.http.post(path, json=question)).content == b"id\r\n3\r\n"
    refused = await application.http.post(path, json={"filters": [{"column": "id", "op": op, "value": "a"}]})
    assert "same_letters cannot be asked" in refused.json()["message"]


async def check_documents(application: Application) -> None:
    """OpenAPI and the well-known document name all of it."""
    document = (await application.http.get("/resources/openapi.json")).json()
    for method in ("get", "post"):
        assert TSV in document["paths"]["/{id}/rows"][method]["responses"]["200"]["content"]
    parameters = document["paths"]["/{id}/rows"]["get"]["parameters"]
    named = {each["name"]: each for each in parameters if each["in"] == "query"}
    assert "tsv" in named["format"]["schema"]["enum"]
    assert named["headless"]["description"] == "TSV: without the names of the columns."
    body = document["paths"]["/{id}/rows"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert body["properties"]["headless"]["type"] == ["boolean", "null"]
    comparison = document["components"]["schemas"]["Condition"]["oneOf"][0]
    assert "same_letters" in comparison["properties"]["op"]["enum"]
    assert "span" in json.dumps(document["paths"]["/{id}/query"]["post"]["requestBody"])
    known = (await application.http.get("/resources/.well-known/resource-link-service")).json()
    rows = [each for each in known["endpoints"] if each["path"] == "/{id}/rows"]
    assert all("headless" in json.dumps(each["parameters"]) for each in rows)


async def check_page(application: Application) -> None:
    """The page offers the download, guarded, and its dialogs the operator and the aggregate."""
    page = (await application.http.get(f"{await application.create()}/view")).text
    assert re.search(r'rows\?format=tsv&amp;guard_formulas=true" download>TSV<', page)
    match = re.search(r'data-vocabulary="([^"]*)"', page)
    assert match
    vocabulary = json.loads(unescape(match[1]))
    offered = {choice["name"]: choice["words"] for choice in vocabulary["conditions"]}
    assert offered["same_letters"] == "is, in any case,"
    assert "span" in vocabulary["aggregates"]


if __name__ == "__main__":
    asyncio.run(main())
