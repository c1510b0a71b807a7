"""The REST resources over HTTP. Only this package knows status codes."""
