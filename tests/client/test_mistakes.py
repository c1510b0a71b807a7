"""Common mistakes are accepted in their evident meaning, or refused with what to write instead."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response

from dualsql_client import FetchError, ResourceNotFoundError
from tests.client.conftest import Open
from tests.client.hosting import Host
from tests.client.test_paging import contract

DOWN_BY_ID = [{"field": "id", "order": "desc"}, {"field": "tuition", "order": "asc"}]


@pytest.mark.parametrize("sort", ["-id,tuition", "-id, tuition", ["-id", "tuition"], ["-id", DOWN_BY_ID[1]]])
async def test_an_order_may_be_written_as_text(host: Host, open_at: Open, sort: Any) -> None:
    server = contract()
    with pytest.raises(FetchError, match="does not confirm several sort keys"):
        await open_at(host.serve(server)).fetch(sort=sort)
    assert server.requests == [("POST", {"offset": 0, "sort": DOWN_BY_ID})]


@pytest.mark.parametrize(
    "answer", [JSONResponse({"detail": "Not Found"}, 404), PlainTextResponse("Not Found", 404)]
)
async def test_an_address_where_dualsql_is_not_is_called_that(
    host: Host, open_at: Open, answer: Response
) -> None:
    async def elsewhere(request: Request) -> Response:
        return answer

    with pytest.raises(ResourceNotFoundError, match=r"nothing of dualsql.*where router\(\) is mounted"):
        await open_at(host.serve(elsewhere)).get_metadata()


async def test_a_resource_that_is_not_there_is_not_called_a_wrong_address(host: Host, open_at: Open) -> None:
    async def reference(request: Request) -> Response:
        return JSONResponse({"error": "not_found", "message": "There is no such resource."}, 404)

    with pytest.raises(ResourceNotFoundError, match=r"^There is no such resource\. Run the tool again"):
        await open_at(host.serve(reference)).get_metadata()


async def test_a_suffix_of_a_spreadsheet_is_told_of_excel(open_at: Open) -> None:
    with pytest.raises(ValueError, match=r"\.xlsx, .*\. A spreadsheet opens \.xlsx\."):
        await open_at("http://127.0.0.1:1").save("rows.xls")


async def test_a_missing_folder_is_named(open_at: Open, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no such folder") as refused:
        await open_at("http://127.0.0.1:1").save(tmp_path / "none" / "rows.csv")
    assert refused.value.filename == str(tmp_path / "none")
