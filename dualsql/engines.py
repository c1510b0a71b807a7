"""Make an engine of a URL; the rule: a missing driver is named, and nothing else of the URL is."""

from __future__ import annotations

from typing import Any

from sqlalchemy import URL, Engine, create_engine
from sqlalchemy.exc import NoSuchModuleError
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from dualsql.digits import read_document
from dualsql.errors import ConfigurationError

_EXTRAS = {"asyncmy": "'dualsql[mariadb]'"}
"""Of a driver, what brings it."""


def new_engine(url: URL, **options: Any) -> AsyncEngine:
    """An async engine on `url`, which names an async driver already (see `dualsql.urls`).

    Raises:
        ConfigurationError: the driver is not installed.
    """
    try:
        # An error's text reaches the log; bound values, a tenant's among them, must not.
        # A restarted server leaves dead connections in the pool: they are found before they are used.
        has_server = url.get_backend_name() != "sqlite"
        if url.get_backend_name() == "postgresql":
            options.setdefault("json_deserializer", read_document)
        return create_async_engine(url, hide_parameters=True, pool_pre_ping=has_server, **options)
    except ImportError as error:
        driver = url.get_driver_name()
        raise ConfigurationError(
            f"The driver {driver} is not installed.",
            hint=f"Install it: pip install {_EXTRAS.get(driver, driver)}",
        ) from error


def new_synchronous_engine(url: URL, **options: Any) -> Engine:
    """An engine on `url`, whose database has no async driver.

    Raises:
        ConfigurationError: the driver is not installed.
    """
    try:
        return create_engine(url, hide_parameters=True, **options)
    except (ImportError, NoSuchModuleError) as error:
        backend = url.get_backend_name()
        raise ConfigurationError(
            f"The driver of {backend} is not installed.", hint=f"Install it: pip install 'dualsql[{backend}]'"
        ) from error
