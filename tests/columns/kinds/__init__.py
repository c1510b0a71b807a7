"""Every type of every database, in every format."""
