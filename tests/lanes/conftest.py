"""The tenants' databases, for lanes to be tried on."""

from tests.tenants.conftest import new_url, site

__all__ = ["new_url", "site"]
