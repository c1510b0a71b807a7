"""Derive count, sample and page; the rule: a Select in, a Select out, never a connection."""

from dualsql.plan.count import count
from dualsql.plan.page import page
from dualsql.plan.shape import Shape, shape

__all__ = ["Shape", "count", "page", "shape"]
