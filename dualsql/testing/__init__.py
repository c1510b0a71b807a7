"""Tests that a store or a database of your own must pass, as classes for pytest (docs/guides/own-store.md)."""

from dualsql.errors import ConfigurationError

try:
    import pytest
except ImportError as error:
    raise ConfigurationError(
        "dualsql.testing needs pytest.", hint="pip install pytest, in the environment of your tests."
    ) from error

# An assert of these modules says what differed, as one of a file of tests does.
pytest.register_assert_rewrite("dualsql.testing.stores")

from dualsql.testing.stores import ResourceStoreTests  # noqa: E402

__all__ = ["ResourceStoreTests"]
