"""`holdfast chat`."""
