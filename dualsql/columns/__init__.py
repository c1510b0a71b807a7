"""The columns of a result: names, types, and values that drivers do not return exactly."""
