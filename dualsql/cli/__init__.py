"""The command `dualsql`. What is missing is named in one line, with the words that mend it."""

from __future__ import annotations

import sys


def main() -> None:
    """Entry point of the console script."""
    try:
        from dualsql.cli.options import importing

        with importing():
            from dualsql.cli.commands import app
    except ModuleNotFoundError as error:
        # These need more than the command line does: who is told of `cli` would fail a second time.
        extra = next((word for word in sys.argv[1:2] if word in {"demo", "serve", "view"}), "cli")
        sys.exit(f'dualsql: {error.name} is not installed. Try: pip install "dualsql[{extra}]"')
    app()
