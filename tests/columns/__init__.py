"""Tests of columns: types, values, what a result shows."""
