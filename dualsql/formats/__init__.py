"""Rows as JSON and text; the rule: values are written once, here, and never by hand elsewhere."""
