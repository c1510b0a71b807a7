"""A store that the application brings: what it lacks is said at once, and what its backend raises is STORAGE_ERROR."""

from __future__ import annotations

import typing
from collections.abc import Callable
from datetime import datetime
from typing import Any

import httpx
import pytest
from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncEngine
from starlette.applications import Starlette
from starlette.routing import Mount

import dualsql
from dualsql import ConfigurationError, DualResponseServer, MemoryStore, Resource, ResourceStore, StorageError
from dualsql.settings import ALL_ACTIONS
from dualsql.store.guard import required_methods
from tests.schools import Base, School, fill
from tests.servers import create_server

SECRETS = ["a secret of at least thirty-two characters"]


class SixMethods:
    """What the specification names (S3.2), and no more."""

    async def save(self, resource: Resource) -> str:
        return resource.id

    async def get(self, resource_id: str, viewer: Any = None) -> None: ...
    async def update(self, resource_id: str, changes: Any) -> bool:
        return False

    async def delete(self, *resource_ids: str, expired_before: datetime | None = None) -> int:
        return 0

    async def find_expired(self, *, before: datetime, limit: int = 500) -> list[str]:
        return []

    async def close(self) -> None: ...


class LibraryError(Exception):
    """As a client library of a backend raises, which is no OSError."""


class Unreliable(MemoryStore):
    """Its backend raises `failure`, whichever method is called."""

    failure: Exception | None = None

    def __getattribute__(self, name: str) -> Any:
        failure = super().__getattribute__("failure")
        if failure is None or name not in required_methods():
            return super().__getattribute__(name)

        async def fail(*_: Any, **__: Any) -> Any:
            raise failure

        return fail


def server_with(store: Any, database: Any = "sqlite+aiosqlite://") -> DualResponseServer:
    return create_server(
        database,
        base_url="http://testserver/resources",
        tables=Base,
        store=store,
        secrets=SECRETS,
        anonymous_actions=ALL_ACTIONS,
    )


@pytest.mark.parametrize(
    "store", [SixMethods(), object(), {"save": 1}], ids=lambda store: type(store).__name__
)
def test_a_store_that_lacks_methods_is_refused_by_name(store: Any) -> None:
    with pytest.raises(ConfigurationError) as error:
        server_with(store)
    lacking = [name for name in required_methods() if not hasattr(type(store), name)]
    assert error.value.details["lacking"] == lacking and lacking
    assert all(name in str(error.value) for name in (*lacking, type(store).__name__, "MemoryStore"))


def test_a_class_is_no_store() -> None:
    with pytest.raises(ConfigurationError, match="is a class"):
        server_with(MemoryStore)


def test_the_store_of_the_server_is_the_one_that_was_given() -> None:
    store = Unreliable()
    assert server_with(store).store is store


def test_every_type_that_the_protocol_names_can_be_imported() -> None:
    named: set[type] = set()

    def collect(hint: Any) -> None:
        if isinstance(hint, type) and hint.__module__.startswith("dualsql"):
            named.add(hint)
        for part in typing.get_args(hint):
            collect(part)

    for name in required_methods():
        for hint in typing.get_type_hints(getattr(ResourceStore, name)).values():
            collect(hint)
    assert len(named) > 6
    assert {kind.__name__ for kind in named} <= set(dualsql.__all__)


@pytest.mark.parametrize(
    "failure",
    [
        ConnectionError("redis://:hunter2@10.0.0.7"),
        TimeoutError("hunter2"),
        LibraryError("hunter2"),
        OSError(5, "hunter2"),
    ],
    ids=lambda failure: type(failure).__name__,
)
async def test_a_failure_of_its_backend_is_a_storage_error(
    sqlite_url: str, make_engine: Callable[[str], AsyncEngine], failure: Exception
) -> None:
    engine, store = make_engine(sqlite_url), Unreliable()
    await fill(engine)
    dual = server_with(store, engine)
    app = Starlette(routes=[Mount("/resources", dual.router())])
    transport = httpx.ASGITransport(app)
    async with dual, httpx.AsyncClient(transport=transport, base_url="http://testserver") as http:
        response = await dual.create_response(select(School), name="Schools")
        store.failure = failure
        for call in (
            dual.create_response(select(School), name="Schools"),
            dual.maintenance.sweep(),
            dual.open_resource(response.resource_id, None, "read"),
            dual.unchecked.delete(response.resource_id),
        ):
            with pytest.raises(StorageError) as error:
                await call
            assert "hunter2" not in str(error.value)
        path = f"/resources/{response.resource_id}"
        answers = [await http.request(method, path) for method in ("GET", "PUT", "DELETE")]
        answers.append(await http.post(path, json={}))
        store.failure = None
        for answer in answers:
            assert (answer.status_code, answer.json()["code"]) == (503, "STORAGE_ERROR")
            assert "hunter2" not in answer.text and answer.headers["retry-after"]
        assert (await http.get(path)).status_code == 200


async def test_a_fault_in_its_code_is_not_a_failure_of_its_backend() -> None:
    store = Unreliable()
    dual = server_with(store)
    store.failure = KeyError("missing")
    with pytest.raises(KeyError):
        await dual.open_resource("r" * 22, None, "read")
