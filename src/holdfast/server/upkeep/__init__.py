"""Background work of the server."""
