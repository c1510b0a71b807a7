"""One cluster for all tests here, and a schema for each that asks."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import uuid4

import pytest

from tests.spark.cluster import Cluster, cluster, spark_home

if spark_home() is None:
    collect_ignore_glob = ["test_*.py"]


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with cluster(tmp_path_factory.mktemp("spark")) as running:
        yield running


@pytest.fixture
def spark_url(spark: Cluster) -> Iterator[str]:
    """The URL of an empty schema."""
    name = f"test_{uuid4().hex}"
    spark.run(f"CREATE SCHEMA {name}")
    yield f"{spark.url.rpartition('/')[0]}/{name}"
    spark.run(f"DROP SCHEMA {name} CASCADE")
