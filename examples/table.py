"""Keep results in a table, so that they outlive the process and any other can serve them."""

import os

from dualsql import DualResponseServer, SQLResourceStore
from dualsql.demo import Base, demo_database

database = os.environ.get("DATABASE_URL") or demo_database()
dual = DualResponseServer(
    database,
    base_url="http://127.0.0.1:8000/resources",
    tables=Base,
    store=SQLResourceStore(database),  # another database is as good
    secrets=[os.environ["DUALSQL_SECRET"]],
)
