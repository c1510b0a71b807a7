"""Rows as JSON and text. Values are written once, here, and never by hand elsewhere."""
