"""What dualsql asks of every database, of Firebird in this process.

pip install '.[test]', apt-get install firebird3.0-server-core libfbclient2, then pytest.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import pytest
from firebird.driver import create_database
from sqlalchemy import DOUBLE_PRECISION

from dualsql.testing import DatabaseTests


class TestFirebird(DatabaseTests):
    types: ClassVar[dict[str, Any]] = {"ratio": DOUBLE_PRECISION()}

    @pytest.fixture
    def database_url(self, tmp_path: Path) -> str:
        create_database(f"{tmp_path}/things.fdb", user="SYSDBA", charset="UTF8").close()
        return f"firebird://SYSDBA@/{tmp_path}/things.fdb?charset=UTF8"
