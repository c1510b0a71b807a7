"""Queries that may run longer than their caller waits: `create_response(wait=...)`."""
