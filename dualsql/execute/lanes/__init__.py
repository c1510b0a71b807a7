"""The ways from a database to a stream's bytes; the rule: whichever is taken, the values are the same.

statement   what SQLAlchemy would send, and what it would do to each value that comes back
rows        rows by SQLAlchemy on any database, by asyncpg's cursor, by sqlite3 in its own thread
carried     bound values for statements that take none
copying     COPY on PostgreSQL: CSV as it is, and parsed into Arrow
choice      which one is taken: the only place that decides
"""
