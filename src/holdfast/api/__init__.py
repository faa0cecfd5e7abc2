"""The HTTP API as data: every request, every response, every operation."""
