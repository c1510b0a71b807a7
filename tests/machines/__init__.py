"""PostgreSQL in several machines: behind a pooler, with a standby that takes over, in shards."""
