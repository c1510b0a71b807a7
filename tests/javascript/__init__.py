"""The JavaScript client: its source on node, and the packed package on node and in a browser."""
