"""The command `dualsql`; the rule: what is missing is named in one line, with the words that mend it."""

from __future__ import annotations

import sys


def main() -> None:
    """Entry point of the console script."""
    try:
        from dualsql.cli.commands import app
    except ModuleNotFoundError as error:
        # The demo needs more than the command line does: who is told of `cli` would fail a second time.
        extra = "demo" if "demo" in sys.argv[1:] else "cli"
        sys.exit(f'dualsql: {error.name} is not installed. Try: pip install "dualsql[{extra}]"')
    app()
