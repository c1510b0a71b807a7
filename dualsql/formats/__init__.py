"""Rows as JSON, text, CSV, Arrow, Parquet and Excel. `dualsql.formats.table` lists the formats of streams."""
