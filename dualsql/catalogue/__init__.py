"""What may be seen of the registered tables and saved queries; the rule: denied and unknown look the same.

    addresses   names as a hierarchy of URIs
    describing  a Table, or a saved query, as JSON: types, keys, comments
    catalogue   all of it, and what one principal sees of it
    searching   fuzzy, several terms at once
    paging      long lists in pieces

READ IN THIS ORDER. Nothing here asks a database or knows MCP.
"""

from dualsql.catalogue.addresses import Address, Addressing, Kind
from dualsql.catalogue.catalogue import Catalogue, Entry, Seen, Visible
from dualsql.catalogue.paging import paged

__all__ = ["Address", "Addressing", "Catalogue", "Entry", "Kind", "Seen", "Visible", "paged"]
