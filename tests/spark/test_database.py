"""What dualsql asks of every database, asked of Spark: the tests that ship for others."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import ClassVar

import pytest

from dualsql import Settings
from dualsql.testing import DatabaseTests
from dualsql.testing.databases import ROWS, THINGS
from tests.spark.cluster import Cluster
from tests.spark.tables import created

pytestmark = pytest.mark.exhaustive


class TestSpark(DatabaseTests):
    # On a loaded machine, a session of Spark is not open after ten seconds.
    settings = Settings(unproved_read_only=True, queue_timeout=timedelta(minutes=1))
    query_timeout: ClassVar[timedelta] = timedelta(seconds=40)  # an executor is replaced meanwhile

    @pytest.fixture
    def database_url(self, spark_url: str) -> str:
        return spark_url

    @pytest.fixture
    async def filled_url(self, spark: Cluster, database_url: str, anyio_backend: str) -> str:
        await asyncio.to_thread(spark.run, *created(THINGS, ROWS), url=database_url)
        return database_url
