"""The way to a stored resource; the rule: there is one, and whoever may not pass learns nothing.

gate      load, check, let in, write down
access    may this caller do this with that resource?
links     signed links, which are a right of their own
signing   is this row one of ours?
"""
