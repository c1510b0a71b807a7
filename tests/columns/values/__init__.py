"""The law of values: what the driver returns, and what dualsql shows."""
