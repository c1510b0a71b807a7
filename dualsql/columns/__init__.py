"""The columns of a result: names, types, and values that need more than their driver gives."""
