"""One stored result: creating, opening and reading it."""
