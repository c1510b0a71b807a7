"""`dualsql.freeze` can be taken out: of dualsql it needs the errors and the two modules about SQLAlchemy."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import dualsql

_PROGRAM = f"""
import sys, types
package = types.ModuleType("dualsql")
package.__path__ = [{str(Path(dualsql.__file__).parent)!r}]
sys.modules["dualsql"] = package
import dualsql.freeze
known = ("dualsql.errors", "dualsql.sqlalchemy_", "dualsql.freeze.document", "dualsql.freeze")
print([name for name in sys.modules if name.startswith("dualsql.") and not name.startswith(known)])
print([name for name in ("starlette", "alembic", "asyncpg", "aiosqlite", "mcp") if name in sys.modules])
"""


def test_it_imports_nothing_else_of_dualsql() -> None:
    process = subprocess.run([sys.executable, "-c", _PROGRAM], capture_output=True, text=True, check=True)
    assert process.stdout.split() == ["[]", "[]"]
