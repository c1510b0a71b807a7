"""Run by test_releases.py in an environment with another SQLAlchemy and orjson, without dualsql's other packages.

`python other_release.py ROOT OUT`: thaws every kept document, then writes one of every shape into OUT. Prints the
names of what failed: kept documents, then shapes.
"""

from __future__ import annotations

import json
import re
import sys
import types
from pathlib import Path


def main(root: Path, out: Path) -> None:
    package = types.ModuleType("dualsql")
    package.__path__ = [str(root / "dualsql")]
    sys.modules["dualsql"] = package
    sys.path.insert(0, str(root))

    from dualsql.errors import NotFreezableError
    from dualsql.freeze import freeze, thaw
    from tests.freeze.dialects import DIALECTS
    from tests.freeze.keep import FOLDER
    from tests.freeze.shop import REGISTRY, SHAPES

    failed = []
    for path in sorted(FOLDER.glob("v*/*.bin")):
        first, _, expected = path.with_suffix(".sql").read_text().partition("\n")
        dialect = DIALECTS[first.removeprefix("-- ")]
        try:
            text = f"{thaw(path.read_bytes(), REGISTRY).compile(dialect=dialect)}\n"
        except Exception as error:  # noqa: BLE001 - whatever it is, it is to be reported
            text = repr(error)
        if text != expected:
            failed.append(f"{path.stem}: {text[:200]}")
    unwritten = []
    for name, statement in SHAPES.items():
        for dialect in DIALECTS.values():
            try:
                document = freeze(statement, REGISTRY, dialect=dialect)
            except NotFreezableError as error:
                reason = str(error)
                continue
            (out / (re.sub(r"\W+", "_", name) + ".bin")).write_bytes(document)
            break
        else:
            unwritten.append(f"{name}: {reason[:200]}")
    print(json.dumps([failed, unwritten]))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
