"""The command `dualsql`. If a package is missing, it prints one line with the command that installs it."""

from __future__ import annotations

import sys
from pathlib import Path

from dualsql.cli.connect import missing
from dualsql.packages import importing


def main() -> None:
    """Entry point of the console script."""
    try:
        with importing():
            from dualsql.cli.commands import app
    except ModuleNotFoundError as error:
        # These commands need more than the extra `cli`, so the message names the extra that has all packages.
        extra = next((word for word in sys.argv[1:2] if word in {"demo", "serve", "view"}), "cli")
        if extra == "serve" and any(Path(word).exists() for word in sys.argv[2:]):
            extra = "serve,files"
        sys.exit(missing(error.name, extra))
    app()
