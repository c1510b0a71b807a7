"""The application's half over HTTP. Only this package knows status codes."""
