"""Runs the statements of callers, as no other package does: in read-only sessions with a time limit."""
