"""Peers that install from PyPI, serving the same flights. Each as its own documentation sets it up."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

from fastapi import Depends, FastAPI, Request
from fastapi_pagination import add_pagination
from fastapi_pagination.ext.sqlalchemy import apaginate
from fastapi_pagination.limit_offset import LimitOffsetPage
from pydantic import BaseModel, create_model
from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine

from benchmarks.flights import flights
from benchmarks.processes import Process, free_port, running, uvicorn

DATABASE = "DUALSQL_BENCH_DATABASE"


@contextmanager
def datasette(path: Path) -> Iterator[Process]:
    """Datasette on the SQLite file; its CSV stream is not cut, its pages are not counted."""
    port = free_port()
    settings = {"max_csv_mb": "0", "max_returned_rows": "5000", "sql_time_limit_ms": "60000"}
    command = [sys.executable, "-m", "datasette", "serve", str(path), "--port", str(port)]
    for name, value in settings.items():
        command += ["--setting", name, value]
    # It logs every request, and has no setting against it.
    with running(command, port, is_quiet=True) as process:
        yield process


@contextmanager
def fastapi_pagination(url: str) -> Iterator[Process]:
    """A FastAPI application with fastapi-pagination over SQLAlchemy."""
    with uvicorn("benchmarks.peers:app", {DATABASE: url}) as process:
        yield process


def _model() -> type[BaseModel]:
    fields: dict[str, Any] = {
        column.name: (column.type.python_type | None, None) for column in flights.columns
    }
    return create_model("Flight", **fields)


async def _session(request: Request) -> AsyncIterator[AsyncSession]:
    async with AsyncSession(request.app.state.engine) as session:
        yield session


Session = Annotated[AsyncSession, Depends(_session)]


async def _read(session: Session) -> Any:
    return await apaginate(session, select(flights).order_by(flights.c.id))


def app() -> FastAPI:
    """GET /flights?limit=&offset=."""
    application = FastAPI()
    application.state.engine = create_async_engine(os.environ[DATABASE])
    page: Any = LimitOffsetPage
    application.get("/flights", response_model=page[_model()])(_read)
    add_pagination(application)
    return application
