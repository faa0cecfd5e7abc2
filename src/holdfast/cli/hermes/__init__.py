"""`holdfast import hermes`."""
