"""Kept results: rows of one run, read from a file instead of the database."""
