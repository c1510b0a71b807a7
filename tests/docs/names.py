"""Names that Python in the documents uses and its page does not define, with their types. Nothing here is ever run.

A page that needs another name gets a line here, or defines the name itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, timedelta
from typing import Any, Protocol

from alembic import context
from mcp import ClientSession
from mcp.server import MCPServer
from mcp.server.auth.provider import AccessToken, TokenVerifier
from mcp.server.auth.settings import AuthSettings
from sqlalchemy import (
    ColumnElement,
    Connection,
    MetaData,
    Select,
    Table,
    TypeDecorator,
    create_engine,
    select,
)
from sqlalchemy.ext.asyncio import AsyncEngine
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column
from sqlalchemy.types import Integer, String
from starlette.requests import Request

from dualsql import (
    Changes,
    DualResponse,
    DualResponseServer,
    Health,
    Hook,
    Kept,
    Mask,
    Pages,
    Principal,
    Profiles,
    Queries,
    RowFilter,
    RowSecurity,
    Settings,
    Shared,
    SignedLinks,
    SQLResourceStore,
    TenantFilter,
    default_features,
)
from dualsql_client import DualResponseClient, ParsedDualResponse, where


class Base(DeclarativeBase):
    """The base of an application's classes."""


class Order(Base):
    __tablename__ = "orders"

    id: Mapped[int] = mapped_column(primary_key=True)
    tenant_id: Mapped[str]


class LineItem(Base):
    __tablename__ = "line_items"

    id: Mapped[int] = mapped_column(primary_key=True)
    order_id: Mapped[int]


class Customer(Base):
    __tablename__ = "customers"

    id: Mapped[int] = mapped_column(primary_key=True)
    phone: Mapped[str]


class Country(Base):
    __tablename__ = "countries"

    code: Mapped[str] = mapped_column(primary_key=True)


class Currency(Base):
    __tablename__ = "currencies"

    code: Mapped[str] = mapped_column(primary_key=True)


class User(Base):
    __tablename__ = "users"

    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str]


class School(Base):
    __tablename__ = "schools"

    id: Mapped[int] = mapped_column(primary_key=True)
    state: Mapped[str]


class Measurement(Base):
    __tablename__ = "measurements"

    id: Mapped[int] = mapped_column(primary_key=True)


class Money(TypeDecorator[int]):
    impl = Integer


class Microseconds(TypeDecorator[str]):
    impl = String


class Qualify(ColumnElement[bool]):
    """A clause of an application's own."""


class Amount:
    def as_json(self) -> str: ...


class Person:
    """Whom an application's session belongs to."""

    id: str
    company: str


class YourTokenVerifier(TokenVerifier):
    async def verify_token(self, token: str) -> AccessToken | None: ...


class ToolResultOf(Protocol):
    def __call__(self, url: str) -> Mapping[str, Any]: ...


async def session_of(credential: str | None) -> Person: ...


SUPPORT: set[str]

# The server's side.
auth_settings: AuthSettings
connection: Connection
dual: DualResponseServer
engine: AsyncEngine
flights: Table
hooks: list[Hook]
mcp: MCPServer
metadata: MetaData
principal: Principal
resource_id: str
response: DualResponse
statement: Select[Any]
url: str

# The client's side.
client: DualResponseClient
mcp_client: ClientSession
parsed: ParsedDualResponse
result: ParsedDualResponse
session: ClientSession
tool_result: Mapping[str, Any]
tool_result_of: ToolResultOf
