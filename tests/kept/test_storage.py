"""The folder of kept results is what every storage has to be."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from dualsql import LocalResultStorage
from dualsql.testing import ResultStorageTests


class TestLocalResultStorage(ResultStorageTests):
    @pytest.fixture
    def make_storage(self, tmp_path: Path) -> Callable[[], LocalResultStorage]:
        return lambda: LocalResultStorage(tmp_path / "kept")
