"""What dualsql costs, measured on a million real rows: `make bench`."""
