"""`holdfast triggers`."""
