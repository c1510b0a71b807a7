"""Rows as JSON, text, CSV, Arrow and Parquet. `dualsql.formats.table` lists the formats of streams."""
