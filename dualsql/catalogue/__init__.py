"""What may be seen of the registered tables and saved queries. Denied and unknown look the same.

    addresses   names as a hierarchy of URIs
    describing  a Table, or a saved query, as JSON: types, keys, comments
    catalogue   all of it, and what one principal sees of it
    searching   fuzzy, several terms at once
    paging      long lists in pieces

READ IN THIS ORDER. Nothing here asks a database or knows MCP.
"""

from dualsql.catalogue.addresses import Address, Addressing, Kind, paged
from dualsql.catalogue.catalogue import Catalogue, CatalogueView, Entry, PlacedTable, VisibilityRules, Visible
from dualsql.catalogue.describe import TableFacts
from dualsql.catalogue.search import Index

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
    "VisibilityRules",
    "Visible",
    "paged",
]
