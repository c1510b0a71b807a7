"""For tests with pytest: a client of your tools, and what a store or a database of your own must pass, as classes.

tools      tool_fixture and tool_client call a tool over MCP and read its rows over REST (docs/guides/testing.md)
stores     ResourceStoreTests (docs/guides/own-store.md)
storages   ResultStorageTests (docs/guides/own-store.md)
databases  DatabaseTests (docs/databases/adding.md)
"""

from dualsql.errors import ConfigurationError

try:
    import pytest
except ImportError as error:
    raise ConfigurationError(
        "dualsql.testing needs pytest.", hint="pip install pytest, in the environment of your tests."
    ) from error

# An assert of these modules says what differed, as one of a file of tests does.
pytest.register_assert_rewrite(
    "dualsql.testing.databases", "dualsql.testing.storages", "dualsql.testing.stores"
)

from dualsql.testing.databases import DatabaseTests  # noqa: E402
from dualsql.testing.storages import ResultStorageTests  # noqa: E402
from dualsql.testing.stores import ResourceStoreTests  # noqa: E402
from dualsql.testing.tools import ToolClient, tool_client, tool_fixture  # noqa: E402

__all__ = [
    "DatabaseTests",
    "ResourceStoreTests",
    "ResultStorageTests",
    "ToolClient",
    "tool_client",
    "tool_fixture",
]
