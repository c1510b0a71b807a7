"""A FastAPI application of the flights with fastapi-pagination: a peer, in a process of its own."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import Depends, FastAPI, Request
from fastapi_pagination import add_pagination
from fastapi_pagination.ext.sqlalchemy import apaginate
from fastapi_pagination.limit_offset import LimitOffsetPage
from pydantic import BaseModel, create_model
from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine

from benchmarks.flights import flights
from benchmarks.peers import DATABASE


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
    """GET /flights?limit=&offset= of the database in the environment."""
    application = FastAPI()
    application.state.engine = create_async_engine(os.environ[DATABASE])
    page: Any = LimitOffsetPage
    application.get("/flights", response_model=page[_model()])(_read)
    add_pagination(application)
    return application
