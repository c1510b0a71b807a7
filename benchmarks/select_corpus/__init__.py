"""The codec against every statement of SQLAlchemy's own test suite; README.md has the commands."""
