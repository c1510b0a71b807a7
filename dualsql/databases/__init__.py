"""The only package that runs statements: in read-only sessions with a time limit."""
