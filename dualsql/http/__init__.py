"""The REST resources over HTTP: their routes and parameters, and the status of each error."""
