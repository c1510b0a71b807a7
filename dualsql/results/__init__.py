"""One stored result: made, opened, read."""
