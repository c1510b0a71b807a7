"""The registered tables and saved queries that a caller may see. Denied and unknown look the same.

    addresses   names as a hierarchy of URIs, and cursors over long lists
    describe    a Table or a saved query as JSON: types, keys, comments
    catalogue   all entries, and those that one principal may see
    definitions an entry in words for a model
    search      fuzzy search for several terms at once
    mcp         the resources and tools of an MCP server

Only `mcp` imports MCP. Nothing here queries a database.
"""

from dualsql.catalogue.addresses import Address, Addressing, Kind, page_of
from dualsql.catalogue.catalogue import Catalogue, CatalogueView, Entry, PlacedTable, Visible
from dualsql.catalogue.describe import TableFacts
from dualsql.catalogue.search import Index
from dualsql.tenancy.visibility import VisibleNames

__all__ = [
    "Address",
    "Addressing",
    "Catalogue",
    "CatalogueView",
    "Entry",
    "Index",
    "Kind",
    "PlacedTable",
    "TableFacts",
    "Visible",
    "VisibleNames",
    "page_of",
]
