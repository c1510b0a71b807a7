"""The command `dualsql-client`. For a missing package it prints one line, with the command that installs it."""

from __future__ import annotations

import sys


def main() -> None:
    """Entry point of the console script."""
    try:
        from dualsql_client.cli.commands import app
    except ModuleNotFoundError as error:
        sys.exit(f'dualsql: {error.name} is not installed. Try: pip install "dualsql-client[cli]"')
    app()
